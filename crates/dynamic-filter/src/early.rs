//! [`StartEarlyExec`]: runs its input before anybody asks for rows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use datafusion_partitioned_core::DynamicPartitionFilter;
use futures::channel::oneshot;
use futures::future::select;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};

use crate::transparent::transparent;

/// Passes its input on unchanged, and looks for the first batch of each partition in a task of its own,
/// as soon as a scan waits for the keys of this side, or the batch is asked for.
///
/// A sort that is its input has read all of its own input by then, in its own memory or on disk.
/// So the keys of that side of a sort-merge join are complete without regard to which side the join
/// reads first, and the scan on the other side can wait for them. Nothing is held here but one
/// batch.
#[derive(Debug)]
pub struct StartEarlyExec {
    input: Arc<dyn ExecutionPlan>,
    filters: Vec<Arc<DynamicPartitionFilter>>,
    metrics: ExecutionPlanMetricsSet,
}

impl StartEarlyExec {
    /// Runs `input` when somebody waits for the keys of `filters`, which are collected below.
    pub fn new(input: Arc<dyn ExecutionPlan>, filters: Vec<Arc<DynamicPartitionFilter>>) -> Self {
        Self {
            input,
            filters,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The plan that is started.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            filters: self.filters.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

impl DisplayAs for StartEarlyExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                f.write_str("StartEarlyExec")
            }
        }
    }
}

impl ExecutionPlan for StartEarlyExec {
    fn name(&self) -> &'static str {
        "StartEarlyExec"
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut node = self.with_input(Arc::clone(&self.input));
        node.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(node))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, Arc::clone(&context))?;
        let schema = input.schema();
        let slots: Vec<_> = self.filters.iter().map(|f| f.take(&context)).collect();
        let (start, started) = oneshot::channel::<()>();
        // Aborted when it is dropped.
        let task = SpawnedTask::spawn(async move {
            let awaited: FuturesUnordered<_> = slots.iter().map(|slot| slot.awaited()).collect();
            let mut awaited = awaited.chain(stream::pending());
            select(started, awaited.next()).await;
            let first = input.next().await;
            stream::iter(first).chain(input)
        });
        let batches = stream::once(async move {
            // The task may have started, and ended, without it.
            let _ = start.send(());
            task.join()
                .await
                .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))
        });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = batches
            .try_flatten()
            .inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    transparent!();
}
