//! [`ListingCache`]: what listings have returned, to be used for a while instead of a request.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use datafusion::common::TableReference;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::cache::default_cache::DefaultCache;
use datafusion::execution::cache::{Cache, CacheKey, CacheValue};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_partitioned_core::ListCacheOptions;
use object_store::path::Path;

use crate::data_file::url_of;
use crate::listing::{Directories, Objects};

/// What an entry needs besides its names and objects: its places in the maps and the queue.
const ENTRY_BYTES: usize = 256;

/// The listings of directories that the queries of a session have made.
///
/// Each entry is one listing of one directory: the names of its directories, or all objects below
/// it. Queries with `partitioned.list_cache.ttl` above zero fill the cache and use entries that
/// are not older than that; others leave it alone.
///
/// - An entry is a whole listing. One that failed, was cancelled or was not read to its end is never
///   kept.
/// - Its age counts from when the listing was started.
/// - The entries take at most `partitioned.list_cache.limit` bytes; the least recently used ones
///   give way.
/// - Tables share entries, since these speak of directories and not of tables.
///
/// A session that was extended by `with_partitioned` has one as an extension of its
/// `SessionConfig`, and a configuration with the extension of another session shares its cache:
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::prelude::SessionConfig;
/// # use datafusion_partitioned_catalog::ListingCache;
/// let cache = Arc::new(ListingCache::default());
/// let first = SessionConfig::new().with_extension(Arc::clone(&cache));
/// let second = SessionConfig::new().with_extension(cache);
/// ```
///
/// Entries are known by the URLs of directories: sessions that share a cache must know the same
/// stores under the same URLs, and a session that registers another store should
/// [`clear`](Self::clear) it.
pub struct ListingCache {
    entries: DefaultCache<ListingKey, Remembered>,
    /// Counts invalidations, so that a listing that was started before one is not kept after it.
    invalidations: Mutex<u64>,
}

impl Default for ListingCache {
    /// An empty cache with the default limit.
    fn default() -> Self {
        Self::new(ListCacheOptions::default().limit.bytes())
    }
}

impl ListingCache {
    /// An empty cache of at most `limit` bytes, until a query comes with another limit.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: DefaultCache::new(limit),
            invalidations: Mutex::new(0),
        }
    }

    /// Forgets every listing in which something at or below `location` may occur: those of its
    /// own directories and those of the directories above. Listings that are being made are not
    /// kept either.
    pub fn invalidate(&self, location: &ListingTableUrl) {
        let changed = url_of(&location.object_store(), location.prefix());
        let _invalidated = self.invalidating();
        for key in self.entries.list_entries().keys() {
            if contains(&changed, &key.location) || contains(&key.location, &changed) {
                self.entries.remove(key);
            }
        }
    }

    /// Forgets all listings.
    pub fn clear(&self) {
        let _invalidated = self.invalidating();
        self.entries.clear();
    }

    /// The number of listings.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no listings.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many bytes the listings take, by and large.
    pub fn bytes(&self) -> usize {
        self.entries.memory_used()
    }

    /// How many bytes they may take.
    pub fn limit(&self) -> usize {
        self.entries.cache_limit()
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        if limit != self.limit() {
            self.entries.update_cache_limit(limit);
        }
    }

    /// To be called before a listing that is to be remembered.
    pub(crate) fn start(&self) -> Started {
        Started {
            at: Instant::now(),
            invalidations: *self.invalidations(),
        }
    }

    pub(crate) fn remember(&self, started: Started, key: &ListingKey, listing: Listing) {
        let invalidations = self.invalidations();
        if *invalidations == started.invalidations {
            let remembered = Remembered {
                listing,
                at: started.at,
            };
            self.entries.put(key, remembered);
        }
    }

    /// The listing, if it is not older than `ttl`.
    pub(crate) fn get(&self, key: &ListingKey, ttl: Duration) -> Option<Listing> {
        let remembered = self.entries.get(key)?;
        (remembered.at.elapsed() < ttl).then_some(remembered.listing)
    }

    fn invalidations(&self) -> MutexGuard<'_, u64> {
        self.invalidations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn invalidating(&self) -> MutexGuard<'_, u64> {
        let mut invalidations = self.invalidations();
        *invalidations += 1;
        invalidations
    }
}

