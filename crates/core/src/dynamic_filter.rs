//! [`DynamicPartitionFilter`]: the wire between the build side of a join and a partitioned scan.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use futures::future::{Either, select};
use futures_timer::Delay;
use tokio::sync::Notify;

use crate::key_set::{Comparison, KeySet};

/// A filter on partition columns whose keys only exist while the query runs (Flink:
/// `DynamicFilteringData`).
///
/// The plan holds one for each pair of a join and a partitioned scan on its probe side. It has no
/// keys of its own: each execution of the plan has a [`KeySlot`].
///
/// ```text
///   build side                                        probe side
///   PartitionKeyCollectorExec --offer--> KeySlot <--take-- PartitionScan
///                             --publish-->       <--keys--
/// ```
///
/// A scan takes the slot of its own [`TaskContext`], whichever of the two comes first. When there are several,
/// because a context is used for more than one execution at once, it cannot know which is its own
/// and takes none, so that it reads everything.
#[derive(Debug)]
pub struct DynamicPartitionFilter {
    keys: Vec<FilterKey>,
    /// The slots of executions that have not ended, each with its context.
    offered: Mutex<Vec<(Weak<TaskContext>, Arc<KeySlot>)>>,
}

/// One column of the keys of a [`DynamicPartitionFilter`].
#[derive(Debug, Clone)]
pub struct FilterKey {
    /// What is compared with the keys: an expression over the partition columns by their index in the
    /// scan's `PartitionSpec`, mostly a bare column.
    pub expr: Arc<dyn PhysicalExpr>,
    /// How it has to compare to one of the keys.
    pub comparison: Comparison,
}

impl FilterKey {
    /// `expr` is equal to one of the keys.
    pub fn equal(expr: Arc<dyn PhysicalExpr>) -> Self {
        Self {
            expr,
            comparison: Comparison::Equal,
        }
    }
}

/// `day@0`, or with another comparison `day@0 >= ANY`.
impl fmt::Display for FilterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.expr)?;
        match self.comparison {
            Comparison::Equal => Ok(()),
            comparison => write!(f, " {comparison} ANY"),
        }
    }
}

impl DynamicPartitionFilter {
    /// A filter whose tuples hold one value for each of `keys`.
    pub fn new(keys: Vec<FilterKey>) -> Self {
        Self {
            keys,
            offered: Mutex::default(),
        }
    }

    /// What the values of a key tuple are compared with.
    pub fn keys(&self) -> &[FilterKey] {
        &self.keys
    }

    /// A slot in which the caller will publish the keys of an execution with `context`. It is the one
    /// that a scan has taken before, if there is such a scan.
    pub fn offer(&self, context: &Arc<TaskContext>) -> Arc<KeySlot> {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.retain(|(context, _)| context.strong_count() > 0);
        let mut slots = slots_of(&offered, context);
        if let Some(slot) = slots.find(|slot| !slot.is_offered.swap(true, Ordering::AcqRel)) {
            return Arc::clone(slot);
        }
        drop(slots);
        let slot = Arc::<KeySlot>::default();
        slot.is_offered.store(true, Ordering::Release);
        offered.push((Arc::downgrade(context), Arc::clone(&slot)));
        slot
    }

    /// The slot of this execution. When none has been offered, the next one to be offered: whoever
    /// comes first must not meet the keys of another execution. With several, a slot that stays
    /// empty.
    pub fn take(&self, context: &Arc<TaskContext>) -> Arc<KeySlot> {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.retain(|(context, _)| context.strong_count() > 0);
        let mut slots = slots_of(&offered, context);
        let found = (slots.next().cloned(), slots.next().cloned());
        drop(slots);
        match found {
            (Some(slot), None) => slot,
            (Some(_), Some(_)) => Arc::default(),
            (None, _) => {
                let slot = Arc::<KeySlot>::default();
                offered.push((Arc::downgrade(context), Arc::clone(&slot)));
                slot
            }
        }
    }

    /// Forgets all slots: the executions that are to come share nothing with those before.
    pub fn reset(&self) {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.clear();
    }

    /// Forgets `slot`: the execution that has taken it is over.
    pub fn release(&self, slot: &Arc<KeySlot>) {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.retain(|(_, other)| !Arc::ptr_eq(other, slot));
    }
}

fn slots_of<'a>(
    offered: &'a [(Weak<TaskContext>, Arc<KeySlot>)],
    context: &'a Arc<TaskContext>,
) -> impl Iterator<Item = &'a Arc<KeySlot>> {
    offered
        .iter()
        .filter(|(other, _)| other.as_ptr() == Arc::as_ptr(context))
        .map(|(_, slot)| slot)
}

