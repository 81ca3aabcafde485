//! [`SharedStream`]: one stream that several tasks take items from.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};
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
}

impl<T> SharedStream<T> {
    /// Shares `stream`, which must go on returning `None` after its end.
    pub(super) fn new(stream: BoxStream<'static, T>) -> Self {
        Self {
            stream: Mutex::new(stream),
            waiters: Arc::default(),
        }
    }

    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<T>> {
        // Before trying the lock: whoever holds it wakes the waiters after letting it go.
        self.waiters.add(cx.waker());
        let next = {
            let mut stream = match self.stream.try_lock() {
                Ok(stream) => stream,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Poll::Pending,
            };
            let waker = Waker::from(Arc::clone(&self.waiters));
            stream.poll_next_unpin(&mut Context::from_waker(&waker))
        };
        if next.is_ready() {
            self.waiters.wake_by_ref();
        }
        next
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
    use std::sync::atomic::{AtomicUsize, Ordering};

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
}
