//! [`PartitionScan`]: the scan that brings predicate, catalog and reader together.
//!
//! ```text
//!   DataSourceExec (DataFusion's own)
//!     PartitionScan
//!       planning:   projections, filters, limits  --> template of the reader
//!       execute(i): claims a Run                       no I/O
//!       first poll: Run: keys of dynamic filters -> catalog.list(..) -> reader.read(..)
//!       poll:       takes a unit from the Run's queue, opens it, passes its rows on
//! ```

mod metrics;
mod run;
mod shared_stream;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::catalog::PartitionCatalog;
use crate::dynamic_filter::DynamicPartitionFilter;
use crate::execution::Executions;
use crate::options::PartitionedOptions;
use crate::predicate::PartitionPredicate;
use crate::reader::PartitionReader;
use crate::rewrite::rewrite_columns;
pub use metrics::ScanMetrics;
use run::{Run, Share};

/// A [`DataSource`] over the partitions that a catalog lists when the scan is first polled.
///
/// It runs inside DataFusion's `DataSourceExec`. Planning and `execute` make no request. Its
/// output partitions take units of work from one queue, unless
/// `datafusion.execution.enable_file_stream_work_stealing` is off: then each of them reads a share
/// of the partitions that depends on nothing but their locations, so that output partitions can
/// run in different processes.
///
/// The same plan can be executed several times, also at once: see [`Executions`].
#[derive(Debug)]
pub struct PartitionScan {
    catalog: Arc<dyn PartitionCatalog>,
    reader: Arc<dyn PartitionReader>,
    predicate: PartitionPredicate,
    dynamic_filters: Vec<Arc<DynamicPartitionFilter>>,
    /// For each output column what it is in terms of the predicate: partition columns by their
    /// index in the spec, file columns behind them. `None` when that cannot be said.
    outputs: Vec<Option<Arc<dyn PhysicalExpr>>>,
    partitions: usize,
    fetch: Option<usize>,
    runs: Arc<Executions<Run>>,
}

/// Makes a [`PartitionScan`].
#[derive(Debug)]
pub struct PartitionScanBuilder {
    scan: PartitionScan,
}

impl PartitionScanBuilder {
    /// A scan of all partitions of `catalog` through `reader`, whose template returns
    /// `file_columns` columns followed by the partition columns. One output partition, no limit.
    pub fn new(
        catalog: Arc<dyn PartitionCatalog>,
        reader: Arc<dyn PartitionReader>,
        file_columns: usize,
    ) -> Self {
        let spec = catalog.spec();
        let predicate = PartitionPredicate::all(spec);
        let file_outputs = (0..file_columns)
            .map(|column| Column::new(&format!("file column {column}"), spec.len() + column));
        let partition_outputs = spec
            .column_names()
            .enumerate()
            .map(|(index, name)| Column::new(name, index));
        let outputs = file_outputs
            .chain(partition_outputs)
            .map(|column| Some(Arc::new(column) as Arc<dyn PhysicalExpr>))
            .collect();
        Self {
            scan: PartitionScan {
                catalog,
                reader,
                predicate,
                dynamic_filters: vec![],
                outputs,
                partitions: 1,
                fetch: None,
                runs: Arc::default(),
            },
        }
    }

    /// Sets which partitions are wanted.
    pub fn with_predicate(mut self, predicate: PartitionPredicate) -> Self {
        self.scan.predicate = predicate;
        self
    }

    /// Says that the reader's template returns only these columns of the table, in this order.
    pub fn with_projection(mut self, projection: &[usize]) -> Self {
        let outputs = projection
            .iter()
            .map(|column| self.scan.outputs.get(*column)?.clone());
        self.scan.outputs = outputs.collect();
        self
    }

    /// Sets the number of output partitions, at least 1.
    pub fn with_partitions(mut self, partitions: usize) -> Self {
        self.scan.partitions = partitions.max(1);
        self
    }

    /// Stops after this many rows.
    pub fn with_fetch(mut self, fetch: Option<usize>) -> Self {
        self.scan.fetch = fetch;
        self
    }

    /// The scan.
    pub fn build(self) -> PartitionScan {
        self.scan
    }
}

impl PartitionScan {
    /// The names and types of the partition columns are in `catalog().spec()`.
    pub fn catalog(&self) -> &Arc<dyn PartitionCatalog> {
        &self.catalog
    }

    /// What is known when planning about the wanted partitions.
    pub fn predicate(&self) -> &PartitionPredicate {
        &self.predicate
    }

    /// The dynamic filters that this scan reads.
    pub fn dynamic_filters(&self) -> &[Arc<DynamicPartitionFilter>] {
        &self.dynamic_filters
    }

    /// The indexes of the output columns on which dynamic filters are accepted (Flink:
    /// `listAcceptedFilterFields`).
    pub fn accepted_filter_columns(&self) -> Vec<usize> {
        (0..self.outputs.len())
            .filter(|output| {
                let column = Arc::new(Column::new("", *output)) as Arc<dyn PhysicalExpr>;
                self.filter_key(&column).is_some()
            })
            .collect()
    }

    /// `expr`, over the output columns, in terms of partition columns by their index in the spec,
    /// if it depends on nothing else. Such expressions can be the keys of a dynamic filter.
    pub fn filter_key(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let key = self.partition_expr(expr)?;
        let columns = collect_columns(&key);
        let partition_columns = self.catalog.spec().len();
        (!columns.is_empty()
            && columns
                .iter()
                .all(|column| column.index() < partition_columns))
        .then_some(key)
    }

