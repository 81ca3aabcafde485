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
//!
//! What the units are depends on what the plan needs:
//!
//! | needed | units |
//! |---|---|
//! | all rows | as the catalog returns partitions: nothing is collected |
//! | all rows, in a [`PartitionOrder`] | partitions are collected and sorted; units are taken in their order, so that every output partition is sorted. With a small limit, files are looked for partition by partition |
//! | [`RowsNeeded::OnePerGroup`] | one for each group: it reads file by file until there is a row |
//! | [`RowsNeeded::First`] | one: from the first partition on, until there is a row |
//!
//! Partitions whose number of rows the catalog knows are not opened when nothing but partition
//! columns is returned and nothing filters their rows.

mod known_rows;
mod limits;
mod metrics;
mod representatives;
mod run;
mod shared_stream;
mod unit;
mod work;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use futures::StreamExt;

use crate::catalog::PartitionCatalog;
use crate::dynamic_filter::DynamicPartitionFilter;
use crate::execution::Executions;
use crate::order::PartitionOrder;
use crate::predicate::PartitionPredicate;
use crate::reader::{Division, PartitionReader};
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
    order: Option<PartitionOrder>,
    rows_needed: RowsNeeded,
    limits: PartitionLimits,
    /// DataFusion's dynamic filters that are not for this scan, by their ids.
    declined_filters: Vec<u64>,
}

