//! `CREATE EXTERNAL TABLE` and `CREATE TABLE .. WITH` for connectors: nothing is lost when they fail.

use std::sync::Arc;

use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err, plan_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion_partitioned_connector::{ConnectorRegistry, create_table};
use tokio::sync::Mutex;

/// Held while a table of a session is put in the place of another.
#[derive(Debug, Default)]
pub struct Replacing(Mutex<()>);

/// The connectors of a session.
///
/// # Errors
/// When it has not been extended.
pub(crate) fn registry(state: &SessionState) -> Result<Arc<ConnectorRegistry>> {
    let registry = state.config().get_extension::<ConnectorRegistry>();
    registry.ok_or_else(|| {
        plan_datafusion_err!("this session has no connectors; extend it with with_partitioned()")
    })
}

/// Makes and registers the table of a statement. Returns whether it has: not with `IF NOT EXISTS` and a table that is there.
///
/// A connector is only asked when the table is wanted: not for one that exists already. With `OR REPLACE`
/// the old table stays until the new one is there, and of statements at the same time exactly one wins.
///
/// # Errors
/// When the table exists already and is not to be replaced, and when it cannot be made.
pub(crate) async fn create_and_register(
    state: &SessionState,
    command: &CreateExternalTable,
) -> Result<bool> {
    let name = &command.name;
    let schema = state.schema_for_ref(name.clone())?;
    let exists = schema.table_exist(name.table());
    if exists && command.if_not_exists {
        return Ok(false);
    }
    let already_exists = || {
        exec_err!(
            "table '{name}' already exists; use CREATE OR REPLACE to make it anew, or IF NOT EXISTS to \
             leave it"
        )
    };
    if exists && !command.or_replace {
        return already_exists();
    }
    if exists && schema.table_type(name.table()).await? == Some(TableType::View) {
        return exec_err!(
            "'{name}' is a view, which a table does not replace; DROP VIEW {name} first"
        );
    }
    let table = create_table(state, command, &registry(state)?).await?;
    let replacing = state.config().get_extension::<Replacing>();
    let replacing = replacing.unwrap_or_default();
    let _alone = replacing.0.lock().await;
    // A schema that can put a table in the place of another does so here.
    match schema.register_table(name.table().to_owned(), Arc::clone(&table)) {
        Ok(_) => Ok(true),
        Err(error) if !schema.table_exist(name.table()) => Err(error),
        Err(_) if command.if_not_exists => Ok(false),
        Err(_) if !command.or_replace => already_exists(),
        Err(error) => match schema.is::<MemorySchemaProvider>() {
            true => replace_in_memory(schema.as_ref(), name.table(), table).map(|()| true),
            false => Err(error),
        },
    }
}

/// In memory, where registering fails for no other reason than that there is a table.
fn replace_in_memory(
    schema: &dyn SchemaProvider,
    name: &str,
    table: Arc<dyn TableProvider>,
) -> Result<()> {
    schema.deregister_table(name)?;
    schema.register_table(name.to_owned(), table)?;
    Ok(())
}
