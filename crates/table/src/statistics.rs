//! What is known of the size of a scan when it is planned, as DataFusion's statistics.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::table_schema::TableSchema;
use datafusion_partitioned_core::PartitionEstimate;

/// No estimate is above this, since DataFusion multiplies those of both sides of a join.
const MOST_ROWS: usize = 1 << 40;

/// How many values a column of the files is taken to have, since no file is looked at.
///
/// DataFusion takes a column of which it knows nothing for a unique key, and a join on it with a
/// dimension for as small as the dimension. The next join would then collect that result, and prune
/// nothing of it. With few values the join is as large as the table.
const ASSUMED_DISTINCT: usize = 1;

/// The bytes that a value of variable width is taken to have.
const ASSUMED_TEXT_WIDTH: usize = 20;

/// The statistics of a scan of partitions of a table. Inexact by nature: only for join order.
pub(crate) fn estimated_statistics(
    table: &TableSchema,
    estimate: &PartitionEstimate,
) -> Statistics {
    let schema = table.table_schema();
    let widths = schema.fields().iter().map(|field| {
        let width = field.data_type().primitive_width();
        width.unwrap_or(ASSUMED_TEXT_WIDTH)
    });
    let row_width: usize = widths.sum();
    let partitions = estimate.partitions;
    let assumed = || partitions.saturating_mul(PartitionEstimate::ASSUMED_BYTES);
    let bytes = estimate
        .bytes
        .or_else(|| estimate.rows.is_none().then(assumed));
    let rows = estimate.rows.or_else(|| {
        let rows = bytes? / row_width.max(1);
        Some(rows.max(partitions))
    });
    let precision = |count: Option<usize>| {
        let count = count.map(|count| count.min(MOST_ROWS));
        count.map_or(Precision::Absent, Precision::Inexact)
    };
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = precision(rows);
    statistics.total_byte_size = precision(bytes);

    let file_columns = table.file_schema().fields().len();
    let (of_files, partition_columns) = statistics.column_statistics.split_at_mut(file_columns);
    for column in of_files {
        column.distinct_count = Precision::Inexact(ASSUMED_DISTINCT);
    }
    // Without these, DataFusion takes a join on partition columns for one on a unique key, and its
    // result for a small table.
    for (column, distinct) in partition_columns.iter_mut().zip(&estimate.distinct) {
        column.distinct_count = Precision::Inexact(*distinct);
    }
    let values = estimate.values.iter().flat_map(|values| values.columns());
    for (column, values) in partition_columns.iter_mut().zip(values) {
        if let Ok(known) = column_statistics(values) {
            *column = known;
        }
    }
    statistics
}

/// The statistics of a partition column with these values, one for each partition.
fn column_statistics(values: &ArrayRef) -> Result<ColumnStatistics> {
    let field = SortField::new(values.data_type().clone());
    let rows = RowConverter::new(vec![field])?.convert_columns(&[Arc::clone(values)])?;
    let valid = || (0..values.len()).filter(|row| values.is_valid(*row));
    let value = |row: Option<usize>| -> Result<Precision<ScalarValue>> {
        let value = row.map(|row| ScalarValue::try_from_array(values, row));
        Ok(value
            .transpose()?
            .map_or(Precision::Absent, Precision::Inexact))
    };
    let distinct: HashSet<_> = valid().map(|row| rows.row(row)).collect();
    Ok(ColumnStatistics {
        // How many rows a partition of NULL has is not known.
        null_count: match values.null_count() {
            0 => Precision::Inexact(0),
            _ => Precision::Absent,
        },
        min_value: value(valid().min_by_key(|row| rows.row(*row)))?,
        max_value: value(valid().max_by_key(|row| rows.row(*row)))?,
        distinct_count: Precision::Inexact(distinct.len()),
        ..ColumnStatistics::new_unknown()
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DictionaryArray, Int32Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};

    use super::*;

    fn table() -> TableSchema {
        let id = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
        let p = Arc::new(Field::new("p", DataType::Int32, true));
        TableSchema::builder(Arc::new(id))
            .with_table_partition_cols(vec![p])
            .build()
    }

    #[test]
    fn rows_come_from_bytes_and_the_width_of_a_row() {
        let rows = |rows, bytes| {
            let estimate = PartitionEstimate {
                partitions: 2,
                rows,
                bytes,
                ..Default::default()
            };
            estimated_statistics(&table(), &estimate).num_rows
        };
        assert_eq!(rows(Some(7), Some(1200)), Precision::Inexact(7));
        assert_eq!(rows(None, Some(1200)), Precision::Inexact(100));
        // A partition has a row.
        assert_eq!(rows(None, Some(0)), Precision::Inexact(2));
        // What nobody knows is large.
        assert_eq!(rows(None, None), Precision::Inexact(11_184_810));
    }

    #[test]
    fn a_column_of_the_files_is_no_unique_key() {
        let statistics = estimated_statistics(&table(), &PartitionEstimate::default());
        assert_eq!(
            statistics.column_statistics[0].distinct_count,
            Precision::Inexact(1)
        );
    }

    #[test]
    fn columns_of_known_partitions_are_described() {
        let statistics = |values: Vec<Option<i32>>| {
            let values = Arc::new(Int32Array::from(values)) as ArrayRef;
            let estimate = PartitionEstimate {
                partitions: values.len(),
                distinct: vec![99],
                values: Some(RecordBatch::try_from_iter([("p", values)]).unwrap()),
                ..Default::default()
            };
            estimated_statistics(&table(), &estimate).column_statistics[1].clone()
        };
        let value = |value: i32| Precision::Inexact(ScalarValue::from(value));
        let known = statistics(vec![Some(3), Some(-1), Some(3)]);
        assert_eq!((known.min_value, known.max_value), (value(-1), value(3)));
        assert_eq!(known.distinct_count, Precision::Inexact(2));
        assert_eq!(known.null_count, Precision::Inexact(0));
        let known = statistics(vec![None, Some(1)]);
        assert_eq!((known.min_value, known.max_value), (value(1), value(1)));
        assert_eq!(known.null_count, Precision::Absent);
        assert_eq!(statistics(vec![]).min_value, Precision::Absent);
    }

    #[test]
    fn values_keep_their_type() {
        let values: DictionaryArray<Int32Type> = ["b", "a", "b"].into_iter().collect();
        let data_type = values.data_type().clone();
        let known = column_statistics(&(Arc::new(values) as ArrayRef)).unwrap();
        let min = known.min_value.get_value().unwrap();
        assert_eq!(min.data_type(), data_type);
        assert_eq!(min.to_string(), "a");
        assert_eq!(known.distinct_count, Precision::Inexact(2));
    }
}