/// Which rows of the wanted partitions a plan needs. A scan may return more of them, and returns
/// only rows that exist: a partition without rows gives none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RowsNeeded {
    /// All.
    #[default]
    All,
    /// One for each combination of values of these partition columns, by their index in the spec.
    OnePerGroup(Vec<usize>),
    /// For each of these partition columns, by its index in the spec, one row whose value comes
    /// first in this direction. NULL does not count.
    First(Vec<(usize, SortOptions)>),
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
                order: None,
                rows_needed: RowsNeeded::All,
                limits: PartitionLimits::default(),
                declined_filters: vec![],
            },
        }
    }

    /// Sets which partitions are wanted.
    pub fn with_predicate(mut self, predicate: PartitionPredicate) -> Self {
        self.scan.predicate = predicate;
        self
    }

    /// Says that the reader's template returns more columns behind the partition columns, which
    /// differ within a partition. Call it before [`Self::with_projection`].
    pub fn with_trailing_columns(mut self, fields: &[Field]) -> Self {
        let outputs = &mut self.scan.outputs;
        for field in fields {
            let column = Column::new(field.name(), outputs.len());
            outputs.push(Some(Arc::new(column)));
        }
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

    /// Reads the partitions in this order, so that each output partition is sorted.
    pub fn with_order(mut self, order: Option<PartitionOrder>) -> Self {
        self.scan.order = order;
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
        (!collect_columns(&key).is_empty() && self.is_about_partitions(&key)).then_some(key)
    }

    /// The partition columns, by their index in the spec, that `expr`, over the output columns,
    /// depends on. `None` if it depends on anything else.
    pub fn partition_columns_of(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<BTreeSet<usize>> {
        let expr = self.partition_expr(expr)?;
        let columns = collect_columns(&expr).into_iter();
        self.is_about_partitions(&expr)
            .then(|| columns.map(|column| column.index()).collect())
    }

    /// The index in the spec of the partition column that `expr`, over the output columns, is.
    pub fn partition_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let expr = self.partition_expr(expr)?;
        let column = expr.downcast_ref::<Column>()?;
        (column.index() < self.catalog.spec().len()).then(|| column.index())
    }

    /// The order in which partitions are read, if any.
    pub fn order(&self) -> Option<&PartitionOrder> {
        self.order.as_ref()
    }

    /// Whether the scan stops after some number of rows.
    pub fn has_limit(&self) -> bool {
        self.fetch.is_some()
    }

    /// Which rows the plan needs.
    pub fn rows_needed(&self) -> &RowsNeeded {
        &self.rows_needed
    }

    /// The scan, returning at least the rows that are `needed` of those that it returns now. It has
    /// no order any more.
    pub fn with_rows_needed(&self, needed: RowsNeeded) -> Self {
        let mut scan = self.clone();
        scan.order = None;
        scan.rows_needed = needed;
        scan
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

    /// Whether few partitions are likely to do: those that come first.
    fn needs_few(&self, batch_size: usize) -> bool {
        match self.rows_needed {
            RowsNeeded::All => {
                self.order.is_some() && self.fetch.is_some_and(|fetch| fetch <= batch_size)
            }
            RowsNeeded::OnePerGroup(_) => false,
            RowsNeeded::First(_) => true,
        }
    }

    fn division(&self) -> Division {
        match (&self.rows_needed, &self.order) {
            (RowsNeeded::All, None) => Division::Balanced,
            (RowsNeeded::All, Some(_)) => Division::InOrder,
            _ => Division::Smallest,
        }
    }

    /// The reader, of one row a file when single rows are needed.
    fn reader_of_needed_rows(&self) -> Arc<dyn PartitionReader> {
        let limited = match self.rows_needed {
            RowsNeeded::All => None,
            _ => self.template().with_fetch(Some(1)),
        };
        match limited {
            Some(template) => self.reader.with_template(template),
            None => Arc::clone(&self.reader),
        }
    }

    /// The scan, declining the dynamic filter of DataFusion's with this `expression_id`.
    pub fn without_filter(&self, expression_id: u64) -> Self {
        let mut scan = self.clone();
        scan.declined_filters.push(expression_id);
        scan
    }

    fn declines(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let is_declined = |filter: &Arc<dyn PhysicalExpr>| {
            let id = filter.expression_id();
            Ok(id.is_some_and(|id| self.declined_filters.contains(&id)))
        };
        filter.exists(is_declined).unwrap_or(true)
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
        let batches = run.stream(partition, context).map({
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

    /// Whether `expr`, in the numbering of [`PartitionPredicate`], mentions no file column.
    fn is_about_partitions(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        let columns = collect_columns(expr);
        let partition_columns = self.catalog.spec().len();
        columns
            .iter()
            .all(|column| column.index() < partition_columns)
    }

    /// The order of the output columns, as far as they are the columns of the partition order.
    fn output_order(&self, schema: &Schema) -> Vec<PhysicalSortExpr> {
        let order = self.order.iter().flat_map(|order| order.columns());
        order
            .map_while(|(column, options)| {
                let is_column = |output: &Option<Arc<dyn PhysicalExpr>>| {
                    let output = output.as_ref().and_then(|o| o.downcast_ref::<Column>());
                    output.is_some_and(|output| output.index() == *column)
                };
                let output = self.outputs.iter().position(is_column)?;
                let column = Column::new(schema.field(output).name(), output);
                Some(PhysicalSortExpr::new(Arc::new(column), *options))
            })
            .collect()
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
        if let Some(order) = &self.order {
            let order = order.describe(self.catalog.spec());
            write!(f, ", partition_order=[{order}]")?;
        }
        match &self.rows_needed {
            RowsNeeded::All => {}
            RowsNeeded::OnePerGroup(columns) => {
                let columns: Vec<_> = columns.iter().map(|column| names[*column]).collect();
                write!(f, ", rows_needed=one of each [{}]", columns.join(", "))?;
            }
            RowsNeeded::First(columns) => {
                let columns = columns.iter().map(|(column, options)| {
                    let end = if options.descending {
                        "largest"
                    } else {
                        "smallest"
                    };
                    format!("{end} {}", names[*column])
                });
                let columns: Vec<_> = columns.collect();
                write!(f, ", rows_needed=[{}]", columns.join(", "))?;
            }
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
        let mut properties = self.template().eq_properties();
        let order = self.output_order(properties.schema());
        properties.add_ordering(order);
        properties
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
        // A limit would keep other rows when some are gone before it. An aggregate that only needs
        // the first value makes a filter too, to no purpose.
        let is_of_use = |filter| {
            self.fetch.is_none()
                && !matches!(self.rows_needed, RowsNeeded::First(_))
                && !self.declines(filter)
                && DynamicFilterTracking::classify(filter).contains_dynamic_filter()
        };
        let (offered, positions): (Vec<_>, Vec<_>) = filters
            .iter()
            .enumerate()
            .filter(|(_, filter)| is_of_use(filter))
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

    /// Rows that are sorted by partition columns only need their partitions in order. When they are
    /// sorted by other columns after these, the order still lets a sort with a limit end early.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        let columns: Vec<_> = order
            .iter()
            .map_while(|sort| Some((self.partition_column(&sort.expr)?, sort.options)))
            .collect();
        if columns.is_empty() || self.rows_needed != RowsNeeded::All || self.fetch.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let is_exact = columns.len() == order.len();
        let mut scan = self.clone();
        scan.order = Some(PartitionOrder::new(columns));
        let inner = Arc::new(scan) as Arc<dyn DataSource>;
        Ok(if is_exact {
            SortOrderPushdownResult::Exact { inner }
        } else {
            SortOrderPushdownResult::Inexact { inner }
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
