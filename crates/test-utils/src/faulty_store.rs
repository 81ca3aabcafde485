//! An object store that fails, delays or holds chosen requests, loses answers, or lists backwards.
//!
//! A failed LIST must never look like an empty partition, and a query that is dropped must let go
//! of its requests. Both need a store that misbehaves on command.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{self, FutureExt, TryFutureExt};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};
use tokio::sync::watch;

use crate::request::Request;

/// Disturbs requests to the store that it wraps, as its [`Fault`]s say.
///
/// Clones share the faults, so a test can keep one and register another.
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion_partitioned_test_utils::{Fault, FaultyStore};
/// # use object_store::{ObjectStore, memory::InMemory, path::Path};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultyStore::new(Arc::new(InMemory::new()));
/// store.inject(Fault::fail(|request| {
///     request.kind.is_list() && request.path.as_ref().contains("year=2024")
/// }));
///
/// let prefix = Path::from("t/year=2024");
/// let error = store.list_with_delimiter(Some(&prefix)).await.unwrap_err();
/// assert!(error.to_string().contains("LIST /t/year=2024/"));
/// assert!(store.list_with_delimiter(None).await.is_ok());
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<Faults>,
}

impl FaultyStore {
    /// Wraps `inner`, so far without a fault.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            faults: Arc::default(),
        }
    }

    /// Adds a fault. When several match a request, they act in the order in which they were added.
    pub fn inject(&self, fault: Fault) {
        self.faults.with(|faults| faults.push(Arc::new(fault)));
    }

    /// Removes all faults. Requests that are held already stay so until their gate opens.
    pub fn heal(&self) {
        self.faults.with(Vec::clear);
    }
}

/// What happens to which requests.
pub struct Fault {
    wanted: Box<dyn Fn(&Request) -> bool + Send + Sync>,
    effect: Effect,
    nth: Option<usize>,
    matched: AtomicUsize,
}

#[derive(Debug)]
enum Effect {
    Fail,
    LoseAnswer,
    FailHalfway,
    FailAfter(usize),
    Delay(Duration),
    Hold(Gate),
    Backwards,
}

impl Fault {
    /// The request fails with [`Error::Generic`].
    pub fn fail(wanted: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Effect::Fail, wanted)
    }

    /// What the request asks for is done, but it fails as [`fail`](Self::fail) does: the answer is lost.
    pub fn lose_answer(wanted: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Effect::LoseAnswer, wanted)
    }

    /// A RENAME fails when it has copied the object, and deleted nothing: in an object store it is these two. Any
    /// other request fails at once.
    pub fn fail_halfway(wanted: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Effect::FailHalfway, wanted)
    }

    /// A flat LIST fails after it returned `objects`, as when a later page of it is lost. Any other
    /// request fails at once.
    pub fn fail_after(
        objects: usize,
        wanted: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(Effect::FailAfter(objects), wanted)
    }

    /// The request is sent after a pause.
    pub fn delay(
        pause: Duration,
        wanted: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(Effect::Delay(pause), wanted)
    }

    /// The request is sent when the gate opens.
    pub fn hold(gate: &Gate, wanted: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Effect::Hold(gate.clone()), wanted)
    }

    /// A listing returns what it has in the reverse order, as a local file system may. Other requests
    /// are as they are.
    pub fn backwards(wanted: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Effect::Backwards, wanted)
    }

    /// Restricts the fault to the `n`th of the requests that it matches, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: usize) -> Self {
        self.nth = Some(n);
        self
    }

    fn new(effect: Effect, wanted: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self {
            wanted: Box::new(wanted),
            effect,
            nth: None,
            matched: AtomicUsize::new(0),
        }
    }

    /// Whether the fault acts on this request, which counts as a match.
    fn applies_to(&self, request: &Request) -> bool {
        (self.wanted)(request) && {
            let number = self.matched.fetch_add(1, Ordering::Relaxed) + 1;
            self.nth.is_none_or(|nth| nth == number)
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("effect", &self.effect)
            .field("nth", &self.nth)
            .field("matched", &self.matched)
            .finish_non_exhaustive()
    }
}

