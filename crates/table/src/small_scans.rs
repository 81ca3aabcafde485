//! [`KeepSmallScansTogether`]: no spreading of rows that are few.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_partitioned_core::PartitionScan;

/// Takes out the round-robin repartition above a scan with one output partition whose rows are
/// estimated to fit a batch, and what brings its partitions together again.
///
/// DataFusion leaves it out itself where the number of rows is exact, which that of a partitioned table
/// never is; it trusts estimates only with the option
/// `datafusion.execution.use_row_number_estimates_to_optimize_partitioning`. The tasks that it
/// starts cost more than such a scan. Belongs directly behind the rule that adds repartitions, so that
/// later rules can make one of a partial and a final aggregate.
#[derive(Debug)]
pub struct KeepSmallScansTogether;

impl PhysicalOptimizerRule for KeepSmallScansTogether {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_size = config.execution.batch_size.into();
        plan.transform_up(|plan| {
            if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
                let input = coalesce.input();
                let is_one = input.output_partitioning().partition_count() == 1;
                if is_one && coalesce.fetch().is_none() {
                    return Ok(Transformed::yes(Arc::clone(input)));
                }
            }
            Ok(match spread_small_scan(&plan, batch_size)? {
                Some(scan) => Transformed::yes(scan),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "KeepSmallScansTogether"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan below `plan`, if `plan` spreads it and it is small.
fn spread_small_scan(
    plan: &Arc<dyn ExecutionPlan>,
    batch_size: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(repartition) = plan.downcast_ref::<RepartitionExec>() else {
        return Ok(None);
    };
    let input = repartition.input();
    let scan = input
        .downcast_ref::<DataSourceExec>()
        .map(|exec| exec.data_source())
        .filter(|source| source.is::<PartitionScan>());
    let is_spread = matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_));
    let (Some(scan), true) = (scan, is_spread) else {
        return Ok(None);
    };
    let rows = scan.partition_statistics(None)?.num_rows;
    let is_small = scan.output_partitioning().partition_count() == 1
        && matches!(rows, Precision::Inexact(rows) if rows <= batch_size);
    Ok(is_small.then(|| Arc::clone(input)))
}
