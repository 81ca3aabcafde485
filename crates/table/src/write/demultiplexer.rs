//! [`Demultiplexer`]: which rows of a batch are of which partition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{BatchCoalescer, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{OwnedRow, Row, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion_partitioned_core::{PartitionSpec, PartitionValues};
use futures::StreamExt;

use super::file_writer::FileWriters;
use super::lock;
use super::partition_buffer::{ChunkBuilder, PartitionBuffer};
use super::partition_writer::PartitionWriter;
use super::sorted_writer::SortedWriter;
use super::transaction::WrittenFile;

/// What all inputs of a statement write to.
pub(super) struct Destinations {
    files: Arc<FileWriters>,
    context: Arc<TaskContext>,
    /// The partitions that are open, by their values.
    open: Mutex<HashMap<OwnedRow, Arc<PartitionWriter>>>,
    /// For the rows of all others.
    buffer: PartitionBuffer,
    /// For these too, when they do not fit into memory, or have an order.
    sorted: Mutex<Option<Arc<SortedWriter>>>,
    /// That of the query.
    ordering: Option<LexOrdering>,
}

impl Destinations {
    pub(super) fn new(
        files: FileWriters,
        ordering: Option<LexOrdering>,
        context: Arc<TaskContext>,
    ) -> Self {
        Self {
            buffer: PartitionBuffer::new(&context),
            files: Arc::new(files),
            context,
            open: Mutex::default(),
            sorted: Mutex::default(),
            ordering,
        }
    }

    /// How many tasks may write at the same time.
    fn parallelism(&self) -> usize {
        self.context.session_config().target_partitions()
    }

    /// The writer of a partition; `None` when there are too many others.
    fn writer(
        &self,
        key: Row<'_>,
        values: impl FnOnce() -> Result<PartitionValues>,
    ) -> Result<Option<Arc<PartitionWriter>>> {
        let mut open = lock(&self.open);
        let key = key.owned();
        if let Some(writer) = open.get(&key) {
            return Ok(Some(Arc::clone(writer)));
        }
        let options = &self.files.sink().options;
        if open.len() >= options.max_open_partitions || !options.order.is_empty() {
            return Ok(None);
        }
        let writer = PartitionWriter::new(Arc::clone(&self.files), values()?, self.parallelism());
        let writer = Arc::new(writer);
        open.insert(key, Arc::clone(&writer));
        Ok(Some(writer))
    }

    /// Whether rows of partitions that are not open are sorted.
    fn sorts(&self) -> bool {
        !self.files.sink().options.order.is_empty() || self.buffer.is_full()
    }

    fn sorted(&self) -> Result<Arc<SortedWriter>> {
        let mut sorted = lock(&self.sorted);
        if let Some(sorted) = sorted.as_ref() {
            return Ok(Arc::clone(sorted));
        }
        let one_by_one = Arc::new(self.files.of_one_task_each());
        let mut order = self.files.sink().order()?;
        if order.is_empty() {
            order.extend(self.ordering.iter().flatten().cloned());
        }
        let lanes = self.parallelism();
        let begun = SortedWriter::try_new(&one_by_one, &order, &self.context, lanes)?;
        Ok(Arc::clone(sorted.insert(Arc::new(begun))))
    }

    /// All files, when all rows have been written. An error of a writer says more than that of an input whose rows
    /// it did not take any more: it comes first.
    pub(super) async fn finish(&self, read: Result<()>) -> (Vec<WrittenFile>, Result<()>) {
        let mut files = vec![];
        let mut result = Ok(());
        let open = std::mem::take(&mut *lock(&self.open));
        // All of them first, so that they complete their files at the same time.
        for writer in open.values() {
            writer.close().await;
        }
        for writer in open.into_values() {
            result = result.and(writer.finish(&mut files).await);
        }
        if read.is_ok() && result.is_ok() && !self.sorts() {
            // As many again wait for the store.
            let tasks = 2 * self.parallelism();
            let one_by_one = Arc::new(self.files.of_one_task_each());
            result = self.buffer.write(&one_by_one, tasks, &mut files).await;
        }
        let sorted = lock(&self.sorted).take();
        if let Some(sorted) = sorted {
            result = result.and(sorted.finish(read.is_ok(), &mut files).await);
        }
        (files, result.and(read))
    }
}

