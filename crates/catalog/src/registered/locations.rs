//! [`Locations`]: where partitions are, none within another.

use std::collections::BTreeSet;

use datafusion::common::Result;
use datafusion_partitioned_core::{enclosing_locations, overlap_error};

/// The locations of registered partitions.
#[derive(Debug, Default)]
pub(super) struct Locations(BTreeSet<Box<str>>);

impl Locations {
    pub(super) fn insert(&mut self, location: &str) {
        self.0.insert(location.into());
    }

    pub(super) fn remove(&mut self, location: &str) {
        self.0.remove(location);
    }

    /// Fails when files at `location` would be found in a partition that is here too, or those of one that is here in a
    /// partition at `location`.
    pub(super) fn check(&self, location: &str) -> Result<()> {
        if let Some(same) = self.0.get(location) {
            return Err(overlap_error(location, same));
        }
        let mut around = enclosing_locations(location);
        if let Some(around) = around.find(|around| self.0.contains(*around)) {
            return Err(overlap_error(location, around));
        }
        let prefix = match location {
            "" => String::new(),
            location => format!("{location}/"),
        };
        let next = self.0.range(prefix.clone().into_boxed_str()..).next();
        match next.filter(|next| next.starts_with(&prefix)) {
            Some(inside) => Err(overlap_error(inside, location)),
            None => Ok(()),
        }
    }
}
