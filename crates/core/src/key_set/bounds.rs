//! [`KeyBounds`]: the range of one key column.

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::{gt, gt_eq, lt, lt_eq};
use datafusion::arrow::compute::{and_kleene, is_null, or_kleene};
use datafusion::common::{Result, ScalarValue};

use super::{Comparison, normalize_keys};

/// The range of one key column.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyBounds {
    /// The smallest and the largest key that is not NULL, if there is one.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// Whether NULL is among the keys.
    pub has_null: bool,
}

impl KeyBounds {
    /// Which candidates may compare to some key as `comparison` says.
    pub(super) fn may_match(
        &self,
        candidates: &ArrayRef,
        comparison: Comparison,
    ) -> Result<BooleanArray> {
        let candidates = normalize_keys(candidates);
        let matching = match &self.range {
            None => BooleanArray::new(BooleanBuffer::new_unset(candidates.len()), None),
            Some((min, max)) => {
                let (min, max) = (min.to_scalar()?, max.to_scalar()?);
                match comparison {
                    Comparison::Equal => {
                        and_kleene(&gt_eq(&candidates, &min)?, &lt_eq(&candidates, &max)?)?
                    }
                    Comparison::Less => lt(&candidates, &max)?,
                    Comparison::LessOrEqual => lt_eq(&candidates, &max)?,
                    Comparison::Greater => gt(&candidates, &min)?,
                    Comparison::GreaterOrEqual => gt_eq(&candidates, &min)?,
                }
            }
        };
        // NULL candidates compare to NULL, which the mask of `is_null` decides.
        let matching = BooleanArray::new(
            match matching.nulls() {
                None => matching.values().clone(),
                Some(valid) => matching.values() & valid.inner(),
            },
            None,
        );
        if self.has_null && comparison == Comparison::Equal {
            Ok(or_kleene(&matching, &is_null(&candidates)?)?)
        } else {
            Ok(matching)
        }
    }
}
