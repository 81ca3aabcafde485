//! [`PartitionBuffer`]: rows of more partitions than can be open, in memory until all of them are there.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{concat_batches, interleave_record_batch};
use datafusion::arrow::row::{OwnedRow, Row};
use datafusion::common::runtime::JoinSet;
use datafusion::common::utils::memory::{RecordBatchMemoryCounter, get_record_batch_memory_size};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};

use super::demultiplexer::partition_values;
use super::file_writer::FileWriters;
use super::lock;
use super::partition_writer::{ROWS_OF_A_WRITER, RollingWriter};
use super::transaction::WrittenFile;

/// A chunk is sorted when it has so many rows or bytes: few enough for the caches of a core to be of help.
const CHUNK_ROWS: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 << 20;

/// Rows are handed to the writer of a file in batches of this size.
const ROWS_AT_A_TIME: usize = 1 << 16;

/// So are those of very wide rows.
const BYTES_AT_A_TIME: usize = 16 << 20;

/// Rows of all inputs, as far as the memory pool has room for them.
pub(super) struct PartitionBuffer {
    /// The partitions by their values.
    codes: Mutex<HashMap<OwnedRow, u32>>,
    chunks: Mutex<Vec<Chunk>>,
    reservation: MemoryReservation,
    /// The most bytes that it takes: the files that are written, and the sort of a full buffer, need some too.
    most: usize,
    is_full: AtomicBool,
}

/// Rows that are sorted by partition.
pub(super) struct Chunk {
    pub(super) rows: RecordBatch,
    /// The partitions in it, and where the rows of each end.
    ends: Vec<(u32, usize)>,
    bytes: usize,
    /// The input that they come from. Its chunks are added in their order.
    input: usize,
}

impl PartitionBuffer {
    pub(super) fn new(context: &TaskContext) -> Self {
        let consumer = MemoryConsumer::new("PartitionBuffer").with_can_spill(true);
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / 2,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        Self {
            codes: Mutex::default(),
            chunks: Mutex::default(),
            most,
            reservation: consumer.register(context.memory_pool()),
            is_full: AtomicBool::new(false),
        }
    }

    /// The number of a partition.
    pub(super) fn code(&self, key: Row<'_>) -> u32 {
        let mut codes = lock(&self.codes);
        let next = codes.len() as u32;
        *codes.entry(key.owned()).or_insert(next)
    }

    /// Whether the pool has no room for more rows. Then all of them are to be sorted.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Whether there is room for so many bytes.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let is_too_much = self.reservation.size().saturating_add(bytes) > self.most;
        if self.is_full() || is_too_much || self.reservation.try_grow(bytes).is_err() {
            self.is_full.store(true, Ordering::Release);
            return false;
        }
        true
    }

    pub(super) fn release(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    /// Adds a chunk, or returns it when the buffer is full.
    pub(super) fn add(&self, chunk: Chunk) -> Option<Chunk> {
        let mut chunks = lock(&self.chunks);
        if self.is_full() {
            return Some(chunk);
        }
        chunks.push(chunk);
        None
    }

    /// A chunk of a full buffer.
    pub(super) fn pop(&self) -> Option<Chunk> {
        lock(&self.chunks).pop()
    }

    /// Writes all rows, a partition at a time on each of so many tasks.
    pub(super) async fn write(
        &self,
        files: &Arc<FileWriters>,
        tasks: usize,
        written: &mut Vec<WrittenFile>,
    ) -> Result<()> {
        let mut chunks = std::mem::take(&mut *lock(&self.chunks));
        // Files keep the order of the rows in the inputs.
        chunks.sort_by_key(|chunk| chunk.input);
        let units = Units {
            units: units(&chunks, tasks),
            chunks,
            next: AtomicUsize::new(0),
        };
        let units = Arc::new(units);
        let mut writers = JoinSet::new();
        for _ in 0..tasks.min(units.units.len()) {
            writers.spawn(write_units(Arc::clone(files), Arc::clone(&units)));
        }
        let mut result = Ok(());
        while let Some(files) = writers.join_next().await {
            match files.map_err(|error| exec_datafusion_err!("{error}")) {
                Ok(Ok(files)) => written.extend(files),
                Ok(Err(error)) | Err(error) => result = result.and(Err(error)),
            }
        }
        drop(units);
        self.reservation.free();
        result
    }
}

/// Rows of one input that are not sorted yet.
#[derive(Default)]
pub(super) struct ChunkBuilder {
    batches: Vec<RecordBatch>,
    codes: Vec<u32>,
    bytes: usize,
    counter: RecordBatchMemoryCounter,
    input: usize,
}

impl ChunkBuilder {
    /// Rows of the input with this number.
    pub(super) fn of_input(input: usize) -> Self {
        Self {
            input,
            ..Self::default()
        }
    }

    /// How many bytes a further batch takes. Several can be slices of one.
    pub(super) fn bytes_of(&mut self, batch: &RecordBatch) -> usize {
        let before = self.counter.memory_usage();
        self.counter.count_batch(batch);
        self.counter.memory_usage() - before + batch.num_rows() * size_of::<u32>()
    }

    /// Adds rows, with the partition of each and what they take.
    pub(super) fn push(&mut self, batch: RecordBatch, codes: &[u32], bytes: usize) {
        self.batches.push(batch);
        self.codes.extend_from_slice(codes);
        self.bytes += bytes;
    }

