//! [`Transaction`]: how written files become part of a table.
//!
//! | step | the directory of a partition | `_commits/` in the directory of the table |
//! |---|---|---|
//! | writing | `.part-ID-00000.parquet.pending`, which everybody skips | |
//! | commit | | `ID.json` is created: from now on the files are part of the table |
//! | publishing | renamed to `part-ID-00000.parquet`, one after the other | `ID.overwritten`, if files are replaced |
//! | replacing | the files in whose place they come are deleted | |
//! | end | new partitions are registered, commit policies are called | `ID.json` is deleted |
//!
//! A rename is one step on a local file system, and a copy and a deletion in an object store. Whoever is interrupted
//! before the commit has changed nothing, and whoever is interrupted behind it has left a record of what there is
//! still to do: the next statement that writes does it first. Statements that replace files commit one at a time, each
//! with a lock, and only if all files are still there that they found.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::common::{DataFusionError, Result};
use datafusion_partitioned_catalog::{CommitRecord, pending_path};
use datafusion_partitioned_core::{Partition, WrittenPartition};
use futures::future::{Either, select};
use futures::stream::{self, StreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use uuid::Uuid;

use super::commits::{Commits, ignore_missing, parent};
use super::lock;
use super::overwrite_lock::OverwriteLock;
use super::replaced::Replaced;

/// The object beside the records that lets one statement at a time replace files.
pub(super) const LOCK: &str = "overwrite.lock";

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

/// The files of one statement.
pub(super) struct Transaction {
    id: Uuid,
    extension: String,
    commits: Commits,
    store: Arc<dyn ObjectStore>,
    /// The hidden files that may be there.
    pending: Mutex<Vec<Path>>,
    /// Whether there is, or may be, a record of the files, which then must stay.
    is_committed: AtomicBool,
}

impl Transaction {
    /// A transaction of the table of `commits`, whose files get this extension.
    pub(super) fn new(store: Arc<dyn ObjectStore>, commits: Commits, extension: String) -> Self {
        Self {
            // Unique, whoever else writes, and in the order of time.
            id: Uuid::now_v7(),
            extension,
            commits,
            store,
            pending: Mutex::default(),
            is_committed: AtomicBool::new(false),
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

    /// Makes the files part of the table, in the place of those that are replaced: all of them or, when this fails,
    /// none. It has to be polled to its end: [`Self::abort`] has no part in it any more, since `pending` is what
    /// [`Self::take_pending`] has returned.
    pub(super) async fn commit(
        &self,
        pending: Vec<Path>,
        files: &[WrittenFile],
        written: &[WrittenPartition],
        replaced: Option<&Replaced>,
    ) -> Result<()> {
        let committed = match replaced {
            None => self.commit_files(files, written, vec![], None).await,
            Some(replaced) => self.replace_files(files, written, replaced).await,
        };
        if !self.is_committed.load(Ordering::Acquire) {
            self.delete(pending).await;
        }
        committed
    }

    async fn replace_files(
        &self,
        files: &[WrittenFile],
        written: &[WrittenPartition],
        replaced: &Replaced,
    ) -> Result<()> {
        let (path, owner) = (self.commits.path(LOCK), self.id.simple().to_string());
        let held = OverwriteLock::acquire(&self.store, path, owner).await?;
        let committed = async {
            // One that has been interrupted would replace files later.
            self.commits.recover().await?;
            let removed = replaced.files_still_there().await?;
            self.commit_files(files, written, removed, Some(&held))
                .await
        };
        let committed = match select(pin!(committed), pin!(held.keep())).await {
            Either::Left((committed, _)) => committed,
            Either::Right(((), committed)) => committed.await,
        };
        held.release().await;
        let lock = self.commits.path(LOCK);
        self.commits.remove_empty_directories(parent(&lock));
        committed
    }

    async fn commit_files(
        &self,
        files: &[WrittenFile],
        written: &[WrittenPartition],
        removed: Vec<Path>,
        held: Option<&OverwriteLock>,
    ) -> Result<()> {
        if files.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let published = files.iter().map(|file| file.place.published.clone());
        let published: Vec<Path> = published.collect();
        let record = CommitRecord::try_new(&published, &removed, written)?;
        let name = format!("{}{}", self.id.simple(), CommitRecord::EXTENSION);
        let path = self.commits.path(&name);
        if let Some(held) = held {
            held.check().await?;
        }
        self.create_record(&path, record.to_text()?).await?;
        let finished = self.commits.finish(&path, &record).await;
        finished.map_err(|error| {
            error.context(format!(
                "the statement is committed, but not finished; the next one that writes to the table, or MSCK REPAIR TABLE, \
                 goes on with what '{path}' says"
            ))
        })
    }

    /// Creates the record. After an error, which can be that of a lost answer, looks whether it is there.
    async fn create_record(&self, path: &Path, text: Vec<u8>) -> Result<()> {
        let created = self
            .store
            .put_opts(path, text.into(), PutMode::Create.into());
        let created = match created.await {
            Ok(_) => Ok(()),
            Err(error) => match self.store.head(path).await {
                Ok(_) => Ok(()),
                Err(object_store::Error::NotFound { .. }) => {
                    return Err(DataFusionError::from(error).context("nothing was written"));
                }
                Err(_) => Err(DataFusionError::from(error).context(format!(
                    "it is not known whether the statement is committed: it is if '{path}' is there"
                ))),
            },
        };
        self.is_committed.store(true, Ordering::Release);
        created
    }

    /// The hidden files, which are the caller's to delete from now on.
    pub(super) fn take_pending(&self) -> Vec<Path> {
        std::mem::take(&mut *lock(&self.pending))
    }

    /// Deletes the hidden files of a statement that has failed, as far as that is possible.
    pub(super) async fn abort(&self) {
        self.delete(self.take_pending()).await;
    }

    async fn delete(&self, pending: Vec<Path>) {
        let directories: Vec<Path> = pending.iter().filter_map(parent).collect();
        let pending = stream::iter(pending.into_iter().map(Ok)).boxed();
        let mut deleted = self.store.delete_stream(pending);
        while let Some(result) = deleted.next().await {
            if let Err(error) = ignore_missing(result.map(drop)) {
                log::warn!("a file of a failed statement could not be deleted: {error}");
            }
        }
        self.commits.remove_empty_directories(directories);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.id).finish()
    }
}
