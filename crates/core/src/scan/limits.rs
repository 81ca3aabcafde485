//! What a scan may not do: read without a filter, or read too much.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use datafusion::common::{Result, exec_err};
use object_store::path::Path;

use crate::catalog::PartitionCatalog;
use crate::predicate::PartitionPredicate;
use crate::spec::{PartitionBatch, PartitionValues};

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
    /// Those that are read, if their number is limited. The catalog may return the files of one
    /// partition in several batches, and a scan may look into one partition several times.
    partitions: Mutex<HashSet<(Path, PartitionValues)>>,
    table: String,
}

impl LimitCheck {
    pub(super) fn new(limits: PartitionLimits, catalog: &dyn PartitionCatalog) -> Self {
        Self {
            limits,
            partitions: Mutex::default(),
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
             one whose keys are known in time (partitioned.dynamic_filter.wait); it has the option \
             'partition.filter-required'",
            self.table,
            columns.join(", ")
        )
    }

    /// Counts `partitions` that are to be read, and fails when these are too many.
    pub(super) fn count(&self, partitions: &PartitionBatch) -> Result<()> {
        let Some(max) = self.limits.max_partitions else {
            return Ok(());
        };
        let mut counted = self
            .partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (row, source) in partitions.sources().iter().enumerate() {
            counted.insert((source.location.clone(), partitions.partition_values(row)?));
        }
        let count = counted.len();
        if count <= max {
            return Ok(());
        }
        exec_err!(
            "the query needs at least {count} partitions of {}, but 'partition.max' allows {max}; \
             add a filter on a partition column, or raise the limit",
            self.table
        )
    }
}
