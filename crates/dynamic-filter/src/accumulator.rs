//! Collects distinct key tuples within bounded memory.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;
use datafusion_partitioned_core::{KeySet, KeyTuples};

use crate::column::{ColumnAccumulator, distinct_tuples};

/// Key tuples, exactly as long as there are few enough of them and memory is granted, then the
/// distinct values of each column, then bounds, then nothing.
pub(crate) struct KeyAccumulator {
    types: Vec<DataType>,
    limits: KeyLimits,
    reservation: MemoryReservation,
    state: State,
}

/// How much may be known exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyLimits {
    /// The number of distinct tuples, or values of a column.
    pub(crate) keys: usize,
    /// Their size in memory.
    pub(crate) bytes: usize,
}

impl KeyLimits {
    /// Nothing is known exactly.
    pub(crate) const NONE: Self = Self { keys: 0, bytes: 0 };
}

enum State {
    Tuples(Box<dyn GroupValues>),
    Columns(Vec<ColumnAccumulator>),
}

/// What an update has done to the precision of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Updated {
    Kept,
    Degraded,
}

impl KeyAccumulator {
    /// Collects tuples of `types`, whose memory is taken from `reservation`.
    pub(crate) fn tuples(
        types: Vec<DataType>,
        limits: KeyLimits,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let state = State::Tuples(distinct_tuples(&types)?);
        Ok(Self {
            types,
            limits,
            reservation,
            state,
        })
    }

    /// Collects the bounds of each of the columns.
    pub(crate) fn bounds(types: Vec<DataType>, reservation: MemoryReservation) -> Self {
        let columns = types.iter().map(ColumnAccumulator::bounds).collect();
        Self {
            types,
            limits: KeyLimits::NONE,
            reservation,
            state: State::Columns(columns),
        }
    }

    /// Adds one tuple for each row of `keys`.
    pub(crate) fn update(&mut self, keys: &[ArrayRef]) -> Result<Updated> {
        match &mut self.state {
            State::Tuples(groups) => {
                groups.intern(keys, &mut vec![])?;
                let fits = groups.len() <= self.limits.keys
                    && groups.size() <= self.limits.bytes
                    && self.reservation.try_resize(groups.size()).is_ok();
                if fits {
                    return Ok(Updated::Kept);
                }
                let tuples = groups.emit(EmitTo::All)?;
                self.reservation.free();
                self.state = State::Columns(self.columns()?);
                self.update_columns(&tuples)?;
                Ok(Updated::Degraded)
            }
            State::Columns(_) => self.update_columns(keys),
        }
    }

    /// What follows when the tuples are too many: a single column has as many values.
    fn columns(&self) -> Result<Vec<ColumnAccumulator>> {
        match &self.types[..] {
            [data_type] => Ok(vec![ColumnAccumulator::bounds(data_type)]),
            types => types.iter().map(ColumnAccumulator::values).collect(),
        }
    }

    fn update_columns(&mut self, keys: &[ArrayRef]) -> Result<Updated> {
        let State::Columns(columns) = &mut self.state else {
            return Ok(Updated::Kept);
        };
        let limits = KeyLimits {
            keys: self.limits.keys,
            bytes: self.limits.bytes / columns.len().max(1),
        };
        let mut updated = Updated::Kept;
        for (column, keys) in columns.iter_mut().zip(keys) {
            if column.update(keys, limits)? == Updated::Degraded {
                updated = Updated::Degraded;
            }
        }
        let size = columns.iter().map(ColumnAccumulator::size).sum();
        if self.reservation.try_resize(size).is_err() {
            columns
                .iter_mut()
                .try_for_each(ColumnAccumulator::degrade)?;
            self.reservation.free();
            updated = Updated::Degraded;
        }
        Ok(updated)
    }

    /// The number of distinct tuples, if they are known.
    pub(crate) fn len(&self) -> Option<usize> {
        match &self.state {
            State::Tuples(groups) => Some(groups.len()),
            State::Columns(_) => None,
        }
    }

