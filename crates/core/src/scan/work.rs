//! What a run does: asks the catalog, and makes units of what it finds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use futures::future::join_all;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::known_rows::KnownRows;
use super::limits::LimitCheck;
use super::metrics::ScanMetrics;
use super::representatives::{each_group, extremes};
use super::run::{Share, TakenSlots};
use super::unit::Unit;
use super::{PartitionScan, RowsNeeded};
use crate::catalog::ListingContext;
use crate::dynamic_filter::{KeySlot, ends_within};
use crate::options::PartitionedOptions;
use crate::predicate::PartitionPredicate;
use crate::reader::{PartitionReader, ReadContext};
use crate::spec::PartitionBatch;

/// How many partitions of an ordered scan are handed to the reader at once, when nothing is gained
/// by handing on fewer.
const PARTITIONS_AT_A_TIME: usize = 64;

/// What a run needs to start.
pub(super) struct Work {
    pub(super) scan: PartitionScan,
    pub(super) metrics: ScanMetrics,
    pub(super) share: Share,
    /// Whether DataFusion's dynamic filters are about this execution.
    pub(super) uses_running_filters: bool,
    pub(super) taken: Arc<TakenSlots>,
    /// The rows that the run has read.
    pub(super) rows: Arc<AtomicUsize>,
}

impl Work {
    /// The slots of the dynamic filters, with their keys in them as far as these are complete within the
    /// time to wait for them. By now the build sides of joins have been opened, and with those of hash
    /// joins mostly also read.
    pub(super) async fn take_keys(&self, context: Weak<TaskContext>) -> Result<Vec<Arc<KeySlot>>> {
        let (slots, limit) = {
            let context = upgrade(&context)?;
            let filters = self.scan.dynamic_filters.iter();
            let slots: Vec<_> = filters.map(|filter| filter.take(&context)).collect();
            let options = PartitionedOptions::from_config(context.session_config().options());
            (slots, options.dynamic_filter.wait.duration())
        };
        let filters = self.scan.dynamic_filters.iter().cloned();
        let taken = filters.zip(slots.iter().cloned());
        self.taken.slots.get_or_init(|| taken.collect());
        if !limit.is_zero() && slots.iter().any(|slot| slot.keys().is_none()) {
            let _timer = self.metrics.dynamic_filter_wait_time.timer();
            let all = join_all(slots.iter().map(|slot| slot.wait()));
            // Whatever is not known by then can still become known.
            let _ = ends_within(limit, all).await;
        }
        count_filters(&slots, &self.metrics);
        Ok(slots)
    }

