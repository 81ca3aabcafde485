//! Views from their statements.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{CreateView, DdlStatement, LogicalPlan};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

/// Plans a view. The tables and views in it are those that there are now.
pub(crate) async fn make_view(state: &SessionState, sql: &str) -> Result<Arc<dyn TableProvider>> {
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect)?;
    match state.statement_to_plan(statement).await? {
        LogicalPlan::Ddl(DdlStatement::CreateView(CreateView {
            input, definition, ..
        })) => view_of(Arc::unwrap_or_clone(input), definition),
        other => exec_err!(
            "the definition of a view is no CREATE VIEW: {}",
            other.display()
        ),
    }
}

/// The view of this query, as `CREATE VIEW` makes it.
pub(crate) fn view_of(
    query: LogicalPlan,
    definition: Option<String>,
) -> Result<Arc<dyn TableProvider>> {
    let mut names = HashSet::new();
    for field in query.schema().fields() {
        if !names.insert(field.name()) {
            return plan_err!(
                "the view has two columns '{}'; give one of them another name",
                field.name()
            );
        }
    }
    let coercion = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    let query = coercion.execute_and_check(query, &ConfigOptions::default(), |_, _| {})?;
    Ok(Arc::new(ViewTable::new(query, definition)))
}
