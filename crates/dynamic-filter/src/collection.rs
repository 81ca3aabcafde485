//! The keys of one execution of a collector, and the streams that add to them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricValue,
};
use datafusion_partitioned_core::{KeySet, KeySlot, PartitionedOptions, normalize_keys};
use futures::{Stream, StreamExt};

use crate::accumulator::{KeyAccumulator, KeyLimits, Updated};
use crate::collector::KeyMatching;
use crate::domain::KeyDomain;

/// One execution of a collector: the keys of all of its partitions.
pub(crate) struct Collection {
    state: Mutex<CollectionState>,
    matching: KeyMatching,
    slots: Vec<Arc<KeySlot>>,
    metrics: CollectorMetrics,
}

struct CollectionState {
    /// Taken when the keys are published, or known to be incomplete.
    accumulator: Option<KeyAccumulator>,
    unopened: usize,
    unfinished: usize,
}

impl Collection {
    /// Collects keys of `types` from `partitions` streams and publishes them in `slots`.
    pub(crate) fn new(
        types: Result<Vec<DataType>>,
        matching: KeyMatching,
        partitions: usize,
        slots: Vec<Arc<KeySlot>>,
        metrics: &ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Self {
        // A key whose type cannot be collected leaves the filters without keys.
        let accumulator = types.and_then(|types| accumulator(types, matching, context));
        let collection = Self {
            state: Mutex::new(CollectionState {
                accumulator: accumulator.ok(),
                unopened: partitions,
                unfinished: partitions,
            }),
            matching,
            slots,
            metrics: CollectorMetrics::new(metrics),
        };
        if partitions == 0 {
            collection.publish();
        }
        collection
    }

    fn state(&self) -> MutexGuard<'_, CollectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.state().accumulator.is_none()
    }

    fn update(&self, keys: &[ArrayRef]) -> Result<()> {
        if let Some(accumulator) = &mut self.state().accumulator
            && accumulator.update(keys)? == Updated::Degraded
        {
            self.metrics.overflowed.add(1);
        }
        Ok(())
    }

    fn open_partition(&self) {
        let mut state = self.state();
        state.unopened = state.unopened.saturating_sub(1);
        if state.unopened == 0 {
            self.slots.iter().for_each(|slot| slot.set_running());
        }
    }

    fn finish_partition(&self) {
        let mut state = self.state();
        state.unfinished = state.unfinished.saturating_sub(1);
        if state.unfinished == 0 {
            drop(state);
            self.publish();
        }
    }

    /// Publishes what has been collected; nothing, after [`Self::give_up`].
    fn publish(&self) {
        let accumulator = self.state().accumulator.take();
        let keys = match accumulator {
            None => KeySet::Unknown,
            Some(accumulator) => {
                self.metrics.collected.add(accumulator.len().unwrap_or(0));
                self.metrics.bytes.add(accumulator.size());
                accumulator.finish().unwrap_or(KeySet::Unknown)
            }
        };
        self.metrics.domain.set(&keys);
        let keys = Arc::new(keys);
        for slot in &self.slots {
            slot.publish(Arc::clone(&keys));
        }
    }

    /// The keys are not complete and will not be.
    pub(crate) fn give_up(&self) {
        self.state().accumulator = None;
        self.publish();
    }
}

/// A collector takes no more than one part in these of a limited memory pool: the operators that it
/// works for have no way to give up what they need.
const PARTS_OF_POOL: usize = 16;

/// The bytes that the keys of one collector may take.
fn memory_limit(options: &PartitionedOptions, context: &TaskContext) -> usize {
    let most = options.dynamic_filter.max_bytes.bytes();
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(pool) => most.min(pool / PARTS_OF_POOL),
        _ => most,
    }
}

