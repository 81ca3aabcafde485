//! [`Demultiplexer`]: which rows of a batch are of which partition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{BatchCoalescer, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{OwnedRow, Row, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion_partitioned_core::{PartitionSpec, PartitionValues};
use futures::StreamExt;

use super::file_writer::FileWriters;
use super::lock;
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
    sorted: Mutex<Option<Arc<SortedWriter>>>,
}

impl Destinations {
    pub(super) fn new(files: FileWriters, context: Arc<TaskContext>) -> Self {
        Self {
            files: Arc::new(files),
            context,
            open: Mutex::default(),
            sorted: Mutex::default(),
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

    fn sorted(&self) -> Result<Arc<SortedWriter>> {
        let mut sorted = lock(&self.sorted);
        if let Some(sorted) = sorted.as_ref() {
            return Ok(Arc::clone(sorted));
        }
        let begun = SortedWriter::try_new(&self.files, &self.context, self.parallelism())?;
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
    known: HashMap<Box<[u8]>, usize>,
    slots: Vec<Slot>,
    written_schema: SchemaRef,
    batch_size: usize,
}

/// A destination, and the rows for it that do not make a batch yet.
struct Slot {
    /// `None` for partitions whose rows are sorted.
    writer: Option<Arc<PartitionWriter>>,
    /// Copies rows, so that a few do not keep all of their batch.
    rows: BatchCoalescer,
}

impl Slot {
    fn new(writer: Option<Arc<PartitionWriter>>, schema: &SchemaRef, batch_size: usize) -> Self {
        Self {
            writer,
            rows: BatchCoalescer::new(Arc::clone(schema), batch_size),
        }
    }
}

/// The slot of all rows that are sorted.
const SORTED: usize = 0;

impl Demultiplexer {
    pub(super) fn try_new(destinations: Arc<Destinations>) -> Result<Self> {
        let sink = destinations.files.sink();
        let spec = sink.spec.clone();
        let fields = spec.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        let (schema, written_schema) = (sink.schema(), sink.written_schema());
        let batch_size = destinations.context.session_config().batch_size();
        Ok(Self {
            written_columns: sink.written_columns(),
            first_partition_column: sink.first_partition_column(),
            converter: RowConverter::new(fields.collect())?,
            spec,
            slots: vec![Slot::new(None, &schema, batch_size)],
            written_schema,
            batch_size,
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
        Ok(())
    }

    async fn split(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let slots = self.slots_of(&batch)?;
        let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
        order.sort_by_key(|row| slots[*row as usize]);
        let sorted = match slots.windows(2).all(|pair| pair[0] == pair[1]) {
            true => batch,
            false => take_record_batch(&batch, &UInt32Array::from(order.clone()))?,
        };
        let mut start = 0;
        while start < order.len() {
            let slot = slots[order[start] as usize];
            let same = order[start..].partition_point(|row| slots[*row as usize] <= slot);
            let rows = sorted.slice(start, same);
            start += same;
            let rows = match slot {
                SORTED => rows,
                _ => rows.project(&self.written_columns)?,
            };
            self.slots[slot].rows.push_batch(rows)?;
            self.flush(slot).await?;
        }
        Ok(())
    }

    /// The slot of each row.
    fn slots_of(&mut self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let columns = &batch.columns()[self.first_partition_column..];
        let columns = &columns[..self.spec.len()];
        let rows = self.converter.convert_columns(columns)?;
        let mut slots = Vec::with_capacity(batch.num_rows());
        let mut last: Option<(Row<'_>, usize)> = None;
        for (index, row) in rows.iter().enumerate() {
            let slot = match last {
                Some((known, slot)) if known == row => slot,
                _ => match self.known.get(row.as_ref()) {
                    Some(slot) => *slot,
                    None => {
                        let values = || partition_values(&self.spec, columns, index);
                        let slot = match self.destinations.writer(row, values)? {
                            None => SORTED,
                            Some(writer) => {
                                let slot =
                                    Slot::new(Some(writer), &self.written_schema, self.batch_size);
                                self.slots.push(slot);
                                self.slots.len() - 1
                            }
                        };
                        self.known.insert(row.as_ref().into(), slot);
                        slot
                    }
                },
            };
            last = Some((row, slot));
            slots.push(slot);
        }
        Ok(slots)
    }

    /// Hands over the batches that a slot has completed.
    async fn flush(&mut self, slot: usize) -> Result<()> {
        let slot = &mut self.slots[slot];
        while let Some(rows) = slot.rows.next_completed_batch() {
            match &slot.writer {
                Some(writer) => writer.write(rows).await?,
                None => self.destinations.sorted()?.write(rows).await?,
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
