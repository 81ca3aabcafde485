//! Small lakes: objects at exact keys, and record batches split into hive directories.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::{csv, json};
use datafusion::arrow_avro::errors::AvroError;
use datafusion::arrow_avro::writer::AvroWriter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::SessionContext;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::{Path, PathPart};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

/// The directory value of the rows whose partition column is NULL.
pub(crate) const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// A place for tables: an object store, and the URL under which a session finds it.
///
/// ```
/// # use datafusion::error::Result;
/// # use datafusion::prelude::SessionContext;
/// # use datafusion_partitioned_test_utils::Lake;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let lake = Lake::in_memory()?;
/// lake.put_text("t/p=1/a.csv", "n\n10\n").await?;
/// lake.put_text("t/p=2/a.csv", "n\n20\n").await?;
///
/// let ctx = SessionContext::new();
/// lake.register(&ctx);
/// ctx.sql(&format!(
///     "CREATE EXTERNAL TABLE t (n INT, p INT) STORED AS CSV PARTITIONED BY (p) LOCATION '{}'",
///     lake.location("t/")
/// ))
/// .await?;
/// assert_eq!(ctx.table("t").await?.count().await?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Lake {
    url: ObjectStoreUrl,
    root: Path,
    store: Arc<dyn ObjectStore>,
}

impl Lake {
    /// An empty lake in memory, at `memory://lake/`.
    pub fn in_memory() -> Result<Self> {
        Self::new("memory://lake/", Arc::new(InMemory::new()))
    }

    /// A lake in a directory that exists, at its `file://` URL.
    pub fn local(directory: &std::path::Path) -> Result<Self> {
        Ok(Self {
            url: ObjectStoreUrl::local_filesystem(),
            root: Path::from_absolute_path(directory)?,
            store: Arc::new(LocalFileSystem::new()),
        })
    }

    /// A lake in any store. The URL is a scheme and a host, such as `s3://bucket/`.
    pub fn new(url: &str, store: Arc<dyn ObjectStore>) -> Result<Self> {
        Ok(Self {
            url: ObjectStoreUrl::parse(url)?,
            root: Path::ROOT,
            store,
        })
    }

    /// The same lake through another store, such as one that counts or fails its requests.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn ObjectStore>) -> Self {
        self.store = store;
        self
    }

    /// The store of the lake.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Makes the lake known to a session, in place of any store with the same URL.
    pub fn register(&self, ctx: &SessionContext) {
        ctx.register_object_store(self.url.as_ref(), Arc::clone(&self.store));
    }

    /// The URL of a key, for `LOCATION`. That of a directory ends with a slash, as the key does.
    pub fn location(&self, key: &str) -> String {
        let url = self.url.as_str();
        if self.root.is_root() {
            format!("{url}{key}")
        } else {
            format!("{url}{}/{key}", self.root)
        }
    }

    /// Writes one object. The key is taken as it is, escapes included.
    pub async fn put(&self, key: &str, kind: FileKind, batch: &RecordBatch) -> Result<()> {
        self.put_payload(key, kind.encode(batch)?.into()).await
    }

    /// Writes one object with any content: a marker, an empty file, a broken one.
    pub async fn put_text(&self, key: &str, text: &str) -> Result<()> {
        self.put_payload(key, text.to_owned().into()).await
    }

    /// Writes one object with these bytes.
    pub async fn put_bytes(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        self.put_payload(key, bytes.into()).await
    }

    /// Splits a batch into hive directories below `prefix`, one level for each of the partition
    /// `columns`, and returns the number of directories.
    ///
    /// Each directory gets one file, `part-0`, without the partition columns. NULL is spelled
    /// `__HIVE_DEFAULT_PARTITION__`, other values as Arrow prints them with the characters escaped
    /// that an object key cannot hold. For other spellings use [`put`](Self::put).
    pub async fn put_partitioned(
        &self,
        prefix: &str,
        kind: FileKind,
        batch: &RecordBatch,
        columns: &[&str],
    ) -> Result<usize> {
        let partitions = split(batch, columns)?;
        for (directory, rows) in &partitions {
            let key = format!("{prefix}/{directory}/part-0.{}", kind.extension());
            self.put(&key, kind, rows).await?;
        }
        Ok(partitions.len())
    }

    /// The path of a key in the store.
    pub(crate) fn path(&self, key: &str) -> Result<Path> {
        let key = Path::parse(key)?;
        Ok(self.root.parts().chain(key.parts()).collect())
    }

    async fn put_payload(&self, key: &str, payload: PutPayload) -> Result<()> {
        self.store.put(&self.path(key)?, payload).await?;
        Ok(())
    }
}