    /// The memory in use, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.reservation.size()
    }

    /// The keys. Tuples keep the memory reserved as long as they live.
    pub(crate) fn finish(self) -> Result<KeySet> {
        match self.state {
            State::Tuples(mut groups) => {
                let keys = groups.emit(EmitTo::All)?;
                let keys = keys
                    .iter()
                    .zip(&self.types)
                    .map(|(keys, data_type)| Ok(cast(keys, data_type)?))
                    .collect::<Result<Vec<_>>>()?;
                Ok(KeySet::Tuples(
                    KeyTuples::new(keys).with_reservation(self.reservation),
                ))
            }
            State::Columns(columns) => {
                let columns = columns.into_iter();
                let columns = columns.map(|column| column.finish(&self.reservation));
                Ok(KeySet::Columns(columns.collect::<Result<_>>()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, StringArray};
    use datafusion::common::ScalarValue;
    use datafusion::execution::memory_pool::{
        GreedyMemoryPool, MemoryConsumer, MemoryPool, UnboundedMemoryPool,
    };

    use datafusion_partitioned_core::KeyColumn;

    use super::*;

    fn accumulator(max_keys: usize, pool: &Arc<dyn MemoryPool>) -> KeyAccumulator {
        let reservation = MemoryConsumer::new("test").register(pool);
        let limits = KeyLimits {
            keys: max_keys,
            bytes: 1 << 20,
        };
        KeyAccumulator::tuples(vec![DataType::Int32, DataType::Utf8], limits, reservation).unwrap()
    }

    fn keys(values: &[(Option<i32>, &str)]) -> Vec<ArrayRef> {
        vec![
            Arc::new(values.iter().map(|v| v.0).collect::<Int32Array>()),
            Arc::new(values.iter().map(|v| Some(v.1)).collect::<StringArray>()),
        ]
    }

    #[test]
    fn few_keys_stay_exact_and_hold_their_memory_until_dropped() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let mut accumulator = accumulator(2, &pool);
        let rows = keys(&[(Some(1), "a"), (None, "b"), (Some(1), "a")]);
        assert_eq!(accumulator.update(&rows).unwrap(), Updated::Kept);
        let KeySet::Tuples(tuples) = accumulator.finish().unwrap() else {
            panic!("expected tuples");
        };
        assert_eq!(tuples.len(), 2);
        assert!(pool.reserved() > 0);
        drop(tuples);
        assert_eq!(pool.reserved(), 0);
    }

    fn columns(accumulator: KeyAccumulator) -> Vec<KeyColumn> {
        match accumulator.finish().unwrap() {
            KeySet::Columns(columns) => columns,
            other => panic!("expected columns, not {other}"),
        }
    }

    #[test]
    fn too_many_tuples_become_values_and_too_many_values_bounds() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let mut accumulator = accumulator(2, &pool);
        accumulator
            .update(&keys(&[(Some(5), "b"), (Some(7), "c")]))
            .unwrap();
        let updated = accumulator.update(&keys(&[(None, "b")])).unwrap();
        assert_eq!(updated, Updated::Degraded);
        accumulator.update(&keys(&[(Some(9), "b")])).unwrap();
        let columns = columns(accumulator);
        let [KeyColumn::Bounds(numbers), KeyColumn::Values(texts)] = &columns[..] else {
            panic!("expected bounds and values");
        };
        assert_eq!(
            numbers.range,
            Some((ScalarValue::from(5), ScalarValue::from(9)))
        );
        assert!(numbers.has_null);
        assert_eq!(texts.len(), 2);
        assert!(pool.reserved() > 0);
        drop(columns);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn too_many_bytes_are_as_too_many_keys() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let reservation = MemoryConsumer::new("test").register(&pool);
        let limits = KeyLimits { keys: 10, bytes: 0 };
        let mut accumulator =
            KeyAccumulator::tuples(vec![DataType::Int32], limits, reservation).unwrap();
        let numbers = keys(&[(Some(5), "")]).swap_remove(0);
        assert_eq!(accumulator.update(&[numbers]).unwrap(), Updated::Degraded);
        assert!(matches!(columns(accumulator)[..], [KeyColumn::Bounds(_)]));
    }

    #[test]
    fn refused_memory_degrades_instead_of_failing() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1));
        let mut accumulator = accumulator(1_000, &pool);
        assert_eq!(
            accumulator.update(&keys(&[(Some(5), "b")])).unwrap(),
            Updated::Degraded
        );
        let columns = columns(accumulator);
        assert!(matches!(
            columns[..],
            [KeyColumn::Bounds(_), KeyColumn::Bounds(_)]
        ));
    }
}
