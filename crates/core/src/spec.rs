//! Partition columns, their values, and partitions as a catalog describes them.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{concat_batches, filter_record_batch, take_arrays};
use datafusion::arrow::datatypes::{Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, assert_or_internal_err, internal_datafusion_err};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::error::PartitionError;
use crate::text::value_to_text;

/// The ordered partition columns of a table with their types.
///
/// A partition column has one value within a partition. The value comes from the catalog and not
/// from the files, and it may be NULL: the fields are always nullable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSpec {
    schema: SchemaRef,
}

impl PartitionSpec {
    /// Takes the partition columns in the order of the `PARTITIONED BY` clause and makes them
    /// nullable.
    ///
    /// # Errors
    /// [`PartitionError::Column`] when two columns have the same name or one has none.
    pub fn try_new(fields: impl IntoIterator<Item = Field>) -> Result<Self> {
        let fields: Fields = fields
            .into_iter()
            .map(|field| Arc::new(field.with_nullable(true)))
            .collect();
        let mut names = HashSet::new();
        for field in &fields {
            let message = if field.name().is_empty() {
                "a partition column has an empty name".to_owned()
            } else if !names.insert(field.name()) {
                format!("partition column '{}' is declared twice", field.name())
            } else {
                continue;
            };
            let known = fields
                .iter()
                .map(|f| f.name().as_str())
                .collect::<Vec<_>>()
                .join(", ");
            return Err(PartitionError::Column { message, known }.into());
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The partition columns, in order.
    pub fn fields(&self) -> &Fields {
        self.schema.fields()
    }

    /// The partition columns as a schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of partition columns.
    pub fn len(&self) -> usize {
        self.fields().len()
    }

    /// Whether the table has no partition columns.
    pub fn is_empty(&self) -> bool {
        self.fields().is_empty()
    }

    /// The names of the partition columns, in order (Flink: `getPartitionFieldNames`).
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.fields().iter().map(|field| field.name().as_str())
    }

    /// The schema of the first `columns` partition columns.
    pub fn prefix(&self, columns: usize) -> SchemaRef {
        Arc::new(Schema::new(self.fields()[..columns].to_vec()))
    }

    /// Values as SQL would write them, for people: `year = 2024, topic = 'x', day = NULL`.
    pub fn describe(&self, values: &PartitionValues) -> String {
        let columns = self.fields().iter().zip(values.values());
        let columns = columns.map(|(field, value)| {
            let text = match value_to_text(value) {
                Ok(None) => "NULL".to_owned(),
                Ok(Some(text)) if value.data_type().is_numeric() => text,
                Ok(Some(text)) => format!("'{}'", text.replace('\'', "''")),
                Err(_) => value.to_string(),
            };
            format!("{} = {text}", field.name())
        });
        columns.collect::<Vec<_>>().join(", ")
    }

    /// The first `columns` partition columns, and the others.
    pub fn split_at(&self, columns: usize) -> (Self, Self) {
        let (first, rest) = self.fields().split_at(columns);
        let of = |fields: &[FieldRef]| Self {
            schema: Arc::new(Schema::new(fields.to_vec())),
        };
        (of(first), of(rest))
    }
}

/// One value, or NULL, for each column of a [`PartitionSpec`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionValues(Vec<ScalarValue>);

impl PartitionValues {
    /// Takes one value for each column and casts it to the column's type.
    ///
    /// # Errors
    /// [`PartitionError::Arity`] for a wrong number of values; DataFusion's cast error when a
    /// value does not fit its column.
    pub fn try_new(spec: &PartitionSpec, values: Vec<ScalarValue>) -> Result<Self> {
        if values.len() != spec.len() {
            return Err(PartitionError::Arity {
                expected: spec.len(),
                actual: values.len(),
                columns: spec.column_names().collect::<Vec<_>>().join(", "),
            }
            .into());
        }
        spec.fields()
            .iter()
            .zip(values)
            .map(|(field, value)| value.cast_to(field.data_type()))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// The values, in the order of the spec.
    pub fn values(&self) -> &[ScalarValue] {
        &self.0
    }

    /// Gives up the values.
    pub fn into_inner(self) -> Vec<ScalarValue> {
        self.0
    }
}

/// Where a partition is and what its catalog happens to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSource {
    /// The directory, or whatever a location means to the reader. Taken from a listing or a
    /// catalog, never rebuilt from values.
    pub location: Path,
    /// The data files, when the catalog has listed them. `None` leaves that to the reader.
    pub objects: Option<Vec<ObjectMeta>>,
    /// The number of rows, where the catalog knows it. Queries are answered from it without opening
    /// the partition, so it must be right: a guess belongs into the catalog's estimate. There is no
    /// zero here, because in many catalogs it only says that nobody has counted.
    pub rows: Option<NonZeroUsize>,
}

impl PartitionSource {
    /// A partition at `location` whose files are not known yet.
    pub fn new(location: Path) -> Self {
        Self {
            location,
            objects: None,
            rows: None,
        }
    }

