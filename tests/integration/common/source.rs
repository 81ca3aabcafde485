//! Tables whose streams pause and fail where they are told to.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::exec_err;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::StreamExt;
use futures::stream;

/// The message of [`Step::Fail`].
pub(crate) const FAILED: &str = "the source has failed";

/// What a stream does next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Rows(RecordBatch),
    Pause(Duration),
    Fail,
}

/// A table of streams, which take these steps each time they are opened. Nothing is known of its
/// number of rows.
pub(crate) fn source(schema: &SchemaRef, streams: Vec<Vec<Step>>) -> Arc<dyn TableProvider> {
    let streams = streams.into_iter().map(|steps| {
        let schema = Arc::clone(schema);
        Arc::new(Steps { schema, steps }) as Arc<dyn PartitionStream>
    });
    let table = StreamingTable::try_new(Arc::clone(schema), streams.collect());
    Arc::new(table.unwrap())
}

#[derive(Debug)]
struct Steps {
    schema: SchemaRef,
    steps: Vec<Step>,
}

impl PartitionStream for Steps {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let steps = stream::iter(self.steps.clone());
        let batches = steps.filter_map(|step| async move {
            match step {
                Step::Rows(rows) => Some(Ok(rows)),
                Step::Pause(pause) => {
                    tokio::time::sleep(pause).await;
                    None
                }
                Step::Fail => Some(exec_err!("{FAILED}")),
            }
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}