/// A file format, shown as `STORED AS` spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Parquet with the writer's default properties.
    Parquet,
    /// CSV with a header line.
    Csv,
    /// Tab separated values with a header line.
    Tsv,
    /// A JSON object in each line; NULLs are left out.
    Json,
    /// Arrow IPC, the file format.
    Arrow,
    /// Arrow IPC, the stream format.
    ArrowStream,
    /// Avro object containers.
    Avro,
}

impl FileKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Parquet,
        Self::Csv,
        Self::Tsv,
        Self::Json,
        Self::Arrow,
        Self::ArrowStream,
        Self::Avro,
    ];

    /// The ending of its file names, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Arrow => "arrow",
            Self::ArrowStream => "arrows",
            Self::Avro => "avro",
        }
    }

    /// The content of a file with these rows.
    pub fn encode(self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::Parquet => {
                let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
                writer.write(batch)?;
                writer.close()?;
            }
            Self::Csv => csv::Writer::new(&mut bytes).write(batch)?,
            Self::Tsv => csv::WriterBuilder::new()
                .with_delimiter(b'\t')
                .build(&mut bytes)
                .write(batch)?,
            Self::Json => json::LineDelimitedWriter::new(&mut bytes).write(batch)?,
            Self::Arrow => {
                let mut writer = FileWriter::try_new(&mut bytes, &batch.schema())?;
                writer.write(batch)?;
                writer.finish()?;
            }
            Self::ArrowStream => {
                let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema())?;
                writer.write(batch)?;
                writer.finish()?;
            }
            Self::Avro => {
                let schema = batch.schema().as_ref().clone();
                let mut writer = AvroWriter::new(&mut bytes, schema).map_err(external)?;
                writer.write(batch).map_err(external)?;
                writer.finish().map_err(external)?;
            }
        }
        Ok(bytes)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "PARQUET",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Json => "JSON",
            Self::Arrow | Self::ArrowStream => "ARROW",
            Self::Avro => "AVRO",
        })
    }
}

fn external(error: AvroError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Spells the values of a partition column as hive path segments, `name=value`.
pub(crate) struct HiveSegments<'a> {
    name: &'a str,
    column: &'a dyn Array,
    values: ArrayFormatter<'a>,
}

impl<'a> HiveSegments<'a> {
    pub(crate) fn try_new(name: &'a str, column: &'a dyn Array) -> Result<Self> {
        Ok(Self {
            name,
            column,
            values: ArrayFormatter::try_new(column, &FormatOptions::new())?,
        })
    }

    pub(crate) fn segment(&self, row: usize) -> String {
        let name = self.name;
        let segment = if self.column.is_null(row) {
            format!("{name}={NULL_PARTITION}")
        } else {
            format!("{name}={}", self.values.value(row))
        };
        PathPart::from(segment).as_ref().to_owned()
    }
}

/// The rows of each directory, without the partition columns.
fn split(batch: &RecordBatch, columns: &[&str]) -> Result<BTreeMap<String, RecordBatch>> {
    let schema = batch.schema_ref();
    let levels = columns
        .iter()
        .map(|name| HiveSegments::try_new(name, batch.column(schema.index_of(name)?)))
        .collect::<Result<Vec<_>>>()?;

    let mut rows = BTreeMap::<String, Vec<u32>>::new();
    for (row, index) in (0..batch.num_rows()).zip(0..) {
        let segments: Vec<_> = levels.iter().map(|level| level.segment(row)).collect();
        rows.entry(segments.join("/")).or_default().push(index);
    }

    let files = without_columns(batch, columns)?;
    let split = rows.into_iter().map(|(directory, rows)| {
        let rows = take_record_batch(&files, &UInt32Array::from(rows))?;
        Ok((directory, rows))
    });
    split.collect()
}

