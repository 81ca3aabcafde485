//! Collects what is known of one column of the keys.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion_partitioned_core::{BoundsAccumulator, KeyColumn, KeyTuples};

use crate::accumulator::{KeyLimits, Updated};

/// The distinct values of one column, as long as there are few enough of them, then its bounds.
pub(crate) enum ColumnAccumulator {
    Values(DataType, Box<dyn GroupValues>),
    Bounds(BoundsAccumulator),
    Unknown,
}

impl ColumnAccumulator {
    pub(crate) fn values(data_type: &DataType) -> Result<Self> {
        let values = distinct_tuples(std::slice::from_ref(data_type))?;
        Ok(Self::Values(data_type.clone(), values))
    }

    /// Types without an order have no bounds.
    pub(crate) fn bounds(data_type: &DataType) -> Self {
        BoundsAccumulator::try_new(data_type).map_or(Self::Unknown, Self::Bounds)
    }

    pub(crate) fn update(&mut self, keys: &ArrayRef, limits: KeyLimits) -> Result<Updated> {
        match self {
            Self::Values(_, values) => {
                values.intern(std::slice::from_ref(keys), &mut vec![])?;
                if values.len() <= limits.keys && values.size() <= limits.bytes {
                    return Ok(Updated::Kept);
                }
                self.degrade()?;
                Ok(Updated::Degraded)
            }
            Self::Bounds(bounds) => {
                if bounds.update(keys).is_ok() {
                    return Ok(Updated::Kept);
                }
                *self = Self::Unknown;
                Ok(Updated::Degraded)
            }
            Self::Unknown => Ok(Updated::Kept),
        }
    }

    /// Keeps no more than the bounds.
    pub(crate) fn degrade(&mut self) -> Result<()> {
        if let Self::Values(data_type, values) = self {
            let values = values.emit(EmitTo::All)?;
            let mut bounds = Self::bounds(data_type);
            for values in &values {
                bounds.update(values, KeyLimits::NONE)?;
            }
            *self = bounds;
        }
        Ok(())
    }

    /// The memory in use, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Values(_, values) => values.size(),
            Self::Bounds(_) | Self::Unknown => 0,
        }
    }

    /// What is known, which keeps its part of `reservation` as long as it lives.
    pub(crate) fn finish(self, reservation: &MemoryReservation) -> Result<KeyColumn> {
        let size = self.size();
        match self {
            Self::Values(data_type, mut values) => {
                let values = values.emit(EmitTo::All)?;
                let values = values.iter().map(|values| Ok(cast(values, &data_type)?));
                let values = KeyTuples::new(values.collect::<Result<_>>()?);
                let reservation = reservation.split(size.min(reservation.size()));
                Ok(KeyColumn::Values(values.with_reservation(reservation)))
            }
            Self::Bounds(bounds) => Ok(bounds
                .finish()
                .map_or(KeyColumn::Unknown, KeyColumn::Bounds)),
            Self::Unknown => Ok(KeyColumn::Unknown),
        }
    }
}

/// Collects distinct tuples of `types`.
pub(crate) fn distinct_tuples(types: &[DataType]) -> Result<Box<dyn GroupValues>> {
    let field = |data_type: &DataType| Field::new("key", data_type.clone(), true);
    let fields: Vec<_> = types.iter().map(field).collect();
    new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)
}
