//! [`KeySet`]: what the build side of a join contains, as far as partitions are concerned.

mod bounds;
mod domain;
mod tuples;

use std::fmt;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::and_kleene;
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::logical_expr::Operator;

pub use bounds::{BoundsAccumulator, KeyBounds};
pub use tuples::KeyTuples;

/// The keys that can find a match, in one of several precisions. NULL equals NULL here: a join for
/// which it does not leaves tuples with NULL out.
#[derive(Debug)]
pub enum KeySet {
    /// Exactly these tuples.
    Tuples(KeyTuples),
    /// What is known of each key column by itself.
    Columns(Vec<KeyColumn>),
    /// Nothing is known; every partition may match.
    Unknown,
}

/// What is known of one column of the keys.
#[derive(Debug)]
pub enum KeyColumn {
    /// Exactly these values: tuples of one value.
    Values(KeyTuples),
    /// They lie within bounds.
    Bounds(KeyBounds),
    /// Nothing.
    Unknown,
}

/// How a candidate has to compare to a key: `candidate < key` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`, or `IS NOT DISTINCT FROM` where the keys have NULL among them.
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that `operator` is, if it is one of these.
    pub fn of(operator: &Operator) -> Option<Self> {
        Some(match operator {
            Operator::Eq => Self::Equal,
            Operator::Lt => Self::Less,
            Operator::LtEq => Self::LessOrEqual,
            Operator::Gt => Self::Greater,
            Operator::GtEq => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The same with its sides exchanged: `<` for `>`.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

/// As in SQL.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl KeySet {
    /// Whether the set can drop anything at all.
    pub fn is_selective(&self) -> bool {
        match self {
            Self::Tuples(_) => true,
            Self::Columns(columns) => columns.iter().any(KeyColumn::is_known),
            Self::Unknown => false,
        }
    }

    /// For each of `rows` candidates whether it may match one of the keys: each of its columns has to
    /// compare to the key's as `comparisons` says. A candidate column that is not known yet is `None`
    /// and matches every key. `None` as the answer means all rows may.
    ///
    /// # Errors
    /// When a candidate column has another type than the keys, or one that cannot be compared.
    pub fn may_match(
        &self,
        candidates: &[Option<&ArrayRef>],
        comparisons: &[Comparison],
        rows: usize,
    ) -> Result<Option<BooleanArray>> {
        match self {
            Self::Tuples(tuples) if comparisons.iter().all(|c| *c == Comparison::Equal) => {
                tuples.may_contain(candidates, rows)
            }
            Self::Columns(columns) => {
                let mut keep: Option<BooleanArray> = None;
                for ((column, comparison), candidates) in
                    columns.iter().zip(comparisons).zip(candidates)
                {
                    let Some(candidates) = candidates else {
                        continue;
                    };
                    let Some(matching) = column.may_match(candidates, *comparison)? else {
                        continue;
                    };
                    keep = Some(match keep {
                        None => matching,
                        Some(keep) => and_kleene(&keep, &matching)?,
                    });
                }
                Ok(keep)
            }
            Self::Tuples(_) | Self::Unknown => Ok(None),
        }
    }

    /// The values of key column `key`, if they are known one by one.
    pub(crate) fn values(&self, key: usize) -> Option<&ArrayRef> {
        match self {
            Self::Tuples(tuples) => tuples.column(key),
            Self::Columns(columns) => match columns.get(key)? {
                KeyColumn::Values(values) => values.column(0),
                KeyColumn::Bounds(_) | KeyColumn::Unknown => None,
            },
            Self::Unknown => None,
        }
    }
}

impl KeyColumn {
    fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    fn may_match(
        &self,
        candidates: &ArrayRef,
        comparison: Comparison,
    ) -> Result<Option<BooleanArray>> {
        match self {
            Self::Values(values) if comparison == Comparison::Equal => {
                values.may_contain(&[Some(candidates)], candidates.len())
            }
            Self::Bounds(bounds) => bounds.may_match(candidates, comparison).map(Some),
            Self::Values(_) | Self::Unknown => Ok(None),
        }
    }
}

/// Brings values that SQL calls equal to one representation: `-0.0` becomes `0.0`.
pub fn normalize_keys(keys: &ArrayRef) -> ArrayRef {
    normalize_float_zero(keys)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Array, Float64Array, Int32Array, StringArray};
    use datafusion::common::ScalarValue;

    use super::*;

    fn ints(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    fn contained(set: &KeySet, candidates: &[Option<&ArrayRef>], rows: usize) -> Vec<bool> {
        let mask = set
            .may_match(candidates, &vec![Comparison::Equal; candidates.len()], rows)
            .unwrap()
            .unwrap();
        assert_eq!(mask.null_count(), 0);
        mask.values().iter().collect()
    }

    #[test]
    fn tuples_match_on_the_columns_that_are_known() {
        let town: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
        let set = KeySet::Tuples(KeyTuples::new(vec![ints(&[Some(1), Some(2), None]), town]));
        let numbers = ints(&[Some(1), Some(2), Some(3), None]);
        assert_eq!(
            contained(&set, &[Some(&numbers), None], 4),
            [true, true, false, true]
        );
        let towns: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("b"), None, None]));
        let both = [Some(&numbers), Some(&towns)];
        assert_eq!(contained(&set, &both, 4), [false, true, false, true]);
        assert!(
            set.may_match(&[None, None], &[Comparison::Equal; 2], 4)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn no_tuples_match_nothing_even_when_no_column_is_known() {
        let set = KeySet::Tuples(KeyTuples::new(vec![ints(&[])]));
        assert_eq!(contained(&set, &[None], 2), [false, false]);
    }

    #[test]
    fn bounds_are_inclusive_and_know_null() {
        let bounds = |has_null| {
            let range = Some((ScalarValue::from(2_i32), ScalarValue::from(4_i32)));
            KeySet::Columns(vec![KeyColumn::Bounds(KeyBounds { range, has_null })])
        };
        let numbers = ints(&[Some(1), Some(2), Some(4), Some(5), None]);
        let some = [Some(&numbers)];
        assert_eq!(
            contained(&bounds(false), &some, 5),
            [false, true, true, false, false]
        );
        assert_eq!(
            contained(&bounds(true), &some, 5),
            [false, true, true, false, true]
        );
        let nothing = KeySet::Columns(vec![KeyColumn::Bounds(KeyBounds {
            range: None,
            has_null: false,
        })]);
        assert_eq!(contained(&nothing, &some, 5), [false; 5]);
    }

    #[test]
    fn negative_zero_is_zero() {
        let zero: ArrayRef = Arc::new(Float64Array::from(vec![0.0]));
        let negative: ArrayRef = Arc::new(Float64Array::from(vec![-0.0]));
        let set = KeySet::Tuples(KeyTuples::new(vec![normalize_keys(&negative)]));
        assert_eq!(contained(&set, &[Some(&zero)], 1), [true]);
        let range = Some((ScalarValue::from(0.0_f64), ScalarValue::from(0.0_f64)));
        let set = KeySet::Columns(vec![KeyColumn::Bounds(KeyBounds {
            range,
            has_null: false,
        })]);
        assert_eq!(contained(&set, &[Some(&negative)], 1), [true]);
    }

    #[test]
    fn a_candidate_compares_to_the_keys_at_the_ends() {
        let range = Some((ScalarValue::from(2_i32), ScalarValue::from(4_i32)));
        let column = || {
            KeyColumn::Bounds(KeyBounds {
                range: range.clone(),
                has_null: true,
            })
        };
        let numbers = ints(&[Some(1), Some(2), Some(3), Some(4), Some(5), None]);
        let matching = |comparison| {
            let set = KeySet::Columns(vec![column()]);
            let mask = set.may_match(&[Some(&numbers)], &[comparison], 6);
            let mask = mask.unwrap().unwrap();
            mask.values().set_indices().collect::<Vec<_>>()
        };
        assert_eq!(matching(Comparison::Less), [0, 1, 2]);
        assert_eq!(matching(Comparison::LessOrEqual), [0, 1, 2, 3]);
        assert_eq!(matching(Comparison::Greater), [2, 3, 4]);
        assert_eq!(matching(Comparison::GreaterOrEqual), [1, 2, 3, 4]);
        assert_eq!(matching(Comparison::Equal), [1, 2, 3, 5]);
    }

    #[test]
    fn columns_are_asked_one_by_one() {
        let values = KeyColumn::Values(KeyTuples::new(vec![ints(&[Some(1), Some(3)])]));
        let set = KeySet::Columns(vec![values, KeyColumn::Unknown]);
        assert!(set.is_selective());
        let numbers = ints(&[Some(1), Some(2), Some(3)]);
        let both = [Some(&numbers), Some(&numbers)];
        assert_eq!(contained(&set, &both, 3), [true, false, true]);
        assert!(!KeySet::Columns(vec![KeyColumn::Unknown]).is_selective());
    }
}