/// Sends the rows of one input to their destinations.
pub(super) struct Demultiplexer {
    destinations: Arc<Destinations>,
    spec: PartitionSpec,
    written_columns: Vec<usize>,
    first_partition_column: usize,
    converter: RowConverter,
    /// The partitions that this input has come across.
    known: HashMap<Box<[u8]>, Destination>,
    slots: Vec<Slot>,
    chunk: ChunkBuilder,
    written_schema: SchemaRef,
    batch_size: usize,
}

/// Where the rows of a partition go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// To the writer of a slot.
    Slot(usize),
    /// To the buffer, where the partition has this number.
    Buffer(u32),
}

/// A partition that is open, and the rows for it that do not make a batch yet.
struct Slot {
    writer: Arc<PartitionWriter>,
    /// Copies rows, so that a few do not keep all of their batch.
    rows: BatchCoalescer,
}

impl Demultiplexer {
    /// For the input with this number.
    pub(super) fn try_new(destinations: Arc<Destinations>, input: usize) -> Result<Self> {
        let sink = destinations.files.sink();
        let spec = sink.spec.clone();
        let fields = spec.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        Ok(Self {
            written_columns: sink.written_columns(),
            first_partition_column: sink.first_partition_column(),
            converter: RowConverter::new(fields.collect())?,
            spec,
            slots: vec![],
            chunk: ChunkBuilder::of_input(input),
            written_schema: sink.written_schema(),
            batch_size: destinations.context.session_config().batch_size(),
            destinations,
            known: HashMap::new(),
        })
    }

    pub(super) async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<()> {
        while let Some(batch) = input.next().await {
            self.split(batch?).await?;
        }
        for slot in 0..self.slots.len() {
            self.slots[slot].rows.finish_buffered_batch()?;
            self.flush(slot).await?;
        }
        match self.destinations.sorts() {
            true => self.sort_buffered().await,
            false => self.end_chunk().await,
        }
    }

    async fn split(&mut self, batch: RecordBatch) -> Result<()> {
        let destinations = self.destinations_of(&batch)?;
        let (mut open, mut buffered, mut codes) = (vec![], vec![], vec![]);
        for (row, destination) in (0..).zip(&destinations) {
            match destination {
                Destination::Slot(slot) => open.push((*slot, row)),
                Destination::Buffer(code) => {
                    buffered.push(row);
                    codes.push(*code);
                }
            }
        }
        if !buffered.is_empty() {
            let rows = match open.is_empty() {
                true => batch.clone(),
                false => take_record_batch(&batch, &UInt32Array::from(buffered))?,
            };
            self.buffer(rows, &codes).await?;
        }
        open.sort_by_key(|(slot, _)| *slot);
        let rows: UInt32Array = open.iter().map(|(_, row)| *row).collect();
        let is_one =
            open.len() == batch.num_rows() && open.first().map(|o| o.0) == open.last().map(|o| o.0);
        let sorted = match is_one || open.is_empty() {
            true => batch,
            false => take_record_batch(&batch, &rows)?,
        };
        let mut start = 0;
        while start < open.len() {
            let slot = open[start].0;
            let same = open[start..].partition_point(|(other, _)| *other <= slot);
            let rows = sorted.slice(start, same).project(&self.written_columns)?;
            start += same;
            self.slots[slot].rows.push_batch(rows)?;
            self.flush(slot).await?;
        }
        Ok(())
    }