/// The columns that go into the files.
pub(crate) fn without_columns(
    batch: &RecordBatch,
    columns: &[&str],
) -> Result<RecordBatch, ArrowError> {
    let fields = batch.schema_ref().fields().iter().enumerate();
    let kept: Vec<_> = fields
        .filter(|(_, field)| !columns.contains(&field.name().as_str()))
        .map(|(index, _)| index)
        .collect();
    batch.project(&kept)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Date32Array, Int32Array, StringArray};
    use futures::TryStreamExt;

    use super::*;
    use crate::sorted_rows;

    #[tokio::test]
    async fn a_batch_becomes_a_tree_of_directories() -> Result<()> {
        let lake = Lake::in_memory()?;
        let count = lake
            .put_partitioned("t", FileKind::Csv, &batch()?, &["day", "s"])
            .await?;
        assert_eq!(count, 3);
        assert_eq!(
            keys(&lake).await?,
            [
                "t/day=1970-01-02/s=__HIVE_DEFAULT_PARTITION__/part-0.csv",
                "t/day=1970-01-02/s=a%2Fb/part-0.csv",
                "t/day=__HIVE_DEFAULT_PARTITION__/s=c/part-0.csv",
            ]
        );
        Ok(())
    }

    #[tokio::test]
    async fn files_hold_the_other_columns() -> Result<()> {
        for kind in [FileKind::Parquet, FileKind::Csv, FileKind::Json] {
            let lake = Lake::in_memory()?;
            let batch = batch()?;
            lake.put_partitioned("t", kind, &batch, &["day", "s"])
                .await?;

            let ctx = SessionContext::new();
            lake.register(&ctx);
            let key = format!("t/day={NULL_PARTITION}/s=c/part-0.{}", kind.extension());
            let location = lake.location(&key);
            ctx.sql(&format!(
                "CREATE EXTERNAL TABLE t STORED AS {kind} LOCATION '{location}'"
            ))
            .await?;
            let rows = ctx.sql("SELECT * FROM t").await?.collect().await?;
            assert_eq!(sorted_rows(&rows), ["3", "4"]);
            assert_eq!(rows[0].schema().field(0).name(), "n");
        }
        Ok(())
    }

    #[tokio::test]
    async fn keys_are_taken_as_they_are() -> Result<()> {
        let lake = Lake::in_memory()?;
        lake.put_text("t/p=a%20b/_SUCCESS", "").await?;
        lake.put_text("t/p=01/x", "").await?;
        assert_eq!(keys(&lake).await?, ["t/p=01/x", "t/p=a%20b/_SUCCESS"]);
        Ok(())
    }

    #[tokio::test]
    async fn a_local_lake_lies_in_its_directory() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let lake = Lake::local(directory.path())?;
        lake.put_text("t/p=1/a.csv", "n\n1\n").await?;
        assert!(directory.path().join("t/p=1/a.csv").exists());
        assert!(lake.location("t/").starts_with("file:///"));
        assert!(lake.location("t/").ends_with("/t/"));
        Ok(())
    }

    async fn keys(lake: &Lake) -> Result<Vec<String>> {
        let objects: Vec<_> = lake.store().list(None).try_collect().await?;
        let mut keys: Vec<_> = objects
            .iter()
            .map(|object| object.location.to_string())
            .collect();
        keys.sort();
        Ok(keys)
    }

    fn batch() -> Result<RecordBatch> {
        let columns: [(_, ArrayRef); 3] = [
            ("n", Arc::new(Int32Array::from(vec![1, 2, 3, 4]))),
            (
                "day",
                Arc::new(Date32Array::from(vec![Some(1), Some(1), None, None])),
            ),
            (
                "s",
                Arc::new(StringArray::from(vec![
                    Some("a/b"),
                    None,
                    Some("c"),
                    Some("c"),
                ])),
            ),
        ];
        Ok(RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, array)| (name, array, true)),
        )?)
    }
}