/// Holds requests until it is opened. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<watch::Sender<GateState>>);

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    held: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets all requests through that are held and all that follow.
    pub fn open(&self) {
        self.0.send_modify(|state| state.open = true);
    }

    /// How many requests are held now. One whose query was dropped is not.
    pub fn held(&self) -> usize {
        self.0.borrow().held
    }

    /// Waits until the number of held requests is one that `wanted` accepts.
    pub async fn wait_for_held(&self, mut wanted: impl FnMut(usize) -> bool) {
        self.wait_for(|state| wanted(state.held)).await;
    }

    async fn pass(&self) {
        let _held = Held::new(self);
        self.wait_for(|state| state.open).await;
    }

    async fn wait_for(&self, wanted: impl FnMut(&GateState) -> bool) {
        // The only error is that the sender is gone, and `self` keeps it.
        let _ = self.0.subscribe().wait_for(wanted).await;
    }
}

/// Counts a request as held for as long as it lives.
struct Held<'a>(&'a Gate);

impl<'a> Held<'a> {
    fn new(gate: &'a Gate) -> Self {
        gate.0.send_modify(|state| state.held += 1);
        Self(gate)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.held -= 1);
    }
}

#[derive(Debug, Default)]
struct Faults(Mutex<Vec<Arc<Fault>>>);

impl Faults {
    /// Sends a request that is no listing, unless a fault fails it.
    async fn send<T>(
        &self,
        request: &Request,
        effect: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let disturbed = self.disturb(request).await?;
        if disturbed.fail_after.is_some() || disturbed.is_halfway {
            return Err(injected(request));
        }
        disturbed.answer(request, effect.await)
    }

