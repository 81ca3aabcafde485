//! [`SortedWriter`]: rows of more partitions than can be open, sorted and written one partition after the other.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{partition, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion_partitioned_core::PartitionSpec;
use futures::{StreamExt, stream};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::demultiplexer::{lane_of, partition_values};
use super::file_writer::FileWriters;
use super::lock;
use super::partition_buffer::compact;
use super::partition_writer::RollingWriter;
use super::transaction::WrittenFile;

/// Rows, or word that there are no more of them. A lane whose sender is dropped without that has to fail.
type Message = Option<RecordBatch>;

/// Several sorts at once, each of the partitions that fall to it.
pub(super) struct SortedWriter {
    spec: PartitionSpec,
    partition_columns: Vec<usize>,
    lanes: Mutex<Vec<Sender<Message>>>,
    written: Mutex<Vec<SpawnedTask<Result<Vec<WrittenFile>>>>>,
}

impl SortedWriter {
    pub(super) fn try_new(
        files: &Arc<FileWriters>,
        order: &[PhysicalSortExpr],
        context: &Arc<TaskContext>,
        lanes: usize,
    ) -> Result<Self> {
        let sink = files.sink();
        let spec = sink.spec.clone();
        let first = sink.first_partition_column();
        let partition_columns: Vec<usize> = (first..first + spec.len()).collect();
        let schema = sink.schema();
        let mut senders = vec![];
        let mut written = vec![];
        for _ in 0..lanes.max(1) {
            let (sender, receiver) = mpsc::channel(2);
            let sorted = sorted(&schema, &partition_columns, order, receiver, context)?;
            let lane = write_sorted(Arc::clone(files), sorted);
            written.push(SpawnedTask::spawn(lane));
            senders.push(sender);
        }
        Ok(Self {
            spec,
            partition_columns,
            lanes: Mutex::new(senders),
            written: Mutex::new(written),
        })
    }

    /// Adds rows, with the columns of files and the partition columns.
    pub(super) async fn write(&self, batch: RecordBatch) -> Result<()> {
        let columns = batch.project(&self.partition_columns)?;
        let rows = converter(&self.spec)?.convert_columns(columns.columns())?;
        let senders = lock(&self.lanes).clone();
        let mut lanes: Vec<Vec<u32>> = vec![vec![]; senders.len()];
        for (index, row) in rows.iter().enumerate() {
            lanes[lane_of(row.as_ref(), senders.len())].push(index as u32);
        }
        for (sender, rows) in senders.iter().zip(lanes) {
            if rows.is_empty() {
                continue;
            }
            let rows = compact(&take_record_batch(&batch, &UInt32Array::from(rows))?)?;
            // Why it has ended is what `finish` says.
            let sent = sender.send(Some(rows)).await;
            sent.map_err(|_| exec_datafusion_err!("the writer of sorted rows has ended"))?;
        }
        Ok(())
    }

    /// The files, when all rows are in them. Without all rows, nothing is written; then an error is why a lane has
    /// ended.
    pub(super) async fn finish(
        &self,
        is_complete: bool,
        files: &mut Vec<WrittenFile>,
    ) -> Result<()> {
        let lanes = std::mem::take(&mut *lock(&self.lanes));
        for lane in lanes {
            if is_complete {
                // One that has ended says why below.
                let _ = lane.send(None).await;
            }
        }
        let mut result = Ok(());
        let tasks = std::mem::take(&mut *lock(&self.written));
        for written in tasks {
            let written = written.join_unwind().await;
            match written.map_err(|error| exec_datafusion_err!("{error}")) {
                Ok(Ok(written)) => files.extend(written),
                Ok(Err(error)) if !is_complete && error.to_string().contains(CUT_SHORT) => {}
                Ok(Err(error)) | Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}

fn converter(spec: &PartitionSpec) -> Result<RowConverter> {
    let fields = spec.fields().iter();
    let fields = fields.map(|field| SortField::new(field.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?)
}

/// The rows of a lane by their partition columns, and each partition in `order`: DataFusion's external sort.
fn sorted(
    schema: &SchemaRef,
    partition_columns: &[usize],
    order: &[PhysicalSortExpr],
    receiver: Receiver<Message>,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let lane = Lane {
        schema: Arc::clone(schema),
        receiver: Mutex::new(Some(receiver)),
    };
    let lane = StreamingTableExec::try_new(
        Arc::clone(schema),
        vec![Arc::new(lane)],
        None,
        Vec::<LexOrdering>::new(),
        false,
        None,
    )?;
    let columns = partition_columns.iter().map(|column| {
        let name = schema.field(*column).name();
        PhysicalSortExpr::new_default(Arc::new(Column::new(name, *column)))
    });
    let ordering = LexOrdering::new(columns.chain(order.iter().cloned()))
        .ok_or_else(|| internal_datafusion_err!("a table without partition columns"))?;
    SortExec::new(ordering, Arc::new(lane)).execute(0, Arc::clone(context))
}

/// Writes sorted rows, one partition after the other.
async fn write_sorted(
    files: Arc<FileWriters>,
    mut sorted: SendableRecordBatchStream,
) -> Result<Vec<WrittenFile>> {
    let sink = Arc::clone(files.sink());
    let first = sink.first_partition_column();
    let written_columns = sink.written_columns();
    let converter = converter(&sink.spec)?;
    let mut open: Option<(OwnedRow, RollingWriter)> = None;
    let mut written = vec![];
    while let Some(batch) = sorted.next().await {
        let batch = batch?;
        let columns = &batch.columns()[first..first + sink.spec.len()];
        let keys = converter.convert_columns(columns)?;
        let rows = batch.project(&written_columns)?;
        for range in partition(columns)?.ranges() {
            let key = keys.row(range.start);
            let is_next = open.as_ref().is_none_or(|(open, _)| open.row() != key);
            if is_next {
                if let Some((_, writer)) = open.take() {
                    written.extend(writer.finish().await?);
                }
                let values = partition_values(&sink.spec, columns, range.start)?;
                let writer = RollingWriter::try_new(Arc::clone(&files), values).await?;
                open = Some((key.owned(), writer));
            }
            if let Some((_, writer)) = &mut open {
                writer.write(rows.slice(range.start, range.len())).await?;
            }
        }
    }
    if let Some((_, writer)) = open {
        written.extend(writer.finish().await?);
    }
    Ok(written)
}

/// The rows that are sent to a lane, as an input of the sort.
struct Lane {
    schema: SchemaRef,
    receiver: Mutex<Option<Receiver<Message>>>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").finish_non_exhaustive()
    }
}

impl PartitionStream for Lane {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut receiver = lock(&self.receiver);
        let batches = stream::unfold(receiver.take(), async |receiver| {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(Some(batch)) => Some((Ok(batch), Some(receiver))),
                Some(None) => None,
                None => Some((Err(cut_short()), None)),
            }
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// What a lane says whose input has failed.
const CUT_SHORT: &str = "the rows to be written ended early";

fn cut_short() -> DataFusionError {
    exec_datafusion_err!("{CUT_SHORT}")
}
