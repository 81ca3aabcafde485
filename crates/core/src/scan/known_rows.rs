//! [`KnownRows`]: rows of partitions that need not be opened.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take_arrays;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use super::PartitionScan;

/// Makes the rows of partitions whose number is known, for a scan that returns nothing but
/// expressions over partition columns.
#[derive(Debug)]
pub(super) struct KnownRows {
    outputs: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    batch_size: usize,
}

impl KnownRows {
    /// `None` when the rows of `scan` depend on what is in the partitions.
    pub(super) fn of(scan: &PartitionScan, batch_size: usize) -> Option<Self> {
        if scan.reader.filters_rows() {
            return None;
        }
        let outputs = scan.outputs.iter().map(|output| {
            let output = output.as_ref()?;
            scan.is_about_partitions(output).then(|| Arc::clone(output))
        });
        Some(Self {
            outputs: outputs.collect::<Option<_>>()?,
            schema: Arc::clone(scan.template().eq_properties().schema()),
            batch_size: batch_size.max(1),
        })
    }

    /// Row i of `values`, which has the columns of the spec, `counts[i]` times.
    pub(super) fn batches(
        &self,
        values: &RecordBatch,
        counts: Vec<usize>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + 'static> {
        let outputs = self
            .outputs
            .iter()
            .map(|output| output.evaluate(values)?.into_array(values.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        Ok(Repeated {
            outputs,
            schema: Arc::clone(&self.schema),
            batch_size: self.batch_size,
            counts,
            row: 0,
        })
    }
}

struct Repeated {
    outputs: Vec<ArrayRef>,
    schema: SchemaRef,
    batch_size: usize,
    /// How often each row is still to be returned.
    counts: Vec<usize>,
    row: usize,
}

impl Iterator for Repeated {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rows: Vec<u32> = vec![];
        while let Some(left) = self.counts.get_mut(self.row) {
            let taken = (*left).min(self.batch_size - rows.len());
            rows.extend(std::iter::repeat_n(self.row as u32, taken));
            *left -= taken;
            if *left > 0 {
                break;
            }
            self.row += 1;
        }
        (!rows.is_empty()).then(|| {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let columns = take_arrays(&self.outputs, &UInt32Array::from(rows), None)?;
            let schema = Arc::clone(&self.schema);
            Ok(RecordBatch::try_new_with_options(
                schema, columns, &options,
            )?)
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    #[test]
    fn every_row_comes_as_often_as_it_is_counted_in_batches_of_limited_size() {
        let schema = Arc::new(Schema::new(vec![Field::new("p", DataType::UInt32, true)]));
        let values: ArrayRef = Arc::new(UInt32Array::from(vec![Some(7), None, Some(9)]));
        let values = RecordBatch::try_new(Arc::clone(&schema), vec![values]).unwrap();
        let known = KnownRows {
            outputs: vec![Arc::new(Column::new("p", 0))],
            schema,
            batch_size: 2,
        };
        let batches: Vec<_> = known
            .batches(&values, vec![3, 1, 1])
            .unwrap()
            .map(|batch| batch.unwrap().column(0).as_ref().to_data())
            .map(|column| UInt32Array::from(column).iter().collect::<Vec<_>>())
            .collect();
        assert_eq!(
            batches,
            [vec![Some(7), Some(7)], vec![Some(7), None], vec![Some(9)]]
        );
    }
}
