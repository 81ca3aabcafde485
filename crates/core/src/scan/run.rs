//! One execution of a partitioned scan: asks the catalog, reads what it finds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::Result;
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::PartitionScan;
use super::metrics::ScanMetrics;
use super::shared_stream::SharedStream;
use crate::catalog::ListingContext;
use crate::dynamic_filter::KeySlot;
use crate::options::PartitionedOptions;
use crate::predicate::PartitionPredicate;
use crate::reader::ReadContext;
use crate::spec::PartitionBatch;

/// A piece of the table that one stream reads: an output partition of what the reader made.
struct Unit {
    source: Arc<dyn DataSource>,
    partition: usize,
}

/// The work of one execution, in a queue that all output partitions of the scan take from.
pub(super) struct Run {
    units: SharedStream<Result<Unit>>,
    /// Rows read so far by all streams, to stop early when there is a limit.
    rows: AtomicUsize,
    fetch: Option<usize>,
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
    /// Prepares the `ordinal`-th execution of `scan` with `context`. Nothing happens before the
    /// first poll.
    pub(super) fn new(
        scan: &PartitionScan,
        context: &Arc<TaskContext>,
        ordinal: usize,
        share: Share,
    ) -> Self {
        let options = PartitionedOptions::from_config(context.session_config().options());
        let metrics = ScanMetrics::new(&scan.metrics_set());
        let listing = ListingContext {
            runtime: context.runtime_env(),
            concurrency: options.list_concurrency.max(1),
            metrics: metrics.clone(),
        };
        let read = ReadContext {
            runtime: context.runtime_env(),
            config: Arc::clone(context.session_config().options()),
            streams: scan.partitions,
            metrics: metrics.clone(),
        };
        let slots: Vec<_> = scan
            .dynamic_filters
            .iter()
            .map(|filter| filter.consumer_slot(context, ordinal))
            .collect();
        let wanted = scan
            .dynamic_filters
            .iter()
            .zip(&slots)
            .fold(scan.predicate.clone(), |wanted, (filter, slot)| {
                wanted.with_keys(filter.keys(), Arc::clone(slot))
            });

        let catalog = Arc::clone(&scan.catalog);
        let batches = stream::once({
            let wanted = wanted.clone();
            async move {
                count_filters(&slots, &listing.metrics);
                catalog.list(wanted, listing)
            }
        })
        .flatten();
        let reader = Arc::clone(&scan.reader);
        let units = batches
            .try_filter_map(move |batch| {
                let (reader, read, wanted) = (Arc::clone(&reader), read.clone(), wanted.clone());
                async move {
                    read.metrics.partitions_listed.add(batch.len());
                    let batch = share.of(drop_unwanted(batch, &wanted, &read.metrics)?)?;
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
            .try_flatten();
        Self {
            units: SharedStream::new(units.fuse().boxed()),
            rows: AtomicUsize::new(0),
            fetch: scan.fetch,
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
            .try_flatten()
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
