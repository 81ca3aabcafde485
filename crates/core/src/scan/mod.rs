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

mod limits;
mod metrics;
mod run;
mod shared_stream;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use futures::StreamExt;

use crate::catalog::PartitionCatalog;
use crate::dynamic_filter::DynamicPartitionFilter;
use crate::execution::Executions;
use crate::predicate::PartitionPredicate;
use crate::reader::PartitionReader;
use crate::rewrite::rewrite_columns;
pub use limits::PartitionLimits;
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
/// The same plan can be executed several times: see [`Executions`].
#[derive(Debug, Clone)]
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
    limits: PartitionLimits,
}

/// Makes a [`PartitionScan`].
#[derive(Debug)]
pub struct PartitionScanBuilder {
    scan: PartitionScan,
}

impl PartitionScanBuilder {
    /// A scan of all partitions of `catalog` through `reader`, whose template returns the columns
    /// of `file_schema` followed by the partition columns. One output partition, no limit.
    pub fn new(
        catalog: Arc<dyn PartitionCatalog>,
        reader: Arc<dyn PartitionReader>,
        file_schema: &Schema,
    ) -> Self {
        let spec = catalog.spec();
        let predicate = PartitionPredicate::all(spec);
        let file_fields = file_schema.fields().iter().enumerate();
        let file_outputs =
            file_fields.map(|(index, field)| Column::new(field.name(), spec.len() + index));
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
                limits: PartitionLimits::default(),
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

    /// Sets what the scan may not do.
    pub fn with_limits(mut self, limits: PartitionLimits) -> Self {
        self.scan.limits = limits;
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

    /// The scan with one more filter, over the partition columns by their index in the spec as
    /// [`Self::filter_key`] returns it. It only chooses partitions: whoever adds it must still
    /// filter the rows.
    pub fn with_filter(&self, filter: &Arc<dyn PhysicalExpr>) -> Self {
        let mut scan = self.clone();
        scan.predicate = scan.predicate.with_filter(filter);
        scan
    }

    /// The scan with one more dynamic filter (Flink: `applyDynamicFiltering`).
    pub fn with_dynamic_filter(&self, filter: Arc<DynamicPartitionFilter>) -> Self {
        let mut scan = self.clone();
        scan.dynamic_filters.push(filter);
        scan
    }

    fn with_template(&self, template: Arc<dyn DataSource>) -> Self {
        let mut scan = self.clone();
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
        let batches = run.stream(context).map({
            let schema = Arc::clone(&schema);
            move |batch| with_schema(batch?, &schema)
        });
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
        match self.fetch {
            None => stream,
            Some(_) => {
                // The units count their own output rows; the limit must not count them again.
                let metrics = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
                Box::pin(LimitStream::new(stream, 0, self.fetch, metrics))
            }
        }
    }

    /// `expr`, over the output columns, in the numbering of [`PartitionPredicate`].
    fn partition_expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        rewrite_columns(expr, &|output| self.outputs.get(output)?.clone())
    }
}

/// Some formats return a partition column as not nullable when its value is not NULL. Batches of
/// one scan must not differ in that.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
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
        let executions = sibling_state
            .as_ref()
            .and_then(|s| s.downcast_ref::<Executions<Run>>());
        let run = match executions {
            Some(executions) => executions.claim(&context, partition, self.partitions, || {
                Run::new(self, &context, Share::Whole)
            }),
            None => {
                let share = Share::Part {
                    index: partition,
                    of: self.partitions,
                };
                Arc::new(Run::new(self, &context, share))
            }
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
        // Filters known when planning have come through the table already, and by way of logical
        // expressions: DataFusion looks columns of pushed down physical filters up by name, which
        // is ambiguous above some joins. Only what changes while the query runs is new here.
        let (offered, positions): (Vec<_>, Vec<_>) = filters
            .iter()
            .enumerate()
            .filter(|(_, filter)| DynamicFilterTracking::classify(filter).contains_dynamic_filter())
            .map(|(position, filter)| (Arc::clone(filter), position))
            .unzip();
        let answer = self.template().try_pushdown_filters(offered, config)?;
        let mut answers = vec![PushedDown::No; filters.len()];
        for (position, answer) in positions.into_iter().zip(answer.filters) {
            answers[position] = answer;
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(match answer.updated_node {
            Some(template) => propagation.with_updated_node(Arc::new(self.with_template(template))),
            None => propagation,
        })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.template().apply_expressions(f)
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let shares_work = config.execution.enable_file_stream_work_stealing;
        shares_work.then(|| Arc::new(Executions::<Run>::default()) as Arc<dyn Any + Send + Sync>)
    }
}