/// Where one execution of a dynamic filter publishes its keys, once.
#[derive(Debug, Default)]
pub struct KeySlot {
    keys: OnceLock<Arc<KeySet>>,
    is_offered: AtomicBool,
    is_running: AtomicBool,
    is_awaited: AtomicBool,
    changed: Notify,
    /// How many partitions, or directories that stand for all partitions below, the keys have dropped.
    dropped: AtomicUsize,
}

/// How long the partitions of a plan may take to be opened one after the other.
const TIME_TO_OPEN: Duration = Duration::from_millis(50);

impl KeySlot {
    /// The keys, or `None` as long as they are not complete.
    pub fn keys(&self) -> Option<&Arc<KeySet>> {
        self.keys.get()
    }

    /// Says that all of the operators that collect the keys have been opened, so that waiting for
    /// them makes sense.
    pub fn set_running(&self) {
        self.is_running.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Publishes the complete keys. A producer that cannot complete them publishes
    /// [`KeySet::Unknown`]. Only the first call counts.
    pub fn publish(&self, keys: Arc<KeySet>) {
        // A second publication would be of the same execution and adds nothing.
        let _ = self.keys.set(keys);
        self.changed.notify_waiters();
    }

    /// Counts what the keys have dropped.
    pub(crate) fn add_dropped(&self, partitions: usize) {
        self.dropped.fetch_add(partitions, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns once somebody waits for the keys.
    pub async fn awaited(&self) {
        loop {
            // Made before looking, so that no change is missed.
            let changed = self.changed.notified();
            if self.is_awaited.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }

    /// Returns once the keys are published, and soon when the producer, or a part of it, is not
    /// opened. The caller must set a limit: a producer can stop running.
    pub async fn wait(&self) {
        if self.keys.get().is_none() {
            self.is_awaited.store(true, Ordering::Release);
            self.changed.notify_waiters();
        }
        while self.keys.get().is_none() {
            // Made before looking, so that no change is missed.
            let changed = self.changed.notified();
            if self.keys.get().is_some() {
                return;
            }
            if self.is_running.load(Ordering::Acquire) {
                changed.await;
            } else if !ends_within(TIME_TO_OPEN, changed).await {
                return;
            }
        }
    }
}

/// Waits for `future` at most so long, and says whether it has ended. Unlike Tokio's, it needs no runtime
/// with timers.
pub(crate) async fn ends_within(limit: Duration, future: impl Future) -> bool {
    let future = pin!(future);
    matches!(select(future, Delay::new(limit)).await, Either::Left(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_an_execution_meet_and_other_executions_do_not() {
        let filter = DynamicPartitionFilter::new(vec![]);
        let (one, other) = (
            Arc::new(TaskContext::default()),
            Arc::new(TaskContext::default()),
        );
        assert!(filter.take(&one).keys().is_none());
        let slot = filter.offer(&one);
        let taken = filter.take(&one);
        assert!(Arc::ptr_eq(&slot, &taken));
        slot.publish(Arc::new(KeySet::Unknown));
        assert!(taken.keys().is_some());
        assert!(filter.take(&other).keys().is_none());
    }

    #[test]
    fn of_several_slots_none_is_taken_until_only_one_is_left() {
        let filter = DynamicPartitionFilter::new(vec![]);
        let context = Arc::new(TaskContext::default());
        let first = filter.offer(&context);
        let second = filter.offer(&context);
        for slot in [&first, &second] {
            slot.publish(Arc::new(KeySet::Unknown));
        }
        assert!(filter.take(&context).keys().is_none());
        filter.release(&first);
        assert!(Arc::ptr_eq(&filter.take(&context), &second));
        drop(context);
        filter.offer(&Arc::new(TaskContext::default()));
        assert_eq!(filter.offered.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn only_a_producer_that_runs_is_waited_for() {
        KeySlot::default().wait().await;
        let context = Arc::new(TaskContext::default());
        let slot = DynamicPartitionFilter::new(vec![]).offer(&context);
        slot.wait().await;
        assert!(slot.keys().is_none());
        slot.set_running();
        let mut waiting = Box::pin(slot.wait());
        assert!(futures::poll!(&mut waiting).is_pending());
        slot.awaited().await;
        slot.publish(Arc::new(KeySet::Unknown));
        waiting.await;
        slot.wait().await;
    }
}