    /// The scan with one more dynamic filter (Flink: `applyDynamicFiltering`).
    pub fn with_dynamic_filter(&self, filter: Arc<DynamicPartitionFilter>) -> Self {
        let mut scan = self.derived();
        scan.dynamic_filters.push(filter);
        scan
    }

    /// A copy that is executed apart from this one.
    fn derived(&self) -> Self {
        Self {
            catalog: Arc::clone(&self.catalog),
            reader: Arc::clone(&self.reader),
            predicate: self.predicate.clone(),
            dynamic_filters: self.dynamic_filters.clone(),
            outputs: self.outputs.clone(),
            partitions: self.partitions,
            fetch: self.fetch,
            runs: Arc::default(),
        }
    }

    fn with_template(&self, template: Arc<dyn DataSource>) -> Self {
        let mut scan = self.derived();
        scan.reader = self.reader.with_template(template);
        scan
    }

    fn template(&self) -> &Arc<dyn DataSource> {
        self.reader.template()
    }

    fn metrics_set(&self) -> ExecutionPlanMetricsSet {
        self.template().metrics()
    }

    fn open_run(
        &self,
        run: Arc<Run>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.eq_properties().schema());
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, run.stream(context)));
        match self.fetch {
            None => stream,
            Some(_) => {
                // The units count their own output rows; the limit must not count them again.
                let metrics = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
                Box::pin(LimitStream::new(stream, 0, self.fetch, metrics))
            }
        }
    }

    /// Whether `filter` is a dynamic filter on partition columns that one of this scan's own
    /// dynamic filters covers. Leaving it out saves evaluating it for each file, and the join the
    /// barrier behind which it would make it.
    fn covers(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        if !filter.is::<DynamicFilterPhysicalExpr>() {
            return false;
        }
        let keys: Option<Vec<_>> = filter
            .children()
            .into_iter()
            .map(|child| self.filter_key(child))
            .collect();
        keys.is_some_and(|keys| {
            self.dynamic_filters
                .iter()
                .any(|own| keys.iter().all(|key| own.keys().contains(key)))
        })
    }

    /// `expr`, over the output columns, in the numbering of [`PartitionPredicate`].
    fn partition_expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        rewrite_columns(expr, &|output| self.outputs.get(output)?.clone())
    }
}

impl DataSource for PartitionScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let OpenArgs {
            partition,
            context,
            sibling_state,
        } = args;
        let run = self
            .runs
            .claim(&context, partition, self.partitions, |ordinal| {
                Run::new(self, &context, ordinal, Share::Whole)
            });
        let run = if sibling_state.is_some() {
            run
        } else {
            let share = Share::Part {
                index: partition,
                of: self.partitions,
            };
            Arc::new(Run::new(self, &context, 0, share))
        };
        Ok(self.open_run(run, partition, context))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.catalog.spec().column_names().collect();
        let filters: Vec<_> = self
            .dynamic_filters
            .iter()
            .map(|filter| {
                let keys: Vec<_> = filter.keys().iter().map(ToString::to_string).collect();
                format!("({})", keys.join(", "))
            })
            .collect();
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "partitioned_by={}", names.join(", "))?;
            return self.reader.fmt_as(t, f);
        }
        write!(f, "partitions={}", self.catalog.describe())?;
        write!(f, ", partitioned_by=[{}]", names.join(", "))?;
        if self.predicate.filters().next().is_some() {
            write!(f, ", partition_filters=[{}]", self.predicate)?;
        }
        if !filters.is_empty() {
            write!(f, ", dynamic_filters=[{}]", filters.join(", "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", limit={fetch}")?;
        }
        write!(f, ", ")?;
        self.reader.fmt_as(t, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.template().eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.template().scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.template().partition_statistics(partition)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let template = self.template().with_fetch(limit)?;
        let mut scan = self.with_template(template);
        scan.fetch = limit;
        Some(Arc::new(scan))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics_set()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let Some(template) = self.template().try_swapping_with_projection(projection)? else {
            return Ok(None);
        };
        let mut scan = self.with_template(template);
        let outputs = projection
            .iter()
            .map(|projected| self.partition_expr(&projected.expr));
        scan.outputs = outputs.collect();
        Ok(Some(Arc::new(scan)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let (covered, offered): (Vec<_>, Vec<_>) = filters
            .iter()
            .cloned()
            .enumerate()
            .partition(|(_, filter)| self.covers(filter));
        let offered = offered.into_iter().map(|(_, filter)| filter).collect();
        let answer = self.template().try_pushdown_filters(offered, config)?;
        let mut scan = match answer.updated_node {
            Some(template) => self.with_template(template),
            None => self.derived(),
        };
        if PartitionedOptions::from_config(config).static_pruning {
            for filter in filters
                .iter()
                .filter_map(|filter| self.partition_expr(filter))
            {
                scan.predicate = scan.predicate.with_filter(&filter);
            }
        }
        let mut answers = answer.filters;
        for (position, _) in covered {
            answers.insert(position, PushedDown::No);
        }
        Ok(
            FilterPushdownPropagation::with_parent_pushdown_result(answers)
                .with_updated_node(Arc::new(scan)),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.template().apply_expressions(f)
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        // The executions themselves are told apart in `runs`, which outlives a reset of the plan;
        // only whether output partitions may share work is decided here.
        config
            .execution
            .enable_file_stream_work_stealing
            .then(|| Arc::new(()) as Arc<dyn Any + Send + Sync>)
    }
}
