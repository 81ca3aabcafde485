//! [`KeySet`]: what the build side of a join contains, as far as partitions are concerned.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::{gt_eq, lt_eq};
use datafusion::arrow::compute::{and_kleene, is_null, or_kleene};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;

/// The keys that can find a match, in one of three precisions. NULL equals NULL here: a join for
/// which it does not leaves tuples with NULL out.
#[derive(Debug)]
pub enum KeySet {
    /// Exactly these tuples.
    Tuples(KeyTuples),
    /// Each key column lies within bounds.
    Bounds(Vec<KeyBounds>),
    /// Nothing is known; every partition may match.
    Unknown,
}

impl KeySet {
    /// Whether the set can drop anything at all.
    pub fn is_selective(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// For each of `rows` candidates whether it may be among the keys. A candidate column that is
    /// not known yet is `None` and matches every key. `None` as the answer means all rows may.
    ///
    /// # Errors
    /// When a candidate column has another type than the keys, or one that cannot be compared.
    pub fn may_contain(
        &self,
        candidates: &[Option<&ArrayRef>],
        rows: usize,
    ) -> Result<Option<BooleanArray>> {
        match self {
            Self::Tuples(tuples) => tuples.may_contain(candidates, rows),
            Self::Bounds(bounds) => {
                let mut keep: Option<BooleanArray> = None;
                for (bounds, candidates) in bounds.iter().zip(candidates) {
                    let Some(candidates) = candidates else {
                        continue;
                    };
                    let within = bounds.contains(candidates)?;
                    keep = Some(match keep {
                        None => within,
                        Some(keep) => and_kleene(&keep, &within)?,
                    });
                }
                Ok(keep)
            }
            Self::Unknown => Ok(None),
        }
    }
}

/// A short text for `EXPLAIN` and logs; the keys themselves are data and are not printed.
impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuples(tuples) => write!(f, "{} keys", tuples.len()),
            Self::Bounds(_) => write!(f, "bounds"),
            Self::Unknown => write!(f, "unknown"),
        }
    }
}

/// Distinct key tuples, one array for each key column.
pub struct KeyTuples {
    keys: Vec<ArrayRef>,
    /// One index for each combination of columns that has been asked about, as a bit set.
    indexes: Mutex<HashMap<u64, Arc<TupleIndex>>>,
    /// The memory of the tuples and their indexes, where it is accounted.
    reservation: Option<MemoryReservation>,
}

impl KeyTuples {
    /// Takes the tuples as columns of equal length, see [`normalize_keys`]. Duplicates do no harm.
    pub fn new(keys: Vec<ArrayRef>) -> Self {
        Self {
            keys,
            indexes: Mutex::default(),
            reservation: None,
        }
    }

    /// Holds `reservation`, which covers the tuples, as long as they live and takes the memory of
    /// indexes from it.
    pub fn with_reservation(mut self, reservation: MemoryReservation) -> Self {
        self.reservation = Some(reservation);
        self
    }

    /// The number of tuples.
    pub fn len(&self) -> usize {
        self.keys.first().map_or(0, |keys| keys.len())
    }

    /// Whether there is no tuple, so that nothing can match.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of key column `key`, one for each tuple.
    pub(crate) fn column(&self, key: usize) -> Option<&ArrayRef> {
        self.keys.get(key)
    }

    fn may_contain(
        &self,
        candidates: &[Option<&ArrayRef>],
        rows: usize,
    ) -> Result<Option<BooleanArray>> {
        if self.is_empty() {
            return Ok(Some(BooleanArray::new(
                BooleanBuffer::new_unset(rows),
                None,
            )));
        }
        let known: Vec<usize> = (0..self.keys.len().min(64))
            .filter(|key| candidates.get(*key).copied().flatten().is_some())
            .collect();
        if known.is_empty() {
            return Ok(None);
        }
        let Some(index) = self.index(&known)? else {
            return Ok(None);
        };
        let columns: Vec<ArrayRef> = known
            .iter()
            .filter_map(|key| candidates[*key])
            .map(normalize_keys)
            .collect();
        index.contains(&columns).map(Some)
    }

