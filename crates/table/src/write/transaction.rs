//! [`Transaction`]: how written files become part of a table.
//!
//! | step | the directory of a partition | `_commits/` in the directory of the table |
//! |---|---|---|
//! | writing | `.part-ID-00000.parquet.pending`, which everybody skips | |
//! | commit | | `ID.json` is created: from now on the files are part of the table |
//! | publishing | renamed to `part-ID-00000.parquet`, one after the other | |
//! | replacing | the files in whose place they come are deleted | |
//! | end | | `ID.json` is deleted |
//!
//! A rename is one step on a local file system, and a copy and a deletion in an object store. Whoever is interrupted
//! before the commit has changed nothing, and whoever is interrupted behind it has left a record of what there is
//! still to do: the next statement that writes does it first. Statements that replace files commit one at a time, each
//! with a lock, and only if all files are still there that they found.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{TimeDelta, Utc};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion_partitioned_catalog::{CommitRecord, local_path, pending_path};
use datafusion_partitioned_core::Partition;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use uuid::Uuid;

use super::replaced::Replaced;

/// The object beside the records that lets one statement at a time replace files.
const LOCK: &str = "overwrite.lock";

/// How long a statement that replaces files may take from its commit to its end.
const LOCK_TIMEOUT: TimeDelta = TimeDelta::minutes(15);

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
        let published = directory.clone().join(name);
        Self {
            pending: pending_path(&published),
            published,
        }
    }
}

/// Does what a record says, as far as it is not done: several statements may do so at the same time.
async fn publish(store: &Arc<dyn ObjectStore>, record: &CommitRecord) -> Result<()> {
    let renamed = stream::iter(record.files()?).map(|published| {
        let store = Arc::clone(store);
        async move { ignore_missing(store.rename(&pending_path(&published), &published).await) }
    });
    let mut renamed = renamed.buffer_unordered(CONCURRENCY);
    while let Some(result) = renamed.next().await {
        result?;
    }
    // Only when all new ones are there.
    let removed: Vec<_> = record.removed()?.into_iter().map(Ok).collect();
    let mut deleted = store.delete_stream(stream::iter(removed).boxed());
    while let Some(result) = deleted.next().await {
        ignore_missing(result.map(drop))?;
    }
    Ok(())
}

/// What is not there any more has been done by somebody else.
fn ignore_missing(result: object_store::Result<()>) -> object_store::Result<()> {
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        other => other,
    }
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
        let name = format!("{}{}", self.id.simple(), CommitRecord::EXTENSION);
        self.commits().join(name)
    }

    fn commits(&self) -> Path {
        self.root.clone().join(CommitRecord::DIRECTORY)
    }

    /// Makes the files part of the table, in the place of those that are replaced: all of them or, when this fails,
    /// none.
    pub(super) async fn commit(
        &self,
        files: &[WrittenFile],
        replaced: Option<&Replaced>,
    ) -> Result<()> {
        let Some(replaced) = replaced else {
            return self.commit_files(files, vec![]).await;
        };
        let committed = match self.lock().await {
            Ok(()) => {
                let committed = match replaced.files().await {
                    Ok(removed) => self.commit_files(files, removed).await,
                    Err(error) => {
                        self.abort(files).await;
                        Err(error)
                    }
                };
                let unlocked = self.store.delete(&self.lock_path()).await;
                committed.and_then(|()| Ok(unlocked?))
            }
            Err(error) => {
                self.abort(files).await;
                Err(error)
            }
        };
        self.remove_empty_directory();
        committed
    }

    async fn commit_files(&self, files: &[WrittenFile], removed: Vec<Path>) -> Result<()> {
        if files.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let paths: Vec<Path> = files
            .iter()
            .map(|file| file.place.published.clone())
            .collect();
        let record = CommitRecord::new(&paths, &removed);
        let text = record.to_text()?;
        let path = self.record();
        let created = self
            .store
            .put_opts(&path, text.into(), PutMode::Create.into());
        if let Err(error) = created.await {
            self.abort(files).await;
            return Err(DataFusionError::from(error).context("nothing was written"));
        }
        let published = publish(&self.store, &record).await;
        published.map_err(|error| {
            error.context(format!(
                "the statement is committed, but not all of its files have their final names yet; the next statement \
                 that writes to the table goes on with what '{path}' says"
            ))
        })?;
        self.store.delete(&path).await?;
        self.remove_empty_directory();
        Ok(())
    }

    fn lock_path(&self) -> Path {
        self.commits().join(LOCK)
    }

    /// Lets no other statement replace files until the lock is deleted.
    async fn lock(&self) -> Result<()> {
        let path = self.lock_path();
        let id = self.id.simple().to_string();
        match self
            .store
            .put_opts(&path, id.into(), PutMode::Create.into())
            .await
        {
            Ok(_) => Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => exec_err!(
                "conflict: another statement is replacing partitions of the table, so that nothing was written; run it \
                 again. What a statement leaves that was killed, '{path}', is removed after {} minutes",
                LOCK_TIMEOUT.num_minutes()
            ),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on with what interrupted statements have committed, and removes a lock that has been left.
    pub(super) async fn recover(&self) -> Result<()> {
        let commits = self.commits();
        let left: Vec<_> = self.store.list(Some(&commits)).try_collect().await?;
        for object in &left {
            match object.location.filename() {
                Some(LOCK) => {
                    let age = Utc::now().signed_duration_since(object.last_modified);
                    if age > LOCK_TIMEOUT {
                        ignore_missing(self.store.delete(&object.location).await)?;
                    }
                }
                Some(name) if name.ends_with(CommitRecord::EXTENSION) => {
                    self.recover_commit(&object.location).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn recover_commit(&self, path: &Path) -> Result<()> {
        let text = match self.store.get(path).await {
            Ok(text) => text.bytes().await?,
            // The statement has ended.
            Err(object_store::Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let record = CommitRecord::parse(path, &text)?;
        publish(&self.store, &record).await?;
        ignore_missing(self.store.delete(path).await)?;
        self.remove_empty_directory();
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
        let directory = self.commits();
        if let Some(directory) = local_path(self.store.as_ref(), &directory) {
            // Another writer may use it, or be faster.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.id).finish()
    }
}
