//! The table function `partition_report()`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, StringArray, UInt64Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::metrics::{Count, Time};
use datafusion_partitioned_core::{FilterReport, PartitionReports, ScanReport};

/// One row for each partitioned scan of the last query of the session.
///
/// | column | |
/// |---|---|
/// | `scan` | its number, in the order in which the scans have begun |
/// | `table` | where its partitions come from |
/// | `partition_filters` | the filters known when planning |
/// | `dynamic_filters` | what each dynamic filter compares, its keys, and how many partitions it dropped |
/// | `partitions_seen` | partitions, or directories that stand for all partitions below, met by the scan |
/// | `partitions_listed` | those that the catalog returned, by their names alone where these are enough |
/// | `partitions_pruned_static`, `partitions_pruned_dynamic` | those dropped by the filters |
/// | `partitions_scanned`, `files_scanned` | what was handed to the format |
/// | `files_pruned_dynamic` | files of these that were not opened, because a filter came to drop them |
/// | `list_requests`, `list_cache_hits` | listings, by a request and by the cache |
/// | `wait_ms`, `listing_ms` | time spent waiting for keys, and listing |
///
/// A scan whose output partitions share no work, since
/// `datafusion.execution.enable_file_stream_work_stealing` is off, has a row for each of them.
#[derive(Debug)]
pub(crate) struct PartitionReport;

impl PartitionReport {
    /// The name of the function.
    pub(crate) const NAME: &str = "partition_report";
}

impl TableFunctionImpl for PartitionReport {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!(
                "partition_report() takes no arguments, found {}",
                args.exprs().len()
            );
        }
        let reports = args.session().config().get_extension::<PartitionReports>();
        let scans = reports.map_or_else(Vec::new, |reports| reports.last_query());
        let batch = rows(&scans)?;
        Ok(Arc::new(MemTable::try_new(
            batch.schema(),
            vec![vec![batch]],
        )?))
    }
}

fn rows(scans: &[Arc<ScanReport>]) -> Result<RecordBatch> {
    let text = |value: &dyn Fn(&ScanReport) -> String| -> ArrayRef {
        let values = scans.iter().map(|scan| value(scan));
        Arc::new(StringArray::from_iter_values(values))
    };
    let count = |of: &dyn Fn(&ScanReport) -> &Count| -> ArrayRef {
        let values = scans.iter().map(|scan| of(scan).value() as u64);
        Arc::new(UInt64Array::from_iter_values(values))
    };
    let milliseconds = |of: &dyn Fn(&ScanReport) -> &Time| -> ArrayRef {
        let values = scans.iter().map(|scan| of(scan).value() as f64 / 1e6);
        Arc::new(Float64Array::from_iter_values(values))
    };
    let seen = scans.iter().map(|scan| {
        let metrics = &scan.metrics;
        let listed = metrics.partitions_listed.value();
        let pruned =
            metrics.partitions_pruned_static.value() + metrics.partitions_pruned_dynamic.value();
        // With an order or for a `max`, not all that are listed are looked at.
        listed.max(metrics.partitions_scanned.value() + pruned) as u64
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "scan",
            Arc::new(UInt64Array::from_iter_values(1..=scans.len() as u64)),
        ),
        ("table", text(&|scan| scan.table.clone())),
        (
            "partition_filters",
            text(&|scan| scan.partition_filters.clone()),
        ),
        (
            "dynamic_filters",
            text(&|scan| {
                let filters = scan.dynamic_filters().iter().map(describe);
                filters.collect::<Vec<_>>().join("; ")
            }),
        ),
        (
            "partitions_seen",
            Arc::new(UInt64Array::from_iter_values(seen)),
        ),
        (
            "partitions_listed",
            count(&|scan| &scan.metrics.partitions_listed),
        ),
        (
            "partitions_pruned_static",
            count(&|scan| &scan.metrics.partitions_pruned_static),
        ),
        (
            "partitions_pruned_dynamic",
            count(&|scan| &scan.metrics.partitions_pruned_dynamic),
        ),
        (
            "partitions_scanned",
            count(&|scan| &scan.metrics.partitions_scanned),
        ),
        ("files_scanned", count(&|scan| &scan.metrics.files_scanned)),
        (
            "files_pruned_dynamic",
            count(&|scan| &scan.metrics.files_pruned_dynamic),
        ),
        ("list_requests", count(&|scan| &scan.metrics.list_requests)),
        (
            "list_cache_hits",
            count(&|scan| &scan.metrics.list_cache_hits),
        ),
        (
            "wait_ms",
            milliseconds(&|scan| &scan.metrics.dynamic_filter_wait_time),
        ),
        (
            "listing_ms",
            milliseconds(&|scan| &scan.metrics.listing_time),
        ),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Such as `day@0: 31 keys: 2021-07-01..2021-07-31, dropped 1794`.
fn describe(filter: &FilterReport) -> String {
    let FilterReport {
        columns,
        keys,
        dropped,
    } = filter;
    let keys = keys.as_deref().unwrap_or("not known in time");
    format!("{columns}: {keys}, dropped {dropped}")
}
