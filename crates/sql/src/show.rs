//! `SHOW PARTITIONS` and `SHOW CREATE TABLE`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::catalog::MemTable;
use datafusion::common::{Column, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_partitioned_connector::TableDefinition;

use crate::partitions::partitions_table;
use crate::target::{Target, resolved};

/// The partitions that satisfy a condition: their values and locations, in ascending order.
pub(crate) fn show_partitions(target: &Target, condition: Option<Expr>) -> Result<LogicalPlan> {
    let table = partitions_table(&target.name, target.provider.as_ref())?;
    let name = TableReference::bare(format!("partitions({})", target.name));
    let columns = target.catalog()?.spec().column_names();
    let columns = columns.map(|column| Expr::Column(Column::new_unqualified(column)));
    let columns: Vec<Expr> = columns.collect();
    let mut plan = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?;
    if let Some(condition) = condition {
        plan = plan.filter(condition)?;
    }
    let location = Expr::Column(Column::new_unqualified("location"));
    let shown = columns.iter().chain([&location]).cloned();
    let order = columns
        .iter()
        .map(|column| column.clone().sort(true, false));
    plan.project(shown)?.sort(order)?.build()
}

/// The statement that makes a table again, in the columns of DataFusion's `SHOW CREATE TABLE`.
pub(crate) fn show_create_table(
    state: &SessionState,
    name: &TableReference,
    definition: &TableDefinition,
) -> Result<LogicalPlan> {
    let place = resolved(state, name);
    let definition = definition.to_sql()?;
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let batch = RecordBatch::try_from_iter([
        ("table_catalog", text(&place.catalog)),
        ("table_schema", text(&place.schema)),
        ("table_name", text(&place.table)),
        ("definition", text(&definition)),
    ])?;
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
    LogicalPlanBuilder::scan("definition", provider_as_source(Arc::new(table)), None)?.build()
}
