//! What the keys of a join's side are worth for the other side.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, IsNotNullExpr};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion_partitioned_core::PartitionScan;

use crate::join::Join;

/// The side of a join whose keys are collected.
pub(crate) struct Producer {
    is_selective: bool,
    /// An estimate.
    pub(crate) rows: Option<usize>,
}

impl Producer {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        let rows = statistics
            .ok()
            .and_then(|s| s.num_rows.get_value().copied());
        Self {
            is_selective: is_selective(plan),
            rows,
        }
    }

    /// Whether its keys may leave out partitions of `scan`. Not when it is a whole table of no fewer
    /// rows than the scan is known to have partitions: then there is likely a key for each.
    pub(crate) fn may_prune(&self, scan: &PartitionScan) -> bool {
        match (self.rows, scan.known_partitions()) {
            (Some(rows), Some(partitions)) => self.is_selective || rows < partitions,
            _ => true,
        }
    }
}

/// Whether something in `plan` may select rows: a filter, a limit, another join.
fn is_selective(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let selects = || -> Option<bool> {
        if plan.fetch().is_some() || Join::of(plan).is_some() {
            return Some(true);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return Some(selects_rows(filter.predicate()));
        }
        let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
        if let Some(scan) = source.downcast_ref::<PartitionScan>() {
            let is_pruned = scan.predicate().filters().any(selects_rows);
            return Some(is_pruned || !scan.dynamic_filters().is_empty());
        }
        let files = source.downcast_ref::<FileScanConfig>()?;
        let filter = files.file_source().filter()?;
        Some(selects_rows(&filter))
    };
    selects().unwrap_or(false) || plan.children().into_iter().any(is_selective)
}

/// Whether `filter` says more than that something is not NULL, now and not only while the query runs.
fn selects_rows(filter: &Arc<dyn PhysicalExpr>) -> bool {
    split_conjunction(filter).into_iter().any(|conjunct| {
        !conjunct.is::<IsNotNullExpr>() && !conjunct.is::<DynamicFilterPhysicalExpr>()
    })
}
