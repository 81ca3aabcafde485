//! [`PartitionKeyCollectorExec`]: collects the keys of a join's build side while they pass.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{NullEquality, Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_partitioned_core::{
    DynamicPartitionFilter, Executions, KeySet, KeySlot, PartitionedOptions, normalize_keys,
};
use futures::{Stream, StreamExt};

use crate::accumulator::{KeyAccumulator, Updated};

/// Passes its input on unchanged and publishes the distinct tuples of some key expressions once
/// all of its input has passed (Flink: `DynamicFilteringDataCollector`).
///
/// It sits below the operators that only move rows of the build side between partitions, so what
/// it publishes does not depend on which partitions of the join are polled. When a partition of
/// its input fails, or is dropped before its end, it publishes that nothing is known.
#[derive(Debug)]
pub struct PartitionKeyCollectorExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    null_equality: NullEquality,
    filters: Vec<Arc<DynamicPartitionFilter>>,
    collections: Executions<Collection>,
    metrics: ExecutionPlanMetricsSet,
}

impl PartitionKeyCollectorExec {
    /// Collects tuples of `keys`, expressions over `input`, for `filters`. NULL keys are left out
    /// unless the join says that NULL equals NULL.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        null_equality: NullEquality,
        filters: Vec<Arc<DynamicPartitionFilter>>,
    ) -> Self {
        Self {
            input,
            keys,
            null_equality,
            filters,
            collections: Executions::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The expressions whose values are collected, over the input.
    pub fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    /// The plan whose rows pass.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            keys: self.keys.clone(),
            null_equality: self.null_equality,
            filters: self.filters.clone(),
            collections: Executions::default(),
            metrics: self.metrics.clone(),
        }
    }

    fn partitions(&self) -> usize {
        self.input.properties().partitioning.partition_count()
    }

    fn collection(&self, context: &Arc<TaskContext>) -> Collection {
        let options = PartitionedOptions::from_config(context.session_config().options());
        let reservation =
            MemoryConsumer::new("PartitionKeyCollector").register(context.memory_pool());
        let schema = self.input.schema();
        // A key whose type cannot be collected leaves the filter without keys.
        let accumulator = self
            .keys
            .iter()
            .map(|key| key.data_type(&schema))
            .collect::<Result<Vec<_>>>()
            .and_then(|types| {
                KeyAccumulator::try_new(types, options.dynamic_filter.max_keys, reservation)
            })
            .ok();
        let collection = Collection {
            state: Mutex::new(CollectionState {
                accumulator,
                unfinished: self.partitions(),
            }),
            slots: self.filters.iter().map(|f| f.offer(context)).collect(),
            metrics: CollectorMetrics::new(&self.metrics),
        };
        if self.partitions() == 0 {
            collection.publish();
        }
        collection
    }
}

/// One execution of the node: the keys of all of its partitions.
struct Collection {
    state: Mutex<CollectionState>,
    slots: Vec<Arc<KeySlot>>,
    metrics: CollectorMetrics,
}

struct CollectionState {
    /// Taken when the keys are published, or known to be incomplete.
    accumulator: Option<KeyAccumulator>,
    unfinished: usize,
}

impl Collection {
    fn update(&self, keys: &[ArrayRef]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(accumulator) = &mut state.accumulator
            && accumulator.update(keys)? == Updated::Degraded
        {
            self.metrics.overflowed.add(1);
        }
        Ok(())
    }

    fn finish_partition(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.unfinished = state.unfinished.saturating_sub(1);
        if state.unfinished == 0 {
            drop(state);
            self.publish();
        }
    }

    /// Publishes what has been collected; nothing, after [`Self::give_up`].
    fn publish(&self) {
        let accumulator = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .accumulator
            .take();
        let keys = match accumulator {
            None => KeySet::Unknown,
            Some(accumulator) => {
                self.metrics.collected.add(accumulator.len().unwrap_or(0));
                self.metrics.bytes.add(accumulator.size());
                accumulator.finish().unwrap_or(KeySet::Unknown)
            }
        };
        let keys = Arc::new(keys);
        for slot in &self.slots {
            slot.publish(Arc::clone(&keys));
        }
    }

    /// The keys are not complete and will not be.
    fn give_up(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .accumulator = None;
        self.publish();
    }
}

struct CollectorMetrics {
    collected: Count,
    bytes: Gauge,
    overflowed: Count,
}

impl CollectorMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        Self {
            collected: MetricBuilder::new(metrics).global_counter("keys_collected"),
            bytes: MetricBuilder::new(metrics).global_gauge("key_set_bytes"),
            overflowed: MetricBuilder::new(metrics).global_counter("key_set_overflowed"),
        }
    }
}

/// One partition of the input on its way.
struct CollectorStream {
    input: SendableRecordBatchStream,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    null_equality: NullEquality,
    collection: Arc<Collection>,
    is_finished: bool,
}

impl CollectorStream {
    /// The keys of one batch, as the join compares them.
    fn collect_keys(&self, batch: &RecordBatch) -> Result<()> {
        let mut keys = self
            .keys
            .iter()
            .map(|key| {
                let keys = key.evaluate(batch)?.into_array(batch.num_rows())?;
                Ok(normalize_keys(&keys))
            })
            .collect::<Result<Vec<_>>>()?;
        if self.null_equality == NullEquality::NullEqualsNothing {
            let nulls = keys.iter().fold(None, |nulls: Option<NullBuffer>, keys| {
                NullBuffer::union(nulls.as_ref(), keys.logical_nulls().as_ref())
            });
            if let Some(valid) = nulls.filter(|nulls| nulls.null_count() > 0) {
                let valid = BooleanArray::new(valid.into_inner(), None);
                keys = keys
                    .iter()
                    .map(|keys| Ok(filter(keys, &valid)?))
                    .collect::<Result<Vec<_>>>()?;
            }
        }
        self.collection.update(&keys)
    }
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
        Poll::Ready(next)
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

impl DisplayAs for PartitionKeyCollectorExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self
            .keys
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "keys={keys}"),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "PartitionKeyCollectorExec: keys=[{keys}]")
            }
        }
    }
}

impl ExecutionPlan for PartitionKeyCollectorExec {
    fn name(&self) -> &'static str {
        "PartitionKeyCollectorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for key in &self.keys {
            recursion = f(key)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(self.with_input(input))),
            Err(children) => internal_err!("expected one child, not {}", children.len()),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut node = self.with_input(Arc::clone(&self.input));
        node.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(node))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let collection = self
            .collections
            .claim(&context, partition, self.partitions(), || {
                self.collection(&context)
            });
        let input = match self.input.execute(partition, context) {
            Ok(input) => input,
            Err(error) => {
                collection.give_up();
                return Err(error);
            }
        };
        Ok(Box::pin(CollectorStream {
            input,
            keys: self.keys.clone(),
            null_equality: self.null_equality,
            collection,
            is_finished: false,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input_stats {
            [input] => Ok(Arc::clone(input)),
            other => internal_err!("expected the statistics of one child, not {}", other.len()),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
    }
}
