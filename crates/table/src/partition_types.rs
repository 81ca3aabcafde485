//! The types of partition columns that a statement does not declare.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::kernels::cmp::neq;
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion_partitioned_core::PartitionBatch;

/// The types that are inferred, in order of preference.
const CANDIDATES: [DataType; 2] = [DataType::Int64, DataType::Date32];

/// Finds for each column the type that prints all of its texts as they are.
///
/// | all texts are | type |
/// |---|---|
/// | integers as they print: `7`, `-1`, but not `07`, `+7` | `BIGINT` |
/// | dates as they print, `2024-06-01` | `DATE` |
/// | anything else, and where there is no text at all | text |
///
/// NULL fits every type. The result does not depend on the order of the texts.
#[derive(Debug)]
pub(crate) struct TypeInference {
    columns: Vec<ColumnTypes>,
}

#[derive(Debug, Clone)]
struct ColumnTypes {
    candidates: Vec<DataType>,
    has_text: bool,
}

impl TypeInference {
    pub(crate) fn new(columns: usize) -> Self {
        let all = ColumnTypes {
            candidates: CANDIDATES.to_vec(),
            has_text: false,
        };
        Self {
            columns: vec![all; columns],
        }
    }

    /// Takes partitions whose values are texts into account.
    pub(crate) fn add(&mut self, partitions: &PartitionBatch) -> Result<()> {
        for (types, texts) in self.columns.iter_mut().zip(partitions.values().columns()) {
            types.has_text |= texts.null_count() < texts.len();
            let mut fitting = vec![];
            for candidate in &types.candidates {
                if prints_as(texts, candidate)? {
                    fitting.push(candidate.clone());
                }
            }
            types.candidates = fitting;
        }
        Ok(())
    }

    /// The type of column `column`, `text` for texts.
    pub(crate) fn data_type(&self, column: usize, text: DataType) -> DataType {
        let types = &self.columns[column];
        match types.candidates.first() {
            Some(data_type) if types.has_text => data_type.clone(),
            _ => text,
        }
    }
}

/// Whether all texts are values of the type, and print as they stand there.
fn prints_as(texts: &ArrayRef, data_type: &DataType) -> Result<bool> {
    let options = CastOptions {
        safe: true,
        ..Default::default()
    };
    let values = cast_with_options(texts, data_type, &options)?;
    if values.null_count() != texts.null_count() {
        return Ok(false);
    }
    let printed = cast(&values, texts.data_type())?;
    Ok(!neq(&printed, texts)?.has_true())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{RecordBatch, StringArray};
    use datafusion_partitioned_core::PartitionSource;

    use super::*;

    fn inferred(batches: &[&[Option<&str>]]) -> DataType {
        let mut inference = TypeInference::new(1);
        for texts in batches {
            let array: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
            let values = RecordBatch::try_from_iter_with_nullable([("p", array, true)]).unwrap();
            let sources = vec![PartitionSource::new("t".into()); texts.len()];
            let batch = PartitionBatch::try_new(values, sources).unwrap();
            inference.add(&batch).unwrap();
        }
        inference.data_type(0, DataType::Utf8)
    }

    #[test]
    fn a_type_prints_every_text_as_it_stands() {
        let cases: [(&[&str], DataType); 10] = [
            (&["1", "-20", "0"], DataType::Int64),
            (&["01", "2"], DataType::Utf8),
            (&["+1"], DataType::Utf8),
            (&["1", "abc"], DataType::Utf8),
            (&["abc", "1"], DataType::Utf8),
            (&["99999999999999999999"], DataType::Utf8),
            (&["2024-06-01", "1999-12-31"], DataType::Date32),
            (&["2024-06-01", "2018-01-01-04"], DataType::Utf8),
            (&["20240601"], DataType::Int64),
            (&["1", "2024-06-01"], DataType::Utf8),
        ];
        for (texts, expected) in cases {
            let texts: Vec<_> = texts.iter().map(|text| Some(*text)).collect();
            assert_eq!(inferred(&[&texts]), expected, "{texts:?}");
        }
    }

    #[test]
    fn all_batches_count_and_null_fits_every_type() {
        assert_eq!(
            inferred(&[&[Some("1"), None], &[Some("2")]]),
            DataType::Int64
        );
        assert_eq!(inferred(&[&[Some("1")], &[Some("x")]]), DataType::Utf8);
        assert_eq!(inferred(&[&[None]]), DataType::Utf8);
        assert_eq!(inferred(&[]), DataType::Utf8);
    }
}
