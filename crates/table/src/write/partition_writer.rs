//! [`PartitionWriter`]: the rows of one partition, from all inputs.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion_partitioned_core::{Partition, PartitionValues};
use tokio::sync::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::file_writer::{FileWriter, FileWriters};
use super::transaction::WrittenFile;

/// A partition gets a further writer when all it has are busy and each has had as many rows.
pub(super) const ROWS_OF_A_WRITER: u64 = 1_000_000;

/// Writes the rows of a partition into files, several at once where one is too slow.
#[derive(Debug)]
pub(super) struct PartitionWriter {
    files: Arc<FileWriters>,
    values: PartitionValues,
    max_writers: usize,
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    senders: Vec<Sender<RecordBatch>>,
    written: Vec<SpawnedTask<Result<Vec<WrittenFile>>>>,
    rows: u64,
    next: usize,
}

impl PartitionWriter {
    pub(super) fn new(
        files: Arc<FileWriters>,
        values: PartitionValues,
        max_writers: usize,
    ) -> Self {
        Self {
            files,
            values,
            max_writers,
            tasks: Mutex::default(),
        }
    }

    /// Adds rows, with the columns of files. Waits for a writer that is free, or begins one.
    pub(super) async fn write(&self, batch: RecordBatch) -> Result<()> {
        let (sender, batch) = {
            let mut tasks = self.tasks.lock().await;
            tasks.rows += batch.num_rows() as u64;
            let mut batch = batch;
            let writers = tasks.senders.len();
            for _ in 0..writers {
                tasks.next = (tasks.next + 1) % writers;
                batch = match tasks.senders[tasks.next].try_send(batch) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Full(batch)) => batch,
                    Err(TrySendError::Closed(_)) => return Err(ended()),
                };
            }
            let is_behind = tasks.rows / (writers as u64 + 1) >= ROWS_OF_A_WRITER;
            if writers == 0 || (writers < self.max_writers && is_behind) {
                let (sender, receiver) = mpsc::channel(2);
                let (files, values) = (Arc::clone(&self.files), self.values.clone());
                let written = write_partition(files, values, receiver);
                tasks.written.push(SpawnedTask::spawn(written));
                tasks.senders.push(sender);
                tasks.next = writers;
            }
            (tasks.senders[tasks.next].clone(), batch)
        };
        // Why it has ended is what `finish` says.
        let sent = sender.send(batch).await;
        sent.map_err(|_| ended())
    }

    /// Lets the writers complete their files.
    pub(super) async fn close(&self) {
        self.tasks.lock().await.senders.clear();
    }

    /// The files of the partition, when all of them are complete.
    pub(super) async fn finish(&self, files: &mut Vec<WrittenFile>) -> Result<()> {
        let tasks = std::mem::take(&mut *self.tasks.lock().await);
        drop(tasks.senders);
        let mut result = Ok(());
        for written in tasks.written {
            let written = written.join_unwind().await;
            match written.map_err(|error| exec_datafusion_err!("{error}")) {
                Ok(Ok(written)) => files.extend(written),
                Ok(Err(error)) | Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}

/// Why it has, its task says.
fn ended() -> DataFusionError {
    exec_datafusion_err!("the writer of a partition has ended")
}

async fn write_partition(
    files: Arc<FileWriters>,
    values: PartitionValues,
    mut batches: Receiver<RecordBatch>,
) -> Result<Vec<WrittenFile>> {
    let mut partition = RollingWriter::try_new(files, values).await?;
    while let Some(batch) = batches.recv().await {
        partition.write(batch).await?;
    }
    partition.finish().await
}

/// Writes rows of a partition into one file after the other.
pub(super) struct RollingWriter {
    files: Arc<FileWriters>,
    partition: Partition,
    open: Option<FileWriter>,
    written: Vec<WrittenFile>,
}

impl RollingWriter {
    pub(super) async fn try_new(files: Arc<FileWriters>, values: PartitionValues) -> Result<Self> {
        Ok(Self {
            partition: files.partition(values).await?,
            files,
            open: None,
            written: vec![],
        })
    }

    /// Adds rows, with the columns of files.
    pub(super) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let sink = Arc::clone(self.files.sink());
        let options = &sink.options;
        let mut rest = batch;
        while rest.num_rows() > 0 {
            let file = match &mut self.open {
                Some(file) => file,
                None => self.open.insert(self.files.begin(&self.partition).await?),
            };
            let room = options.max_rows.saturating_sub(file.rows() as usize);
            let rows = rest.num_rows().min(room);
            file.write(rest.slice(0, rows)).await?;
            rest = rest.slice(rows, rest.num_rows() - rows);
            if file.rows() as usize >= options.max_rows || file.bytes() >= options.file_size {
                self.roll().await?;
            }
        }
        Ok(())
    }

    async fn roll(&mut self) -> Result<()> {
        if let Some(file) = self.open.take() {
            self.written.push(file.finish().await?);
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<Vec<WrittenFile>> {
        self.roll().await?;
        Ok(self.written)
    }
}
