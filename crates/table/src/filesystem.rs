//! The connector `filesystem`: partitioned tables in directories.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion_partitioned_catalog::{DirectoryCatalog, ListingCache};
use datafusion_partitioned_connector::{
    Connector, ConnectorAbility, ConnectorContext, OptionDescription,
};
use datafusion_partitioned_core::{PartitionCatalog, PartitionSpec};

use crate::columns::DeclaredColumns;
use crate::format::TableFormat;
use crate::inference::{declared_columns, infer_columns};
use crate::options::DirectoryOptions;
use crate::projection::Projection;
use crate::provider::PartitionedTableProvider;
use crate::reader::OnMissing;
use crate::registered::Registered;
use crate::write::SinkOptions;

/// Makes a [`PartitionedTableProvider`] over directories, such as `column=value/`.
///
/// ```sql
/// CREATE EXTERNAL TABLE sales (id BIGINT, amount DOUBLE, day DATE)
/// STORED AS PARQUET PARTITIONED BY (day) LOCATION 's3://lake/sales/'
/// OPTIONS ('connector' 'filesystem')
/// ```
///
/// When all columns are declared the statement makes no request. File columns that are not declared
/// are those of the files of the last partition by path; partition columns without a type get one from the names
/// of all directories.
#[derive(Debug, Default)]
pub struct FilesystemConnector;

#[async_trait]
impl Connector for FilesystemConnector {
    fn identifier(&self) -> &str {
        "filesystem"
    }

    fn options(&self) -> Vec<OptionDescription> {
        let mut options = DirectoryOptions::descriptions();
        options.extend(Projection::descriptions());
        options.extend(Registered::descriptions());
        options.extend(SinkOptions::descriptions());
        options.extend(TableFormat::descriptions());
        options
    }

    fn ability(&self) -> ConnectorAbility {
        ConnectorAbility::SourceAndSink
    }

    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
        let (session, command) = (context.session(), context.command());
        refuse_clauses(command)?;
        let state = session_state(context)?;
        let columns = DeclaredColumns::try_new(command, session.config_options())?;
        let options = DirectoryOptions::try_new(context.options())?;
        let format = TableFormat::try_new(context, state, &self.options())?;
        let roots = roots(context)?;
        // A new table starts with what is there now.
        let is_for_one_query = !context.enrichment_options().is_empty();
        if let Some(listings) = session.config().get_extension::<ListingCache>()
            && !is_for_one_query
        {
            for root in &roots {
                listings.invalidate(root);
            }
        }

        let Some(store_url) = roots.first().map(ListingTableUrl::object_store) else {
            return plan_err!(
                "table '{}': missing its place; add LOCATION '..' to CREATE EXTERNAL TABLE, or the \
                 option 'path' to WITH (..)",
                command.name
            );
        };
        let directories = |spec: &PartitionSpec| {
            let layout = options.layout(spec)?;
            options.rules_of(DirectoryCatalog::try_new(&roots, spec.clone(), layout)?)
        };
        let projection = Projection::try_new(context.options(), &columns)?;
        let registered = Registered::try_new(context.options())?;
        let (file_schema, catalog): (_, Arc<dyn PartitionCatalog>) =
            match (&projection, &registered) {
                (Some(projection), _) => {
                    let kind = "a partition projection";
                    let (file_schema, spec) = declared_columns(context, &columns, &options, kind)?;
                    let catalog = projection.catalog(&roots, &spec, &options, context.options());
                    (file_schema, catalog?)
                }
                (None, Some(_)) => {
                    let kind = "registered partitions";
                    let (file_schema, spec) = declared_columns(context, &columns, &options, kind)?;
                    let catalog = Registered::catalog(directories(&spec)?)?;
                    (file_schema, Arc::new(catalog))
                }
                (None, None) => {
                    let (file_schema, spec) =
                        infer_columns(context, state, &columns, &options, &format, &directories)
                            .await?;
                    (file_schema, Arc::new(directories(&spec)?))
                }
            };
        let sink = sink_options(context, state, &file_schema, catalog.spec())?;
        let mut table =
            PartitionedTableProvider::try_new(catalog, format.format, store_url, file_schema)?
                .with_read_options(format.options)
                .with_metadata_columns(&options.metadata_columns)?
                .with_definition(command.definition.clone())
                .with_limits(options.limits)
                .with_sink_options(sink)
                .with_on_missing(registered.map_or(OnMissing::Skip, |r| r.on_missing))
                .with_column_rules(command)?;
        if let Some(sql) = &options.partitions {
            table = table.with_partition_filter_sql(state, sql)?;
        }
        Ok(Arc::new(table))
    }
}

