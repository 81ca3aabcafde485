//! [`remove_leftovers`]: what statements that were killed have left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion_partitioned_catalog::{local_path, published_path};
use datafusion_partitioned_core::PartitionPredicate;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::Sink;
use super::commits::{Commits, ignore_missing, parent};
use super::overwrite_lock::{TIMEOUT, remove_abandoned};
use super::replaced::listing_context;
use super::transaction::LOCK;

/// What was left by statements that were killed, and is no more.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// The records of statements that were killed behind their commits. They are finished now.
    pub finished: Vec<Path>,
    /// The hidden files of statements that were killed before.
    pub deleted: Vec<Path>,
}

/// Finishes the statements that were killed behind their commits.
pub(crate) async fn finish_interrupted(sink: &Arc<Sink>, context: &TaskContext) -> Result<()> {
    let store = context.runtime_env().object_store(&sink.store_url)?;
    Commits::new(Arc::clone(sink), store).recover().await?;
    Ok(())
}

/// Finishes the statements that were killed behind their commits, and deletes the hidden files of others that are older
/// than the option `sink.pending.grace-time` says.
pub(crate) async fn remove_leftovers(sink: &Arc<Sink>, context: &TaskContext) -> Result<Leftovers> {
    let store = context.runtime_env().object_store(&sink.store_url)?;
    let commits = Commits::new(Arc::clone(sink), Arc::clone(&store));
    let grace_time = sink.options.pending_grace_time.duration();
    let timeout = TimeDelta::from_std(grace_time)
        .unwrap_or(TIMEOUT)
        .min(TIMEOUT);
    remove_abandoned(&store, &commits.path(LOCK), timeout).await?;
    let finished = commits.recover().await?;
    let root = sink.committer.root();
    let mut directories = vec![root.clone()];
    if sink.catalog.registry().is_some() {
        let all = PartitionPredicate::all(&sink.spec);
        let mut listed = sink.catalog.list(all, listing_context(context));
        while let Some(partitions) = listed.try_next().await? {
            let locations = partitions.sources().iter().map(|source| &source.location);
            let elsewhere = locations.filter(|location| !location.prefix_matches(&root));
            directories.extend(elsewhere.cloned());
        }
    }
    let mut deleted = vec![];
    for directory in &directories {
        deleted.extend(abandoned_files(&store, directory, grace_time).await?);
    }
    for path in &deleted {
        ignore_missing(store.delete(path).await)?;
    }
    for directory in directories {
        if let Some(local) = local_path(store.as_ref(), &directory) {
            remove_staged_files(&local, grace_time, &mut deleted)?;
        }
    }
    let emptied: BTreeSet<Path> = deleted.iter().filter_map(parent).collect();
    commits.remove_empty_directories(emptied);
    Ok(Leftovers { finished, deleted })
}

/// The hidden files below a directory that nobody has written to for so long.
async fn abandoned_files(
    store: &Arc<dyn ObjectStore>,
    directory: &Path,
    grace_time: Duration,
) -> Result<Vec<Path>> {
    let now = Utc::now();
    let is_old = |age: TimeDelta| age.to_std().is_ok_and(|age| age >= grace_time);
    let objects = store.list(Some(directory));
    let abandoned = objects.try_filter(|object| {
        let is_pending = published_path(&object.location).is_some();
        let age = now.signed_duration_since(object.last_modified);
        std::future::ready(is_pending && is_old(age))
    });
    let abandoned = abandoned.map_ok(|object| object.location);
    Ok(abandoned.try_collect().await?)
}

/// Deletes what a local file system has of files that were not even complete, `.NAME.pending#1`, which no listing shows.
fn remove_staged_files(
    directory: &std::path::Path,
    grace_time: Duration,
    deleted: &mut Vec<Path>,
) -> Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            remove_staged_files(&entry.path(), grace_time, deleted)?;
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_staged = name.rsplit_once('#').is_some_and(|(name, number)| {
            let is_number = number.parse::<u32>().is_ok();
            is_number && published_path(&Path::from(name)).is_some()
        });
        let age = metadata.modified()?.elapsed().unwrap_or_default();
        if is_staged && age >= grace_time {
            std::fs::remove_file(entry.path())?;
            let path = Path::from_absolute_path(entry.path());
            deleted.push(path.map_err(object_store::Error::from)?);
        }
    }
    Ok(())
}
