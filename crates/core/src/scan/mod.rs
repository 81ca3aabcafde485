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

mod builder;
mod data_source;
mod known_rows;
mod limits;
mod metrics;
mod progress;
mod representatives;
mod run;
mod shared_stream;
mod unit;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::source::DataSource;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::catalog::PartitionCatalog;
use crate::dynamic_filter::DynamicPartitionFilter;
use crate::key_set::Comparison;
use crate::order::PartitionOrder;
use crate::predicate::{PartitionPredicate, RunningFilter};
use crate::reader::{Division, PartitionReader};
use crate::rewrite::rewrite_columns;
pub use builder::PartitionScanBuilder;
pub use limits::PartitionLimits;
pub use metrics::ScanMetrics;
pub use progress::{FileInProgress, FilePart, ScanProgress, ScanProgressReport};

/// A [`DataSource`] over the partitions that a catalog lists when the scan is first polled.
///
/// It runs inside DataFusion's `DataSourceExec`. Planning and `execute` make no request. Its
/// output partitions take units of work from one queue, unless
/// `datafusion.execution.enable_file_stream_work_stealing` is off: then each of them reads a share
/// of the partitions that depends on nothing but their locations, so that output partitions can
/// run in different processes.
///
/// The same plan can be executed several times, also at once: see
/// [`Executions`](crate::execution::Executions). All output partitions of one execution must be opened
/// with the same `TaskContext`. Each context is an execution of its own, whose output partitions
/// together return all rows.
#[derive(Debug, Clone)]
pub struct PartitionScan {
    catalog: Arc<dyn PartitionCatalog>,
    reader: Arc<dyn PartitionReader>,
    predicate: PartitionPredicate,
    /// What is known of all rows, in the output columns, where the template does not know it.
    statistics: Option<Arc<Statistics>>,
    metrics: ExecutionPlanMetricsSet,
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
    known_partitions: Option<usize>,
    /// DataFusion's dynamic filters, as far as they are about partitions.
    running: Vec<Arc<RunningFilter>>,
    /// How many executions have begun.
    executions: Arc<AtomicUsize>,
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

    /// How many partitions are wanted, as far as that is known when planning.
    pub fn known_partitions(&self) -> Option<usize> {
        self.known_partitions
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
    /// filter the rows, and finds out whether it fails for one.
    pub fn with_advisory_filter(&self, filter: &Arc<dyn PhysicalExpr>) -> Self {
        let mut scan = self.clone();
        scan.predicate = scan.predicate.with_advisory_filter(filter);
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

    /// Whether a filter over the output columns mentions partition columns that no dynamic filter of
    /// this project decides already.
    fn may_prune_partitions(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let decided: BTreeSet<usize> = self
            .dynamic_filters
            .iter()
            .flat_map(|filter| filter.keys())
            .filter(|key| key.comparison == Comparison::Equal)
            .flat_map(|key| collect_columns(&key.expr))
            .map(|column| column.index())
            .collect();
        let columns = collect_columns(filter).into_iter();
        columns
            .filter_map(|column| self.outputs.get(column.index())?.as_ref())
            .flat_map(collect_columns)
            .any(|column| {
                column.index() < self.catalog.spec().len() && !decided.contains(&column.index())
            })
    }

    /// The scan, with one more filter that changes while the query runs.
    fn with_running_filter(&self, filter: &Arc<dyn PhysicalExpr>) -> Self {
        let mut scan = self.clone();
        scan.running.push(Arc::new(RunningFilter::new(
            Arc::clone(filter),
            self.outputs.clone(),
            self.catalog.spec().clone(),
            Arc::clone(&self.executions),
        )));
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