    /// The destination of each row.
    fn destinations_of(&mut self, batch: &RecordBatch) -> Result<Vec<Destination>> {
        let columns = &batch.columns()[self.first_partition_column..];
        let columns = &columns[..self.spec.len()];
        let rows = self.converter.convert_columns(columns)?;
        let mut destinations = Vec::with_capacity(batch.num_rows());
        let mut last: Option<(Row<'_>, Destination)> = None;
        for (index, row) in rows.iter().enumerate() {
            let destination = match last {
                Some((known, destination)) if known == row => destination,
                _ => match self.known.get(row.as_ref()) {
                    Some(destination) => *destination,
                    None => {
                        let values = || partition_values(&self.spec, columns, index);
                        let destination = match self.destinations.writer(row, values)? {
                            None => Destination::Buffer(self.destinations.buffer.code(row)),
                            Some(writer) => {
                                let schema = Arc::clone(&self.written_schema);
                                let rows = BatchCoalescer::new(schema, self.batch_size);
                                self.slots.push(Slot { writer, rows });
                                Destination::Slot(self.slots.len() - 1)
                            }
                        };
                        self.known.insert(row.as_ref().into(), destination);
                        destination
                    }
                },
            };
            last = Some((row, destination));
            destinations.push(destination);
        }
        Ok(destinations)
    }

    /// Hands over the batches that a slot has completed.
    async fn flush(&mut self, slot: usize) -> Result<()> {
        let slot = &mut self.slots[slot];
        while let Some(rows) = slot.rows.next_completed_batch() {
            slot.writer.write(rows).await?;
        }
        Ok(())
    }

    /// Keeps rows of partitions that are not open, or has them sorted.
    async fn buffer(&mut self, rows: RecordBatch, codes: &[u32]) -> Result<()> {
        let bytes = self.chunk.bytes_of(&rows);
        if self.destinations.sorts() || !self.destinations.buffer.reserve(bytes) {
            self.sort_buffered().await?;
            return self.destinations.sorted()?.write(rows).await;
        }
        self.chunk.push(rows, codes, bytes);
        match self.chunk.is_complete() {
            true => self.end_chunk().await,
            false => Ok(()),
        }
    }

    async fn end_chunk(&mut self) -> Result<()> {
        // Its rows are there twice while they are sorted.
        let bytes = self.chunk.bytes();
        if !self.destinations.buffer.reserve(bytes) {
            return self.sort_buffered().await;
        }
        let chunk = self.chunk.finish();
        self.destinations.buffer.release(bytes);
        let Some(chunk) = chunk? else {
            return Ok(());
        };
        self.destinations.buffer.release(bytes - chunk.bytes());
        match self.destinations.buffer.add(chunk) {
            None => Ok(()),
            Some(chunk) => self.sort(vec![chunk.rows.clone()], chunk.bytes()).await,
        }
    }

    /// Lets the rows be sorted that have been kept so far.
    async fn sort_buffered(&mut self) -> Result<()> {
        let (batches, bytes) = self.chunk.take();
        self.sort(batches, bytes).await?;
        while let Some(chunk) = self.destinations.buffer.pop() {
            self.sort(vec![chunk.rows.clone()], chunk.bytes()).await?;
        }
        Ok(())
    }

    async fn sort(&self, batches: Vec<RecordBatch>, bytes: usize) -> Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        self.destinations.buffer.release(bytes);
        let sorted = self.destinations.sorted()?;
        for batch in batches {
            for start in (0..batch.num_rows()).step_by(self.batch_size) {
                let rows = self.batch_size.min(batch.num_rows() - start);
                sorted.write(batch.slice(start, rows)).await?;
            }
        }
        Ok(())
    }
}

/// The values of a row.
pub(super) fn partition_values(
    spec: &PartitionSpec,
    columns: &[ArrayRef],
    row: usize,
) -> Result<PartitionValues> {
    let values = columns.iter();
    let values = values.map(|column| ScalarValue::try_from_array(column, row));
    PartitionValues::try_new(spec, values.collect::<Result<_>>()?)
}

/// The lane of a row among several, by the values of its partition.
pub(super) fn lane_of(row: &[u8], lanes: usize) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};

    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    (hasher.finish() % lanes as u64) as usize
}