impl fmt::Debug for ListingCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingCache")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .field("limit", &self.limit())
            .finish()
    }
}

/// Whether the directory at the URL `inner` is the one at `outer` or below it.
fn contains(outer: &str, inner: &str) -> bool {
    let outer = outer.trim_end_matches('/');
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// When a listing was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    at: Instant,
    invalidations: u64,
}

/// Which listing an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ListingKey {
    /// The URL of the directory.
    location: Arc<str>,
    kind: ListingKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListingKind {
    /// The directories in the directory.
    Directories,
    /// The objects below it, at any depth.
    Objects,
}

impl ListingKey {
    pub(crate) fn new(store_url: &ObjectStoreUrl, directory: &Path, kind: ListingKind) -> Self {
        Self {
            location: url_of(store_url, directory).into(),
            kind,
        }
    }
}

impl CacheKey for ListingKey {
    fn size(&self) -> usize {
        ENTRY_BYTES + self.location.len()
    }

    fn table_ref(&self) -> Option<&TableReference> {
        None
    }
}

/// What a listing has returned.
#[derive(Debug, Clone)]
pub(crate) enum Listing {
    Directories(Arc<Directories>),
    Objects(Arc<Objects>),
}

#[derive(Debug, Clone)]
struct Remembered {
    listing: Listing,
    at: Instant,
}

impl CacheValue for Remembered {
    fn size(&self) -> usize {
        let listing = match &self.listing {
            Listing::Directories(directories) => directories.bytes(),
            Listing::Objects(objects) => objects.bytes(),
        };
        size_of::<Self>() + listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn key(directory: &str) -> ListingKey {
        let url = ObjectStoreUrl::parse("s3://lake/").unwrap();
        ListingKey::new(&url, &Path::from(directory), ListingKind::Directories)
    }

    fn remember(cache: &ListingCache, directory: &str) {
        let directories = Directories::new(&Path::from(directory), &[]);
        let listing = Listing::Directories(Arc::new(directories));
        cache.remember(cache.start(), &key(directory), listing);
    }

    #[test]
    fn invalidation_reaches_what_is_above_and_below() {
        let cache = ListingCache::default();
        let directories = ["", "t", "t/p=1", "t/p=1/q=1", "t/p=10", "t2"];
        for directory in directories {
            remember(&cache, directory);
        }
        cache.invalidate(&ListingTableUrl::parse("s3://lake/t/p=1").unwrap());
        let left = directories
            .into_iter()
            .filter(|directory| cache.get(&key(directory), HOUR).is_some());
        assert_eq!(left.collect::<Vec<_>>(), ["t/p=10", "t2"]);

        remember(&cache, "t");
        cache.invalidate(&ListingTableUrl::parse("s3://lake/").unwrap());
        assert!(cache.is_empty());
        remember(&cache, "t");
        cache.invalidate(&ListingTableUrl::parse("s3://lake2/").unwrap());
        assert_eq!(cache.len(), 1);
        cache.clear();
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_listing_from_before_an_invalidation_is_not_kept() {
        let cache = ListingCache::default();
        let started = cache.start();
        cache.invalidate(&ListingTableUrl::parse("s3://other/").unwrap());
        let listing = Listing::Directories(Arc::new(Directories::new(&Path::from("t"), &[])));
        cache.remember(started, &key("t"), listing);
        assert!(cache.is_empty());
    }

    #[test]
    fn the_reader_decides_how_old_is_too_old() {
        let cache = ListingCache::default();
        remember(&cache, "t");
        assert!(cache.get(&key("t"), HOUR).is_some());
        std::thread::sleep(Duration::from_millis(2));
        assert!(cache.get(&key("t"), Duration::from_millis(1)).is_none());
    }
}