/// How the table is written. Queries do not rely on what `WITH ORDER` says.
fn sink_options(
    context: &ConnectorContext<'_>,
    state: &SessionState,
    file_schema: &Schema,
    spec: &PartitionSpec,
) -> Result<SinkOptions> {
    let command = context.command();
    let mut sink = SinkOptions::try_new(context.options(), state)?;
    if let Some(partitions) = &sink.time_partitions {
        partitions.check(file_schema, spec)?;
    }
    let is_text = ["CSV", "TSV"].contains(&command.file_type.to_uppercase().as_str());
    if sink.keep_partition_columns && is_text {
        return plan_err!(
            "table '{}': files of the format {} have exactly the columns of the table, so that they cannot keep the \
             partition columns; leave the option 'sink.keep-partition-columns' out",
            command.name,
            command.file_type
        );
    }
    if let [order, others @ ..] = &command.order_exprs[..] {
        if !others.is_empty() {
            return plan_err!(
                "table '{}': WITH ORDER has {} lists, but files have one order; leave one",
                command.name,
                command.order_exprs.len()
            );
        }
        sink.order.clone_from(order);
    }
    Ok(sink)
}

fn session_state<'a>(context: &ConnectorContext<'a>) -> Result<&'a SessionState> {
    let state = context.session().as_any().downcast_ref::<SessionState>();
    state.ok_or_else(|| internal_datafusion_err!("a table needs a SessionState"))
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
        temporary: _,
        definition: _,
        order_exprs: _,
        unbounded,
        options: _,
        constraints: _,
        column_defaults: _,
    } = command;
    if *unbounded {
        return plan_err!(
            "table '{name}': UNBOUNDED is for streams, and the connector 'filesystem' reads what is \
             there when a query begins; leave it out"
        );
    }
    Ok(())
}

/// The directories of the table.
fn roots(context: &ConnectorContext<'_>) -> Result<Vec<ListingTableUrl>> {
    let command = context.command();
    let given = command.locations.iter().filter(|l| !l.is_empty());
    let roots = given
        .map(|location| root(command, location))
        .collect::<Result<Vec<_>>>()?;
    let runtime = context.session().runtime_env();
    for root in &roots {
        if runtime.object_store(root).is_err() {
            return plan_err!(
                "no object store is registered for '{}', the LOCATION of table '{}'; register one with \
                 SessionContext::register_object_store",
                root.object_store(),
                command.name
            );
        }
    }
    Ok(roots)
}

fn root(command: &CreateExternalTable, location: &str) -> Result<ListingTableUrl> {
    let root = parse_location(&command.name, location)?;
    // Object stores have no directories that could be missing: there, nothing found is nothing
    // stored.
    if let Ok(path) = root.get_url().to_file_path()
        && root.scheme() == "file"
        && !path.is_dir()
    {
        return plan_err!(
            "LOCATION '{location}' of table '{}' {}",
            command.name,
            why_no_directory(&path)
        );
    }
    Ok(root)
}

fn why_no_directory(path: &Path) -> String {
    if path.exists() {
        return "is a file; give the directory that holds the first partition level".to_owned();
    }
    if path.iter().any(|name| name == "~") {
        return "does not exist; '~' is not expanded, so write the path of the home folder"
            .to_owned();
    }
    let nearest = path.ancestors().find(|parent| parent.is_dir());
    let nearest = nearest.unwrap_or(path).display();
    format!("does not exist; correct the path, or make the directory (there is '{nearest}')")
}

/// The URL of a `LOCATION`, which is a directory and nothing else.
///
/// # Errors
/// When it holds credentials, a pattern, a query or a fragment.
pub fn parse_location(table: &TableReference, location: &str) -> Result<ListingTableUrl> {
    let parsed = ListingTableUrl::parse(location)?;
    let url = parsed.get_url();
    if !url.username().is_empty() || url.password().is_some() {
        // Not shown: it is a secret.
        return plan_err!(
            "LOCATION of table '{table}' contains credentials; leave them out, and give them to the \
             object store: in the shell dfp by variables AWS_* or options 'aws.*'"
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        // Not shown either: a query can hold a signature.
        return plan_err!(
            "LOCATION of table '{table}' contains '?' or '#', which begin a pattern, a query or a \
             fragment; give the directory that holds the first partition level, and write %3F and \
             %23 for these characters of its name"
        );
    }
    if parsed.get_glob().is_some() || url.path().contains(['*', '[']) {
        return plan_err!(
            "LOCATION '{location}' of table '{table}' is a pattern; give the directory that holds the \
             first partition level, as a URL with %2A, %3F and %5B where its name has '*', '?' and '['"
        );
    }
    Ok(parsed)
}