    /// Sets the data files of the partition.
    pub fn with_objects(mut self, objects: Vec<ObjectMeta>) -> Self {
        self.objects = Some(objects);
        self
    }

    /// Sets the number of rows; see [`Self::rows`]. 0 counts as not known.
    pub fn with_rows(mut self, rows: usize) -> Self {
        self.rows = NonZeroUsize::new(rows);
        self
    }
}

/// One partition: its values and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The values of the partition columns.
    pub values: PartitionValues,
    /// Where the partition is.
    pub source: PartitionSource,
}

impl Partition {
    /// A partition with these values at `location`.
    pub fn new(values: PartitionValues, location: Path) -> Self {
        Self {
            values,
            source: PartitionSource::new(location),
        }
    }

    /// Sets the number of rows; see [`PartitionSource::rows`]. 0 counts as not known.
    pub fn with_rows(mut self, rows: usize) -> Self {
        self.source = self.source.with_rows(rows);
        self
    }
}

/// Some partitions of a table, with their values in columns.
#[derive(Debug, Clone)]
pub struct PartitionBatch {
    values: RecordBatch,
    sources: Vec<PartitionSource>,
}

impl PartitionBatch {
    /// Puts values (one row for each partition) and sources together.
    ///
    /// # Errors
    /// An internal error when their numbers differ.
    pub fn try_new(values: RecordBatch, sources: Vec<PartitionSource>) -> Result<Self> {
        assert_or_internal_err!(
            values.num_rows() == sources.len(),
            "{} rows of partition values for {} partitions",
            values.num_rows(),
            sources.len()
        );
        Ok(Self { values, sources })
    }

    /// Turns rows into columns.
    ///
    /// # Errors
    /// When the values are not those of `spec`.
    pub fn from_partitions(spec: &PartitionSpec, partitions: &[Partition]) -> Result<Self> {
        let columns = (0..spec.len())
            .map(|column| {
                ScalarValue::iter_to_array(
                    partitions.iter().map(|p| p.values.values()[column].clone()),
                )
            })
            .collect::<Result<Vec<_>>>();
        // `iter_to_array` needs one value to know the type.
        let values = if partitions.is_empty() {
            RecordBatch::new_empty(Arc::clone(spec.schema()))
        } else {
            let options = RecordBatchOptions::new().with_row_count(Some(partitions.len()));
            RecordBatch::try_new_with_options(Arc::clone(spec.schema()), columns?, &options)?
        };
        let sources = partitions.iter().map(|p| p.source.clone()).collect();
        Self::try_new(values, sources)
    }

    /// All partitions of `batches`, whose values are those of `spec`, in their order.
    ///
    /// # Errors
    /// When a batch has values of another spec.
    pub fn concat(spec: &PartitionSpec, batches: Vec<Self>) -> Result<Self> {
        let values = concat_batches(spec.schema(), batches.iter().map(Self::values))?;
        let sources = batches
            .into_iter()
            .flat_map(|batch| batch.sources)
            .collect();
        Self::try_new(values, sources)
    }

    /// The number of partitions.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are no partitions.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// One row of values for each partition, in the columns of the spec.
    pub fn values(&self) -> &RecordBatch {
        &self.values
    }

    /// The locations, in the order of the rows of [`Self::values`].
    pub fn sources(&self) -> &[PartitionSource] {
        &self.sources
    }

    /// The values of partition `row`.
    ///
    /// # Errors
    /// When a column has a type that scalars do not support.
    pub fn partition_values(&self, row: usize) -> Result<PartitionValues> {
        self.values
            .columns()
            .iter()
            .map(|column| ScalarValue::try_from_array(column, row))
            .collect::<Result<_>>()
            .map(PartitionValues)
    }

    /// The partition `row`.
    ///
    /// # Errors
    /// An internal error when there is no such row; when a column has a type that scalars do not
    /// support.
    pub fn partition(&self, row: usize) -> Result<Partition> {
        let source = self.sources.get(row).cloned();
        Ok(Partition {
            source: source.ok_or_else(|| {
                internal_datafusion_err!("no partition {row} among {}", self.len())
            })?,
            values: self.partition_values(row)?,
        })
    }

    /// The partitions `rows`, in that order.
    ///
    /// # Errors
    /// An internal error when there is no such row.
    pub fn take(&self, rows: &[u32]) -> Result<Self> {
        let sources = rows
            .iter()
            .map(|row| {
                let source = self.sources.get(*row as usize);
                source.cloned().ok_or_else(|| {
                    internal_datafusion_err!("no partition {row} among {}", self.len())
                })
            })
            .collect::<Result<_>>()?;
        let columns = take_arrays(
            self.values.columns(),
            &UInt32Array::from(rows.to_vec()),
            None,
        )?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let values = RecordBatch::try_new_with_options(self.values.schema(), columns, &options)?;
        Self::try_new(values, sources)
    }

