//! [`StartEarlyExec`]: runs its input before anybody asks for rows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, stream};

use crate::transparent::transparent;

/// Passes its input on unchanged, and looks for the first batch of each partition in a task that
/// starts when the partition is opened.
///
/// A sort that is its input has read all of its own input by then, in its own memory or on disk.
/// So the keys of that side of a sort-merge join are complete without regard to which side the join
/// reads first, and the scan on the other side can wait for them. Nothing is held here but one
/// batch.
#[derive(Debug)]
pub struct StartEarlyExec {
    input: Arc<dyn ExecutionPlan>,
}

impl StartEarlyExec {
    /// Runs `input` early.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }

    /// The plan that is started.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
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

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context)?;
        let schema = input.schema();
        // Aborted when it is dropped.
        let task = SpawnedTask::spawn(async move {
            let first = input.next().await;
            stream::iter(first).chain(input)
        });
        let batches = stream::once(async move {
            task.join()
                .await
                .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))
        });
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    transparent!();
}
