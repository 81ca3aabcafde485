//! One execution of a partitioned scan: asks the catalog, reads what it finds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::PartitionScan;
use super::limits::LimitCheck;
use super::metrics::ScanMetrics;
use super::shared_stream::SharedStream;
use crate::catalog::{ListingContext, PartitionCatalog};
use crate::dynamic_filter::{DynamicPartitionFilter, KeySlot};
use crate::predicate::PartitionPredicate;
use crate::reader::{PartitionReader, ReadContext};
use crate::spec::PartitionBatch;

/// How many units one stream reads at a time, so that the requests for one go out while another is
/// decoded.
const UNITS_AT_A_TIME: usize = 2;

/// A piece of the table that one stream reads: an output partition of what the reader made.
struct Unit {
    source: Arc<dyn DataSource>,
    partition: usize,
}

/// The work of one execution, in a queue that output partitions of the scan take from.
pub(super) struct Run {
    units: SharedStream<Result<Unit>>,
    /// Rows read so far by all streams, to stop early when there is a limit.
    rows: AtomicUsize,
    fetch: Option<usize>,
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
        let taken = Arc::new(TakenSlots::default());
        let work = Work {
            catalog: Arc::clone(&scan.catalog),
            reader: Arc::clone(&scan.reader),
            predicate: scan.predicate.clone(),
            filters: scan.dynamic_filters.clone(),
            taken: Arc::clone(&taken),
            streams: scan.partitions,
            metrics: ScanMetrics::new(&scan.metrics_set()),
            limits: LimitCheck::new(scan.limits, scan.catalog.as_ref()),
            share,
        };
        // Whoever polls has the context. The run must not, or a plan would keep it alive.
        let context = Arc::downgrade(context);
        let units = stream::once(async move {
            match context.upgrade() {
                Some(context) => work.start(&context),
                None => internal_err!("polled after the end of its TaskContext"),
            }
        });
        Self {
            units: SharedStream::new(units.try_flatten().fuse().boxed()),
            rows: AtomicUsize::new(0),
            fetch: scan.fetch,
            _taken: taken,
        }
    }

    /// One stream of rows, from units that no other stream of this run takes.
    pub(super) fn stream(
        self: Arc<Self>,
        context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let run = Arc::clone(&self);
        let units = Units(self);
        units
            .map(move |unit| unit.and_then(|u| u.source.open(u.partition, Arc::clone(&context))))
            .try_flatten_unordered(UNITS_AT_A_TIME)
            .inspect_ok(move |batch| {
                run.rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
            })
            .boxed()
    }

    fn is_satisfied(&self) -> bool {
        self.fetch
            .is_some_and(|fetch| self.rows.load(Ordering::Relaxed) >= fetch)
    }
}

/// The slots of dynamic filters that an execution reads, let go when it is over.
#[derive(Default)]
struct TakenSlots(OnceLock<Vec<(Arc<DynamicPartitionFilter>, Arc<KeySlot>)>>);

impl Drop for TakenSlots {
    fn drop(&mut self) {
        for (filter, slot) in self.0.get().into_iter().flatten() {
            filter.release(slot);
        }
    }
}

/// What a run needs to start.
struct Work {
    catalog: Arc<dyn PartitionCatalog>,
    reader: Arc<dyn PartitionReader>,
    predicate: PartitionPredicate,
    filters: Vec<Arc<DynamicPartitionFilter>>,
    taken: Arc<TakenSlots>,
    streams: usize,
    metrics: ScanMetrics,
    limits: LimitCheck,
    share: Share,
}

impl Work {
    /// Asks the catalog, and turns what it lists into units. By now the build sides of joins have
    /// been opened, and with those of hash joins also read.
    fn start(self, context: &Arc<TaskContext>) -> Result<BoxStream<'static, Result<Unit>>> {
        let slots: Vec<_> = self
            .filters
            .iter()
            .map(|filter| filter.take(context))
            .collect();
        count_filters(&slots, &self.metrics);
        let wanted = self
            .filters
            .iter()
            .zip(&slots)
            .fold(self.predicate, |wanted, (filter, slot)| {
                wanted.with_keys(filter.keys(), Arc::clone(slot))
            });
        self.limits.check_filter(&wanted)?;
        if let Share::Whole = self.share {
            // Of other shares, some may still come and want the slots too.
            self.taken
                .0
                .get_or_init(|| self.filters.into_iter().zip(slots).collect());
        }

        let config = context.session_config();
        let metrics = self.metrics.clone();
        let listing = ListingContext::new(context.runtime_env(), config.clone(), metrics);
        let read = ReadContext {
            runtime: context.runtime_env(),
            config: config.clone(),
            streams: self.streams,
            metrics: self.metrics,
        };
        let (reader, share) = (self.reader, self.share);
        let limits = Arc::new(self.limits);
        let units = self
            .catalog
            .list(wanted.clone(), listing)
            .try_filter_map(move |batch| {
                let (reader, read, wanted) = (Arc::clone(&reader), read.clone(), wanted.clone());
                let limits = Arc::clone(&limits);
                async move {
                    read.metrics.partitions_listed.add(batch.len());
                    let batch = drop_unwanted(batch, &wanted, &read.metrics)?;
                    limits.count(batch.len())?;
                    let batch = share.of(batch)?;
                    if batch.is_empty() {
                        return Ok(None);
                    }
                    read.metrics.partitions_scanned.add(batch.len());
                    reader.read(batch, &read).await.map(Some)
                }
            })
            .map_ok(|source| {
                let partitions = source.output_partitioning().partition_count();
                stream::iter((0..partitions).map(move |partition| {
                    Ok(Unit {
                        source: Arc::clone(&source),
                        partition,
                    })
                }))
            })
            .try_flatten()
            .boxed();
        Ok(units)
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

fn count_filters(slots: &[Arc<KeySlot>], metrics: &ScanMetrics) {
    for slot in slots {
        match slot.keys() {
            Some(keys) if keys.is_selective() => metrics.dynamic_filters_ready.add(1),
            Some(_) => metrics.dynamic_filters_unusable.add(1),
            None => metrics.dynamic_filters_late.add(1),
        }
    }
}

/// Asks the predicate once more: a catalog may return too much, and a dynamic filter may have
/// become known since it was asked.
fn drop_unwanted(
    batch: PartitionBatch,
    wanted: &PartitionPredicate,
    metrics: &ScanMetrics,
) -> Result<PartitionBatch> {
    let pruned = wanted.evaluate(batch.values())?;
    metrics.record_pruned(&pruned);
    batch.filter(&pruned.keep)
}

impl Share {
    /// The partitions of `batch` in this share. Depends on their locations only, so that every
    /// partition is in exactly one share even when the shares are listed at different times.
    fn of(self, batch: PartitionBatch) -> Result<PartitionBatch> {
        let Self::Part { index, of } = self else {
            return Ok(batch);
        };
        let keep: BooleanArray = batch
            .sources()
            .iter()
            .map(|source| {
                let mut hasher = DefaultHasher::new();
                source.location.as_ref().hash(&mut hasher);
                Some(hasher.finish() % of as u64 == index as u64)
            })
            .collect();
        batch.filter(&keep)
    }
}
