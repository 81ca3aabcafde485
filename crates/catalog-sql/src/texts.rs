//! Partition values as one text: a JSON array of their texts, `["2024-06-01",null]`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion_partitioned_core::{
    Partition, PartitionBatch, PartitionSpec, parse_values, value_to_text,
};

/// The text of the values of each partition.
///
/// # Errors
/// When a type has no text that means the same value again.
pub(crate) fn to_texts(spec: &PartitionSpec, partitions: &[Partition]) -> Result<Vec<String>> {
    let texts = partitions
        .iter()
        .map(|partition| {
            let values = partition.values.values().iter();
            let values = values.map(value_to_text).collect::<Result<Vec<_>>>()?;
            let text = serde_json::to_string(&values);
            text.map_err(|error| exec_datafusion_err!("the values cannot be stored: {error}"))
        })
        .collect::<Result<Vec<_>>>()?;
    let stored = from_texts(spec, &texts)?;
    let given = PartitionBatch::from_partitions(spec, partitions)?;
    for (field, (stored, given)) in spec
        .fields()
        .iter()
        .zip(stored.columns().iter().zip(given.values().columns()))
    {
        if stored != given {
            return plan_err!(
                "the catalog file cannot keep values of the partition column '{}', since no text \
                 spells all values of the type {}",
                field.name(),
                field.data_type()
            );
        }
    }
    Ok(texts)
}

/// The values that the texts say, in the columns of the spec.
///
/// # Errors
/// When one is none of these values.
pub(crate) fn from_texts(spec: &PartitionSpec, texts: &[String]) -> Result<RecordBatch> {
    let mut columns: Vec<Vec<Option<String>>> = vec![vec![]; spec.len()];
    for text in texts {
        match serde_json::from_str::<Vec<Option<String>>>(text) {
            Ok(values) if values.len() == spec.len() => {
                for (column, value) in columns.iter_mut().zip(values) {
                    column.push(value);
                }
            }
            _ => return not_of(spec, text),
        }
    }
    let columns = columns.into_iter().zip(spec.fields());
    let columns = columns.map(|(column, field)| {
        let parsed = parse_values(field, &StringArray::from(column))?;
        match parsed.mismatches.first() {
            None => Ok(parsed.values),
            Some(row) => not_of(spec, &texts[*row]),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(texts.len()));
    let schema = Arc::clone(spec.schema());
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

fn not_of<T>(spec: &PartitionSpec, text: &str) -> Result<T> {
    exec_err!(
        "the partition {text} in the catalog file has no values of the partition columns ({})",
        spec.column_names().collect::<Vec<_>>().join(", ")
    )
}
