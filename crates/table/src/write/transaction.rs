//! [`Transaction`]: how written files become part of a table.
//!
//! | step | the directory of a partition | `_commits/` in the directory of the table |
//! |---|---|---|
//! | writing | `.part-ID-00000.parquet.pending`, which everybody skips | |
//! | commit | | `ID.json` is created: from now on the files are part of the table |
//! | publishing | renamed to `part-ID-00000.parquet`, one after the other | |
//! | end | | `ID.json` is deleted |
//!
//! A rename is one step on a local file system, and a copy and a deletion in an object store. Whoever is interrupted
//! before the commit has changed nothing, and whoever is interrupted behind it has left a record of what there is
//! still to do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion_partitioned_core::Partition;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The directory of the records, which readers skip.
const COMMITS: &str = "_commits";

/// Behind the name of a file that is not part of the table yet.
const PENDING: &str = ".pending";

/// How many requests are in flight while files are published.
const CONCURRENCY: usize = 32;

/// A file that is complete.
#[derive(Debug, Clone)]
pub(super) struct WrittenFile {
    pub(super) partition: Partition,
    pub(super) place: FilePlace,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// Where a file is before and after its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePlace {
    pub(super) pending: Path,
    pub(super) published: Path,
}

impl FilePlace {
    fn new(directory: &Path, name: &str) -> Self {
        Self {
            pending: directory.clone().join(format!(".{name}{PENDING}")),
            published: directory.clone().join(name),
        }
    }
}

/// What there is to do behind a commit.
#[derive(Debug, Serialize, Deserialize)]
struct CommitRecord {
    version: u32,
    /// The final paths of the files that become part of the table.
    files: Vec<String>,
}

/// The files of one statement.
pub(super) struct Transaction {
    id: Uuid,
    extension: String,
    root: Path,
    store: Arc<dyn ObjectStore>,
    files: AtomicUsize,
}

impl Transaction {
    /// A transaction of a table in the directory `root`, whose files get this extension.
    pub(super) fn new(store: Arc<dyn ObjectStore>, root: Path, extension: String) -> Self {
        Self {
            // Unique, whoever else writes, and in the order of time.
            id: Uuid::now_v7(),
            extension,
            root,
            store,
            files: AtomicUsize::new(0),
        }
    }

    /// The place of a further file in a directory.
    pub(super) fn next_file(&self, directory: &Path) -> FilePlace {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let (id, extension) = (self.id.simple(), &self.extension);
        FilePlace::new(directory, &format!("part-{id}-{number:05}{extension}"))
    }

    fn record(&self) -> Path {
        let name = format!("{}.json", self.id.simple());
        self.root.clone().join(COMMITS).join(name)
    }

    /// Makes the files part of the table, all of them or, when this fails, none.
    pub(super) async fn commit(&self, files: &[WrittenFile]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let paths = files.iter().map(|file| file.place.published.to_string());
        let record = CommitRecord {
            version: 1,
            files: paths.collect(),
        };
        let record = serde_json::to_vec(&record);
        let record = record.map_err(|error| exec_datafusion_err!("the commit record: {error}"))?;
        let options = PutOptions::from(PutMode::Create);
        let path = self.record();
        let committed = self.store.put_opts(&path, record.into(), options);
        if let Err(error) = committed.await {
            self.abort(files).await;
            return Err(DataFusionError::from(error).context("nothing was written"));
        }
        let published = self.publish(files).await;
        published.map_err(|error| {
            error.context(
                "the rows are part of the table, but not all of their files have their final names yet",
            )
        })?;
        self.store.delete(&self.record()).await?;
        self.remove_empty_directory();
        Ok(())
    }

    async fn publish(&self, files: &[WrittenFile]) -> Result<()> {
        let places: Vec<_> = files.iter().map(|file| file.place.clone()).collect();
        let renamed = stream::iter(places).map(|place| {
            let store = Arc::clone(&self.store);
            async move { store.rename(&place.pending, &place.published).await }
        });
        let renamed = renamed.buffer_unordered(CONCURRENCY);
        renamed.try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Deletes files that do not become part of the table, as far as that is possible: what is left is hidden.
    pub(super) async fn abort(&self, files: &[WrittenFile]) {
        let pending: Vec<_> = files
            .iter()
            .map(|file| file.place.pending.clone())
            .collect();
        let pending = stream::iter(pending).map(Ok).boxed();
        let mut deleted = self.store.delete_stream(pending);
        while let Some(result) = deleted.next().await {
            if let Err(error) = result {
                log::warn!("a file of a failed statement could not be deleted: {error}");
            }
        }
    }

    /// On a local file system, where directories are there without files too.
    fn remove_empty_directory(&self) {
        let directory = self.root.clone().join(COMMITS);
        remove_empty_local_directory(self.store.as_ref(), &directory);
    }
}

/// Removes a directory of the local file system if nothing is in it.
fn remove_empty_local_directory(store: &dyn ObjectStore, directory: &Path) {
    if let Some(directory) = datafusion_partitioned_catalog::local_path(store, directory) {
        // Another writer may use it, or be faster.
        let _ = std::fs::remove_dir(directory);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.id).finish()
    }
}
