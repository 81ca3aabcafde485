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
use std::sync::{Arc, Mutex};

use chrono::{TimeDelta, Utc};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion_partitioned_catalog::{CommitRecord, local_path, pending_path};
use datafusion_partitioned_core::Partition;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use uuid::Uuid;

use super::lock;
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
        async move { publish_file(&store, &published).await }
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

/// Renames a file, unless somebody else has.
async fn publish_file(store: &Arc<dyn ObjectStore>, published: &Path) -> Result<()> {
    match store.rename(&pending_path(published), published).await {
        Ok(()) => Ok(()),
        // What is neither there nor here has been deleted by somebody: what it replaces must stay.
        Err(object_store::Error::NotFound { .. }) => {
            let there = store.head(published).await;
            there.map(drop).map_err(|error| {
                DataFusionError::from(error).context("a file of a committed statement is gone")
            })
        }
        Err(error) => Err(error.into()),
    }
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
    /// The hidden files that may be there.
    pending: Mutex<Vec<Path>>,
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
            pending: Mutex::default(),
        }
    }

    /// The place of a further file in a directory.
    pub(super) fn next_file(&self, directory: &Path) -> FilePlace {
        let mut pending = lock(&self.pending);
        let (id, number, extension) = (self.id.simple(), pending.len(), &self.extension);
        let place = FilePlace::new(directory, &format!("part-{id}-{number:05}{extension}"));
        pending.push(place.pending.clone());
        place
    }

    fn record(&self) -> Path {
        let name = format!("{}{}", self.id.simple(), CommitRecord::EXTENSION);
        self.commits().join(name)
    }

    fn commits(&self) -> Path {
        self.root.clone().join(CommitRecord::DIRECTORY)
    }

    /// Makes the files part of the table, in the place of those that are replaced: all of them or, when this fails,
    /// none. `finish` is called when all files have their names, and before the commit is over.
    pub(super) async fn commit(
        &self,
        files: &[WrittenFile],
        replaced: Option<&Replaced>,
        finish: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(replaced) = replaced else {
            return self.commit_files(files, vec![], finish).await;
        };
        self.lock().await?;
        let committed = async {
            // One that has been interrupted would replace files later.
            self.recover_commits().await?;
            let removed = replaced.files_still_there().await?;
            self.commit_files(files, removed, finish).await
        };
        let committed = committed.await;
        if let Err(error) = self.unlock().await {
            log::warn!(
                "the lock '{}' could not be deleted: {error}",
                self.lock_path()
            );
        }
        self.remove_empty_directory();
        committed
    }

    async fn commit_files(
        &self,
        files: &[WrittenFile],
        removed: Vec<Path>,
        finish: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        if files.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let paths: Vec<Path> = files
            .iter()
            .map(|file| file.place.published.clone())
            .collect();
        let record = CommitRecord::new(&paths, &removed);
        let path = self.record();
        self.create_record(&path, record.to_text()?).await?;
        // From here on the files are part of the table, and not to be deleted.
        self.forget_pending();
        let unfinished = |error: DataFusionError| {
            error.context(format!(
                "the statement is committed, but not finished; the next one that writes to the table goes on with what \
                 '{path}' says"
            ))
        };
        publish(&self.store, &record).await.map_err(unfinished)?;
        finish().await.map_err(unfinished)?;
        // Somebody else may have gone on with it.
        ignore_missing(self.store.delete(&path).await)?;
        self.remove_empty_directory();
        Ok(())
    }

    /// Creates the record. After an error, which can be that of a lost answer, looks whether it is there.
    async fn create_record(&self, path: &Path, text: Vec<u8>) -> Result<()> {
        let created = self
            .store
            .put_opts(path, text.into(), PutMode::Create.into());
        let Err(error) = created.await else {
            return Ok(());
        };
        match self.store.head(path).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::NotFound { .. }) => {
                Err(DataFusionError::from(error).context("nothing was written"))
            }
            Err(_) => {
                self.forget_pending();
                Err(DataFusionError::from(error).context(format!(
                    "it is not known whether the statement is committed: it is if '{path}' is there"
                )))
            }
        }
    }

    fn lock_path(&self) -> Path {
        self.commits().join(LOCK)
    }

    /// Deletes the lock, unless it is somebody else's by now.
    async fn unlock(&self) -> object_store::Result<()> {
        let path = self.lock_path();
        let owner = match self.store.get(&path).await {
            Ok(lock) => lock.bytes().await?,
            Err(error) => return ignore_missing(Err(error)),
        };
        match owner == self.id.simple().to_string().as_bytes() {
            true => ignore_missing(self.store.delete(&path).await),
            false => Ok(()),
        }
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
        self.recover_commits().await?;
        match self.store.head(&self.lock_path()).await {
            Ok(lock) if Utc::now().signed_duration_since(lock.last_modified) > LOCK_TIMEOUT => {
                ignore_missing(self.store.delete(&lock.location).await)?;
            }
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn recover_commits(&self) -> Result<()> {
        let commits = self.commits();
        let left: Vec<_> = self.store.list(Some(&commits)).try_collect().await?;
        let names = left.iter().map(|object| &object.location);
        for path in names.filter(|path| path.as_ref().ends_with(CommitRecord::EXTENSION)) {
            self.recover_commit(path).await?;
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

    fn forget_pending(&self) -> Vec<Path> {
        std::mem::take(&mut *lock(&self.pending))
    }

    /// Deletes the hidden files of a statement that has failed, as far as that is possible. Behind the commit it does
    /// nothing.
    pub(super) async fn abort(&self) {
        let pending = self.forget_pending().into_iter().map(Ok);
        let mut deleted = self.store.delete_stream(stream::iter(pending).boxed());
        while let Some(result) = deleted.next().await {
            if let Err(error) = ignore_missing(result.map(drop)) {
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
