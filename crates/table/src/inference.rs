//! The columns that a `CREATE EXTERNAL TABLE` statement does not declare.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion_partitioned_catalog::DirectoryCatalog;
use datafusion_partitioned_connector::ConnectorContext;
use datafusion_partitioned_core::{
    ListingContext, PartitionCatalog, PartitionPredicate, PartitionSpec,
};
use futures::StreamExt;
use object_store::ObjectMeta;

use crate::columns::{DeclaredColumns, text_type, with_dictionaries, without_columns};
use crate::options::DirectoryOptions;
use crate::partition_types::TypeInference;

/// The formats whose files are read by the position of their columns.
const POSITIONAL_FORMATS: [&str; 1] = ["CSV"];

/// The file columns and the partition columns of a table, from the statement, and what is missing
/// there from the table's directories: the types of partition columns from all of them, the file
/// columns from the files of one partition. Makes no request when the statement has everything.
pub(crate) async fn infer_columns(
    context: &ConnectorContext<'_>,
    columns: &DeclaredColumns,
    options: &DirectoryOptions,
    format: &Arc<dyn FileFormat>,
    catalog: &(dyn Fn(&PartitionSpec) -> Result<DirectoryCatalog> + Sync),
) -> Result<(SchemaRef, PartitionSpec)> {
    let text = text_type(context.session().config_options());
    let needs_types = options.type_inference && !columns.partition_types_are_known();
    let mut inference = TypeInference::new(columns.partition_columns.len());
    let mut sample = None;
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
            if sample.is_none() {
                let mut sources = batch.sources().iter();
                sample = sources.find_map(|source| source.objects.clone());
            }
            if !needs_types && sample.is_some() {
                break;
            }
        }
    }
    let spec = columns.spec(|column| match needs_types {
        true => inference.data_type(column, text.clone()),
        false => text.clone(),
    })?;
    let file_schema = match (&columns.file_schema, sample) {
        (Some(schema), _) => Arc::clone(schema),
        (None, Some(objects)) => {
            file_columns(context, &spec, format.as_ref(), catalog, &objects).await?
        }
        (None, None) => {
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
    format: &dyn FileFormat,
    catalog: &(dyn Fn(&PartitionSpec) -> Result<DirectoryCatalog> + Sync),
    objects: &[ObjectMeta],
) -> Result<SchemaRef> {
    let (session, command) = (context.session(), context.command());
    let store = session
        .runtime_env()
        .object_store(catalog(spec)?.store_url())?;
    let schema = format.infer_schema(session, &store, objects).await?;
    let file_schema = without_columns(&schema, spec);
    let is_positional = POSITIONAL_FORMATS.contains(&command.file_type.as_str());
    if is_positional && file_schema.fields().len() < schema.fields().len() {
        return plan_err!(
            "the {} files of table '{}' have a partition column ({}) too, which cannot be \
             left out when reading them; name the partition columns otherwise",
            command.file_type,
            command.name,
            spec.column_names().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(file_schema)
}
