//! The optimizer rule [`PushSubqueryFilter`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::PartitionedOptions;

use crate::key_path::attach_to_scans;

/// Gives conditions with scalar subqueries, such as `day = (SELECT max(day) FROM t)`, to the
/// partitioned scans below.
///
/// DataFusion offers such conditions to no table, since their value is not known when planning. It
/// is known before the first row is read, and so before the catalog is asked. The filter itself
/// stays in the plan: the scan only leaves out partitions that it would drop.
///
/// ```text
/// FilterExec: day = scalar_subquery            FilterExec: day = scalar_subquery
///   DataSourceExec: t                            DataSourceExec: t, partition_filters=[day = scalar_subquery]
/// ```
///
/// The session options `partitioned.dynamic_filter.enabled` and `partitioned.static_pruning` switch it off.
#[derive(Debug, Default)]
pub struct PushSubqueryFilter;

impl PhysicalOptimizerRule for PushSubqueryFilter {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = PartitionedOptions::from_config(config);
        if !options.dynamic_filter.enabled || !options.static_pruning {
            return Ok(plan);
        }
        plan.transform_up(|plan| {
            Ok(match push(&plan)? {
                Some(pushed) => Transformed::yes(pushed),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "PushSubqueryFilter"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filter `plan` over scans that know its conditions with subqueries, if there are any.
fn push(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else {
        return Ok(None);
    };
    let conditions: Vec<_> = split_conjunction(filter.predicate())
        .into_iter()
        .filter(|condition| has_subquery(condition))
        .map(|condition| Some(Arc::clone(condition)))
        .collect();
    let input = attach_to_scans(filter.input(), &conditions, &mut |scan, conditions| {
        let conditions = conditions.iter().flatten();
        let known: Vec<_> = conditions
            .filter_map(|condition| scan.filter_key(condition))
            .collect();
        (!known.is_empty()).then(|| {
            known
                .iter()
                .fold(scan.clone(), |scan, c| scan.with_advisory_filter(c))
        })
    })?;
    let Some(input) = input else {
        return Ok(None);
    };
    replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some)
}

fn has_subquery(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.exists(|expr| Ok(expr.is::<ScalarSubqueryExpr>()))
        .unwrap_or(false)
}
