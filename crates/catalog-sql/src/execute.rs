//! Statements whose steps DataFusion does one after the other, each as one change of the file.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, TableReference, exec_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    CreateExternalTable, DdlStatement, LogicalPlan, LogicalPlanBuilder, TableType,
};
use datafusion::prelude::SessionContext;
use datafusion_partitioned_connector::PlanExecutor;

use crate::schema::SqliteSchema;
use crate::view::view_of;

/// Executes plans as [`SessionContext::execute_logical_plan`] does, where
///
/// - `CREATE OR REPLACE` of what is kept in the file is one transaction: DataFusion drops the old view before it
///   makes the new one, so that a statement that fails, or a process that is killed, would leave none;
/// - what is not kept in the file, or is of another kind, does not replace a table that is;
/// - `DROP` of what is kept in the file works although the table cannot be made any more.
#[derive(Debug)]
pub(crate) struct SqlitePlanExecutor;

#[async_trait]
impl PlanExecutor for SqlitePlanExecutor {
    async fn execute(&self, context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
        execute(context, plan).await
    }
}

async fn execute(context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let LogicalPlan::Ddl(statement) = &plan else {
        return context.execute_logical_plan(plan).await;
    };
    let state = context.state();
    let is_done = match statement {
        DdlStatement::CreateExternalTable(command) if command.or_replace => {
            replace(&state, &command.name, make(&state, command)).await?
        }
        DdlStatement::CreateView(view) if view.or_replace && !view.temporary => {
            let query = view.input.as_ref().clone();
            let definition = view.definition.clone();
            replace(&state, &view.name, async { view_of(query, definition) }).await?
        }
        DdlStatement::CreateMemoryTable(command) if command.or_replace => {
            let schema = state.schema_for_ref(command.name.clone())?;
            if let Some(schema) = stored(&schema) {
                schema.refuse_to_lose_table(command.name.table())?;
            }
            false
        }
        DdlStatement::DropTable(drop) => drop_stored(&state, &drop.name, TableType::Base)?,
        DdlStatement::DropView(drop) => drop_stored(&state, &drop.name, TableType::View)?,
        _ => false,
    };
    if !is_done {
        return context.execute_logical_plan(plan).await;
    }
    let nothing = LogicalPlanBuilder::empty(false).build()?;
    Ok(DataFrame::new(state, nothing))
}

async fn make(
    state: &SessionState,
    command: &CreateExternalTable,
) -> Result<Arc<dyn TableProvider>> {
    let file_type = &command.file_type;
    let factory = state.table_factories().get(&file_type.to_uppercase());
    let factory =
        factory.ok_or_else(|| exec_datafusion_err!("Unable to find factory for {file_type}"))?;
    factory.create(state, command).await
}

/// Returns whether the schema of `name` is in a file; else does nothing.
async fn replace(
    state: &SessionState,
    name: &TableReference,
    table: impl Future<Output = Result<Arc<dyn TableProvider>>>,
) -> Result<bool> {
    let schema = state.schema_for_ref(name.clone())?;
    let Some(schema) = stored(&schema) else {
        return Ok(false);
    };
    schema.replace_table(name.table(), table.await?)?;
    Ok(true)
}

fn drop_stored(state: &SessionState, name: &TableReference, kind: TableType) -> Result<bool> {
    let schema = state.schema_for_ref(name.clone())?;
    match stored(&schema) {
        Some(schema) if !schema.is_in_memory(name.table()) => schema.drop_table(name.table(), kind),
        _ => Ok(false),
    }
}

fn stored(schema: &Arc<dyn SchemaProvider>) -> Option<&SqliteSchema> {
    schema.downcast_ref::<SqliteSchema>()
}