    /// Asks the catalog for the partitions that satisfy the filters and the keys in `slots`.
    pub(super) fn start(
        self,
        slots: &[Arc<KeySlot>],
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<Unit>>> {
        let Self { scan, share, .. } = self;
        let wanted = scan
            .dynamic_filters
            .iter()
            .zip(slots)
            .fold(scan.predicate.clone(), |wanted, (filter, slot)| {
                wanted.with_keys(filter.keys(), Arc::clone(slot))
            });
        let running = scan.running.iter().filter(|_| self.uses_running_filters);
        let wanted = running.fold(wanted, PartitionPredicate::with_running);
        let limits = LimitCheck::new(scan.limits, scan.catalog.as_ref());
        limits.check_filter(&wanted)?;

        let config = context.session_config();
        let options = PartitionedOptions::from_config(config.options());
        let few = scan.needs_few(config.batch_size());
        let mut listing =
            ListingContext::new(context.runtime_env(), config.clone(), self.metrics.clone());
        listing.defer_files = few;
        let checks = listing.checks.clone();
        let read = ReadContext {
            runtime: context.runtime_env(),
            config: config.clone(),
            streams: scan.partitions,
            concurrency: listing.concurrency,
            division: scan.division(),
            still_wanted: wanted.changing(),
            uses_running_filters: self.uses_running_filters,
            metrics: self.metrics.clone(),
        };
        let known = options
            .metadata_answers
            .then(|| KnownRows::of(&scan, config.batch_size()))
            .flatten();
        let reading = Arc::new(Reading {
            reader: scan.reader_of_needed_rows(),
            context: read,
            wanted: wanted.clone(),
            limits,
            known,
            share,
        });

        let in_order = scan.order.as_ref().and_then(|order| {
            let catalog = &scan.catalog;
            catalog.list_in_order(wanted.clone(), order, listing.clone())
        });
        let is_in_order = in_order.is_some();
        let metrics = self.metrics;
        let listed = in_order
            .unwrap_or_else(|| scan.catalog.list(wanted, listing))
            .inspect_ok(move |batch| metrics.partitions_listed.add(batch.len()))
            .boxed();
        let units = match (scan.rows_needed, scan.order) {
            (RowsNeeded::All, None) => listed
                .and_then(move |batch| {
                    let reading = Arc::clone(&reading);
                    async move { reading.units(batch).await }
                })
                .map_ok(|units| stream::iter(units.into_iter().map(Ok)))
                .try_flatten()
                .boxed(),
            (RowsNeeded::All, Some(order)) => {
                let limit = scan.fetch.filter(|_| few).map(|fetch| Limit {
                    fetch,
                    rows: self.rows,
                });
                let sorted = if is_in_order {
                    listed
                } else {
                    let spec = scan.catalog.spec().clone();
                    stream::once(async move {
                        let all = PartitionBatch::concat(&spec, listed.try_collect().await?)?;
                        let rows = order.sort(&all)?;
                        all.permute(&rows)
                    })
                    .boxed()
                };
                units_in_order(reading, sorted, limit)
            }
            (needed, _) => {
                // Without shared work the first output partition finds the extremes for all.
                if let (RowsNeeded::First(_), Share::Part { index: 1.., .. }) = (&needed, share) {
                    return Ok(stream::empty().boxed());
                }
                let spec = scan.catalog.spec().clone();
                let progress = reading.context.metrics.progress.clone();
                let units = async move {
                    let all = PartitionBatch::concat(&spec, listed.try_collect().await?)?;
                    let all = Arc::new(reading.drop_unwanted(all)?);
                    let units = match needed {
                        RowsNeeded::OnePerGroup(columns) => {
                            each_group(&reading, &all, &columns, share)?
                        }
                        RowsNeeded::First(columns) => vec![extremes(reading, all, columns)],
                        RowsNeeded::All => vec![],
                    };
                    progress.add_units(units.len());
                    Ok::<_, DataFusionError>(stream::iter(units.into_iter().map(Ok)))
                };
                stream::once(units).try_flatten().boxed()
            }
        };
        let checked = stream::once(async move { checks.run().await });
        let failed = checked.filter_map(|checked| std::future::ready(checked.err().map(Err)));
        Ok(units.chain(failed).boxed())
    }
}

/// Whoever polls has the context. The run must not, or a plan would keep it alive.
pub(super) fn upgrade(context: &Weak<TaskContext>) -> Result<Arc<TaskContext>> {
    let context = context.upgrade();
    context.ok_or_else(|| internal_datafusion_err!("polled after the end of its TaskContext"))
}

/// How the partitions that the catalog has found become units.
pub(super) struct Reading {
    pub(super) reader: Arc<dyn PartitionReader>,
    pub(super) context: ReadContext,
    wanted: PartitionPredicate,
    pub(super) limits: LimitCheck,
    pub(super) known: Option<KnownRows>,
    share: Share,
}

impl Reading {
    /// Asks the predicate once more: a catalog may return too much, and a dynamic filter may have
    /// become known since it was asked.
    pub(super) fn drop_unwanted(&self, batch: PartitionBatch) -> Result<PartitionBatch> {
        let keep = self.wanted(batch.values())?;
        batch.filter(&keep)
    }

    pub(super) fn wanted(&self, values: &RecordBatch) -> Result<BooleanArray> {
        let pruned = self.wanted.evaluate(values)?;
        self.context.metrics.record_pruned(&pruned);
        Ok(pruned.keep)
    }

    /// Units with all rows of the wanted ones among `partitions` that are in this share, in their
    /// order.
    async fn units(&self, partitions: PartitionBatch) -> Result<Vec<Unit>> {
        let partitions = self.drop_unwanted(partitions)?;
        self.limits.count(&partitions)?;
        let partitions = self.share.of(partitions)?;
        let scanned = &self.context.metrics.partitions_scanned;
        let mut units = vec![];
        for (is_known, rows) in self.runs(&partitions) {
            let some = if rows.len() == partitions.len() {
                partitions.clone()
            } else {
                partitions.take(&rows)?
            };
            if is_known {
                let counts = some.sources().iter();
                let counts = counts.map(|source| source.rows.map_or(0, usize::from));
                units.extend(self.known_unit(some.values(), counts.collect()));
            } else {
                scanned.add(some.len());
                let source = self.reader.read(some, &self.context).await?;
                units.extend(Unit::each_of(&source));
            }
        }
        self.context.metrics.progress.add_units(units.len());
        Ok(units)
    }