    /// The same partitions without a number of rows, where those that are given are guesses.
    pub fn without_rows(mut self) -> Self {
        for source in &mut self.sources {
            source.rows = None;
        }
        self
    }

    /// All partitions in the order of `rows`, each of which is there once.
    ///
    /// # Errors
    /// An internal error when one is missing.
    pub(crate) fn permute(self, rows: &[u32]) -> Result<Self> {
        let mut sources: Vec<_> = self.sources.into_iter().map(Some).collect();
        let sources = rows
            .iter()
            .map(|row| {
                let source = sources.get_mut(*row as usize).and_then(Option::take);
                source.ok_or_else(|| internal_datafusion_err!("partition {row} is not there once"))
            })
            .collect::<Result<_>>()?;
        let rows = UInt32Array::from(rows.to_vec());
        let columns = take_arrays(self.values.columns(), &rows, None)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let values = RecordBatch::try_new_with_options(self.values.schema(), columns, &options)?;
        Self::try_new(values, sources)
    }

    /// The partitions for which `keep` is true.
    ///
    /// # Errors
    /// When `keep` has another length.
    pub fn filter(self, keep: &BooleanArray) -> Result<Self> {
        if keep.true_count() == self.len() {
            return Ok(self);
        }
        let values = filter_record_batch(&self.values, keep)?;
        let sources = self
            .sources
            .into_iter()
            .zip(keep.values())
            .filter_map(|(source, keep)| keep.then_some(source))
            .collect();
        Self::try_new(values, sources)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;

    use super::*;

    fn spec() -> PartitionSpec {
        PartitionSpec::try_new(vec![
            Field::new("year", DataType::Int32, false),
            Field::new("topic", DataType::Utf8, false),
        ])
        .unwrap()
    }

    #[test]
    fn partition_columns_are_nullable_and_named_once() {
        assert!(spec().fields().iter().all(|f| f.is_nullable()));
        let error = PartitionSpec::try_new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("a", DataType::Utf8, true),
        ])
        .unwrap_err();
        assert!(
            error.to_string().contains("'a' is declared twice"),
            "{error}"
        );
    }

    #[test]
    fn values_are_cast_to_the_spec_and_counted() {
        let values = PartitionValues::try_new(
            &spec(),
            vec![ScalarValue::from("7"), ScalarValue::from("x")],
        )
        .unwrap();
        assert_eq!(values.values()[0], ScalarValue::from(7_i32));
        let error = PartitionValues::try_new(&spec(), vec![]).unwrap_err();
        assert!(
            error.to_string().contains("expected 2 partition values"),
            "{error}"
        );
    }

    #[test]
    fn values_are_described_as_sql() {
        let describe = |year: Option<i32>, topic: Option<&str>| {
            let values = vec![ScalarValue::from(year), ScalarValue::from(topic)];
            spec().describe(&PartitionValues::try_new(&spec(), values).unwrap())
        };
        assert_eq!(describe(Some(7), Some("it's")), "year = 7, topic = 'it''s'");
        assert_eq!(describe(None, Some("")), "year = NULL, topic = ''");
    }

    #[test]
    fn a_batch_keeps_values_and_sources_together() {
        let partition = |year: i32, location: &str| {
            let values = vec![ScalarValue::from(year), ScalarValue::Utf8(None)];
            Partition::new(
                PartitionValues::try_new(&spec(), values).unwrap(),
                location.into(),
            )
        };
        let rows = [
            partition(1, "t/1"),
            partition(2, "t/2"),
            partition(3, "t/3"),
        ];
        let batch = PartitionBatch::from_partitions(&spec(), &rows).unwrap();
        let kept = batch
            .clone()
            .filter(&BooleanArray::from(vec![true, false, true]))
            .unwrap();
        assert_eq!(kept.len(), 2);
        assert_eq!(kept.partition_values(1).unwrap(), rows[2].values);
        assert_eq!(kept.sources()[1].location, Path::from("t/3"));
        let both = PartitionBatch::concat(&spec(), vec![kept, batch.clone()]).unwrap();
        let taken = both.take(&[3, 0]).unwrap();
        assert_eq!(taken.partition_values(0).unwrap(), rows[1].values);
        assert_eq!(taken.sources()[1].location, Path::from("t/1"));
        assert!(both.take(&[5]).is_err());
        let permuted = both.clone().permute(&[3, 0, 4, 2, 1]).unwrap();
        assert_eq!(permuted.partition_values(4).unwrap(), rows[2].values);
        assert_eq!(permuted.sources()[0].location, Path::from("t/2"));
        assert!(both.permute(&[0, 0, 1, 2, 3]).is_err());
        assert!(
            PartitionBatch::from_partitions(&spec(), &[])
                .unwrap()
                .is_empty()
        );
    }
}
