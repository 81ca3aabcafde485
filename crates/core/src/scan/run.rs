//! One execution of a partitioned scan, shared by its output partitions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::PartitionScan;
use super::metrics::ScanMetrics;
use super::progress::ScanProgress;
use super::shared_stream::SharedStream;
use super::unit::Unit;
use super::work::{Work, upgrade};
use crate::dynamic_filter::{DynamicPartitionFilter, KeySlot};
use crate::report::{PartitionReports, ScanReport};

/// How many units one stream reads at a time, so that the requests for one go out while another is
/// decoded.
const UNITS_AT_A_TIME: usize = 2;

/// The work of one execution, in a queue that output partitions of the scan take from.
pub(super) struct Run {
    units: SharedStream<Result<Unit>>,
    progress: ScanProgress,
    /// Rows read so far by all streams, to stop early when there is a limit.
    rows: Arc<AtomicUsize>,
    fetch: Option<usize>,
    is_ordered: bool,
    /// Whether the first output partition does all the work: with a small limit on ordered rows,
    /// the others would read what nobody needs.
    is_sequential: bool,
    /// Dropped with the run.
    _taken: Arc<TakenSlots>,
}

/// Which partitions of the table a run reads.
#[derive(Clone, Copy)]
pub(super) enum Share {
    /// All of them.
    Whole,
    /// Those that fall to one of several processes, whatever the others do.
    Part { index: usize, of: usize },
}

impl Run {
    /// Prepares an execution of `scan` with `context`. Nothing happens before the first poll.
    pub(super) fn new(scan: &PartitionScan, context: &Arc<TaskContext>, share: Share) -> Self {
        let is_first = scan.executions.fetch_add(1, Ordering::AcqRel) == 0;
        // Whether it is the first execution cannot be told from a share.
        let uses_running_filters = is_first && matches!(share, Share::Whole);
        let metrics = ScanMetrics::new(&scan.metrics);
        let taken = Arc::new(TakenSlots::new(scan, share, &metrics, context));
        let rows = Arc::new(AtomicUsize::new(0));
        let progress = metrics.progress.clone();
        let work = Work {
            scan: scan.clone(),
            metrics,
            share,
            uses_running_filters,
            taken: Arc::clone(&taken),
            rows: Arc::clone(&rows),
        };
        let is_sequential =
            matches!(share, Share::Whole) && scan.needs_few(context.session_config().batch_size());
        let context = Arc::downgrade(context);
        let units = stream::once(async move {
            let slots = work.take_keys(Weak::clone(&context)).await?;
            work.start(&slots, &upgrade(&context)?)
        });
        let listed = progress.clone();
        let end = stream::poll_fn(move |_| {
            listed.set_listed();
            Poll::Ready(None)
        });
        Self {
            units: SharedStream::new(units.try_flatten().chain(end).fuse().boxed()),
            progress,
            rows,
            fetch: scan.fetch,
            is_ordered: scan.order.is_some(),
            is_sequential,
            _taken: taken,
        }
    }

    /// The rows of output partition `partition`, from units that no other stream of this run takes.
    pub(super) fn stream(
        self: Arc<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        if self.is_sequential && partition > 0 {
            return stream::empty().boxed();
        }
        let run = Arc::clone(&self);
        let is_ordered = self.is_ordered;
        let progress = self.progress.clone();
        let opened = Units(self).map(move |unit| {
            let unit = unit?;
            let in_progress = progress.start_unit();
            let batches = unit.open(&context)?;
            Ok::<_, DataFusionError>(batches.inspect(move |_| {
                let _until_dropped = &in_progress;
            }))
        });
        let batches = if is_ordered {
            opened.try_flatten().boxed()
        } else {
            opened.try_flatten_unordered(UNITS_AT_A_TIME).boxed()
        };
        batches
            .inspect_ok(move |batch| {
                run.rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
            })
            .boxed()
    }

    /// Whether the units that have been taken hold enough rows. With an order, units are taken in
    /// it and read to their ends, so that whatever is left comes after these rows.
    fn is_satisfied(&self) -> bool {
        self.fetch
            .is_some_and(|fetch| self.rows.load(Ordering::Relaxed) >= fetch)
    }
}

/// The slots of dynamic filters that an execution reads, let go when it is over.
#[derive(Default)]
pub(super) struct TakenSlots {
    pub(super) slots: OnceLock<Vec<(Arc<DynamicPartitionFilter>, Arc<KeySlot>)>>,
    /// Told in the end what they have done.
    report: Option<Arc<ScanReport>>,
    /// Whether nobody else reads them.
    are_own: bool,
}

impl TakenSlots {
    fn new(
        scan: &PartitionScan,
        share: Share,
        metrics: &ScanMetrics,
        context: &Arc<TaskContext>,
    ) -> Self {
        let reports = context.session_config().get_extension::<PartitionReports>();
        let report = reports.map(|reports| {
            let table = scan.catalog.describe();
            let filters = scan.predicate.to_string();
            let report = Arc::new(ScanReport::new(table, filters, metrics));
            reports.add(context, &report);
            report
        });
        Self {
            slots: OnceLock::new(),
            report,
            // Of other shares, some may still come and want the slots too.
            are_own: matches!(share, Share::Whole),
        }
    }
}

impl Drop for TakenSlots {
    fn drop(&mut self) {
        let slots = self.slots.get().map_or(&[][..], Vec::as_slice);
        if let Some(report) = &self.report {
            report.set_filters(slots);
        }
        if self.are_own {
            for (filter, slot) in slots {
                filter.release(slot);
            }
        }
    }
}

/// The units that one stream takes.
struct Units(Arc<Run>);

impl Stream for Units {
    type Item = Result<Unit>;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.0.is_satisfied() {
            return Poll::Ready(None);
        }
        self.0.units.poll_next(cx)
    }
}
