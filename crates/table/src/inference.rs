//! The columns that a `CREATE EXTERNAL TABLE` statement does not declare.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use datafusion_partitioned_catalog::DirectoryCatalog;
use datafusion_partitioned_connector::ConnectorContext;
use datafusion_partitioned_core::{
    ListingContext, PartitionBatch, PartitionCatalog, PartitionPredicate, PartitionSpec,
};
use futures::StreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::columns::{DeclaredColumns, text_type, with_dictionaries, without_columns};
use crate::format::TableFormat;
use crate::options::DirectoryOptions;
use crate::partition_types::TypeInference;
use crate::schema::infer_schema;

/// The file columns and the partition columns of a table, from the statement, and what is missing
/// there from the table's directories: the types of partition columns from all of them, the file
/// columns from the files of the last partitions. Makes no request when the statement has everything.
pub(crate) async fn infer_columns(
    context: &ConnectorContext<'_>,
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
        let mut batches = catalog(&untyped)?.list(PartitionPredicate::all(&untyped), listing);
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
                "cannot infer the columns of table '{}': no data file below '{}'; declare the columns",
                context.table(),
                context.command().locations.join("', '")
            );
        }
    };
    let spec = match options.dictionary {
        true => with_dictionaries(&spec)?,
        false => spec,
    };
    Ok((file_schema, spec))
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
