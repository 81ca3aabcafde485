//! The scan as a `DataSource`: how DataFusion executes it, shows it and pushes work into it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::projection::ProjectionExprs;
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

use super::run::{Run, Share};
use super::{PartitionScan, RowsNeeded};
use crate::execution::Executions;
use crate::options::PartitionedOptions;
use crate::order::PartitionOrder;

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

impl PartitionScan {
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
            if self.predicate.filters().next().is_some() {
                writeln!(f, "partition_filters={}", self.predicate)?;
            }
            if !filters.is_empty() {
                writeln!(f, "dynamic_filters={}", filters.join(", "))?;
            }
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
        match &self.statistics {
            None => self.template().partition_statistics(partition),
            Some(statistics) if partition.is_none() => Ok(Arc::clone(statistics)),
            Some(_) => {
                let schema = self.template().eq_properties();
                Ok(Arc::new(Statistics::new_unknown(schema.schema())))
            }
        }
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
        self.metrics.clone()
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
        if let Some(statistics) = self.statistics.as_deref() {
            let properties = scan.template().eq_properties();
            let statistics = projection.project_statistics(statistics.clone(), properties.schema());
            scan.statistics = Some(Arc::new(statistics?));
        }
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
        let is_of_use = |filter: &Arc<dyn PhysicalExpr>| {
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
        // Those that are about partitions choose some, whatever the format does with them.
        let is_enabled = PartitionedOptions::from_config(config)
            .dynamic_filter
            .enabled;
        let running = filters
            .iter()
            .filter(|filter| is_enabled && is_of_use(filter) && self.may_prune_partitions(filter));
        let mut scan = running.fold(None, |scan: Option<Self>, filter| {
            Some(scan.as_ref().unwrap_or(self).with_running_filter(filter))
        });
        if let Some(template) = answer.updated_node {
            scan = Some(scan.as_ref().unwrap_or(self).with_template(template));
        }
        Ok(match scan {
            Some(scan) => propagation.with_updated_node(Arc::new(scan)),
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
        // Whoever makes a dynamic filter looks for it here.
        for running in &self.running {
            if f(running.filter())? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        self.template().apply_expressions(f)
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let shares_work = config.execution.enable_file_stream_work_stealing;
        shares_work.then(|| Arc::new(Executions::<Run>::default()) as Arc<dyn Any + Send + Sync>)
    }
}
