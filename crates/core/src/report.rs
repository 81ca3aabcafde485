//! [`PartitionReports`]: what the scans of the last query have done.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use datafusion::execution::TaskContext;

use crate::dynamic_filter::{DynamicPartitionFilter, KeySlot};
use crate::scan::ScanMetrics;

/// What the partitioned scans of a session's last query have done, or do as long as it runs: that
/// query which began last. An extension of the session's configuration.
#[derive(Debug, Default)]
pub struct PartitionReports(Mutex<LastQuery>);

#[derive(Debug, Default)]
struct LastQuery {
    context: Weak<TaskContext>,
    scans: Vec<Arc<ScanReport>>,
}

/// One execution of a partitioned scan.
#[derive(Debug)]
pub struct ScanReport {
    /// Where its partitions come from, as `EXPLAIN` shows it.
    pub table: String,
    /// The filters known when planning.
    pub partition_filters: String,
    /// Its counters, without those of its reader.
    pub metrics: ScanMetrics,
    filters: OnceLock<Vec<FilterReport>>,
}

/// What a dynamic filter has done for a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReport {
    /// What is compared with the keys.
    pub columns: String,
    /// The domain of the keys. `None` when they have not become known.
    pub keys: Option<String>,
    /// How many partitions, or directories that stand for all partitions below, it has dropped of
    /// those that the filters before it had left.
    pub dropped: usize,
}

impl PartitionReports {
    /// The scans of the last query, in the order in which they have begun.
    pub fn last_query(&self) -> Vec<Arc<ScanReport>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.scans.clone()
    }

    pub(crate) fn add(&self, context: &Arc<TaskContext>, scan: &Arc<ScanReport>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.context.as_ptr() != Arc::as_ptr(context) {
            last.context = Arc::downgrade(context);
            last.scans.clear();
        }
        last.scans.push(Arc::clone(scan));
    }
}

impl ScanReport {
    pub(crate) fn new(table: String, partition_filters: String, metrics: &ScanMetrics) -> Self {
        Self {
            table,
            partition_filters,
            metrics: metrics.without_readers(),
            filters: OnceLock::new(),
        }
    }

    /// Its dynamic filters; none as long as the scan runs.
    pub fn dynamic_filters(&self) -> &[FilterReport] {
        self.filters.get().map_or(&[], Vec::as_slice)
    }

    /// Called at the end.
    pub(crate) fn set_filters(&self, filters: &[(Arc<DynamicPartitionFilter>, Arc<KeySlot>)]) {
        self.filters.get_or_init(|| {
            let report = |(filter, slot): &(Arc<DynamicPartitionFilter>, Arc<KeySlot>)| {
                let keys: Vec<_> = filter.keys().iter().map(ToString::to_string).collect();
                FilterReport {
                    columns: keys.join(", "),
                    keys: slot.keys().map(ToString::to_string),
                    dropped: slot.dropped(),
                }
            };
            filters.iter().map(report).collect()
        });
    }
}
