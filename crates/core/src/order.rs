//! [`PartitionOrder`]: partitions sorted by their values.

use std::sync::Arc;

use datafusion::arrow::compute::{SortColumn, SortOptions, lexsort_to_indices};
use datafusion::common::Result;

use crate::spec::{PartitionBatch, PartitionSpec};

/// An order of partitions: by some partition columns, each ascending or descending, with NULL first
/// or last.
///
/// ```
/// # use datafusion::arrow::datatypes::{DataType, Field};
/// # use datafusion_partitioned_core::{PartitionOrder, PartitionSpec};
/// let fields = ["year", "month"].map(|name| Field::new(name, DataType::Int32, true));
/// let spec = PartitionSpec::try_new(fields)?;
/// let order = PartitionOrder::ascending(&spec);
/// assert_eq!(order.describe(&spec), "year ASC NULLS LAST, month ASC NULLS LAST");
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOrder(Vec<(usize, SortOptions)>);

impl PartitionOrder {
    /// Sorts by these columns, each by its index in the spec, the most significant one first. A
    /// column that is there already decides nothing more and is left out.
    pub fn new(columns: impl IntoIterator<Item = (usize, SortOptions)>) -> Self {
        let mut order: Vec<(usize, SortOptions)> = vec![];
        for (column, options) in columns {
            if !order.iter().any(|(known, _)| *known == column) {
                order.push((column, options));
            }
        }
        Self(order)
    }

    /// Sorts by the columns of `spec`, ascending, NULL last, up to the first of floating point numbers:
    /// DataFusion sorts `-0.0` before `0.0` and groups them as one, so that the rows of a group would not
    /// follow each other.
    pub fn ascending(spec: &PartitionSpec) -> Self {
        let options = SortOptions {
            descending: false,
            nulls_first: false,
        };
        let columns = spec.fields().iter().enumerate();
        let columns = columns.take_while(|(_, field)| !field.data_type().is_floating());
        Self(columns.map(|(column, _)| (column, options)).collect())
    }

    /// The columns by their index in the spec, the most significant one first.
    pub fn columns(&self) -> &[(usize, SortOptions)] {
        &self.0
    }

    /// The rows of `partitions` in this order. Sorts as DataFusion sorts rows.
    ///
    /// # Errors
    /// When a column has a type that cannot be sorted.
    pub(crate) fn sort(&self, partitions: &PartitionBatch) -> Result<Vec<u32>> {
        if self.0.is_empty() {
            return Ok((0..partitions.len() as u32).collect());
        }
        let columns: Vec<SortColumn> = self
            .0
            .iter()
            .map(|(column, options)| SortColumn {
                values: Arc::clone(partitions.values().column(*column)),
                options: Some(*options),
            })
            .collect();
        Ok(lexsort_to_indices(&columns, None)?.values().to_vec())
    }

    /// The order as `ORDER BY` spells it, for `EXPLAIN`.
    pub fn describe(&self, spec: &PartitionSpec) -> String {
        let names: Vec<&str> = spec.column_names().collect();
        let columns: Vec<String> = self
            .0
            .iter()
            .map(|(column, options)| {
                let name = names.get(*column).copied().unwrap_or("?");
                let direction = if options.descending { "DESC" } else { "ASC" };
                let nulls = if options.nulls_first { "FIRST" } else { "LAST" };
                format!("{name} {direction} NULLS {nulls}")
            })
            .collect();
        columns.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;

    use super::*;
    use crate::spec::{Partition, PartitionValues};

    #[test]
    fn sorts_by_several_columns_with_null_in_its_place() {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
        let spec = PartitionSpec::try_new(fields).unwrap();
        let partition = |a: Option<i32>, b: i32| {
            let values = vec![ScalarValue::from(a), ScalarValue::from(b)];
            Partition::new(PartitionValues::try_new(&spec, values).unwrap(), "t".into())
        };
        let partitions = [
            partition(Some(1), 1),
            partition(None, 1),
            partition(Some(1), 2),
            partition(Some(10), 1),
        ];
        let batch = PartitionBatch::from_partitions(&spec, &partitions).unwrap();
        assert_eq!(
            PartitionOrder::ascending(&spec).sort(&batch).unwrap(),
            [0, 2, 3, 1]
        );
        let down = SortOptions {
            descending: true,
            nulls_first: true,
        };
        let order = PartitionOrder::new([(0, down), (1, down), (0, SortOptions::default())]);
        assert_eq!(
            order.describe(&spec),
            "a DESC NULLS FIRST, b DESC NULLS FIRST"
        );
        assert_eq!(order.sort(&batch).unwrap(), [1, 3, 2, 0]);
    }
}
