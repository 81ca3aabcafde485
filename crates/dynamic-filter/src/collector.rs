//! [`PartitionKeyCollectorExec`]: collects the keys of a join's build side while they pass.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use datafusion_partitioned_core::{DynamicPartitionFilter, Executions};

use crate::collection::{Collection, CollectorStream};
use crate::transparent::transparent;

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
    matching: KeyMatching,
    filters: Vec<Arc<DynamicPartitionFilter>>,
    collections: Executions<Collection>,
    metrics: ExecutionPlanMetricsSet,
}

/// How a join finds the matches of a row by the keys that are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyMatching {
    /// By `=`: tuples with a NULL in them match nothing and are left out.
    Equal,
    /// By `IS NOT DISTINCT FROM`: NULL is a key as any other.
    NotDistinct,
    /// As `NOT IN`, of one key: rows of the other side that are NULL are always needed. A NULL among the
    /// keys makes the result depend on whether the other side has any row at all, so that nothing may
    /// be left out.
    NotIn,
    /// By comparisons: only the bounds of each key are collected.
    Range,
}

impl PartitionKeyCollectorExec {
    /// Collects `keys`, expressions over `input`, for `filters`.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        matching: KeyMatching,
        filters: Vec<Arc<DynamicPartitionFilter>>,
    ) -> Self {
        Self {
            input,
            keys,
            matching,
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
            matching: self.matching,
            filters: self.filters.clone(),
            collections: Executions::default(),
            metrics: self.metrics.clone(),
        }
    }

    fn partitions(&self) -> usize {
        self.input.properties().partitioning.partition_count()
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
                let what = match self.matching {
                    KeyMatching::Range => "bounds",
                    _ => "keys",
                };
                write!(f, "PartitionKeyCollectorExec: {what}=[{keys}]")
            }
        }
    }
}

impl ExecutionPlan for PartitionKeyCollectorExec {
    fn name(&self) -> &'static str {
        "PartitionKeyCollectorExec"
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

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.filters.iter().for_each(|filter| filter.reset());
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
                let slots = self.filters.iter().map(|f| f.offer(&context)).collect();
                let schema = self.input.schema();
                let types = self.keys.iter().map(|key| key.data_type(&schema));
                let types = types.collect::<Result<_>>();
                let partitions = self.partitions();
                Collection::new(
                    types,
                    self.matching,
                    partitions,
                    slots,
                    &self.metrics,
                    &context,
                )
            });
        let input = match self.input.execute(partition, context) {
            Ok(input) => input,
            Err(error) => {
                collection.give_up();
                return Err(error);
            }
        };
        let keys = self.keys.clone();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stream = CollectorStream::new(input, keys, collection, metrics);
        Ok(Box::pin(stream))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    transparent!();
}
