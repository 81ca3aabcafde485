//! What a scan may not do: read without a filter, or read too much.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{Result, exec_err};

use crate::catalog::PartitionCatalog;
use crate::predicate::PartitionPredicate;

/// Limits that a table sets for every scan of it. The default sets none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionLimits {
    /// Refuses scans that neither a filter nor the keys of a join restrict to some partitions.
    pub filter_required: bool,
    /// The most partitions that one scan may read.
    pub max_partitions: Option<usize>,
}

/// The limits of one execution.
#[derive(Debug)]
pub(super) struct LimitCheck {
    limits: PartitionLimits,
    partitions: AtomicUsize,
    table: String,
}

impl LimitCheck {
    pub(super) fn new(limits: PartitionLimits, catalog: &dyn PartitionCatalog) -> Self {
        Self {
            limits,
            partitions: AtomicUsize::new(0),
            table: catalog.describe(),
        }
    }

    /// Fails when a filter is required and `wanted` has none.
    pub(super) fn check_filter(&self, wanted: &PartitionPredicate) -> Result<()> {
        if !self.limits.filter_required || wanted.constrains_from(0) {
            return Ok(());
        }
        let columns: Vec<_> = wanted.spec().column_names().collect();
        exec_err!(
            "the table of {} must be queried with a filter on a partition column ({}), or joined on \
             one; it has the option 'partition.filter-required'",
            self.table,
            columns.join(", ")
        )
    }

    /// Counts `partitions` more to be read, and fails when these are too many.
    pub(super) fn count(&self, partitions: usize) -> Result<()> {
        let count = self.partitions.fetch_add(partitions, Ordering::Relaxed) + partitions;
        match self.limits.max_partitions {
            Some(max) if count > max => exec_err!(
                "the query needs at least {count} partitions of {}, but 'partition.max' allows {max}; \
                 add a filter on a partition column, or raise the limit",
                self.table
            ),
            _ => Ok(()),
        }
    }
}
