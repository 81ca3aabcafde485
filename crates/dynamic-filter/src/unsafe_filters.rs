//! [`DeclineUnsafeFilters`]: no filter of DataFusion's that would drop rows which are needed.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::PartitionScan;

/// Keeps dynamic filters that DataFusion's operators make away from partitioned scans where they are
/// not right.
///
/// | filter of | is not right | since |
/// |---|---|---|
/// | any operator | below a node that confuses columns: two of its columns have one name, it is a semi, anti or mark join, or groups by an expression with the name of another column | filters are pushed down by name, and end at the wrong column or table |
/// | a `min`/`max` aggregate | unless all functions have one and the same bare column as their argument | it leaves out the terms of arguments that have been NULL so far: of `a < 5 OR b > 7` nothing but `a < 5` is left |
/// | a hash join | with floating point, nested or dictionary encoded keys | it tells `-0.0` from `0.0`, cannot compare NULL in lists, and fails for dictionaries of numbers |
///
/// Belongs before the last pushdown of filters.
#[derive(Debug, Default)]
pub struct DeclineUnsafeFilters;

impl PhysicalOptimizerRule for DeclineUnsafeFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(visit(&plan, Above::default())?.0)
    }

    fn name(&self) -> &str {
        "DeclineUnsafeFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filters that operators above a node make, by their expression ids.
#[derive(Clone, Default)]
struct Above {
    right: Vec<u64>,
    not_right: Vec<u64>,
}

/// What is below a node, or is the node.
#[derive(Clone, Copy, Default)]
struct Below {
    has_scan: bool,
    /// Whether there is a scan below a node that confuses columns.
    has_confused_scan: bool,
}

/// `plan` with scans that decline filters, and joins that make none.
fn visit(
    plan: &Arc<dyn ExecutionPlan>,
    mut above: Above,
) -> Result<(Arc<dyn ExecutionPlan>, Below)> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        return Ok(declining(exec, plan, &above.not_right));
    }
    let confuses_columns = confuses_columns(plan);
    if confuses_columns {
        above.not_right.append(&mut above.right);
    }
    let own = plan.dynamic_expressions_produced();
    let own = own.iter().filter_map(|filter| filter.expression_id());
    match is_right_aggregate(plan) {
        true => above.right.extend(own),
        false => above.not_right.extend(own),
    }
    let children = plan.children().into_iter();
    let visited: Vec<_> = children
        .map(|child| visit(child, above.clone()))
        .collect::<Result<_>>()?;
    let (children, below): (Vec<_>, Vec<_>) = visited.into_iter().unzip();
    let mut plan = replace_children_if_necessary(Arc::clone(plan), children)?;
    if let [_, probe] = below[..]
        && let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && (probe.has_confused_scan || probe.has_scan && !has_right_keys(join))
    {
        plan = without_own_filter(&plan)?;
    }
    let has_scan = below.iter().any(|below| below.has_scan);
    let mut below = below.iter();
    let has_confused_scan =
        has_scan && confuses_columns || below.any(|below| below.has_confused_scan);
    Ok((
        plan,
        Below {
            has_scan,
            has_confused_scan,
        },
    ))
}

/// The leaf `exec`, which is `plan`, declining these filters if it is a partitioned scan.
fn declining(
    exec: &DataSourceExec,
    plan: &Arc<dyn ExecutionPlan>,
    filters: &[u64],
) -> (Arc<dyn ExecutionPlan>, Below) {
    let Some(scan) = exec.data_source().downcast_ref::<PartitionScan>() else {
        return (Arc::clone(plan), Below::default());
    };
    let below = Below {
        has_scan: true,
        ..Below::default()
    };
    if filters.is_empty() {
        return (Arc::clone(plan), below);
    }
    let decline = |scan: PartitionScan, id: &u64| scan.without_filter(*id);
    let scan = filters.iter().fold(scan.clone(), decline);
    let exec = exec.clone().with_data_source(Arc::new(scan));
    (Arc::new(exec), below)
}

/// Whether a filter above `plan` may become one on another column below, since DataFusion looks for the
/// name of the column there.
fn confuses_columns(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut names = HashSet::new();
    let mut fields = schema.fields().iter();
    if fields.any(|field| !names.insert(field.name())) {
        return true;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        // The columns of the one side are looked for on the other too.
        return !matches!(
            join.join_type(),
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
        );
    }
    plan.downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| {
            let input = aggregate.input_schema();
            let mut groups = aggregate.group_expr().expr().iter();
            groups.any(|(group, name)| {
                let column = group.downcast_ref::<Column>();
                column.is_none_or(|column| column.name() != name) && input.index_of(name).is_ok()
            })
        })
}

/// Whether `plan` is no aggregate whose filter may drop rows that it needs.
fn is_right_aggregate(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return true;
    };
    let arguments = aggregate.aggr_expr().iter().map(|f| f.expressions());
    let arguments: Vec<Arc<dyn PhysicalExpr>> = arguments.flatten().collect();
    let is_one_column = arguments.first().is_some_and(|first| {
        first.is::<Column>() && arguments.iter().all(|argument| argument == first)
    });
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    is_one_column && !is_filtered
}

/// Whether the filter of `join` finds its keys as the join does.
fn has_right_keys(join: &HashJoinExec) -> bool {
    let schema = join.right().schema();
    let is_right = |key: &Arc<dyn PhysicalExpr>| match key.data_type(&schema) {
        Ok(DataType::Dictionary(_, values)) => values.is_string(),
        Ok(data_type) => !data_type.is_floating() && !data_type.is_nested(),
        Err(_) => false,
    };
    join.on().iter().all(|(_, key)| is_right(key))
}

/// The join `plan` with a filter of DataFusion's kind that no scan knows, so that it neither makes
/// one nor computes it.
pub(crate) fn without_own_filter(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(Arc::clone(plan));
    };
    let keys = join
        .on()
        .iter()
        .map(|(_, probe_key)| Arc::clone(probe_key))
        .collect();
    let unused = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
    Ok(Arc::new(
        join.builder().build()?.with_dynamic_filter_expr(unused)?,
    ))
}
