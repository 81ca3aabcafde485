//! [`ByNameOpener`]: matches the columns of a file with those of the table by their names, for formats
//! whose sources in DataFusion go by position or are lenient about types.
//!
//! ```text
//!   table   (a, b, c | p)      projection: c + 1, a, p
//!   file    (c, x, a)          projection: c@0 + 1, a@2, 'value of p'
//! ```
//!
//! The opener looks at the columns in front of the file, makes a source of the same format for them,
//! and rewrites the projection with DataFusion's adapter for physical expressions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_datafusion_err};
use datafusion::config::CsvOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    ArrowSource, AvroSource, CsvSource, FileOpenFuture, FileOpener, FileScanConfig, FileSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use futures::future::{BoxFuture, Shared};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::compression::Compression;
use super::probe::{Found, SchemaProbe};
use super::store::ReadingStore;
use crate::widening::WideningAdapterFactory;

/// Opens files by the names of their columns.
pub(crate) struct ByNameOpener(Arc<Files>);

impl ByNameOpener {
    pub(crate) fn new(files: Files) -> Self {
        Self(Arc::new(files))
    }
}

impl FileOpener for ByNameOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        Ok(Arc::clone(&self.0).open(file).boxed())
    }
}

/// What is needed to open a file of the table.
pub(crate) struct Files {
    /// The source of the whole table, its batch size set.
    pub(crate) source: Arc<dyn FileSource>,
    pub(crate) batch_size: usize,
    pub(crate) config: FileScanConfig,
    /// The output partition that is being read.
    pub(crate) partition: usize,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) compression: Compression,
    pub(crate) probe: SchemaProbe,
    pub(crate) seen: Arc<SeenFiles>,
}

impl Files {
    async fn open(
        self: Arc<Self>,
        mut file: PartitionedFile,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let location = &file.object_meta.location;
        let reading = ReadingStore::new(Arc::clone(&self.store), self.compression);
        let (found, reading) = match file.range {
            None => {
                let result = reading.get(location).await?;
                let (found, result) = self.probe.look_at(result).await?;
                (found, reading.with_opened(location.clone(), result))
            }
            Some(_) => (self.seen.columns(&self, &file.object_meta).await?, reading),
        };
        match (&found, &mut file.range) {
            // A stream cannot be split: its first part stands for all of it.
            (Found::IpcStream(_), Some(range)) if range.start > 0 => {
                return Ok(stream::empty().boxed());
            }
            (Found::IpcStream(_), range) => *range = None,
            // DataFusion takes the first line of the first part for the header. What is in front of
            // the header has no rows.
            (Found::Header(header), Some(range)) => {
                let header_start = i64::try_from(header.start).unwrap_or(i64::MAX);
                if range.end <= header_start {
                    return Ok(stream::empty().boxed());
                }
                if range.start <= header_start {
                    range.start = 0;
                }
            }
            _ => {}
        }
        let Some(source) = self.source_for(&found, &file.partition_values)? else {
            return Ok(stream::empty().boxed());
        };
        let opener = source.create_file_opener(Arc::new(reading), &self.config, self.partition)?;
        opener.open(file)?.await
    }

    /// A source that returns the projected columns of the table from a file with the columns `found`.
    /// `None` when the file has no rows.
    fn source_for(
        &self,
        found: &Found,
        partition_values: &[ScalarValue],
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let table = self.source.table_schema();
        let (schema, source): (_, Arc<dyn FileSource>) = match found {
            Found::Header(header) if header.names.is_empty() => return Ok(None),
            Found::Header(header) => {
                let schema = header_schema(&header.names, table)?;
                if schema.fields() == table.file_schema().fields() {
                    return Ok(Some(Arc::clone(&self.source)));
                }
                let options = csv_options(self.source.as_ref())?;
                let source = CsvSource::new(&schema).with_csv_options(options);
                (schema, Arc::new(source))
            }
            Found::IpcFile(schema) => (
                Arc::clone(schema),
                Arc::new(ArrowSource::new_file_source(schema)),
            ),
            Found::IpcStream(schema) => (
                Arc::clone(schema),
                Arc::new(ArrowSource::new_stream_file_source(schema)),
            ),
            Found::Avro(schema) => (Arc::clone(schema), Arc::new(AvroSource::new(schema))),
        };
        let projection = self.projection(&schema, partition_values)?;
        let source = source.with_batch_size(self.batch_size);
        match source.try_pushdown_projection(&projection)? {
            Some(source) => Ok(Some(source)),
            None => Err(internal_datafusion_err!(
                "{} files take no projection",
                source.file_type()
            )),
        }
    }

    /// The projection of the scan over the columns of one file.
    fn projection(
        &self,
        file_schema: &SchemaRef,
        partition_values: &[ScalarValue],
    ) -> Result<ProjectionExprs> {
        let table = self.source.table_schema();
        let file_columns = table.file_schema().fields().len();
        let projection = match self.source.projection() {
            Some(projection) => projection.clone(),
            None => {
                let schema = table.table_schema();
                let all: Vec<_> = (0..schema.fields().len()).collect();
                ProjectionExprs::from_indices(&all, schema)
            }
        };
        let adapter = WideningAdapterFactory
            .create(Arc::clone(table.file_schema()), Arc::clone(file_schema))?;
        projection.try_map_exprs(|expr| {
            let expr = with_partition_values(expr, file_columns, partition_values)?;
            adapter.rewrite(expr)
        })
    }
}

