//! A choice of partitions as SQL text, over the partition columns as text.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::execution::SessionState;
use datafusion_partitioned_core::{
    PartitionCatalog, PartitionPredicate, PartitionSpec, TextFilteredCatalog,
};

use crate::filter::FilterUse;

/// The partitions of `catalog` that satisfy `sql`, a condition over the partition columns as text.
///
/// # Errors
/// Those of [`parse_text_filter`].
pub(crate) fn filtered_by_text(
    catalog: Arc<dyn PartitionCatalog>,
    state: &SessionState,
    sql: &str,
) -> Result<Arc<dyn PartitionCatalog>> {
    let filter = parse_text_filter(state, catalog.spec(), sql)?;
    Ok(match catalog.with_text_filter(filter.clone()) {
        Some(catalog) => catalog,
        None => Arc::new(TextFilteredCatalog::new(catalog, filter)),
    })
}

/// The predicate that `sql` means, over the partition columns of `spec` as text.
///
/// # Errors
/// When `sql` is no boolean expression over partition columns alone, or depends on when it is
/// evaluated.
fn parse_text_filter(
    state: &SessionState,
    spec: &PartitionSpec,
    sql: &str,
) -> Result<PartitionPredicate> {
    let texts = PartitionSpec::try_new(
        spec.column_names()
            .map(|name| Field::new(name, DataType::Utf8, true)),
    )?;
    let schema = DFSchema::try_from(texts.schema().as_ref().clone())?;
    let context = || format!("the partition filter '{sql}'");
    let filter = state.create_logical_expr(sql, &schema).map_err(|error| {
        let column = spec.column_names().next().unwrap_or_default();
        let expected = format!("expected one over texts, such as {column} = '..'");
        error.context(format!("{}; {expected}", context()))
    })?;
    if FilterUse::of(&filter, &texts) != FilterUse::Decides {
        return plan_err!(
            "{} must depend on partition columns alone ({}), without subqueries and functions such \
             as now() or random()",
            context(),
            spec.column_names().collect::<Vec<_>>().join(", ")
        );
    }
    let filter = state
        .create_physical_expr(filter, &schema)
        .map_err(|error| error.context(context()))?;
    match filter.data_type(texts.schema())? {
        DataType::Boolean => Ok(PartitionPredicate::all(&texts).with_filter(&filter)),
        other => plan_err!("{} is of type {other}; expected a condition", context()),
    }
}
