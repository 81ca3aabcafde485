//! [`RunningFilter`]: a filter of DataFusion's that changes while the query runs.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};

use super::PartitionPredicate;
use crate::rewrite::rewrite_columns;
use crate::spec::PartitionSpec;

/// What an operator such as a sort with a limit says about the rows that it still needs, as far as
/// it is about partitions.
///
/// The operator has it once for all executions of its plan, and knows nothing of the executions of the
/// scan. So it is of use in the first one only, until another begins.
pub(crate) struct RunningFilter {
    filter: Arc<dyn PhysicalExpr>,
    /// What the columns of the filter are in the numbering of [`PartitionPredicate`].
    outputs: Vec<Option<Arc<dyn PhysicalExpr>>>,
    spec: PartitionSpec,
    /// The last state that was asked for, with its number.
    known: Mutex<Option<(u64, Arc<PartitionPredicate>)>>,
    /// How many executions of the scan have begun.
    executions: Arc<AtomicUsize>,
}

impl RunningFilter {
    /// `filter` is over columns that are `outputs`. `executions` counts those of the scan that have begun.
    pub(crate) fn new(
        filter: Arc<dyn PhysicalExpr>,
        outputs: Vec<Option<Arc<dyn PhysicalExpr>>>,
        spec: PartitionSpec,
        executions: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            filter,
            outputs,
            spec,
            known: Mutex::default(),
            executions,
        }
    }

    pub(crate) fn filter(&self) -> &Arc<dyn PhysicalExpr> {
        &self.filter
    }

    /// A number that differs whenever it says something else.
    pub(super) fn generation(&self) -> u64 {
        snapshot_generation(&self.filter)
    }

    /// What it says now.
    pub(super) fn current(&self) -> Result<Arc<PartitionPredicate>> {
        if self.executions.load(Ordering::Acquire) > 1 {
            return Ok(Arc::new(PartitionPredicate::all(&self.spec)));
        }
        let generation = self.generation();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, predicate)) = known.as_ref()
            && *known == generation
        {
            return Ok(Arc::clone(predicate));
        }
        let filter = snapshot_physical_expr(Arc::clone(&self.filter))?;
        let over_partitions = rewrite_columns(&filter, &|output| self.outputs.get(output)?.clone());
        let all = PartitionPredicate::all(&self.spec);
        let predicate = Arc::new(match over_partitions {
            Some(filter) => all.with_filter(&filter),
            None => all,
        });
        *known = Some((generation, Arc::clone(&predicate)));
        Ok(predicate)
    }
}

impl fmt::Debug for RunningFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningFilter").field(&self.filter).finish()
    }
}