    /// What the batches take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_complete(&self) -> bool {
        self.codes.len() >= CHUNK_ROWS || self.bytes >= CHUNK_BYTES
    }

    /// All batches, and what they take.
    pub(super) fn take(&mut self) -> (Vec<RecordBatch>, usize) {
        let taken = std::mem::replace(self, Self::of_input(self.input));
        (taken.batches, taken.bytes)
    }

    /// The rows by partition, and as they came within each.
    pub(super) fn finish(&mut self) -> Result<Option<Chunk>> {
        let Self {
            batches,
            codes,
            bytes,
            input,
            ..
        } = std::mem::replace(self, Self::of_input(self.input));
        let Some(last) = codes.iter().max() else {
            return Ok(None);
        };
        let mut next = vec![0_usize; *last as usize + 2];
        for code in &codes {
            next[*code as usize + 1] += 1;
        }
        for code in 1..next.len() {
            next[code] += next[code - 1];
        }
        let mut order = vec![(0, 0); codes.len()];
        let mut rows = codes.iter();
        for (index, batch) in batches.iter().enumerate() {
            for (row, code) in (0..batch.num_rows()).zip(&mut rows) {
                let position = &mut next[*code as usize];
                order[*position] = (index, row);
                *position += 1;
            }
        }
        // Each is the end of its partition by now.
        let mut start = 0;
        let mut ends = vec![];
        for (code, end) in (0..).zip(&next[..next.len() - 1]) {
            if *end > start {
                ends.push((code, *end));
                start = *end;
            }
        }
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        let rows = compact(&interleave_record_batch(&batches, &order)?)?;
        Ok(Some(Chunk {
            // What is reserved, or less.
            bytes: bytes.min(get_record_batch_memory_size(&rows)),
            rows,
            ends,
            input,
        }))
    }
}

/// The same rows, without what arrays of views keep of the batches that they come from.
pub(super) fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        if let Some(views) = column.as_string_view_opt() {
            return Arc::new(views.gc());
        }
        match column.as_binary_view_opt() {
            Some(views) => Arc::new(views.gc()),
            None => Arc::clone(column),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect();
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        columns,
        &options,
    )?)
}

impl Chunk {
    /// What was reserved for it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Rows of one partition: ranges of chunks.
#[derive(Default, Clone)]
struct Unit {
    ranges: Vec<(usize, Range<usize>)>,
    rows: usize,
}

struct Units {
    chunks: Vec<Chunk>,
    units: Vec<Unit>,
    next: AtomicUsize,
}

/// The partitions, of which the large ones are divided.
fn units(chunks: &[Chunk], tasks: usize) -> Vec<Unit> {
    let mut partitions: Vec<Unit> = vec![];
    for (index, chunk) in chunks.iter().enumerate() {
        let mut start = 0;
        for (code, end) in &chunk.ends {
            let code = *code as usize;
            if partitions.len() <= code {
                partitions.resize(code + 1, Unit::default());
            }
            partitions[code].ranges.push((index, start..*end));
            partitions[code].rows += end - start;
            start = *end;
        }
    }
    let mut units = vec![];
    for partition in partitions {
        let most = (partition.rows.div_ceil(tasks)).max(ROWS_OF_A_WRITER as usize);
        let mut unit = Unit::default();
        for (chunk, range) in partition.ranges {
            unit.rows += range.len();
            unit.ranges.push((chunk, range));
            if unit.rows >= most {
                units.push(std::mem::take(&mut unit));
            }
        }
        if unit.rows > 0 {
            units.push(unit);
        }
    }
    // So that no large one is left to the end.
    units.sort_by_key(|unit| std::cmp::Reverse(unit.rows));
    units
}

async fn write_units(files: Arc<FileWriters>, units: Arc<Units>) -> Result<Vec<WrittenFile>> {
    let sink = Arc::clone(files.sink());
    let columns = sink.written_columns();
    let first = sink.first_partition_column();
    let mut written = vec![];
    loop {
        let next = units.next.fetch_add(1, Ordering::Relaxed);
        let Some(unit) = units.units.get(next) else {
            return Ok(written);
        };
        let Some((chunk, range)) = unit.ranges.first() else {
            continue;
        };
        let values = &units.chunks[*chunk].rows.columns()[first..first + sink.spec.len()];
        let values = partition_values(&sink.spec, values, range.start)?;
        let mut writer = RollingWriter::try_new(Arc::clone(&files), values).await?;
        let mut batches: Vec<RecordBatch> = vec![];
        let (mut rows, mut bytes) = (0, 0);
        for (position, (chunk, range)) in unit.ranges.iter().enumerate() {
            let Chunk {
                rows: batch,
                bytes: all,
                ..
            } = &units.chunks[*chunk];
            bytes += all / batch.num_rows() * range.len();
            let batch = batch.slice(range.start, range.len()).project(&columns)?;
            rows += batch.num_rows();
            batches.push(batch);
            let is_enough = rows >= ROWS_AT_A_TIME || bytes >= BYTES_AT_A_TIME;
            if is_enough || position + 1 == unit.ranges.len() {
                let batch = match &batches[..] {
                    [batch] => batch.clone(),
                    [first, ..] => concat_batches(first.schema_ref(), &batches)?,
                    [] => continue,
                };
                writer.write(batch).await?;
                batches.clear();
                (rows, bytes) = (0, 0);
            }
        }
        written.extend(writer.finish().await?);
    }
}
