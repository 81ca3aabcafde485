//! [`PartitionedSinkExec`]: the operator that writes.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, internal_err, plan_datafusion_err, plan_err,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{CaseExpr, Column, IsNullExpr, Literal, cast};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, LexRequirement, OrderingRequirements,
    Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, execute_input_stream,
};
use datafusion_partitioned_core::WrittenPartition;
use futures::stream;

use super::Sink;
use super::commits::Commits;
use super::demultiplexer::{Demultiplexer, Destinations};
use super::file_writer::FileWriters;
use super::replaced::{OverwriteMode, Replaced, StaticValues};
use super::report::{ROWS, SCHEMA, by_partition, rows};
use super::transaction::Transaction;

/// Writes its input to a partitioned table, and returns a row for each partition: its name, location, rows, files and
/// bytes.
#[derive(Debug)]
pub struct PartitionedSinkExec {
    input: Arc<dyn ExecutionPlan>,
    sink: Arc<Sink>,
    fixed: StaticValues,
    /// That of a query with ORDER BY: its files are sorted.
    ordering: Option<LexOrdering>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl PartitionedSinkExec {
    /// Writes `input`, whose columns are those of the files and then the partition columns.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, sink: Arc<Sink>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&SCHEMA)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            ordering: match is_sorted(&input) {
                true => input.output_ordering().cloned(),
                false => None,
            },
            input,
            sink,
            fixed: vec![],
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        }
    }

    /// The operator in a plan that writes to a partitioned table, such as that of an `INSERT`: its rows say what was
    /// written to each partition.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        let found = plan.downcast_ref::<Self>();
        found.or_else(|| plan.children().into_iter().find_map(Self::of))
    }

    /// The same, with static values of `PARTITION (..)` by their column, which say what an `INSERT OVERWRITE` replaces.
    ///
    /// # Errors
    /// When one of the columns is no partition column.
    pub fn with_static_values(&self, values: &[(String, ScalarValue)]) -> Result<Self> {
        let spec = &self.sink.spec;
        let values = values.iter().map(|(name, value)| {
            let column = spec.column_names().position(|column| column == name);
            let column =
                column.ok_or_else(|| plan_datafusion_err!("'{name}' is no partition column"))?;
            Ok((column, value.cast_to(spec.fields()[column].data_type())?))
        });
        let mut sink = Self::new(Arc::clone(&self.input), Arc::clone(&self.sink));
        sink.fixed = values.collect::<Result<_>>()?;
        sink.ordering.clone_from(&self.ordering);
        Ok(sink)
    }
}

/// Whether the rows of a query come in the order that it asks for, and not only in one that they happen to have.
fn is_sorted(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    plan.is::<SortExec>()
        || (children.len() == 1
            && plan.maintains_input_order().iter().all(|keeps| *keeps)
            && is_sorted(children[0]))
}

impl DisplayAs for PartitionedSinkExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self.sink.spec.column_names().collect();
        write!(
            f,
            "PartitionedSinkExec: {}, by=[{}], max_open_partitions={}",
            self.sink.catalog.describe(),
            columns.join(", "),
            self.sink.options.max_open_partitions
        )?;
        if !self.sink.options.order.is_empty() {
            let order = self.sink.options.order.iter().map(ToString::to_string);
            write!(f, ", order=[{}]", order.collect::<Vec<_>>().join(", "))?;
        }
        match (self.sink.overwrites, self.sink.options.overwrite_mode) {
            (false, _) => Ok(()),
            (true, OverwriteMode::Dynamic) => write!(f, ", overwrite=dynamic"),
            (true, OverwriteMode::Static) => write!(f, ", overwrite=static"),
        }
    }
}

impl ExecutionPlan for PartitionedSinkExec {
    fn name(&self) -> &str {
        "PartitionedSinkExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // It reads all of its inputs at once; how many these are makes no more files.
        vec![self.ordering.is_none()]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let ordering = self.ordering.clone();
        vec![ordering.map(|ordering| LexRequirement::from(ordering).into())]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match self.ordering {
            Some(_) => Distribution::SinglePartition,
            None => Distribution::UnspecifiedDistribution,
        }])
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                let mut sink = Self::new(input, Arc::clone(&self.sink));
                sink.fixed.clone_from(&self.fixed);
                sink.ordering.clone_from(&self.ordering);
                Ok(Arc::new(sink))
            }
            _ => internal_err!("PartitionedSinkExec has one input"),
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("PartitionedSinkExec has no output {partition}");
        }
        let (sink, input) = (Arc::clone(&self.sink), Arc::clone(&self.input));
        let (fixed, ordering) = (self.fixed.clone(), self.ordering.clone());
        let metrics = self.metrics.clone();
        let written = stream::once(async move {
            let written = write(&sink, &fixed, ordering, &input, &context).await?;
            for (name, count) in [
                ("partitions_written", written.len() as u64),
                ("files_written", written.iter().map(|w| w.files).sum()),
                ("rows_written", written.iter().map(|w| w.rows).sum()),
                ("bytes_written", written.iter().map(|w| w.bytes).sum()),
            ] {
                MetricBuilder::new(&metrics)
                    .counter(name, 0)
                    .add(count as usize);
            }
            rows(&sink.spec, &sink.store_url, &written)
        });
        let schema = Arc::clone(&SCHEMA);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, written)))
    }
}

