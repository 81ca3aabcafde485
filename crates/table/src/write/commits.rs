//! [`Commits`]: what statements that write to a table have still to do behind their commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned_catalog::{
    CommitRecord, ListingCache, local_path, location_of, pending_path,
};
use datafusion_partitioned_core::PartitionCommit;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use super::Sink;

/// How many requests are in flight while files are published.
const CONCURRENCY: usize = 32;

/// The commit records of a table. Several statements may finish one at the same time.
#[derive(Debug, Clone)]
pub(super) struct Commits {
    sink: Arc<Sink>,
    store: Arc<dyn ObjectStore>,
}

impl Commits {
    pub(super) fn new(sink: Arc<Sink>, store: Arc<dyn ObjectStore>) -> Self {
        Self { sink, store }
    }

    /// An object beside the records.
    pub(super) fn path(&self, name: &str) -> Path {
        self.directory().join(name)
    }

    fn directory(&self) -> Path {
        self.sink.committer.root().join(CommitRecord::DIRECTORY)
    }

    /// What a statement does first. One that replaces files finishes those that have been interrupted; one that adds
    /// some tries to.
    pub(super) async fn begin(&self, overwrites: bool) -> Result<()> {
        let recovered = self.recover().await;
        if overwrites {
            recovered?;
            return self.first_marker().await;
        }
        if let Err(error) = recovered {
            log::warn!("an interrupted statement could not be finished: {error}");
        }
        Ok(())
    }

    /// Finishes all statements that have been interrupted. Returns their records.
    pub(super) async fn recover(&self) -> Result<Vec<Path>> {
        let mut recovered = vec![];
        for path in self.objects(CommitRecord::EXTENSION).await? {
            let text = match self.store.get(&path).await {
                Ok(text) => text.bytes().await?,
                // The statement has ended.
                Err(object_store::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let record = CommitRecord::parse(&path, &text)?;
            self.finish(&path, &record).await?;
            recovered.push(path);
        }
        Ok(recovered)
    }

    /// Whoever begins to list the table from now on looks for markers: on an object store, where nothing tells whether
    /// there could be some without a request.
    async fn first_marker(&self) -> Result<()> {
        if self.objects(CommitRecord::OVERWRITTEN).await?.is_empty() {
            let name = format!("0{}", CommitRecord::OVERWRITTEN);
            self.store.put(&self.path(&name), PutPayload::new()).await?;
        }
        Ok(())
    }

    async fn objects(&self, extension: &str) -> Result<Vec<Path>> {
        let objects = self.store.list(Some(&self.directory()));
        let objects: Vec<_> = objects.try_collect().await?;
        let paths = objects.into_iter().map(|object| object.location);
        Ok(paths
            .filter(|path| path.as_ref().ends_with(extension))
            .collect())
    }

    /// Does what a record says, as far as it is not done, and deletes it.
    pub(super) async fn finish(&self, path: &Path, record: &CommitRecord) -> Result<()> {
        let (files, removed) = (record.files()?, record.removed()?);
        let marker = path
            .as_ref()
            .replace(CommitRecord::EXTENSION, CommitRecord::OVERWRITTEN);
        let marker = Path::parse(marker).map_err(object_store::Error::from)?;
        if !removed.is_empty() {
            // Before anybody can see some of it.
            self.store.put(&marker, PutPayload::new()).await?;
        }
        let published = self.publish(&files, &removed).await;
        self.forget_listings(files.iter().chain(&removed))?;
        published?;
        let written = record.written(&self.sink.spec)?;
        let committed = self.sink.committer.commit(&written).await;
        if let Err(DataFusionError::Plan(_)) = &committed {
            // It would fail each time.
            ignore_missing(self.store.delete(path).await)?;
        }
        committed?;
        let commit = PartitionCommit {
            spec: self.sink.spec.clone(),
            root: self.sink.committer.root(),
            store: Arc::clone(&self.store),
            written,
        };
        for policy in &self.sink.options.commit_policies {
            let committed = policy.commit(&commit).await;
            committed.map_err(|error| {
                error.context(format!("the commit policy '{}' has failed", policy.name()))
            })?;
        }
        if !removed.is_empty() {
            self.delete_markers_but(&marker).await?;
        }
        ignore_missing(self.store.delete(path).await)?;
        let emptied = removed.iter().filter_map(parent);
        self.remove_empty_directories(emptied.chain([self.directory()]));
        Ok(())
    }

    /// Renames new files, and when all of them are there, deletes those in whose place they come.
    async fn publish(&self, files: &[Path], removed: &[Path]) -> Result<()> {
        let renamed = stream::iter(files.to_vec())
            .map(|published| async move { publish_file(&self.store, &published).await });
        let mut renamed = renamed.buffer_unordered(CONCURRENCY);
        while let Some(result) = renamed.next().await {
            result?;
        }
        let removed: Vec<_> = removed.iter().cloned().map(Ok).collect();
        let mut deleted = self.store.delete_stream(stream::iter(removed).boxed());
        while let Some(result) = deleted.next().await {
            ignore_missing(result.map(drop))?;
        }
        Ok(())
    }

    /// One marker tells as much as many.
    async fn delete_markers_but(&self, last: &Path) -> Result<()> {
        for path in self.objects(CommitRecord::OVERWRITTEN).await? {
            if path < *last {
                ignore_missing(self.store.delete(&path).await)?;
            }
        }
        Ok(())
    }

    /// Makes the queries of this session list directories again that have changed.
    fn forget_listings<'a>(&self, changed: impl IntoIterator<Item = &'a Path>) -> Result<()> {
        let config = self.sink.state.config();
        let Some(listings) = config.get_extension::<ListingCache>() else {
            return Ok(());
        };
        let directories: BTreeSet<Path> = changed.into_iter().filter_map(parent).collect();
        for directory in directories {
            let url = format!("{}/", location_of(&self.sink.store_url, &directory));
            listings.invalidate(&ListingTableUrl::parse(url)?);
        }
        Ok(())
    }

    /// On a local file system, where directories are there without files too. That of the table stays.
    pub(super) fn remove_empty_directories(&self, directories: impl IntoIterator<Item = Path>) {
        let root = self.sink.committer.root();
        for directory in directories.into_iter().collect::<BTreeSet<_>>() {
            let mut directory = Some(directory);
            while let Some(path) =
                directory.filter(|path| path.prefix_matches(&root) && *path != root)
            {
                let Some(local) = local_path(self.store.as_ref(), &path) else {
                    return;
                };
                // It has files, another writer uses it, or was faster.
                if std::fs::remove_dir(local).is_err() {
                    break;
                }
                directory = parent(&path);
            }
        }
    }
}

/// Renames a file, unless somebody else has.
async fn publish_file(store: &Arc<dyn ObjectStore>, published: &Path) -> Result<()> {
    match store.rename(&pending_path(published), published).await {
        Ok(()) => Ok(()),
        // What is neither there nor here has been deleted by somebody: what it replaces must stay.
        Err(object_store::Error::NotFound { .. }) => {
            let there = store.head(published).await;
            there.map(drop).map_err(|error| {
                DataFusionError::from(error).context(
                    "a file of a committed statement is gone; when that is right, delete the commit record in '_commits'",
                )
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// What is not there any more has been done by somebody else.
pub(super) fn ignore_missing(result: object_store::Result<()>) -> object_store::Result<()> {
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

/// The directory of a file or a directory.
pub(super) fn parent(path: &Path) -> Option<Path> {
    let (parent, _) = path.as_ref().rsplit_once('/')?;
    Path::parse(parent).ok()
}
