//! [`SharedStream`]: one stream that several tasks take items from.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use futures::StreamExt;
use futures::stream::BoxStream;

/// Hands each item of a stream to one of several pollers.
///
/// Whoever polls drives the stream, and progress wakes everybody who waits. So no poller depends
/// on another one: any of them may stop polling, or be dropped, at any time. Nothing runs while
/// nobody polls.
pub(super) struct SharedStream<T> {
    stream: Mutex<BoxStream<'static, T>>,
    waiters: Arc<Waiters>,
    /// Whether somebody has found the stream locked since it was last let go.
    contended: AtomicBool,
}

impl<T> SharedStream<T> {
    /// Shares `stream`, which must go on returning `None` after its end.
    pub(super) fn new(stream: BoxStream<'static, T>) -> Self {
        Self {
            stream: Mutex::new(stream),
            waiters: Arc::default(),
            contended: AtomicBool::new(false),
        }
    }

    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<T>> {
        // Before trying the lock, so that whoever holds it can wake this poller.
        self.waiters.add(cx.waker());
        let mut locked = self.try_lock();
        if locked.is_none() {
            self.contended.store(true, Ordering::SeqCst);
            // It may have been let go just before.
            locked = self.try_lock();
        }
        let Some(mut stream) = locked else {
            return Poll::Pending;
        };
        let waker = Waker::from(Arc::clone(&self.waiters));
        let next = stream.poll_next_unpin(&mut Context::from_waker(&waker));
        drop(stream);
        // Those who came meanwhile may have missed a wakeup of the stream, and this poller may be
        // dropped before it polls again.
        if self.contended.swap(false, Ordering::SeqCst) || next.is_ready() {
            self.waiters.wake_by_ref();
        }
        next
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, BoxStream<'static, T>>> {
        match self.stream.try_lock() {
            Ok(stream) => Some(stream),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[derive(Default)]
struct Waiters(Mutex<Vec<Waker>>);

impl Waiters {
    fn add(&self, waker: &Waker) {
        let mut waiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiters.iter().any(|waiter| waiter.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waiters = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for waiter in waiters {
            waiter.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicUsize;

    use datafusion::common::runtime::SpawnedTask;
    use futures::stream;

    use super::*;

    fn slow_numbers(count: usize) -> BoxStream<'static, usize> {
        stream::iter(0..count)
            .then(|n| async move {
                tokio::task::yield_now().await;
                n
            })
            .fuse()
            .boxed()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn every_item_reaches_exactly_one_of_many_pollers() {
        let shared = Arc::new(SharedStream::new(slow_numbers(10_000)));
        let sum = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (shared, sum) = (Arc::clone(&shared), Arc::clone(&sum));
                SpawnedTask::spawn(async move {
                    while let Some(n) = poll_fn(|cx| shared.poll_next(cx)).await {
                        sum.fetch_add(n, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(sum.load(Ordering::Relaxed), (0..10_000).sum::<usize>());
    }

    #[tokio::test]
    async fn a_poller_that_stops_polling_holds_up_nobody() {
        let shared = SharedStream::new(slow_numbers(3));
        // Polled once, and never again.
        assert!(futures::poll!(poll_fn(|cx| shared.poll_next(cx))).is_pending());
        let mut items = vec![];
        while let Some(n) = poll_fn(|cx| shared.poll_next(cx)).await {
            items.push(n);
        }
        assert_eq!(items, [0, 1, 2]);
    }

    #[tokio::test]
    async fn a_wakeup_while_the_stream_is_locked_reaches_those_who_found_it_so() {
        struct Counter(AtomicUsize);
        impl Wake for Counter {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let late = Arc::new(Counter(AtomicUsize::new(0)));
        let late_waker = Waker::from(Arc::clone(&late));
        // Wakes itself, and only then another poller finds it locked.
        let itself: Arc<OnceLock<Arc<SharedStream<()>>>> = Arc::default();
        let inner = Arc::clone(&itself);
        let shared = Arc::new(SharedStream::new(
            stream::poll_fn(move |cx: &mut Context<'_>| {
                cx.waker().wake_by_ref();
                let found = inner
                    .get()
                    .unwrap()
                    .poll_next(&Context::from_waker(&late_waker));
                assert!(found.is_pending());
                Poll::Pending
            })
            .boxed(),
        ));
        itself
            .set(Arc::clone(&shared))
            .unwrap_or_else(|_| panic!("set once"));
        let first = shared.poll_next(&Context::from_waker(Waker::noop()));
        assert!(first.is_pending());
        assert_eq!(late.0.load(Ordering::SeqCst), 1);
    }
}
