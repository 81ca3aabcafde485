//! [`KeyTuples`]: distinct key tuples, and which candidates are among them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::normalize_keys;

/// Distinct key tuples, one array for each key column.
pub struct KeyTuples {
    keys: Vec<ArrayRef>,
    /// One index for each combination of columns that has been asked about, as a bit set; none where
    /// there was no memory for it.
    indexes: Mutex<HashMap<u64, Option<Arc<TupleIndex>>>>,
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

    /// One array for each key column.
    pub(super) fn columns(&self) -> &[ArrayRef] {
        &self.keys
    }

    /// The values of key column `key`, one for each tuple.
    pub(crate) fn column(&self, key: usize) -> Option<&ArrayRef> {
        self.keys.get(key)
    }

    pub(super) fn may_contain(
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
            return Ok(index.clone());
        }
        let columns: Vec<ArrayRef> = known
            .iter()
            .map(|key| Arc::clone(&self.keys[*key]))
            .collect();
        let index = TupleIndex::try_new(&columns)?;
        let reservation = self.reservation.as_ref();
        let has_memory = reservation.is_none_or(|r| r.try_grow(index.size()).is_ok());
        let index = has_memory.then(|| Arc::new(index));
        indexes.insert(mask, index.clone());
        Ok(index)
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
