//! [`Executions`]: tells the executions of one plan node apart.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::execution::TaskContext;

/// State that belongs to one execution of a plan node and is shared by its output partitions.
///
/// DataFusion names no execution: a node only sees `execute(partition, context)`. Two executions
/// of one node are told apart by their [`TaskContext`] and, within one context, by the rule that an
/// execution opens each partition once. What that cannot tell apart is one plan that is executed
/// twice at once with one context and without `reset_plan_states`, which DataFusion's own operators
/// do not support either.
pub struct Executions<T> {
    entries: Mutex<Vec<Entry<T>>>,
}

struct Entry<T> {
    context: Weak<TaskContext>,
    claimed: Vec<bool>,
    /// Let go once every partition has its own reference, so that the state ends with them.
    state: Option<Arc<T>>,
}

impl<T> Default for Executions<T> {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
        }
    }
}

impl<T> Executions<T> {
    /// The state of the execution to which this call for `partition` (of `partitions`) belongs.
    /// The first call of an execution makes the state with `new`.
    pub fn claim(
        &self,
        context: &Arc<TaskContext>,
        partition: usize,
        partitions: usize,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.context.strong_count() > 0);
        let position = entries
            .iter()
            .position(|entry| entry.context.as_ptr() == Arc::as_ptr(context));
        if let Some(position) = position {
            if let Some(state) = entries[position].claim(partition) {
                return state;
            }
            entries.swap_remove(position);
        }
        let state = Arc::new(new());
        let mut entry = Entry {
            context: Arc::downgrade(context),
            claimed: vec![false; partitions],
            state: Some(Arc::clone(&state)),
        };
        entry.claim(partition);
        entries.push(entry);
        state
    }
}

impl<T> Entry<T> {
    /// The state, if `partition` has not been opened in this execution before.
    fn claim(&mut self, partition: usize) -> Option<Arc<T>> {
        let claimed = self.claimed.get_mut(partition)?;
        if std::mem::replace(claimed, true) {
            return None;
        }
        if self.claimed.iter().all(|claimed| *claimed) {
            self.state.take()
        } else {
            self.state.clone()
        }
    }
}

impl<T> fmt::Debug for Executions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_one_execution_share_their_state() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let first = executions.claim(&context, 0, 2, || ());
        let second = executions.claim(&context, 1, 2, || ());
        assert!(Arc::ptr_eq(&first, &second));
        // Nothing else holds it: the state ends with its partitions.
        assert_eq!(Arc::strong_count(&first), 2);
    }

    #[test]
    fn opening_a_partition_again_is_another_execution() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let claim = |partition| executions.claim(&context, partition, 2, || ());
        let first = claim(0);
        let second = claim(0);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &claim(1)));
        assert!(!Arc::ptr_eq(&second, &claim(1)));
    }

    #[test]
    fn contexts_do_not_mix_and_are_forgotten() {
        let executions = Executions::default();
        let (one, other) = (
            Arc::new(TaskContext::default()),
            Arc::new(TaskContext::default()),
        );
        let state = executions.claim(&one, 0, 2, || ());
        assert!(!Arc::ptr_eq(&state, &executions.claim(&other, 1, 2, || ())));
        assert!(Arc::ptr_eq(&state, &executions.claim(&one, 1, 2, || ())));
        drop((one, other));
        executions.claim(&Arc::new(TaskContext::default()), 0, 1, || ());
        assert_eq!(executions.entries.lock().unwrap().len(), 1);
    }
}
