//! [`DynamicPartitionFilter`]: the wire between the build side of a join and a partitioned scan.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;

use crate::key_set::KeySet;

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
/// A scan takes the slot that was offered with its own [`TaskContext`]. When there are several,
/// because a context is used for more than one execution at once, it cannot know which is its own
/// and takes none, so that it reads everything.
#[derive(Debug)]
pub struct DynamicPartitionFilter {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The slots of executions that have not ended, each with its context.
    offered: Mutex<Vec<(Weak<TaskContext>, Arc<KeySlot>)>>,
}

impl DynamicPartitionFilter {
    /// A filter whose tuples hold one value for each of `keys`: expressions over the partition
    /// columns by their index in the scan's `PartitionSpec`, mostly bare columns.
    pub fn new(keys: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            keys,
            offered: Mutex::default(),
        }
    }

    /// What the values of a key tuple are compared with.
    pub fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    /// A slot in which the caller will publish the keys of an execution with `context`.
    pub fn offer(&self, context: &Arc<TaskContext>) -> Arc<KeySlot> {
        let slot = Arc::<KeySlot>::default();
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.retain(|(context, _)| context.strong_count() > 0);
        offered.push((Arc::downgrade(context), Arc::clone(&slot)));
        slot
    }

    /// The slot that was offered for this execution. Without one, or with several, a slot that
    /// stays empty.
    pub fn take(&self, context: &Arc<TaskContext>) -> Arc<KeySlot> {
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slots = offered
            .iter()
            .filter(|(other, _)| other.as_ptr() == Arc::as_ptr(context))
            .map(|(_, slot)| slot);
        match (slots.next(), slots.next()) {
            (Some(slot), None) => Arc::clone(slot),
            _ => Arc::default(),
        }
    }

    /// Forgets `slot`: the execution that has taken it is over.
    pub fn release(&self, slot: &Arc<KeySlot>) {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.retain(|(_, other)| !Arc::ptr_eq(other, slot));
    }
}

/// Where one execution of a dynamic filter publishes its keys, once.
#[derive(Debug, Default)]
pub struct KeySlot {
    keys: OnceLock<Arc<KeySet>>,
}

impl KeySlot {
    /// The keys, or `None` as long as they are not complete.
    pub fn keys(&self) -> Option<&Arc<KeySet>> {
        self.keys.get()
    }

    /// Publishes the complete keys. A producer that cannot complete them publishes
    /// [`KeySet::Unknown`]. Only the first call counts.
    pub fn publish(&self, keys: Arc<KeySet>) {
        // A second publication would be of the same execution and adds nothing.
        let _ = self.keys.set(keys);
    }
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
}
