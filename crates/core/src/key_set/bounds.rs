//! [`KeyBounds`]: the range of one key column, and how it is found.

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::{gt, gt_eq, lt, lt_eq};
use datafusion::arrow::compute::{and_kleene, is_null, or_kleene};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use super::{Comparison, normalize_keys};

/// The range of one key column.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyBounds {
    /// The smallest and the largest key that is not NULL, if there is one.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// Whether NULL is among the keys.
    pub has_null: bool,
}

/// Finds the bounds of one key column batch by batch.
#[derive(Debug)]
pub struct BoundsAccumulator {
    min: MinAccumulator,
    max: MaxAccumulator,
    has_null: bool,
}

impl BoundsAccumulator {
    /// The bounds of no keys yet.
    ///
    /// # Errors
    /// When the type has no order.
    pub fn try_new(data_type: &DataType) -> Result<Self> {
        Ok(Self {
            min: MinAccumulator::try_new(data_type)?,
            max: MaxAccumulator::try_new(data_type)?,
            has_null: false,
        })
    }

    /// Adds keys.
    ///
    /// # Errors
    /// When they are of another type.
    pub fn update(&mut self, keys: &ArrayRef) -> Result<()> {
        self.has_null |= keys.logical_null_count() > 0;
        self.min.update_batch(std::slice::from_ref(keys))?;
        self.max.update_batch(std::slice::from_ref(keys))
    }

    /// The bounds of all keys that were added.
    ///
    /// # Errors
    /// When the keys cannot be compared.
    pub fn finish(mut self) -> Result<KeyBounds> {
        let (min, max) = (self.min.evaluate()?, self.max.evaluate()?);
        Ok(KeyBounds {
            range: (!min.is_null() && !max.is_null()).then_some((min, max)),
            has_null: self.has_null,
        })
    }
}

impl KeyBounds {
    /// The bounds of `keys`.
    pub(super) fn of(keys: &ArrayRef) -> Result<Self> {
        let mut bounds = BoundsAccumulator::try_new(keys.data_type())?;
        bounds.update(keys)?;
        bounds.finish()
    }

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