    /// A unit with row i of `values` `counts[i]` times.
    pub(super) fn known_unit(&self, values: &RecordBatch, counts: Vec<usize>) -> Option<Unit> {
        let batches = self.known.as_ref()?.batches(values, counts);
        Some(Unit::new(move |_| Ok(stream::iter(batches?).boxed())))
    }

    /// Neighbours whose rows are all known, or all not, with the answer to that.
    fn runs(&self, partitions: &PartitionBatch) -> Vec<(bool, Vec<u32>)> {
        let mut runs: Vec<(bool, Vec<u32>)> = vec![];
        for (row, source) in (0..).zip(partitions.sources()) {
            let is_known = self.known.is_some() && source.rows.is_some();
            match runs.last_mut() {
                Some((last, rows)) if *last == is_known => rows.push(row),
                _ => runs.push((is_known, vec![row])),
            }
        }
        runs
    }
}

/// The units of `partitions`, which come in order. With a limit that few partitions are likely to
/// fill, as many are looked at as those before make seem necessary.
fn units_in_order(
    reading: Arc<Reading>,
    partitions: BoxStream<'static, Result<PartitionBatch>>,
    limit: Option<Limit>,
) -> BoxStream<'static, Result<Unit>> {
    let state = InOrder {
        partitions,
        batch: None,
        read: 0,
        last: 0,
    };
    stream::try_unfold(state, move |mut state| {
        let most = reading.context.concurrency;
        let size = match &limit {
            Some(limit) => limit
                .partitions_wanted(state.read, state.last)
                .clamp(1, most),
            None => PARTITIONS_AT_A_TIME,
        };
        let reading = Arc::clone(&reading);
        async move {
            let Some(partitions) = state.next(size).await? else {
                return Ok::<_, DataFusionError>(None);
            };
            let units = reading.units(partitions).await?;
            Ok(Some((stream::iter(units.into_iter().map(Ok)), state)))
        }
    })
    .try_flatten()
    .boxed()
}

/// How far an ordered scan has come.
struct InOrder {
    partitions: BoxStream<'static, Result<PartitionBatch>>,
    /// The partitions that are listed and not read, from this row on.
    batch: Option<(PartitionBatch, usize)>,
    /// How many partitions have been handed on, and how many of them the last time.
    read: usize,
    last: usize,
}

impl InOrder {
    /// At most `size` partitions.
    async fn next(&mut self, size: usize) -> Result<Option<PartitionBatch>> {
        let (batch, start) = match self.batch.take() {
            Some(batch) => batch,
            None => match self.partitions.try_next().await? {
                Some(batch) => (batch, 0),
                None => return Ok(None),
            },
        };
        let end = (start + size).min(batch.len());
        let rows: Vec<u32> = (start as u32..end as u32).collect();
        let next = batch.take(&rows)?;
        if end < batch.len() {
            self.batch = Some((batch, end));
        }
        self.read += next.len();
        self.last = size;
        Ok(Some(next))
    }
}

/// How many rows are wanted, and how many there are.
struct Limit {
    fetch: usize,
    rows: Arc<AtomicUsize>,
}

impl Limit {
    /// How many more partitions it takes if they are like the first `read`. When these were all
    /// empty, twice as many as the `last` time.
    fn partitions_wanted(&self, read: usize, last: usize) -> usize {
        let rows = self.rows.load(Ordering::Relaxed);
        match rows {
            0 => last * 2,
            _ => (self.fetch.saturating_sub(rows) * read).div_ceil(rows),
        }
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

impl Share {
    /// The partitions of `batch` in this share. Depends on their locations only, so that every
    /// partition is in exactly one share even when the shares are listed at different times.
    fn of(self, batch: PartitionBatch) -> Result<PartitionBatch> {
        let Self::Part { .. } = self else {
            return Ok(batch);
        };
        let keep: BooleanArray = batch
            .sources()
            .iter()
            .map(|source| Some(self.has(source.location.as_ref().as_bytes())))
            .collect();
        batch.filter(&keep)
    }

    /// Whether what has this name is in this share.
    pub(super) fn has(self, name: &[u8]) -> bool {
        let Self::Part { index, of } = self else {
            return true;
        };
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish() % of as u64 == index as u64
    }
}
