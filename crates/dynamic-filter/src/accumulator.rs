//! Collects distinct key tuples within bounded memory.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, EmitTo};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion_partitioned_core::{KeyBounds, KeySet, KeyTuples};

/// Key tuples, exactly as long as there are few enough of them and memory is granted, then as
/// bounds of each column, then not at all.
pub(crate) struct KeyAccumulator {
    types: Vec<DataType>,
    max_keys: usize,
    reservation: MemoryReservation,
    state: State,
}

enum State {
    Tuples(Box<dyn GroupValues>),
    Bounds(Vec<BoundsAccumulator>),
    Unknown,
}

/// What an update has done to the precision of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Updated {
    Kept,
    Degraded,
}

impl KeyAccumulator {
    /// Collects tuples of `types`, whose memory is taken from `reservation`.
    pub(crate) fn try_new(
        types: Vec<DataType>,
        max_keys: usize,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let fields: Vec<_> = types
            .iter()
            .map(|data_type| Field::new("key", data_type.clone(), true))
            .collect();
        let groups = new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?;
        Ok(Self {
            types,
            max_keys,
            reservation,
            state: State::Tuples(groups),
        })
    }

    /// Adds one tuple for each row of `keys`.
    pub(crate) fn update(&mut self, keys: &[ArrayRef]) -> Result<Updated> {
        match &mut self.state {
            State::Tuples(groups) => {
                groups.intern(keys, &mut vec![])?;
                let fits = groups.len() <= self.max_keys
                    && self.reservation.try_resize(groups.size()).is_ok();
                if fits {
                    return Ok(Updated::Kept);
                }
                let tuples = groups.emit(EmitTo::All)?;
                self.reservation.free();
                self.state = bounds_of(&self.types, &tuples);
                Ok(Updated::Degraded)
            }
            State::Bounds(bounds) => {
                let updated: Result<()> = bounds
                    .iter_mut()
                    .zip(keys)
                    .try_for_each(|(b, keys)| b.update(keys));
                if updated.is_ok() {
                    return Ok(Updated::Kept);
                }
                self.state = State::Unknown;
                Ok(Updated::Degraded)
            }
            State::Unknown => Ok(Updated::Kept),
        }
    }

    /// The number of distinct tuples, if they are known.
    pub(crate) fn len(&self) -> Option<usize> {
        match &self.state {
            State::Tuples(groups) => Some(groups.len()),
            _ => None,
        }
    }

    /// The memory in use, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.reservation.size()
    }

    /// The keys, which keep the memory reserved as long as they live.
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
            State::Bounds(bounds) => {
                let bounds = bounds
                    .into_iter()
                    .map(BoundsAccumulator::finish)
                    .collect::<Result<_>>();
                Ok(bounds.map_or(KeySet::Unknown, KeySet::Bounds))
            }
            State::Unknown => Ok(KeySet::Unknown),
        }
    }
}

/// Starts bounds with the tuples so far; types without an order have none.
fn bounds_of(types: &[DataType], tuples: &[ArrayRef]) -> State {
    let bounds: Result<Vec<_>> = types
        .iter()
        .zip(tuples)
        .map(|(data_type, keys)| {
            let mut bounds = BoundsAccumulator::try_new(data_type)?;
            bounds.update(keys)?;
            Ok(bounds)
        })
        .collect();
    bounds.map_or(State::Unknown, State::Bounds)
}

/// The smallest and the largest value of one key column.
struct BoundsAccumulator {
    min: MinAccumulator,
    max: MaxAccumulator,
    has_null: bool,
}

impl BoundsAccumulator {
    fn try_new(data_type: &DataType) -> Result<Self> {
        Ok(Self {
            min: MinAccumulator::try_new(data_type)?,
            max: MaxAccumulator::try_new(data_type)?,
            has_null: false,
        })
    }

    fn update(&mut self, keys: &ArrayRef) -> Result<()> {
        self.has_null |= keys.null_count() > 0;
        self.min.update_batch(std::slice::from_ref(keys))?;
        self.max.update_batch(std::slice::from_ref(keys))
    }

    fn finish(mut self) -> Result<KeyBounds> {
        let (min, max) = (self.min.evaluate()?, self.max.evaluate()?);
        Ok(KeyBounds {
            range: (!min.is_null() && !max.is_null()).then_some((min, max)),
            has_null: self.has_null,
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringArray};
    use datafusion::common::ScalarValue;
    use datafusion::execution::memory_pool::{
        GreedyMemoryPool, MemoryConsumer, MemoryPool, UnboundedMemoryPool,
    };

    use super::*;

    fn accumulator(max_keys: usize, pool: &Arc<dyn MemoryPool>) -> KeyAccumulator {
        let reservation = MemoryConsumer::new("test").register(pool);
        KeyAccumulator::try_new(vec![DataType::Int32, DataType::Utf8], max_keys, reservation)
            .unwrap()
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

    #[test]
    fn too_many_keys_become_bounds() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let mut accumulator = accumulator(2, &pool);
        accumulator
            .update(&keys(&[(Some(5), "b"), (Some(7), "c")]))
            .unwrap();
        assert_eq!(
            accumulator.update(&keys(&[(None, "a")])).unwrap(),
            Updated::Degraded
        );
        accumulator.update(&keys(&[(Some(9), "b")])).unwrap();
        let KeySet::Bounds(bounds) = accumulator.finish().unwrap() else {
            panic!("expected bounds");
        };
        let range = |min, max| Some((min, max));
        assert_eq!(
            bounds[0].range,
            range(ScalarValue::from(5), ScalarValue::from(9))
        );
        assert_eq!(
            bounds[1].range,
            range(ScalarValue::from("a"), ScalarValue::from("c"))
        );
        assert_eq!((bounds[0].has_null, bounds[1].has_null), (true, false));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn refused_memory_degrades_instead_of_failing() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1));
        let mut accumulator = accumulator(1_000, &pool);
        assert_eq!(
            accumulator.update(&keys(&[(Some(5), "b")])).unwrap(),
            Updated::Degraded
        );
        assert!(matches!(accumulator.finish().unwrap(), KeySet::Bounds(_)));
    }
}
