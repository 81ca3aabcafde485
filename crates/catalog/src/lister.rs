//! [`Lister`]: the one place where directories are listed, from the store or from the cache.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_partitioned_core::{ListingContext, PartitionedOptions, ScanMetrics};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::data_file::listing_error;
use crate::listing::{Directories, Objects};
use crate::listing_cache::{Listing, ListingCache, ListingKey, ListingKind, Started};
use crate::local::{
    check_local_directory, is_local, is_no_directory, list_local_directories, local_path,
};

/// A flat listing is handed on after this many objects, which object stores return in one page.
pub(crate) const OBJECTS_PER_BATCH: usize = 1000;

/// Lists directories of one store.
///
/// Where the session has a [`ListingCache`] and allows to use it, a listing that is in there is no
/// request, and one that is not will be, once it has been read to its end.
#[derive(Debug, Clone)]
pub struct Lister {
    store: Arc<dyn ObjectStore>,
    store_url: ObjectStoreUrl,
    cache: Option<UsedCache>,
    metrics: ScanMetrics,
}

/// The cache of the session, and how old its listings may be.
#[derive(Debug, Clone)]
struct UsedCache {
    listings: Arc<ListingCache>,
    ttl: Duration,
}

impl Lister {
    /// Lists what is in the store at `store_url`, as the options of the session say.
    ///
    /// # Errors
    /// When the session does not know the store.
    pub fn try_new(store_url: &ObjectStoreUrl, context: &ListingContext) -> Result<Self> {
        Ok(Self {
            store: context.runtime.object_store(store_url)?,
            store_url: store_url.clone(),
            cache: UsedCache::of(context),
            metrics: context.metrics.clone(),
        })
    }

    /// Fails when `directory` is not there. In an object store that is no different from being
    /// empty, so there nothing is checked.
    pub(crate) fn check(&self, directory: &Path) -> Result<()> {
        if is_local(self.store.as_ref()) {
            check_local_directory(directory)
                .map_err(|error| listing_error(&self.store_url, directory, error))?;
        }
        Ok(())
    }

    /// The directories in `directory`.
    pub(crate) async fn directories(&self, directory: &Path) -> Result<Arc<Directories>> {
        let Some(cache) = &self.cache else {
            return self.list_directories(directory).await.map(Arc::new);
        };
        let key = self.key(directory, ListingKind::Directories);
        if let Some(Listing::Directories(directories)) = cache.get(&key) {
            self.metrics.list_cache_hits.add(1);
            return Ok(directories);
        }
        let started = cache.listings.start();
        let directories = Arc::new(self.list_directories(directory).await?);
        let listing = Listing::Directories(Arc::clone(&directories));
        cache.listings.remember(started, &key, listing);
        Ok(directories)
    }

