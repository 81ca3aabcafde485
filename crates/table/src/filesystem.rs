//! The connector `filesystem`: partitioned tables in directories.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_datafusion_err, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion_partitioned_catalog::{DirectoryCatalog, ListingCache};
use datafusion_partitioned_connector::{
    Connector, ConnectorContext, ConnectorOption, OptionDescription,
};
use datafusion_partitioned_core::{
    DEFAULT_PARTITION_NAME, HiveLayout, ListingContext, PartitionCatalog, PartitionPredicate,
    PartitionSpec,
};
use futures::StreamExt;

use crate::columns::{DeclaredColumns, without_columns};
use crate::provider::PartitionedTableProvider;

/// How NULL is spelled in a directory name (Flink's key; the default is Hive's and Spark's name).
const DEFAULT_NAME: ConnectorOption<String> = ConnectorOption::new(
    "partition.default-name",
    "the directory name that stands for NULL",
)
.with_default(DEFAULT_PARTITION_NAME);

/// What `STORED AS` may say, in capitals as it arrives.
const FORMATS: [&str; 4] = ["PARQUET", "CSV", "JSON", "NDJSON"];

/// The formats whose files are read by the position of their columns.
const POSITIONAL_FORMATS: [&str; 1] = ["CSV"];

/// Makes a [`PartitionedTableProvider`] over directories `column=value/`.
///
/// ```sql
/// CREATE EXTERNAL TABLE sales (id BIGINT, amount DOUBLE, day DATE)
/// STORED AS PARQUET PARTITIONED BY (day) LOCATION 's3://lake/sales/'
/// OPTIONS ('connector' 'filesystem')
/// ```
///
/// With declared columns the statement makes no request. Without, the files of one partition are
/// looked at, and partition columns are text.
#[derive(Debug, Default)]
pub struct FilesystemConnector;

#[async_trait]
impl Connector for FilesystemConnector {
    fn identifier(&self) -> &str {
        "filesystem"
    }

    fn options(&self) -> Vec<OptionDescription> {
        vec![DEFAULT_NAME.describe()]
    }

    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
        let (session, command) = (context.session(), context.command());
        refuse_clauses(command)?;
        let columns = DeclaredColumns::try_new(command, session.config_options())?;
        let layout = HiveLayout::default().with_default_name(context.options().get(&DEFAULT_NAME)?);
        let format = file_format(context, &self.options())?;
        let root = root(command)?;

        let object_store_url = root.object_store();
        if session
            .runtime_env()
            .object_store(&object_store_url)
            .is_err()
        {
            return plan_err!(
                "no object store is registered for '{object_store_url}', the LOCATION of table '{}'",
                command.name
            );
        }
        // A new table starts with what is there now.
        if let Some(listings) = session.config().get_extension::<ListingCache>() {
            listings.invalidate(&root);
        }
        let catalog = Arc::new(DirectoryCatalog::new(root, columns.spec, layout));
        let file_schema = match columns.file_schema {
            Some(schema) => schema,
            None => infer_schema(session, catalog.as_ref(), format.as_ref(), command).await?,
        };
        let table =
            PartitionedTableProvider::try_new(catalog, format, object_store_url, file_schema)?
                .with_definition(command.definition.clone());
        Ok(Arc::new(table))
    }
}

/// A clause that would be ignored is refused. Names every part of the statement, so that a new one
/// is not overlooked.
fn refuse_clauses(command: &CreateExternalTable) -> Result<()> {
    let CreateExternalTable {
        schema: _,
        name,
        locations: _,
        file_type: _,
        table_partition_cols: _,
        if_not_exists: _,
        or_replace: _,
        temporary,
        definition: _,
        order_exprs,
        unbounded,
        options: _,
        constraints,
        column_defaults,
    } = command;
    let refused = [
        (*temporary, "TEMPORARY"),
        (*unbounded, "UNBOUNDED"),
        (!order_exprs.is_empty(), "WITH ORDER"),
        (!constraints.is_empty(), "constraints such as PRIMARY KEY"),
        (!column_defaults.is_empty(), "DEFAULT"),
    ];
    match refused.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, clause)) => plan_err!(
            "the connector 'filesystem' does not support {clause} (table '{name}'); leave it out"
        ),
    }
}

/// The format of `STORED AS` with the statement's remaining options.
fn file_format(
    context: &ConnectorContext<'_>,
    own: &[OptionDescription],
) -> Result<Arc<dyn FileFormat>> {
    let state = context
        .session()
        .as_any()
        .downcast_ref::<SessionState>()
        .ok_or_else(|| internal_datafusion_err!("a file format needs a SessionState"))?;
    let file_type = &context.command().file_type;
    if !FORMATS.contains(&file_type.as_str()) {
        return plan_err!(
            "the connector 'filesystem' does not support STORED AS {file_type} (table '{}'); \
             expected one of: {}",
            context.table(),
            FORMATS.join(", ")
        );
    }
    let factory = state.get_file_format_factory(file_type).ok_or_else(|| {
        plan_datafusion_err!(
            "unknown file format '{file_type}' for table '{}'",
            context.table()
        )
    })?;
    factory.create(state, &context.options().format_options(own))
}

/// The directory of the table.
fn root(command: &CreateExternalTable) -> Result<ListingTableUrl> {
    let [location] = command.locations.as_slice() else {
        return plan_err!(
            "the connector 'filesystem' needs exactly one LOCATION, but table '{}' has {}",
            command.name,
            command.locations.len()
        );
    };
    let root = ListingTableUrl::parse(location)?;
    let url = root.get_url();
    if !url.username().is_empty() || url.password().is_some() {
        // Not shown: it is a secret.
        return plan_err!(
            "LOCATION of table '{}' contains credentials; give them to the object store",
            command.name
        );
    }
    if root.get_glob().is_some() {
        return plan_err!(
            "LOCATION '{location}' of table '{}' is a pattern; give the directory that holds the \
             first partition level",
            command.name
        );
    }
    // Object stores have no directories that could be missing: there, nothing found is nothing
    // stored.
    if let Ok(path) = root.get_url().to_file_path()
        && root.scheme() == "file"
        && !path.is_dir()
    {
        return plan_err!(
            "LOCATION '{location}' of table '{}' is not an existing directory",
            command.name
        );
    }
    Ok(root)
}

/// The columns of the files of the first partition that is found.
async fn infer_schema(
    session: &dyn Session,
    catalog: &DirectoryCatalog,
    format: &dyn FileFormat,
    command: &CreateExternalTable,
) -> Result<SchemaRef> {
    let spec: &PartitionSpec = catalog.spec();
    let context = ListingContext {
        concurrency: 1,
        ..ListingContext::for_planning(session)
    };
    let mut batches = catalog.list(PartitionPredicate::all(spec), context);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let found = batch
            .sources()
            .iter()
            .find_map(|source| source.objects.as_ref());
        if let Some(objects) = found {
            let store = session.runtime_env().object_store(catalog.root())?;
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
            return Ok(file_schema);
        }
    }
    plan_err!(
        "cannot infer the columns of table '{}': no data file below '{}'; declare the columns",
        command.name,
        catalog.root().prefix()
    )
}
