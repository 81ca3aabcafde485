//! Metrics of an executed plan, summed over its nodes and partitions.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// The node that hosts a scan, whatever its source is.
const SCAN_NODE: &str = "DataSourceExec";

/// The sum of a metric over all scans of a plan, zero when no scan has it.
pub fn scan_metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    node_metric(plan, SCAN_NODE, name)
}

/// The sum of a metric over all nodes called `node`, such as `PartitionKeyCollectorExec`.
pub fn node_metric(plan: &Arc<dyn ExecutionPlan>, node: &str, name: &str) -> usize {
    let own = match plan.metrics() {
        Some(metrics) if plan.name() == node => metrics
            .sum(|metric| metric.value().name() == name)
            .map_or(0, |sum| sum.as_usize()),
        _ => 0,
    };
    let below = plan.children().into_iter();
    own + below
        .map(|child| node_metric(child, node, name))
        .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use datafusion::error::Result;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::{FileKind, Lake};

    #[tokio::test]
    async fn metrics_add_up_over_the_nodes_of_one_name() -> Result<()> {
        let ctx = SessionContext::new();
        let lake = Lake::in_memory()?;
        lake.put_text("t/a.csv", "n\n1\n2\n").await?;
        lake.register(&ctx);
        ctx.sql(&format!(
            "CREATE EXTERNAL TABLE t (n INT) STORED AS {} LOCATION '{}'",
            FileKind::Csv,
            lake.location("t")
        ))
        .await?;

        let both = ctx.sql("SELECT n FROM t UNION ALL SELECT n FROM t").await?;
        let plan = both.create_physical_plan().await?;
        collect(Arc::clone(&plan), ctx.task_ctx()).await?;

        assert_eq!(scan_metric(&plan, "output_rows"), 4);
        assert_eq!(node_metric(&plan, "UnionExec", "output_rows"), 4);
        assert_eq!(scan_metric(&plan, "no_such_metric"), 0);
        Ok(())
    }
}
