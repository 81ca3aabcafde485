//! [`DynamicPartitionFilter`]: the wire between the build side of a join and a partitioned scan.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;

use crate::key_set::KeySet;

/// A filter on partition columns whose keys only exist while the query runs (Flink:
/// `DynamicFilteringData`).
///
/// The plan holds one for each pair of a join and a partitioned scan on its probe side. It has no
/// state of its own: each execution of the plan meets in a [`KeySlot`] of its own.
///
/// ```text
///   build side                                     probe side
///   PartitionKeyCollectorExec --publish--> KeySlot <--keys-- PartitionScan
/// ```
#[derive(Debug)]
pub struct DynamicPartitionFilter {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    slots: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    context: Weak<TaskContext>,
    ordinal: usize,
    slot: Arc<KeySlot>,
    ends: [bool; 2],
}

/// The two ends of the wire.
#[derive(Debug, Clone, Copy)]
enum End {
    Producer = 0,
    Consumer = 1,
}

impl DynamicPartitionFilter {
    /// A filter whose tuples hold one value for each of `keys`: expressions over the partition
    /// columns by their index in the scan's `PartitionSpec`, mostly bare columns.
    pub fn new(keys: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            keys,
            slots: Mutex::default(),
        }
    }

    /// What the values of a key tuple are compared with.
    pub fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    /// The slot into which the producer publishes in its `ordinal`-th execution with `context`,
    /// see [`Executions`](crate::Executions).
    pub fn producer_slot(&self, context: &Arc<TaskContext>, ordinal: usize) -> Arc<KeySlot> {
        self.slot(context, ordinal, End::Producer)
    }

    /// The slot that the scan reads in its `ordinal`-th execution with `context`.
    pub fn consumer_slot(&self, context: &Arc<TaskContext>, ordinal: usize) -> Arc<KeySlot> {
        self.slot(context, ordinal, End::Consumer)
    }

    /// Whichever end comes first makes the slot; when both have it, it lives as long as they do.
    fn slot(&self, context: &Arc<TaskContext>, ordinal: usize, end: End) -> Arc<KeySlot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|entry| entry.context.strong_count() > 0);
        // An end that comes twice belongs to something else, and must not see the old keys.
        let position = slots.iter().position(|entry| {
            entry.context.as_ptr() == Arc::as_ptr(context)
                && entry.ordinal == ordinal
                && !entry.ends[end as usize]
        });
        let position = position.unwrap_or_else(|| {
            slots.push(Entry {
                context: Arc::downgrade(context),
                ordinal,
                slot: Arc::default(),
                ends: [false; 2],
            });
            slots.len() - 1
        });
        let entry = &mut slots[position];
        entry.ends[end as usize] = true;
        if entry.ends == [true; 2] {
            slots.swap_remove(position).slot
        } else {
            Arc::clone(&entry.slot)
        }
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
        let context = Arc::new(TaskContext::default());
        let consumer = filter.consumer_slot(&context, 0);
        let producer = filter.producer_slot(&context, 0);
        assert!(Arc::ptr_eq(&consumer, &producer));
        assert!(filter.slots.lock().unwrap().is_empty());

        producer.publish(Arc::new(KeySet::Unknown));
        assert!(consumer.keys().is_some());
        assert!(filter.consumer_slot(&context, 1).keys().is_none());
        assert!(
            filter
                .consumer_slot(&Arc::new(TaskContext::default()), 0)
                .keys()
                .is_none()
        );
    }
}
