//! An object store that writes down every request before it passes it on.
//!
//! The promise of the project is about requests that are *not* sent, so the log of a query is the
//! proof: a pruned directory occurs in no line of it.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::request::{Request, RequestKind};

/// Logs every request to the store that it wraps.
///
/// Clones share the log, so a test can keep one and register another.
///
/// - A flat LIST is one request however many pages it has, and is logged when it is first polled.
/// - `get_ranges` is one GET with all of its ranges, whether or not the store merges them.
/// - An upload in parts is one PUT, logged when it starts.
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion_partitioned_test_utils::{RequestCountingStore, RequestKind};
/// # use object_store::{ObjectStore, memory::InMemory, path::Path};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> object_store::Result<()> {
/// let store = RequestCountingStore::new(Arc::new(InMemory::new()));
/// store.list_with_delimiter(Some(&Path::from("t/year=2024"))).await?;
///
/// assert_eq!(store.log(), "LIST /t/year=2024/ (delimiter)");
/// assert_eq!(store.count(RequestKind::ListWithDelimiter), 1);
/// assert!(store.mentioning("year=2023").is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RequestCountingStore {
    inner: Arc<dyn ObjectStore>,
    log: Arc<RequestLog>,
}

impl RequestCountingStore {
    /// Wraps `inner` with an empty log.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            log: Arc::default(),
        }
    }

    /// The requests since the last [`clear`](Self::clear), in the order in which they were sent.
    pub fn requests(&self) -> Vec<Request> {
        self.log.with(|requests| requests.clone())
    }

    /// The requests as sorted lines, which are the same whatever the concurrency was.
    pub fn log(&self) -> String {
        let mut lines: Vec<_> = self.requests().iter().map(ToString::to_string).collect();
        lines.sort();
        lines.join("\n")
    }

    /// How many requests of one kind were sent.
    pub fn count(&self, kind: RequestKind) -> usize {
        self.count_where(|request| request.kind == kind)
    }

    /// How many listings of either kind were sent.
    pub fn list_count(&self) -> usize {
        self.count_where(|request| request.kind.is_list())
    }

    /// The requests whose path contains `text`, such as the name of a directory.
    pub fn mentioning(&self, text: &str) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.path.as_ref().contains(text));
        requests
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        self.log.with(Vec::clear);
    }

    fn count_where(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.log
            .with(|requests| requests.iter().filter(|request| wanted(request)).count())
    }
}

#[derive(Debug, Default)]
struct RequestLog(Mutex<Vec<Request>>);

impl RequestLog {
    fn add(&self, request: Request) {
        self.with(|requests| requests.push(request));
    }

    fn with<T>(&self, f: impl FnOnce(&mut Vec<Request>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for RequestCountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestCountingStore({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for RequestCountingStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.log.add(Request::put(location, &options.mode));
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.log.add(Request::put_multipart(location));
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.log.add(Request::get(location, &options));
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.log.add(Request::get_ranges(location, ranges));
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let log = Arc::clone(&self.log);
        let logged = locations.inspect(move |location| {
            if let Ok(location) = location {
                log.add(Request::delete(location));
            }
        });
        self.inner.delete_stream(logged.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.inner.list(prefix);
        log_at_first_poll(&self.log, Request::list(prefix), objects)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.inner.list_with_offset(prefix, offset);
        let request = Request::list_with_offset(prefix, offset);
        log_at_first_poll(&self.log, request, objects)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.log.add(Request::list_with_delimiter(prefix));
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.log.add(Request::copy(from, to));
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.log.add(Request::rename(from, to));
        self.inner.rename_opts(from, to, options).await
    }
}

/// A listing that nobody polls sends nothing, so it must not be in the log either.
fn log_at_first_poll(
    log: &Arc<RequestLog>,
    request: Request,
    objects: BoxStream<'static, Result<ObjectMeta>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let log = Arc::clone(log);
    let logged = stream::once(async move { log.add(request) });
    logged
        .filter_map(|()| future::ready(None))
        .chain(objects)
        .boxed()
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn every_kind_of_request_is_one_line() -> Result<()> {
        let store = store();
        let (a, b, c) = (Path::from("t/a"), Path::from("t/b"), Path::from("t/c"));
        store.put(&a, "0123456789".into()).await?;
        store
            .put_opts(&b, "b".into(), object_store::PutMode::Create.into())
            .await?;
        store.get_range(&a, 0..4).await?;
        store.get_ranges(&a, &[0..2, 8..10]).await?;
        store.get(&a).await?;
        store.head(&a).await?;
        store.copy(&a, &c).await?;
        store.rename(&b, &Path::from("t/d")).await?;
        store.delete(&c).await?;
        store.put_multipart(&c).await?.abort().await?;
        store.list(None).try_collect::<Vec<_>>().await?;
        let t = Path::from("t");
        store.list(Some(&t)).try_collect::<Vec<_>>().await?;
        store
            .list_with_offset(Some(&t), &a)
            .try_collect::<Vec<_>>()
            .await?;
        store.list_with_delimiter(None).await?;

        let lines: Vec<_> = store.requests().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "PUT /t/a",
                "PUT /t/b (create)",
                "GET /t/a (bytes=0-3)",
                "GET /t/a (bytes=0-1,8-9)",
                "GET /t/a",
                "HEAD /t/a",
                "COPY /t/a (to /t/c)",
                "RENAME /t/b (to /t/d)",
                "DELETE /t/c",
                "PUT /t/c (multipart)",
                "LIST /",
                "LIST /t/",
                "LIST /t/ (after /t/a)",
                "LIST / (delimiter)",
            ]
        );
        assert_eq!(store.list_count(), 4);
        assert_eq!(store.count(RequestKind::Get), 3);
        Ok(())
    }

    #[tokio::test]
    async fn clones_share_the_log_and_clear_empties_it() -> Result<()> {
        let store = store();
        store.put(&Path::from("t/y=1/a"), "a".into()).await?;
        let clone = store.clone();
        assert_eq!(clone.mentioning("y=1").len(), 1);
        assert!(clone.mentioning("y=2").is_empty());

        clone.clear();
        assert_eq!(store.log(), "");
        Ok(())
    }

    #[tokio::test]
    async fn a_listing_is_logged_when_it_is_polled() -> Result<()> {
        let store = store();
        let listing = store.list(None);
        assert_eq!(store.list_count(), 0);

        listing.try_collect::<Vec<_>>().await?;
        assert_eq!(store.list_count(), 1);
        Ok(())
    }

    fn store() -> RequestCountingStore {
        RequestCountingStore::new(Arc::new(InMemory::new()))
    }
}
