//! The columns that a `CREATE EXTERNAL TABLE` statement does not declare.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionState;
use datafusion_partitioned_catalog::DirectoryCatalog;
use datafusion_partitioned_connector::ConnectorContext;
use datafusion_partitioned_core::{
    ListingContext, PartitionBatch, PartitionCatalog, PartitionPredicate, PartitionSpec,
};
use futures::StreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::columns::{DeclaredColumns, text_type, without_columns};
use crate::format::TableFormat;
use crate::options::DirectoryOptions;
use crate::partition_types::TypeInference;
use crate::schema::infer_schema;
use crate::text_filter::filtered_by_text;

/// The file columns and the partition columns of a table, from the statement, and what is missing
/// there from the table's directories: the types of partition columns from all of them, the file
/// columns from the files of the last partitions. Directories that the option `partitions` leaves out
/// are not the table's. Makes no request when the statement has everything.
pub(crate) async fn infer_columns(
    context: &ConnectorContext<'_>,
    state: &SessionState,
    columns: &DeclaredColumns,
    options: &DirectoryOptions,
    format: &TableFormat,
    catalog: &(dyn Fn(&PartitionSpec) -> Result<DirectoryCatalog> + Sync),
) -> Result<(SchemaRef, PartitionSpec)> {
    let text = text_type(context.session().config_options());
    let needs_types = options.type_inference && !columns.partition_types_are_known();
    let mut inference = TypeInference::new(columns.partition_columns.len());
    let mut sample = Sample::new(options.schema_sample);
    if needs_types || columns.file_schema.is_none() {
        // Of names only the text is of interest.
        let untyped = columns.untyped_spec()?;
        let listing = ListingContext {
            concurrency: 1,
            ..ListingContext::for_planning(context.session())
        };
        let mut partitions: Arc<dyn PartitionCatalog> = Arc::new(catalog(&untyped)?);
        if let Some(sql) = &options.partitions {
            partitions = filtered_by_text(partitions, state, sql)?;
        }
        let mut batches = partitions.list(PartitionPredicate::all(&untyped), listing);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            inference.add(&batch)?;
            sample.add(&batch);
        }
    }
    let spec = columns.spec(|column| match needs_types {
        true => inference.data_type(column, text.clone()),
        false => text.clone(),
    })?;
    let file_schema = match (&columns.file_schema, sample.into_files()) {
        (Some(schema), _) => Arc::clone(schema),
        (None, files) if !files.is_empty() => {
            file_columns(context, &spec, format, catalog, &files).await?
        }
        (None, _) => {
            return plan_err!(
                "cannot infer the columns of table '{}': no data file below '{}'{}; declare the columns",
                context.table(),
                context.command().locations.join("', '"),
                match &options.path_pattern {
                    Some(pattern) => format!(
                        " whose whole path matches 'source.path.regex-pattern' = '{pattern}'"
                    ),
                    None => String::new(),
                }
            );
        }
    };
    Ok((file_schema, options.encoded(spec)?))
}

/// The same where nothing is to be listed, because of what `kind` says that the table has: partition columns without
/// a type are text.
pub(crate) fn declared_columns(
    context: &ConnectorContext<'_>,
    columns: &DeclaredColumns,
    options: &DirectoryOptions,
    kind: &str,
) -> Result<(SchemaRef, PartitionSpec)> {
    let Some(file_schema) = &columns.file_schema else {
        return plan_err!(
            "table '{}' has {kind}, which finds no files whose columns it could have; declare the columns",
            context.table()
        );
    };
    let text = text_type(context.session().config_options());
    let spec = columns.spec(|_| text.clone())?;
    Ok((Arc::clone(file_schema), options.encoded(spec)?))
}

/// The columns of these files, less those that are partition columns.
async fn file_columns(
    context: &ConnectorContext<'_>,
    spec: &PartitionSpec,
    format: &TableFormat,
    catalog: &(dyn Fn(&PartitionSpec) -> Result<DirectoryCatalog> + Sync),
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let (session, command) = (context.session(), context.command());
    let schema = infer_schema(session, format, catalog(spec)?.store_url(), files).await?;
    let file_schema = without_columns(&schema, spec);
    if format.is_positional(session) && file_schema.fields().len() < schema.fields().len() {
        return plan_err!(
            "the {} files of table '{}' have a partition column ({}) too, which cannot be \
             left out when reading them by position; name the partition columns otherwise",
            command.file_type,
            command.name,
            spec.column_names().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(file_schema)
}

/// The files of the last partitions by path, whatever the order in which they are listed.
struct Sample {
    partitions: usize,
    files: BTreeMap<Path, Vec<ObjectMeta>>,
}

impl Sample {
    fn new(partitions: usize) -> Self {
        Self {
            partitions,
            files: BTreeMap::new(),
        }
    }

    fn add(&mut self, batch: &PartitionBatch) {
        for source in batch.sources() {
            let Some(objects) = source.objects.as_ref().filter(|o| !o.is_empty()) else {
                continue;
            };
            let files = self.files.entry(source.location.clone()).or_default();
            files.extend_from_slice(objects);
            if self.files.len() > self.partitions {
                self.files.pop_first();
            }
        }
    }

    /// The files in the order of their paths.
    fn into_files(self) -> Vec<ObjectMeta> {
        let mut files: Vec<_> = self.files.into_values().flatten().collect();
        files.sort_by(|a, b| a.location.cmp(&b.location));
        files
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
    use datafusion::arrow::datatypes::Schema;
    use datafusion_partitioned_core::PartitionSource;

    use super::*;

    fn batch(partitions: &[(&str, &[&str])]) -> PartitionBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(partitions.len()));
        let values = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options);
        let sources = partitions.iter().map(|(location, files)| {
            let objects = files.iter().map(|name| ObjectMeta {
                location: Path::from(format!("{location}/{name}")),
                last_modified: Default::default(),
                size: 1,
                e_tag: None,
                version: None,
            });
            PartitionSource::new(Path::from(*location)).with_objects(objects.collect())
        });
        PartitionBatch::try_new(values.unwrap(), sources.collect()).unwrap()
    }

    #[test]
    fn the_sample_does_not_depend_on_the_order_of_the_listing() {
        let batches: [&[(&str, &[&str])]; 4] = [
            &[("t/m=1", &["a"]), ("t/m=3", &["c"])],
            &[("t/m=2", &["x", "b"]), ("t/m=4", &[])],
            &[("t/m=3", &["d", "a"])],
            &[("t/m=0", &["z"])],
        ];
        let sample = |partitions: usize, order: &[usize]| -> Vec<String> {
            let mut sample = Sample::new(partitions);
            for index in order {
                sample.add(&batch(batches[*index]));
            }
            let files = sample.into_files().into_iter();
            files.map(|file| file.location.to_string()).collect()
        };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            assert_eq!(sample(1, &order), ["t/m=3/a", "t/m=3/c", "t/m=3/d"]);
            assert_eq!(sample(2, &order)[..2], ["t/m=2/b", "t/m=2/x"]);
            assert_eq!(sample(usize::MAX, &order).len(), 7);
        }
    }
}
