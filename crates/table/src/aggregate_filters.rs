//! [`DeclineUnsafeAggregateFilters`]: no filter of an aggregate that would drop rows it needs.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion_partitioned_core::PartitionScan;

/// Lets scans decline the dynamic filter of a `min`/`max` aggregate, unless it is right.
///
/// While it runs, such an aggregate of DataFusion's tells its scan which rows can still change its
/// result, such as `a < 5 OR b > 7`. It leaves out the terms of arguments that have been NULL so far,
/// and of those that are no bare columns, and then drops rows that these need: after a first row
/// `a = 5, b = NULL` nothing but `a < 5` is left of the above. With one column as the argument of all
/// functions no term can be missing alone.
///
/// Belongs before the last pushdown of filters.
#[derive(Debug)]
pub struct DeclineUnsafeAggregateFilters;

impl PhysicalOptimizerRule for DeclineUnsafeAggregateFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match unsafe_filter(&plan) {
            Some(id) => decline(plan, id),
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "DeclineUnsafeAggregateFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The id of the filter that `plan` makes, if it may drop rows that are needed.
fn unsafe_filter(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let id = aggregate
        .dynamic_expressions_produced()
        .first()?
        .expression_id()?;
    let arguments = aggregate.aggr_expr().iter().map(|f| f.expressions());
    let arguments: Vec<Arc<dyn PhysicalExpr>> = arguments.flatten().collect();
    let is_one_column = arguments.first().is_some_and(|first| {
        first.is::<Column>() && arguments.iter().all(|argument| argument == first)
    });
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    (!is_one_column || is_filtered).then_some(id)
}

/// All scans below decline the filter.
fn decline(plan: Arc<dyn ExecutionPlan>, id: u64) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    plan.transform_down(|plan| {
        let declined = plan.downcast_ref::<DataSourceExec>().and_then(|exec| {
            let scan = exec.data_source().downcast_ref::<PartitionScan>()?;
            let scan = Arc::new(scan.without_filter(id));
            Some(Arc::new(exec.clone().with_data_source(scan)))
        });
        Ok(match declined {
            Some(scan) => Transformed::yes(scan),
            None => Transformed::no(plan),
        })
    })
}