    /// Lets every fault act that applies to the request, until one of them fails it. Returns what is to become of it.
    async fn disturb(&self, request: &Request) -> Result<Disturbed> {
        let mut disturbed = Disturbed::default();
        for fault in self.with(|faults| faults.clone()) {
            if !fault.applies_to(request) {
                continue;
            }
            match &fault.effect {
                Effect::Fail => return Err(injected(request)),
                Effect::LoseAnswer => disturbed.is_lost = true,
                Effect::FailHalfway => disturbed.is_halfway = true,
                Effect::FailAfter(objects) => disturbed.fail_after = Some(*objects),
                Effect::Delay(pause) => tokio::time::sleep(*pause).await,
                Effect::Hold(gate) => gate.pass().await,
                Effect::Backwards => disturbed.backwards = true,
            }
        }
        Ok(disturbed)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Vec<Arc<Fault>>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is to become of a request and its result.
#[derive(Debug, Default)]
struct Disturbed {
    /// How many objects come before a listing fails.
    fail_after: Option<usize>,
    backwards: bool,
    is_lost: bool,
    is_halfway: bool,
}

impl Disturbed {
    /// The answer that the caller gets.
    fn answer<T>(&self, request: &Request, answer: Result<T>) -> Result<T> {
        match self.is_lost {
            true => answer.and(Err(injected(request))),
            false => answer,
        }
    }
}

fn injected(request: &Request) -> Error {
    Error::Generic {
        store: "FaultyStore",
        source: format!("injected failure of {request}").into(),
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let request = Request::put(location, &options.mode);
        let effect = self.inner.put_opts(location, payload, options);
        self.faults.send(&request, effect).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let request = Request::put_multipart(location);
        let effect = self.inner.put_multipart_opts(location, options);
        Ok(Box::new(FaultyUpload {
            inner: self.faults.send(&request, effect).await?,
            location: location.clone(),
            parts: 0,
            faults: Arc::clone(&self.faults),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let request = Request::get(location, &options);
        let effect = self.inner.get_opts(location, options);
        self.faults.send(&request, effect).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let request = Request::get_ranges(location, ranges);
        let effect = self.inner.get_ranges(location, ranges);
        self.faults.send(&request, effect).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let faults = Arc::clone(&self.faults);
        let lost = Arc::new(Mutex::new(HashSet::new()));
        let lose = Arc::clone(&lost);
        let disturbed = locations.and_then(move |location| {
            let (faults, lose) = (Arc::clone(&faults), Arc::clone(&lose));
            async move {
                let request = Request::delete(&location);
                let disturbed = faults.disturb(&request).await?;
                if disturbed.fail_after.is_some() || disturbed.is_halfway {
                    return Err(injected(&request));
                }
                if disturbed.is_lost {
                    let mut lose = lose.lock().unwrap_or_else(PoisonError::into_inner);
                    lose.insert(location.clone());
                }
                Ok(location)
            }
        });
        let deleted = self.inner.delete_stream(disturbed.boxed());
        let answered = deleted.map(move |deleted| {
            let lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
            match deleted {
                Ok(path) if lost.contains(&path) => Err(injected(&Request::delete(&path))),
                deleted => deleted,
            }
        });
        answered.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.inner.list(prefix);
        disturb_objects(&self.faults, Request::list(prefix), objects)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.inner.list_with_offset(prefix, offset);
        let request = Request::list_with_offset(prefix, offset);
        disturb_objects(&self.faults, request, objects)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let request = Request::list_with_delimiter(prefix);
        let disturbed = self.faults.disturb(&request).await?;
        if disturbed.fail_after.is_some() || disturbed.is_lost || disturbed.is_halfway {
            return Err(injected(&request));
        }
        let mut listing = self.inner.list_with_delimiter(prefix).await?;
        if disturbed.backwards {
            listing.common_prefixes.reverse();
            listing.objects.reverse();
        }
        Ok(listing)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let effect = self.inner.copy_opts(from, to, options);
        self.faults.send(&Request::copy(from, to), effect).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let request = Request::rename(from, to);
        let disturbed = self.faults.disturb(&request).await?;
        if disturbed.fail_after.is_some() {
            return Err(injected(&request));
        }
        if disturbed.is_halfway {
            self.inner.copy(from, to).await?;
            return Err(injected(&request));
        }
        disturbed.answer(&request, self.inner.rename_opts(from, to, options).await)
    }
}

/// An upload in parts. Each part, its end and its cancellation are requests too.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    parts: usize,
    faults: Arc<Faults>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts += 1;
        let request = Request::upload(&self.location, format!("part {}", self.parts));
        let (part, faults) = (self.inner.put_part(data), Arc::clone(&self.faults));
        async move { faults.send(&request, part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let request = Request::upload(&self.location, "complete");
        self.faults.send(&request, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let request = Request::upload(&self.location, "abort");
        self.faults.send(&request, self.inner.abort()).await
    }
}

fn disturb_objects(
    faults: &Arc<Faults>,
    request: Request,
    objects: BoxStream<'static, Result<ObjectMeta>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let faults = Arc::clone(faults);
    let disturbed = async move {
        let disturbed = faults.disturb(&request).await?;
        if disturbed.is_halfway || disturbed.is_lost {
            return Err(injected(&request));
        }
        let objects = match disturbed.backwards {
            true => {
                let mut all: Vec<_> = objects.collect().await;
                all.reverse();
                stream::iter(all).boxed()
            }
            false => objects,
        };
        let objects = match disturbed.fail_after {
            None => objects,
            Some(limit) => {
                let failure = stream::once(future::ready(Err(injected(&request))));
                objects.take(limit).chain(failure).boxed()
            }
        };
        Result::Ok(objects)
    };
    disturbed.try_flatten_stream().boxed()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use object_store::memory::InMemory;
    use tokio::time::timeout;

    use super::*;
    use crate::request::RequestKind;

    #[tokio::test]
    async fn only_the_nth_match_fails() -> Result<()> {
        let store = store().await?;
        store.inject(Fault::fail(|request| request.kind == RequestKind::Get).nth(2));

        let a = Path::from("t/a");
        store.head(&a).await?;
        store.get(&a).await?;
        let error = store.get_range(&a, 0..1).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "Generic FaultyStore error: injected failure of GET /t/a (bytes=0-0)"
        );
        store.get(&a).await?;
        Ok(())
    }

    #[tokio::test]
    async fn a_listing_fails_halfway() -> Result<()> {
        let store = store().await?;
        store.inject(Fault::fail_after(2, |request| request.kind.is_list()));

        let mut objects = store.list(None);
        assert!(objects.next().await.is_some_and(|object| object.is_ok()));
        assert!(objects.next().await.is_some_and(|object| object.is_ok()));
        assert!(objects.next().await.is_some_and(|object| object.is_err()));
        assert!(objects.next().await.is_none());
        assert!(store.list_with_delimiter(None).await.is_err());

        store.heal();
        assert_eq!(store.list(None).count().await, 3);
        Ok(())
    }

    #[tokio::test]
    async fn a_listing_comes_backwards() -> Result<()> {
        let store = store().await?;
        store.inject(Fault::backwards(|request| request.kind.is_list()));

        let listed: Vec<_> = store.list(None).try_collect().await?;
        let listed: Vec<_> = listed.iter().map(|o| o.location.as_ref()).collect();
        assert_eq!(listed, ["t/c", "t/b", "t/a"]);
        let listed = store.list_with_delimiter(Some(&Path::from("t"))).await?;
        assert_eq!(listed.objects[0].location, Path::from("t/c"));
        Ok(())
    }

    #[tokio::test]
    async fn a_deletion_fails_for_the_chosen_path_alone() -> Result<()> {
        let store = store().await?;
        store.inject(Fault::fail(|request| request.path == Path::from("t/b")));

        assert!(store.delete(&Path::from("t/b")).await.is_err());
        store.delete(&Path::from("t/a")).await?;
        assert_eq!(store.list(None).count().await, 2);
        Ok(())
    }

    #[tokio::test]
    async fn what_is_asked_for_is_done_when_an_answer_is_lost() -> Result<()> {
        let store = store().await?;
        store.inject(Fault::lose_answer(|_| true));

        let (a, d) = (Path::from("t/a"), Path::from("t/d"));
        assert!(store.delete(&a).await.is_err());
        assert!(store.put(&d, "d".into()).await.is_err());
        store.heal();
        assert!(store.head(&a).await.is_err());
        store.head(&d).await?;

        store.inject(Fault::lose_answer(|request| {
            request.detail.as_deref() == Some("complete")
        }));
        let e = Path::from("t/e");
        let mut upload = store.put_multipart(&e).await?;
        upload.put_part("e".into()).await?;
        assert!(upload.complete().await.is_err());
        store.head(&e).await?;
        Ok(())
    }

    #[tokio::test]
    async fn a_rename_ends_halfway() -> Result<()> {
        let store = store().await?;
        store.inject(Fault::fail_halfway(|_| true));

        let (a, d) = (Path::from("t/a"), Path::from("t/d"));
        assert!(store.rename(&a, &d).await.is_err());
        store.heal();
        store.head(&a).await?;
        store.head(&d).await?;
        Ok(())
    }

    #[tokio::test]
    async fn a_gate_holds_requests_and_notices_dropped_ones() -> Result<()> {
        let store = store().await?;
        let gate = Gate::new();
        store.inject(Fault::hold(&gate, |request| request.kind.is_list()));

        let mut dropped = Box::pin(store.list_with_delimiter(None));
        assert!(
            timeout(Duration::from_millis(1), &mut dropped)
                .await
                .is_err()
        );
        assert_eq!(gate.held(), 1);
        drop(dropped);
        gate.wait_for_held(|held| held == 0).await;

        let held = store.list_with_delimiter(None);
        let release = async {
            gate.wait_for_held(|held| held == 1).await;
            gate.open();
        };
        let (listed, ()) = future::join(held, release).await;
        assert_eq!(listed?.common_prefixes.len(), 1);
        Ok(())
    }

    #[tokio::test]
    async fn a_delay_takes_its_time() -> Result<()> {
        let store = store().await?;
        let pause = Duration::from_millis(20);
        store.inject(Fault::delay(pause, |_| true));

        let start = Instant::now();
        store.get(&Path::from("t/a")).await?;
        assert!(start.elapsed() >= pause);
        Ok(())
    }

    async fn store() -> Result<FaultyStore> {
        let inner = Arc::new(InMemory::new());
        for name in ["a", "b", "c"] {
            inner
                .put(&Path::from(format!("t/{name}")), name.into())
                .await?;
        }
        Ok(FaultyStore::new(inner))
    }
}