/// Replaces the columns behind the file columns by their values.
pub(crate) fn with_partition_values(
    expr: Arc<dyn PhysicalExpr>,
    file_columns: usize,
    values: &[ScalarValue],
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = expr.transform(|expr| {
        let value = expr
            .downcast_ref::<Column>()
            .and_then(|column| column.index().checked_sub(file_columns))
            .and_then(|index| values.get(index));
        Ok(match value {
            Some(value) => Transformed::yes(Arc::new(Literal::new(value.clone())) as _),
            None => Transformed::no(expr),
        })
    })?;
    Ok(replaced.data)
}

/// The options of a CSV source.
fn csv_options(source: &dyn FileSource) -> Result<CsvOptions> {
    let source = source
        .downcast_ref::<CsvSource>()
        .ok_or_else(|| internal_datafusion_err!("a header in {} files", source.file_type()))?;
    Ok(CsvOptions {
        has_header: Some(source.has_header()),
        delimiter: source.delimiter(),
        quote: source.quote(),
        terminator: source.terminator(),
        escape: source.escape(),
        comment: source.comment(),
        newlines_in_values: Some(source.newlines_in_values()),
        truncated_rows: Some(source.truncate_rows()),
        ..CsvOptions::default()
    })
}

/// The columns of a CSV file by its header: those of the table with their types, others as text.
///
/// A column of the table is looked for as it is spelled, and where no name of the header is spelled
/// so, without regard to case. Columns that the table does not have may have any name, also one twice.
fn header_schema(names: &[String], table: &TableSchema) -> Result<SchemaRef> {
    let mut fields: Vec<_> = names
        .iter()
        .map(|name| Arc::new(Field::new(name, DataType::Utf8, true)))
        .collect();
    let columns = table.file_schema().fields();
    let mut taken = vec![false; names.len()];
    let mut missing = vec![];
    for field in columns {
        match position(names, field, |name| name == field.name())? {
            Some(position) => {
                taken[position] = true;
                fields[position] = Arc::clone(field);
            }
            None => missing.push(field),
        }
    }
    for field in missing {
        let wanted = field.name().to_lowercase();
        let is_spelled_for_none = |name: &String| columns.find(name).is_none();
        let found = position(names, field, |name| {
            name.to_lowercase() == wanted && is_spelled_for_none(name)
        })?;
        if let Some(position) = found {
            taken[position] = true;
            fields[position] = Arc::clone(field);
        }
    }
    if !taken.contains(&true) && !columns.is_empty() {
        let columns: Vec<_> = columns.iter().map(|field| field.name().as_str()).collect();
        return exec_err!(
            "the header '{}' has none of the columns of the table ({}); if that is no header, set \
             the table option 'has_header' to 'false', and if columns go by position, \
             'csv.match-by' to 'position'",
            names.join(","),
            columns.join(", ")
        );
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Where the header has the column `field`.
fn position(
    names: &[String],
    field: &Field,
    is_wanted: impl Fn(&String) -> bool,
) -> Result<Option<usize>> {
    let mut found = (0..names.len()).filter(|position| is_wanted(&names[*position]));
    let first = found.next();
    if found.next().is_some() {
        return exec_err!(
            "the header has the column '{}' more than once; rename one of them, or set the table \
             option 'csv.match-by' to 'position'",
            field.name()
        );
    }
    Ok(first)
}

type Columns = Shared<BoxFuture<'static, Result<Found, Arc<DataFusionError>>>>;

/// The columns of files that are read in several ranges, so that they are requested once.
#[derive(Default)]
pub(crate) struct SeenFiles(Mutex<HashMap<Path, Columns>>);

impl SeenFiles {
    async fn columns(&self, files: &Arc<Files>, object: &ObjectMeta) -> Result<Found> {
        let columns = {
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let columns = seen.entry(object.location.clone()).or_insert_with(|| {
                let (store, object) = (Arc::clone(&files.store), object.clone());
                let probe = files.probe.clone();
                async move {
                    let found = probe.fetch(store.as_ref(), &object).await;
                    found.map_err(Arc::new)
                }
                .boxed()
                .shared()
            });
            columns.clone()
        };
        columns.await.map_err(DataFusionError::Shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(header: &[&str], columns: &[&str]) -> Result<Vec<(String, DataType)>> {
        let fields: Vec<_> = columns
            .iter()
            .map(|name| Field::new(*name, DataType::Int64, true))
            .collect();
        let table = TableSchema::from(Arc::new(Schema::new(fields)));
        let names: Vec<_> = header.iter().map(ToString::to_string).collect();
        let schema = header_schema(&names, &table)?;
        let fields = schema.fields().iter();
        Ok(fields
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect())
    }

    #[test]
    fn names_are_matched_exactly_and_then_without_case() {
        let int = |name: &str| (name.to_owned(), DataType::Int64);
        let text = |name: &str| (name.to_owned(), DataType::Utf8);
        assert_eq!(
            matched(&["B", "x", "a"], &["a", "b"]).unwrap(),
            [int("b"), text("x"), int("a")]
        );
        assert_eq!(
            matched(&["ID", "id"], &["id"]).unwrap(),
            [text("ID"), int("id")]
        );
        assert_eq!(matched(&["ID"], &["id", "ID"]).unwrap(), [int("ID")]);
        assert_eq!(
            matched(&["", "", "id"], &["id"]).unwrap(),
            [text(""), text(""), int("id")]
        );
    }

    #[test]
    fn a_column_found_twice_or_none_found_is_an_error() {
        for header in [["id", "id"], ["ID", "Id"]] {
            let error = matched(&header, &["id"]).unwrap_err().to_string();
            assert!(error.contains("'id' more than once"), "{error}");
        }
        let error = matched(&["1", "x"], &["id", "name"]).unwrap_err();
        assert!(
            error.to_string().contains("'1,x' has none of the columns"),
            "{error}"
        );
    }
}
