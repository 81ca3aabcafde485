//! Locations of partitions within each other, whose rows would count twice.

use datafusion::common::{DataFusionError, plan_datafusion_err};

/// The locations that `location` is inside of, from the root on.
///
/// ```
/// # use datafusion_partitioned_core::enclosing_locations;
/// assert!(enclosing_locations("t/year=1/month=2").eq(["", "t", "t/year=1"]));
/// assert_eq!(enclosing_locations("").count(), 0);
/// ```
pub fn enclosing_locations(location: &str) -> impl Iterator<Item = &str> {
    let root = (!location.is_empty()).then_some("");
    let parents = location.match_indices('/').map(|(end, _)| &location[..end]);
    root.into_iter().chain(parents)
}

/// What to say of two partitions at `location` and `other`, the same one or one that the first is inside of.
pub fn overlap_error(location: &str, other: &str) -> DataFusionError {
    if location == other {
        return plan_datafusion_err!(
            "two partitions have the location '{location}'; each needs one of its own"
        );
    }
    plan_datafusion_err!(
        "the partition at '{location}' is inside the partition at '{other}', which would count its rows twice"
    )
}
