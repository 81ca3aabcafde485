//! [`Unit`]: a piece of work that one stream takes.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use futures::StreamExt;
use futures::stream::BoxStream;

type Batches = BoxStream<'static, Result<RecordBatch>>;
type Open = dyn FnOnce(&Arc<TaskContext>) -> Result<Batches> + Send;

/// Some rows of the table that one stream reads from start to end.
pub(super) struct Unit(Box<Open>);

impl Unit {
    /// Rows that `open` returns.
    pub(super) fn new(
        open: impl FnOnce(&Arc<TaskContext>) -> Result<Batches> + Send + 'static,
    ) -> Self {
        Self(Box::new(open))
    }

    /// Each output partition of `source`, in order.
    pub(super) fn each_of(
        source: &Arc<dyn DataSource>,
    ) -> impl Iterator<Item = Self> + Send + 'static {
        let source = Arc::clone(source);
        let partitions = source.output_partitioning().partition_count();
        (0..partitions).map(move |partition| {
            let source = Arc::clone(&source);
            Self::new(move |context| Ok(source.open(partition, Arc::clone(context))?.boxed()))
        })
    }

    /// Starts to read it.
    pub(super) fn open(self, context: &Arc<TaskContext>) -> Result<Batches> {
        (self.0)(context)
    }
}
