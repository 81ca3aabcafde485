//! The hive tree of a fact: its flat file sorted by date key, a directory for each run of equal keys.

use std::ops::Range;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::partition;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;

use super::{ParquetFile, open};
use crate::lake::{HiveSegments, Lake, without_columns};

/// The memory that sorting may take before it spills.
const SORT_MEMORY: usize = 128 << 20;

/// Splits the file `flat` into the directories `prefix/key=value` and returns their number.
pub(super) async fn write_tree(lake: &Lake, flat: &str, prefix: &str, key: &str) -> Result<usize> {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(SORT_MEMORY, 1.0);
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    lake.register(&ctx);
    ctx.register_parquet("flat", lake.location(flat), ParquetReadOptions::default())
        .await?;
    let sorted = ctx
        .sql(&format!("SELECT * FROM flat ORDER BY {key}"))
        .await?;

    let mut batches = sorted.execute_stream().await?;
    let mut tree = TreeWriter::new(lake, prefix, key);
    while let Some(batch) = batches.try_next().await? {
        tree.write(&batch).await?;
    }
    tree.finish().await
}

/// Writes sorted rows into one file for each key.
struct TreeWriter<'a> {
    lake: &'a Lake,
    prefix: &'a str,
    key: &'a str,
    current: Option<(String, ParquetFile)>,
    opened: usize,
}

impl<'a> TreeWriter<'a> {
    fn new(lake: &'a Lake, prefix: &'a str, key: &'a str) -> Self {
        Self {
            lake,
            prefix,
            key,
            current: None,
            opened: 0,
        }
    }

    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = batch.column(batch.schema_ref().index_of(self.key)?);
        let files = without_columns(batch, &[self.key])?;
        for (segment, range) in directories(self.key, keys)? {
            let rows = files.slice(range.start, range.len());
            let file = self.file_of(segment, rows.schema()).await?;
            file.write(&rows).await?;
        }
        Ok(())
    }

    /// The open file when the directory goes on, otherwise a new one in place of it.
    async fn file_of(&mut self, directory: String, schema: SchemaRef) -> Result<&mut ParquetFile> {
        let same = self.current.take_if(|(open, _)| *open == directory);
        let file = match same {
            Some((_, file)) => file,
            None => {
                self.close().await?;
                self.opened += 1;
                let key = format!("{}/{directory}/part-0.parquet", self.prefix);
                open(self.lake, &key, schema)?
            }
        };
        Ok(&mut self.current.insert((directory, file)).1)
    }

    async fn close(&mut self) -> Result<()> {
        if let Some((_, file)) = self.current.take() {
            file.close().await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<usize> {
        self.close().await?;
        Ok(self.opened)
    }
}

/// The runs of equal keys, each with its directory.
fn directories(key: &str, keys: &ArrayRef) -> Result<Vec<(String, Range<usize>)>> {
    let segments = HiveSegments::try_new(key, keys.as_ref())?;
    let runs = partition(&[ArrayRef::clone(keys)])?.ranges().into_iter();
    Ok(runs.map(|run| (segments.segment(run.start), run)).collect())
}