async fn write(
    sink: &Arc<Sink>,
    fixed: &StaticValues,
    ordering: Option<LexOrdering>,
    input: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<WrittenPartition>> {
    let store = context.runtime_env().object_store(&sink.store_url)?;
    let commits = Commits::new(Arc::clone(sink), Arc::clone(&store));
    commits.begin(sink.overwrites).await?;
    let transaction = Arc::new(Transaction::new(store, commits, extension(sink)?));
    // Also when nobody waits for it any more.
    let _abort = AbortOnDrop(Arc::clone(&transaction));
    let written = write_files(sink, fixed, ordering, input, context, &transaction).await;
    if written.is_err() {
        transaction.abort().await;
    }
    written
}

async fn write_files(
    sink: &Arc<Sink>,
    fixed: &StaticValues,
    ordering: Option<LexOrdering>,
    input: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    transaction: &Arc<Transaction>,
) -> Result<Vec<WrittenPartition>> {
    let replaced = match sink.overwrites {
        true => Some(Arc::new(Replaced::try_new(sink, fixed, context).await?)),
        false => None,
    };
    let files = FileWriters::try_new(
        Arc::clone(sink),
        Arc::clone(transaction),
        replaced.clone(),
        context.runtime_env().object_store(&sink.store_url)?,
        context,
    )?;
    let destinations = Destinations::new(files, ordering, Arc::clone(context));
    let destinations = Arc::new(destinations);
    let schema = sink.schema();
    let mut inputs = JoinSet::new();
    for partition in 0..input.output_partitioning().partition_count() {
        let rows = execute_input_stream(
            Arc::clone(input),
            // Refuses NULL in columns that are declared without.
            Arc::clone(&schema),
            partition,
            Arc::clone(context),
        )?;
        let demultiplexer = Demultiplexer::try_new(Arc::clone(&destinations), partition)?;
        inputs.spawn(demultiplexer.run(rows));
    }
    let mut read = Ok(());
    while let Some(input) = inputs.join_next().await {
        let input = input.unwrap_or_else(|error| Err(exec_datafusion_err!("{error}")));
        if input.is_err() {
            read = input;
            break;
        }
    }
    inputs.shutdown().await;
    let (files, result) = destinations.finish(read).await;
    result?;
    let written = by_partition(&files);
    if let Some(replaced) = &replaced {
        replaced.mark_emptied(&written).await?;
    }
    // From here on they are not those of a statement that somebody drops.
    let pending = transaction.take_pending();
    let (transaction, finished) = (Arc::clone(transaction), written.clone());
    #[expect(
        clippy::disallowed_methods,
        reason = "a commit that has begun goes on to its end when nobody waits for it any more"
    )]
    let committed = tokio::spawn(async move {
        let commit = transaction.commit(pending, &files, &finished, replaced.as_deref());
        commit.await
    });
    let committed = committed.await;
    committed.map_err(|error| exec_datafusion_err!("the commit failed: {error}"))??;
    Ok(written)
}

/// Deletes the files of a statement that fails, also one that nobody waits for any more.
struct AbortOnDrop(Arc<Transaction>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        let transaction = Arc::clone(&self.0);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { transaction.abort().await });
        }
    }
}

/// Such as `.csv.gz`.
fn extension(sink: &Sink) -> Result<String> {
    let format = &sink.format;
    let extension = match format.compression_type() {
        Some(compression) => format.get_ext_with_compression(&compression)?,
        None => format.get_ext(),
    };
    Ok(format!(".{}", extension.trim_start_matches('.')))
}

/// The rows of a plan with the columns of `schema`, which are cast where they have other types.
///
/// # Errors
/// When it has another number of columns.
pub(crate) fn cast_to(
    input: Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let given = input.schema();
    if given.fields().len() != schema.fields().len() {
        return plan_err!(
            "the table has {} columns, but there are {}",
            schema.fields().len(),
            given.fields().len()
        );
    }
    let pairs = || given.fields().iter().zip(schema.fields());
    if let Some((given, wanted)) = pairs().find(|(given, wanted)| given.name() != wanted.name()) {
        return plan_err!(
            "the column '{}' stands where the table has '{}'; rename and order the columns as SELECT * has them",
            given.name(),
            wanted.name()
        );
    }
    let mut pairs = pairs();
    if pairs.all(|(given, wanted)| given.data_type() == wanted.data_type()) {
        return Ok(input);
    }
    let columns = given.fields().iter().zip(schema.fields()).enumerate();
    let columns = columns.map(|(index, (given_field, wanted))| {
        let column = Arc::new(Column::new(given_field.name(), index));
        let column = cast(column, &given, wanted.data_type().clone())?;
        Ok((column, wanted.name().clone()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
}

/// The number of rows that `written` has, in a column `count`: what DataFusion's `INSERT` returns.
pub(crate) fn counted(written: PartitionedSinkExec) -> Result<Arc<dyn ExecutionPlan>> {
    let rows: Arc<dyn PhysicalExpr> = Arc::new(Column::new("rows", ROWS));
    let sum = AggregateExprBuilder::new(sum_udaf(), vec![rows])
        .schema(Arc::clone(&SCHEMA))
        .alias("count")
        .build()?;
    let total = AggregateExec::try_new(
        AggregateMode::Single,
        PhysicalGroupBy::default(),
        vec![Arc::new(sum)],
        vec![None],
        Arc::new(written),
        Arc::clone(&SCHEMA),
    )?;
    let sum: Arc<dyn PhysicalExpr> = Arc::new(Column::new("count", 0));
    let nothing: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::UInt64(Some(0))));
    let is_null: Arc<dyn PhysicalExpr> = Arc::new(IsNullExpr::new(Arc::clone(&sum)));
    let count = CaseExpr::try_new(None, vec![(is_null, nothing)], Some(sum))?;
    let count: Arc<dyn PhysicalExpr> = Arc::new(count);
    let counted = ProjectionExec::try_new(vec![(count, "count".to_owned())], Arc::new(total))?;
    Ok(Arc::new(counted))
}
