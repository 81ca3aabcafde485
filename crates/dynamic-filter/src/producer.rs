//! What the keys of a join's side are worth for the other side.

use std::cell::OnceCell;
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

/// The side of a join whose keys are collected. What is asked about it is found out when it is asked
/// for: most joins have no partitioned table on the other side.
pub(crate) struct Producer<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    /// An estimate.
    rows: OnceCell<Option<usize>>,
}

impl<'a> Producer<'a> {
    pub(crate) fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Self {
        let rows = OnceCell::new();
        Self { plan, rows }
    }

    fn rows(&self) -> Option<usize> {
        *self.rows.get_or_init(|| {
            let context = StatisticsContext::new();
            let statistics = context.compute(self.plan.as_ref(), &StatisticsArgs::new());
            let rows = statistics.ok()?.num_rows;
            rows.get_value().copied()
        })
    }

    /// Whether it is likely to have fewer rows.
    pub(crate) fn is_smaller_than(&self, other: &Self) -> bool {
        match (self.rows(), other.rows()) {
            (Some(rows), Some(others)) => rows < others,
            (rows, others) => rows.is_some() && others.is_none(),
        }
    }

    /// Whether its keys may leave out partitions of `scan`. Not when it is a whole table of no fewer
    /// rows than the scan is known to have partitions: then there is likely a key for each.
    pub(crate) fn may_prune(&self, scan: &PartitionScan) -> bool {
        let Some(partitions) = scan.known_partitions() else {
            return true;
        };
        is_selective(self.plan) || self.rows().is_none_or(|rows| rows < partitions)
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