fn accumulator(
    types: Vec<DataType>,
    matching: KeyMatching,
    context: &Arc<TaskContext>,
) -> Result<KeyAccumulator> {
    let options = PartitionedOptions::from_config(context.session_config().options());
    let limits = KeyLimits {
        keys: options.dynamic_filter.max_keys,
        bytes: memory_limit(&options, context),
    };
    let reservation = MemoryConsumer::new("PartitionKeyCollector").register(context.memory_pool());
    if matching == KeyMatching::Range {
        return Ok(KeyAccumulator::bounds(types, reservation));
    }
    let mut accumulator = KeyAccumulator::tuples(types.clone(), limits, reservation)?;
    if matching == KeyMatching::NotIn {
        let null = types.iter().map(|data_type| new_null_array(data_type, 1));
        accumulator.update(&null.collect::<Vec<_>>())?;
    }
    Ok(accumulator)
}

struct CollectorMetrics {
    collected: Count,
    bytes: Gauge,
    overflowed: Count,
    domain: Arc<KeyDomain>,
}

impl CollectorMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let domain = Arc::<KeyDomain>::default();
        MetricBuilder::new(metrics).build(MetricValue::Custom {
            name: "key_domain".into(),
            value: Arc::clone(&domain) as _,
        });
        Self {
            domain,
            collected: MetricBuilder::new(metrics).global_counter("keys_collected"),
            bytes: MetricBuilder::new(metrics).global_gauge("key_set_bytes"),
            overflowed: MetricBuilder::new(metrics).global_counter("key_set_overflowed"),
        }
    }
}

/// One partition of the input on its way.
pub(crate) struct CollectorStream {
    input: SendableRecordBatchStream,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    collection: Arc<Collection>,
    metrics: BaselineMetrics,
    is_finished: bool,
}

impl CollectorStream {
    pub(crate) fn new(
        input: SendableRecordBatchStream,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        collection: Arc<Collection>,
        metrics: BaselineMetrics,
    ) -> Self {
        collection.open_partition();
        Self {
            input,
            keys,
            collection,
            metrics,
            is_finished: false,
        }
    }

    /// The keys of one batch, as the join compares them.
    fn collect_keys(&self, batch: &RecordBatch) -> Result<()> {
        if self.collection.is_over() {
            return Ok(());
        }
        let _timer = self.metrics.elapsed_compute().timer();
        let keys = self
            .keys
            .iter()
            .map(|key| {
                let keys = key.evaluate(batch)?.into_array(batch.num_rows())?;
                Ok(normalize_keys(&keys))
            })
            .collect::<Result<Vec<_>>>()?;
        match self.collection.matching {
            KeyMatching::NotDistinct | KeyMatching::Range => self.collection.update(&keys),
            KeyMatching::Equal => self.collection.update(&without_nulls(keys)?),
            KeyMatching::NotIn => {
                if keys.iter().any(|keys| keys.logical_null_count() > 0) {
                    self.collection.give_up();
                    return Ok(());
                }
                self.collection.update(&keys)
            }
        }
    }
}

/// The rows without NULL in any column.
fn without_nulls(keys: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let nulls = keys.iter().fold(None, |nulls: Option<NullBuffer>, keys| {
        NullBuffer::union(nulls.as_ref(), keys.logical_nulls().as_ref())
    });
    let Some(valid) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(keys);
    };
    let valid = BooleanArray::new(valid.into_inner(), None);
    let keys = keys.iter().map(|keys| Ok(filter(keys, &valid)?));
    keys.collect()
}

impl Stream for CollectorStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.poll_next_unpin(cx));
        match &next {
            // The filter is given up, not the query: the join evaluates its keys itself.
            Some(Ok(batch)) if self.collect_keys(batch).is_err() => self.collection.give_up(),
            Some(Ok(_)) => {}
            Some(Err(_)) => self.collection.give_up(),
            None if !self.is_finished => {
                self.is_finished = true;
                self.collection.finish_partition();
            }
            None => {}
        }
        self.metrics.record_poll(Poll::Ready(next))
    }
}

impl Drop for CollectorStream {
    fn drop(&mut self) {
        if !self.is_finished {
            self.collection.give_up();
        }
    }
}

impl RecordBatchStream for CollectorStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