    /// The objects below `directory`, in batches. The listing starts when this is first polled.
    pub(crate) fn objects(
        &self,
        directory: &Path,
    ) -> BoxStream<'static, Result<Arc<[ObjectMeta]>>> {
        let (lister, directory) = (self.clone(), directory.clone());
        stream::once(async move {
            let Some(cache) = &lister.cache else {
                return lister.list_objects(directory);
            };
            let key = lister.key(&directory, ListingKind::Objects);
            if let Some(Listing::Objects(objects)) = cache.get(&key) {
                lister.metrics.list_cache_hits.add(1);
                return stream::iter(0..objects.batches().len())
                    .map(move |batch| Ok(Arc::clone(&objects.batches()[batch])))
                    .boxed();
            }
            let recording = Recording {
                started: cache.listings.start(),
                listings: Arc::clone(&cache.listings),
                key,
                objects: Some(Objects::default()),
            };
            recording.of(lister.list_objects(directory))
        })
        .flatten()
        .boxed()
    }

    /// The paths of the objects in `directory`, never from the cache.
    pub(crate) async fn paths(&self, directory: &Path) -> Result<Vec<Path>> {
        let objects: Vec<_> = self.list_objects(directory.clone()).try_collect().await?;
        let paths = objects.iter().flat_map(|objects| objects.iter());
        Ok(paths.map(|object| object.location.clone()).collect())
    }

    /// The contents of an object; `None` when it has been deleted.
    pub(crate) async fn contents(&self, path: &Path) -> Result<Option<Bytes>> {
        match self.store.get(path).await {
            Ok(contents) => Ok(Some(contents.bytes().await?)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there is a directory, on the local file system; `None` for other stores.
    pub(crate) fn is_local_directory(&self, directory: &Path) -> Option<bool> {
        let path = local_path(self.store.as_ref(), directory)?;
        Some(path.is_dir())
    }

    fn key(&self, directory: &Path, kind: ListingKind) -> ListingKey {
        ListingKey::new(&self.store_url, directory, kind)
    }

    async fn list_directories(&self, directory: &Path) -> Result<Directories> {
        self.metrics.list_requests.add(1);
        let listing = if is_local(self.store.as_ref()) {
            list_local_directories(directory.clone()).await
        } else {
            let listing = self.store.list_with_delimiter(Some(directory)).await;
            listing.map(|listing| listing.common_prefixes)
        };
        let found = listing.map_err(|error| listing_error(&self.store_url, directory, error))?;
        Ok(Directories::new(directory, &found))
    }

    fn list_objects(&self, directory: Path) -> BoxStream<'static, Result<Arc<[ObjectMeta]>>> {
        self.metrics.list_requests.add(1);
        let store_url = self.store_url.clone();
        let is_local = is_local(self.store.as_ref());
        self.store
            .list(Some(&directory))
            .filter(move |object| {
                let is_missing = |error| is_local && is_no_directory(error);
                std::future::ready(!object.as_ref().is_err_and(is_missing))
            })
            .map_err(move |error| listing_error(&store_url, &directory, error))
            .try_chunks(OBJECTS_PER_BATCH)
            .map_err(|error| error.1)
            .map_ok(Arc::from)
            .boxed()
    }
}

impl UsedCache {
    /// None when the session has no cache, or does not want to use it.
    fn of(context: &ListingContext) -> Option<Self> {
        let options = PartitionedOptions::from_config(context.config.options()).list_cache;
        if options.ttl.is_zero() {
            return None;
        }
        let listings = context.config.get_extension::<ListingCache>()?;
        listings.set_limit(options.limit.bytes());
        Some(Self {
            listings,
            ttl: options.ttl.duration(),
        })
    }

    fn get(&self, key: &ListingKey) -> Option<Listing> {
        self.listings.get(key, self.ttl)
    }
}

/// A flat listing that is remembered once it has been read to its end.
struct Recording {
    started: Started,
    listings: Arc<ListingCache>,
    key: ListingKey,
    /// None when there are too many.
    objects: Option<Objects>,
}

impl Recording {
    fn of(
        self,
        batches: BoxStream<'static, Result<Arc<[ObjectMeta]>>>,
    ) -> BoxStream<'static, Result<Arc<[ObjectMeta]>>> {
        stream::try_unfold((batches, self), |(mut batches, mut recording)| async move {
            match batches.try_next().await? {
                Some(batch) => {
                    recording.push(&batch);
                    Ok(Some((batch, (batches, recording))))
                }
                None => {
                    recording.finish();
                    Ok(None)
                }
            }
        })
        .boxed()
    }

    fn push(&mut self, batch: &Arc<[ObjectMeta]>) {
        let Some(objects) = &mut self.objects else {
            return;
        };
        objects.push(Arc::clone(batch));
        if objects.bytes() > self.listings.limit() {
            self.objects = None;
        }
    }

    fn finish(self) {
        if let Some(objects) = self.objects {
            let listing = Listing::Objects(Arc::new(objects));
            self.listings.remember(self.started, &self.key, listing);
        }
    }
}
