//! The counters of a partitioned scan, shown by `EXPLAIN ANALYZE`.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

use super::progress::ScanProgress;
use crate::predicate::Pruned;

/// The metrics of one execution of a partitioned scan. Clones count into the same places.
#[derive(Debug, Clone)]
pub struct ScanMetrics {
    set: ExecutionPlanMetricsSet,
    /// LIST requests made, each with all of its pages.
    pub list_requests: Count,
    /// Listings that the listing cache answered instead.
    pub list_cache_hits: Count,
    /// Directories that were seen by name only: not listed, and nothing below them either.
    pub directories_pruned: Count,
    /// Partitions that the catalog returned.
    pub partitions_listed: Count,
    /// Partitions, or directories that stand for all partitions below, dropped because of filters
    /// known when planning.
    pub partitions_pruned_static: Count,
    /// The same, dropped because of dynamic filters.
    pub partitions_pruned_dynamic: Count,
    /// Directories left out because they do not fit the layout or the type of their column.
    pub partitions_mismatched: Count,
    /// Data files above the last partition level, which are skipped, where a listing of all that is
    /// below a directory returned them.
    pub files_misplaced: Count,
    /// Partitions handed to the reader.
    pub partitions_scanned: Count,
    /// Files handed to the format.
    pub files_scanned: Count,
    /// Files that were not opened because a dynamic filter had come to drop their partitions.
    pub files_pruned_dynamic: Count,
    /// Dynamic filters whose keys were known before the catalog was asked.
    pub dynamic_filters_ready: Count,
    /// Dynamic filters whose keys were not known by then.
    pub dynamic_filters_late: Count,
    /// Dynamic filters that ended without knowing their keys.
    pub dynamic_filters_unusable: Count,
    /// Time in which the scan waited for the keys of dynamic filters.
    pub dynamic_filter_wait_time: Time,
    /// Time in which listing was being worked on.
    pub listing_time: Time,
    /// How far the execution has come. Not a metric.
    pub progress: ScanProgress,
}

impl ScanMetrics {
    /// Registers the counters of a new execution in `metrics`.
    pub fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        Self {
            set: metrics.clone(),
            list_requests: counter("list_requests"),
            list_cache_hits: counter("list_cache_hits"),
            directories_pruned: counter("directories_pruned"),
            partitions_listed: counter("partitions_listed"),
            partitions_pruned_static: counter("partitions_pruned_static"),
            partitions_pruned_dynamic: counter("partitions_pruned_dynamic"),
            partitions_mismatched: counter("partitions_mismatched"),
            files_misplaced: counter("files_misplaced"),
            partitions_scanned: counter("partitions_scanned"),
            files_scanned: counter("files_scanned"),
            files_pruned_dynamic: counter("files_pruned_dynamic"),
            dynamic_filters_ready: counter("dynamic_filters_ready"),
            dynamic_filters_late: counter("dynamic_filters_late"),
            dynamic_filters_unusable: counter("dynamic_filters_unusable"),
            dynamic_filter_wait_time: MetricBuilder::new(metrics)
                .subset_time("dynamic_filter_wait_time", 0),
            listing_time: MetricBuilder::new(metrics).subset_time("listing_time", 0),
            progress: ScanProgress::default(),
        }
    }

    /// The same counters, without what readers have registered, which may be a lot for each file.
    pub(crate) fn without_readers(&self) -> Self {
        Self {
            set: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// Where readers register metrics of their own, the number of rows that they return included.
    pub fn set(&self) -> &ExecutionPlanMetricsSet {
        &self.set
    }

    /// Counts what a predicate dropped.
    pub fn record_pruned(&self, pruned: &Pruned) {
        self.partitions_pruned_static.add(pruned.by_static);
        self.partitions_pruned_dynamic.add(pruned.by_dynamic);
    }
}