    /// The index over the key columns `known`, made when it is first needed. `None` when there is
    /// no memory for it.
    fn index(&self, known: &[usize]) -> Result<Option<Arc<TupleIndex>>> {
        let mask = known.iter().fold(0_u64, |mask, key| mask | (1 << key));
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = indexes.get(&mask) {
            return Ok(Some(Arc::clone(index)));
        }
        let columns: Vec<ArrayRef> = known
            .iter()
            .map(|key| Arc::clone(&self.keys[*key]))
            .collect();
        let index = Arc::new(TupleIndex::try_new(&columns)?);
        if let Some(reservation) = &self.reservation
            && reservation.try_grow(index.size()).is_err()
        {
            return Ok(None);
        }
        indexes.insert(mask, Arc::clone(&index));
        Ok(Some(index))
    }
}

impl fmt::Debug for KeyTuples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyTuples")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Tuples in arrow's row format, for lookups.
struct TupleIndex {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>>,
}

impl TupleIndex {
    fn try_new(columns: &[ArrayRef]) -> Result<Self> {
        let fields = columns
            .iter()
            .map(|c| SortField::new(c.data_type().clone()))
            .collect();
        let converter = RowConverter::new(fields)?;
        let rows = converter.convert_columns(columns)?;
        let rows = rows.iter().map(|row| row.as_ref().into()).collect();
        Ok(Self { converter, rows })
    }

    /// The memory it takes, in bytes.
    fn size(&self) -> usize {
        let slots = self.rows.capacity() * size_of::<Box<[u8]>>();
        slots + self.converter.size() + self.rows.iter().map(|row| row.len()).sum::<usize>()
    }

    fn contains(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows
            .iter()
            .map(|row| Some(self.rows.contains(row.as_ref())))
            .collect())
    }
}

/// The range of one key column.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyBounds {
    /// The smallest and the largest key that is not NULL, if there is one.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// Whether NULL is among the keys.
    pub has_null: bool,
}

impl KeyBounds {
    fn contains(&self, candidates: &ArrayRef) -> Result<BooleanArray> {
        let candidates = normalize_keys(candidates);
        let within = match &self.range {
            None => BooleanArray::new(BooleanBuffer::new_unset(candidates.len()), None),
            Some((min, max)) => and_kleene(
                &gt_eq(&candidates, &min.to_scalar()?)?,
                &lt_eq(&candidates, &max.to_scalar()?)?,
            )?,
        };
        // NULL candidates compare to NULL, which the mask of `is_null` decides.
        let within = BooleanArray::new(
            match within.nulls() {
                None => within.values().clone(),
                Some(valid) => within.values() & valid.inner(),
            },
            None,
        );
        if self.has_null {
            Ok(or_kleene(&within, &is_null(&candidates)?)?)
        } else {
            Ok(within)
        }
    }
}

/// Brings values that SQL calls equal to one representation: `-0.0` becomes `0.0`.
pub fn normalize_keys(keys: &ArrayRef) -> ArrayRef {
    match keys.data_type() {
        DataType::Float32 => {
            let keys: Float32Array = keys.as_primitive::<Float32Type>().unary(|v| v + 0.0);
            Arc::new(keys)
        }
        DataType::Float64 => {
            let keys: Float64Array = keys.as_primitive::<Float64Type>().unary(|v| v + 0.0);
            Arc::new(keys)
        }
        _ => Arc::clone(keys),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringArray};

    use super::*;

    fn ints(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    fn contained(set: &KeySet, candidates: &[Option<&ArrayRef>], rows: usize) -> Vec<bool> {
        let mask = set.may_contain(candidates, rows).unwrap().unwrap();
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
        assert!(set.may_contain(&[None, None], 4).unwrap().is_none());
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
            KeySet::Bounds(vec![KeyBounds { range, has_null }])
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
        let nothing = KeySet::Bounds(vec![KeyBounds {
            range: None,
            has_null: false,
        }]);
        assert_eq!(contained(&nothing, &some, 5), [false; 5]);
    }

    #[test]
    fn negative_zero_is_zero() {
        let zero: ArrayRef = Arc::new(Float64Array::from(vec![0.0]));
        let negative: ArrayRef = Arc::new(Float64Array::from(vec![-0.0]));
        let set = KeySet::Tuples(KeyTuples::new(vec![normalize_keys(&negative)]));
        assert_eq!(contained(&set, &[Some(&zero)], 1), [true]);
        let range = Some((ScalarValue::from(0.0_f64), ScalarValue::from(0.0_f64)));
        let set = KeySet::Bounds(vec![KeyBounds {
            range,
            has_null: false,
        }]);
        assert_eq!(contained(&set, &[Some(&negative)], 1), [true]);
    }
}
