//! `CREATE EXTERNAL TABLE .. AS query` and Flink's `CREATE TABLE .. WITH (..) AS query`, for connectors.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, Result, TableReference, exec_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateExternalTable, DdlStatement, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser;
use datafusion_partitioned_connector::connector_of;
use datafusion_partitioned_core::PartitionPredicate;
use futures::TryStreamExt;

use crate::create::create_and_register;
use crate::insert::insert;
use crate::location::NewDirectory;
use crate::remove::listing_context;
use crate::target::{catalog_of, provider_of};

/// Makes a table with the columns of a query, and inserts its rows. Nothing stays of it when that fails.
///
/// # Errors
/// When the statement names columns, which follow from the query; when there is such a table, or something in its
/// place; and when the rows cannot be written.
pub(crate) async fn create_as(
    context: &SessionContext,
    state: &SessionState,
    create: parser::Statement,
    query: parser::Statement,
) -> Result<DataFrame> {
    let plan = state.statement_to_plan(create).await?;
    let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) = plan else {
        return plan_err!("AS with a query stands behind CREATE EXTERNAL TABLE");
    };
    let mut command = *command;
    let name = command.name.clone();
    if connector_of(state, &command)?.is_none() {
        return plan_err!(
            "table '{name}': CREATE EXTERNAL TABLE .. AS is for connectors; add OPTIONS ('connector' 'filesystem')"
        );
    }
    if !command.schema.fields().is_empty() {
        return plan_err!(
            "table '{name}': its columns are those of the query; leave out the list of columns, and types in PARTITIONED BY"
        );
    }
    if command.or_replace {
        return plan_err!(
            "table '{name}': OR REPLACE cannot be undone when the query fails; DROP TABLE {name} first, or use INSERT \
             OVERWRITE"
        );
    }
    let nothing = || LogicalPlanBuilder::empty(false).build();
    let schema = state.schema_for_ref(name.clone())?;
    match schema.table_exist(name.table()) {
        true if command.if_not_exists => {
            return Ok(DataFrame::new(state.clone(), nothing()?));
        }
        true => {
            return exec_err!(
                "table '{name}' already exists; DROP TABLE {name} first, or use INSERT INTO or IF NOT EXISTS"
            );
        }
        false => {}
    }
    let query = state.statement_to_plan(query).await?;
    command.schema = Arc::new(columns_of(query.schema())?);
    let directory = NewDirectory::make(&command.locations)?;
    if !create_and_register(state, &command).await? {
        // Somebody else has, since then.
        return Ok(DataFrame::new(state.clone(), nothing()?));
    }
    match fill(context, state, &command, query).await {
        Ok(written) => {
            if let Some(directory) = directory {
                directory.keep();
            }
            Ok(written)
        }
        Err(error) => {
            if let Err(left) = schema.deregister_table(name.table()) {
                let left = left.strip_backtrace();
                return Err(error.context(format!("the table '{name}' stays, since {left}")));
            }
            Err(error)
        }
    }
}

/// The columns of a query as those of a table, which may be NULL in other rows.
pub(crate) fn columns_of(schema: &DFSchema) -> Result<DFSchema> {
    let fields = schema.fields().iter().map(|field| {
        let field = Field::new(field.name(), field.data_type().clone(), true);
        (None, Arc::new(field))
    });
    DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())
}

async fn fill(
    context: &SessionContext,
    state: &SessionState,
    command: &CreateExternalTable,
    query: LogicalPlan,
) -> Result<DataFrame> {
    let table = provider_of(state, &command.name).await?;
    refuse_used_place(state, command, table.as_ref()).await?;
    let plan = insert_into(command.name.clone(), table, query)?;
    match insert(context, state, &plan, &vec![]).await? {
        Some(written) => Ok(written),
        // Another sink: it says how many rows there are.
        None => {
            let count = DataFrame::new(state.clone(), plan);
            context.read_batches(count.collect().await?)
        }
    }
}

/// The plan that inserts the rows of a query, whose columns are those of the table in any order.
pub(crate) fn insert_into(
    name: TableReference,
    table: Arc<dyn TableProvider>,
    query: LogicalPlan,
) -> Result<LogicalPlan> {
    let columns = table.schema();
    let mut positions = vec![];
    for field in columns.fields() {
        let mut columns = query.schema().fields().iter();
        match columns.position(|column| column.name() == field.name()) {
            Some(position) => positions.push(position),
            None => return plan_err!("the query has no column '{}'", field.name()),
        }
    }
    let input = LogicalPlanBuilder::from(query).select(positions)?.build()?;
    let target = provider_as_source(table);
    LogicalPlanBuilder::insert_into(input, name, target, InsertOp::Append)?.build()
}

/// As in Hive and Spark, a new table does not begin with rows of another one.
async fn refuse_used_place(
    state: &SessionState,
    command: &CreateExternalTable,
    table: &dyn TableProvider,
) -> Result<()> {
    let Some(catalog) = catalog_of(table) else {
        return Ok(());
    };
    let all = PartitionPredicate::all(catalog.spec());
    let mut listed = catalog.list(all, listing_context(state));
    while let Some(partitions) = listed.try_next().await? {
        if let Some(partition) = partitions.sources().first() {
            return exec_err!(
                "table '{}': there is '{}' in the place of the new table already; give it another LOCATION, or make the \
                 table without AS and use INSERT",
                command.name,
                partition.location
            );
        }
    }
    Ok(())
}
