//! [`RowSource`] and [`RowSourceReader`]: partitions that are read as streams of batches.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    Result, ScalarValue, Statistics, exec_err, internal_datafusion_err, project_schema,
};
use datafusion::datasource::source::DataSource;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, EmptyRecordBatchStream};
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::predicate::ChangingPredicate;
use crate::reader::{PartitionReader, ReadContext};
use crate::spec::{Partition, PartitionBatch, PartitionSpec};

/// Returns the rows of one partition at a time. Implement it for a service or a database; a
/// [`RowSourceReader`] makes a [`PartitionReader`] of it.
pub trait RowSource: Debug + Send + Sync {
    /// The columns of the source, without the partition columns.
    fn schema(&self) -> &SchemaRef;

    /// The rows of `partition`, in these columns of the schema by their index, in this order; of no
    /// column, only the numbers of rows count. Called when the partition is opened. The stream does its
    /// requests while it is polled, and is dropped when no more rows are wanted. What cannot be read
    /// is an error in it and never an end of it.
    fn rows(
        &self,
        partition: Partition,
        columns: Vec<usize>,
        context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>>;

    /// A short text for `EXPLAIN`, without credentials.
    fn describe(&self) -> String;
}

/// Reads partitions through a [`RowSource`]. Each is a unit of work.
///
/// It adds the partition columns, and asks the source only for columns that the query needs. Filters
/// on the source's columns are left to DataFusion.
#[derive(Debug, Clone)]
pub struct RowSourceReader {
    template: Arc<dyn DataSource>,
}

impl RowSourceReader {
    /// A reader of the rows of `source`, whose partitions have the columns of `spec`.
    pub fn new(source: Arc<dyn RowSource>, spec: &PartitionSpec) -> Self {
        let fields = source.schema().fields().iter().chain(spec.fields());
        let schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        let template = RowScan {
            projection: (0..schema.fields().len()).collect(),
            table_schema: Arc::clone(&schema),
            schema,
            source,
            partitions: vec![],
            fetch: None,
            still_wanted: None,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        Self {
            template: Arc::new(template),
        }
    }
}

#[async_trait]
impl PartitionReader for RowSourceReader {
    fn template(&self) -> &Arc<dyn DataSource> {
        &self.template
    }

    fn with_template(&self, template: Arc<dyn DataSource>) -> Arc<dyn PartitionReader> {
        Arc::new(Self { template })
    }

    fn filters_rows(&self) -> bool {
        false
    }

    async fn read(
        &self,
        partitions: PartitionBatch,
        context: &ReadContext,
    ) -> Result<Arc<dyn DataSource>> {
        let template = self.template.downcast_ref::<RowScan>();
        let template = template.ok_or_else(|| {
            internal_datafusion_err!("the template is not that of a RowSourceReader")
        })?;
        let mut scan = template.clone();
        scan.metrics = context.metrics.set().clone();
        scan.still_wanted = context.still_wanted.clone();
        scan.partitions = (0..partitions.len())
            .map(|row| partitions.partition(row))
            .collect::<Result<_>>()?;
        Ok(Arc::new(scan))
    }
}

/// The rows of some partitions, each of which is an output partition.
#[derive(Debug, Clone)]
struct RowScan {
    source: Arc<dyn RowSource>,
    /// The columns of the source, followed by the partition columns.
    table_schema: SchemaRef,
    /// The columns that are returned, by their index in the table.
    projection: Vec<usize>,
    schema: SchemaRef,
    partitions: Vec<Partition>,
    fetch: Option<usize>,
    still_wanted: Option<ChangingPredicate>,
    metrics: ExecutionPlanMetricsSet,
}

impl RowScan {
    /// The columns of the source that are needed, each once.
    fn source_columns(&self) -> Vec<usize> {
        let of_source = self.source.schema().fields().len();
        let mut columns: Vec<_> = self
            .projection
            .iter()
            .copied()
            .filter(|c| *c < of_source)
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// Where an output column comes from.
enum Output {
    /// A column of the batches of the source.
    Source(usize),
    /// A value of the partition.
    Value(ScalarValue),
}

impl DataSource for RowScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(opened) = self.partitions.get(partition) else {
            return exec_err!("no partition {partition} among {}", self.partitions.len());
        };
        // Keys may have become known since the partition was listed.
        let wanted = self.still_wanted.as_ref();
        if wanted.is_some_and(|wanted| !wanted.may_want(opened.values.values())) {
            return Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(
                &self.schema,
            ))));
        }
        let columns = self.source_columns();
        let outputs = self.projection.iter().map(|column| {
            let position = columns.binary_search(column).ok();
            position.map(Output::Source).or_else(|| {
                let value = column.checked_sub(self.source.schema().fields().len())?;
                opened
                    .values
                    .values()
                    .get(value)
                    .cloned()
                    .map(Output::Value)
            })
        });
        let outputs: Option<Vec<Output>> = outputs.collect();
        let outputs = outputs.ok_or_else(|| internal_datafusion_err!("a column has no value"))?;
        let expected = project_schema(self.source.schema(), Some(&columns))?;
        let returned = Arc::clone(&self.schema);
        let source = Arc::clone(&self.source);
        let batches = self
            .source
            .rows(opened.clone(), columns, context)
            .map(move |batch| {
                let batch = batch?;
                check_columns(source.as_ref(), &batch, &expected)?;
                with_values(&batch, &outputs, &returned)
            });
        let batches = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(Box::pin(LimitStream::new(
            Box::pin(batches),
            0,
            self.fetch,
            metrics,
        )))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.describe();
        if t == DisplayFormatType::TreeRender {
            return writeln!(f, "source={source}");
        }
        let columns = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str());
        let columns = columns.collect::<Vec<_>>().join(", ");
        write!(f, "projection=[{columns}], source={source}")
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            fetch: limit,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    /// Takes columns under their own names.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let columns = projection.iter().map(|projected| {
            let column = projected.expr.downcast_ref::<Column>()?;
            let index = *self.projection.get(column.index())?;
            (*self.table_schema.field(index).name() == projected.alias).then_some(index)
        });
        let Some(projection) = columns.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self {
            schema: project_schema(&self.table_schema, Some(&projection))?,
            projection,
            ..self.clone()
        })))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

fn check_columns(source: &dyn RowSource, batch: &RecordBatch, expected: &Schema) -> Result<()> {
    let types = |schema: &Schema| -> Vec<_> {
        let fields = schema.fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    let found = types(batch.schema_ref());
    if found == types(expected) {
        return Ok(());
    }
    exec_err!(
        "{} was asked for the columns {expected} and returned the types {found:?}",
        source.describe()
    )
}

fn with_values(batch: &RecordBatch, outputs: &[Output], schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let columns = outputs.iter().map(|output| match output {
        Output::Source(column) => Ok(Arc::clone(batch.column(*column))),
        Output::Value(value) => value.to_array_of_size(rows),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}
