//! [`ChangingPredicate`]: what may come to drop partitions after they have been listed.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, ScalarValue};

use super::PartitionPredicate;

/// The part of a [`PartitionPredicate`] that may drop more partitions than it did when this was made:
/// keys that were not known then, and filters that operators change while they run.
#[derive(Debug, Clone)]
pub struct ChangingPredicate {
    predicate: PartitionPredicate,
    /// The states of the filters that operators change.
    generations: Arc<[u64]>,
}

impl PartitionPredicate {
    /// The part of it that may come to drop more than it does now, if there is any.
    pub fn changing(&self) -> Option<ChangingPredicate> {
        let dynamic = self.dynamic.iter();
        let unknown = dynamic.filter(|dynamic| dynamic.slot.keys().is_none());
        let predicate = Self {
            spec: self.spec.clone(),
            conjuncts: vec![],
            dynamic: unknown.cloned().collect(),
            running: self.running.clone(),
        };
        let generations = predicate.running.iter().map(|r| r.generation()).collect();
        let may_change = !predicate.dynamic.is_empty() || !predicate.running.is_empty();
        may_change.then_some(ChangingPredicate {
            predicate,
            generations,
        })
    }
}

impl ChangingPredicate {
    /// Whether the partition with these values, of which there may be more than partition columns, may
    /// still be wanted. Also when that cannot be evaluated.
    pub fn may_want(&self, values: &[ScalarValue]) -> bool {
        !self.has_changed() || self.evaluate(values).unwrap_or(true)
    }

    fn has_changed(&self) -> bool {
        let PartitionPredicate {
            dynamic, running, ..
        } = &self.predicate;
        let mut running = running.iter().zip(self.generations.iter());
        dynamic.iter().any(|dynamic| dynamic.slot.keys().is_some())
            || running.any(|(filter, generation)| filter.generation() != *generation)
    }

    fn evaluate(&self, values: &[ScalarValue]) -> Result<bool> {
        let spec = &self.predicate.spec;
        let columns = values.iter().take(spec.len()).map(ScalarValue::to_array);
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(
            Arc::clone(spec.schema()),
            columns.collect::<Result<_>>()?,
            &options,
        )?;
        // Files are not partitions.
        Ok(self.predicate.prune(&row, false)?.keep.value(0))
    }
}
