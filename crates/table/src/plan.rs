//! How the scan of a partitioned table is planned, whatever its partitions hold.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, Statistics, plan_err, project_schema};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_partitioned_core::{
    ListingContext, PartitionCatalog, PartitionEstimate, PartitionLimits, PartitionOrder,
    PartitionPredicate, PartitionReader, PartitionScanBuilder, PartitionSpec, PartitionedOptions,
};

use crate::filter::FilterUse;
use crate::statistics::estimated_statistics;

/// What the planning of a scan asks a table.
#[async_trait]
pub(crate) trait PartitionedTable: Send + Sync {
    fn catalog(&self) -> &Arc<dyn PartitionCatalog>;

    /// The columns of what is in the partitions, which are called file columns whatever it is, and
    /// the others.
    fn schema(&self) -> &TableSchema;

    fn limits(&self) -> PartitionLimits;

    /// Where a new scan counts what it does. `None` where its template has metrics of its own.
    fn metrics(&self) -> Option<ExecutionPlanMetricsSet> {
        None
    }

    /// The columns behind the partition columns, which differ within a partition.
    fn trailing_columns(&self) -> Vec<Field> {
        vec![]
    }

    /// A reader for one scan.
    async fn reader(
        &self,
        session: &dyn Session,
        wanted: &WantedRows<'_>,
    ) -> Result<Arc<dyn PartitionReader>>;
}

/// Which rows of the chosen partitions a scan wants.
pub(crate) struct WantedRows<'a> {
    /// The columns of the table that are returned, in this order; `None` for all.
    pub(crate) projection: Option<&'a Vec<usize>>,
    /// What may be used to skip rows. All rows are filtered once more.
    pub(crate) filters: Vec<&'a Expr>,
    /// How many rows will do.
    pub(crate) limit: Option<usize>,
}

impl WantedRows<'_> {
    /// The filters, over the columns of the table.
    pub(crate) fn physical_filters(
        &self,
        session: &dyn Session,
        schema: &TableSchema,
    ) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let filters = self.filters.iter();
        filters
            .map(|filter| physical_filter(session, schema, filter))
            .collect()
    }
}

/// The columns of what is in the partitions, followed by the partition columns.
pub(crate) fn table_schema(file_schema: SchemaRef, spec: &PartitionSpec) -> Result<TableSchema> {
    for field in spec.fields() {
        if file_schema.column_with_name(field.name()).is_some() {
            return plan_err!(
                "column '{}' is both a file column and a partition column; \
                 leave it out of the file columns",
                field.name()
            );
        }
    }
    Ok(TableSchema::builder(file_schema)
        .with_table_partition_cols(spec.fields().clone())
        .build())
}

pub(crate) fn supported_filters(
    spec: &PartitionSpec,
    filters: &[&Expr],
) -> Vec<TableProviderFilterPushDown> {
    filters
        .iter()
        .map(|filter| FilterUse::of(filter, spec).pushdown())
        .collect()
}

/// The plan of a scan, as a `TableProvider` returns it.
pub(crate) async fn scan(
    table: &dyn PartitionedTable,
    session: &dyn Session,
    projection: Option<&Vec<usize>>,
    filters: &[Expr],
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let spec = table.catalog().spec();
    let options = PartitionedOptions::from_config(session.config_options());
    if !options.static_pruning {
        return scan_unpruned(table, session, projection, filters).await;
    }
    let used = |wanted: fn(FilterUse) -> bool| {
        let filters = filters.iter();
        filters.filter(move |filter| wanted(FilterUse::of(filter, spec)))
    };
    let choosing: Vec<&Expr> = used(|used| used != FilterUse::None).collect();
    let predicate = predicate(table, session, &choosing)?;
    let wanted = WantedRows {
        projection,
        filters: used(|used| used != FilterUse::Decides).collect(),
        limit,
    };
    plan_scan(table, session, &wanted, predicate, table.limits()).await
}

/// What the filters say about partitions, over the columns of the spec.
fn predicate(
    table: &dyn PartitionedTable,
    session: &dyn Session,
    filters: &[&Expr],
) -> Result<PartitionPredicate> {
    let spec = table.catalog().spec();
    let file_columns = table.schema().file_schema().fields().len();
    filters
        .iter()
        .try_fold(PartitionPredicate::all(spec), |predicate, filter| {
            let filter = physical_filter(session, table.schema(), filter)?;
            // File columns follow the partition columns in the predicate's numbering.
            let filter = filter.transform(|expr| {
                let Some(column) = expr.downcast_ref::<Column>() else {
                    return Ok(Transformed::no(expr));
                };
                let index = match column.index().checked_sub(file_columns) {
                    Some(partition_column) if partition_column < spec.len() => partition_column,
                    // A trailing column: there are as many columns in front of it.
                    Some(_) => column.index(),
                    None => spec.len() + column.index(),
                };
                Ok(Transformed::yes(
                    Arc::new(Column::new(column.name(), index)) as _,
                ))
            })?;
            Ok(predicate.with_filter(&filter.data))
        })
}

pub(crate) fn physical_filter(
    session: &dyn Session,
    schema: &TableSchema,
    filter: &Expr,
) -> Result<Arc<dyn PhysicalExpr>> {
    let schema = DFSchema::try_from(Arc::clone(schema.table_schema()))?;
    session.create_physical_expr(filter.clone(), &schema)
}

async fn plan_scan(
    table: &dyn PartitionedTable,
    session: &dyn Session,
    wanted: &WantedRows<'_>,
    predicate: PartitionPredicate,
    limits: PartitionLimits,
) -> Result<Arc<dyn ExecutionPlan>> {
    let catalog = table.catalog();
    let context = ListingContext::for_planning(session);
    let estimate = catalog.estimate(&predicate, &context).await?;
    let statistics = estimated_statistics(table.schema(), &estimate);
    let statistics = projected_statistics(statistics, table.schema(), wanted.projection)?;
    let reader = table.reader(session, wanted).await?;
    let order = PartitionedOptions::from_config(session.config_options())
        .ordered_scan
        .then(|| PartitionOrder::ascending(catalog.spec()))
        .filter(|order| !order.columns().is_empty());
    let file_schema = table.schema().file_schema();
    let mut scan = PartitionScanBuilder::new(Arc::clone(catalog), reader, file_schema)
        .with_trailing_columns(&table.trailing_columns())
        .with_predicate(predicate)
        .with_statistics(statistics)
        .with_partitions(output_partitions(session, &estimate))
        .with_known_partitions(estimate.values.as_ref().map(RecordBatch::num_rows))
        .with_limits(limits)
        .with_fetch(wanted.limit)
        .with_order(order);
    if let Some(metrics) = table.metrics() {
        scan = scan.with_metrics(metrics);
    }
    if let Some(projection) = wanted.projection {
        scan = scan.with_projection(projection);
    }
    Ok(DataSourceExec::from_data_source(scan.build()))
}

fn projected_statistics(
    statistics: Statistics,
    schema: &TableSchema,
    projection: Option<&Vec<usize>>,
) -> Result<Statistics> {
    let Some(projection) = projection else {
        return Ok(statistics);
    };
    let schema = schema.table_schema();
    let output_schema = project_schema(schema, Some(projection))?;
    ProjectionExprs::from_indices(projection, schema).project_statistics(statistics, &output_schema)
}

/// The scan when `partitioned.static_pruning` is off: reads every partition and filters the rows,
/// also by the filters that the planner has left to this table alone.
async fn scan_unpruned(
    table: &dyn PartitionedTable,
    session: &dyn Session,
    projection: Option<&Vec<usize>>,
    filters: &[Expr],
) -> Result<Arc<dyn ExecutionPlan>> {
    let spec = table.catalog().spec();
    let used = |wanted: fn(FilterUse) -> bool| {
        let filters = filters.iter();
        filters.filter(move |filter| wanted(FilterUse::of(filter, spec)))
    };
    let choosing: Vec<&Expr> = used(|used| used != FilterUse::None).collect();
    let is_restricted = predicate(table, session, &choosing)?.constrains_from(0);
    let limits = PartitionLimits {
        filter_required: table.limits().filter_required && !is_restricted,
        ..table.limits()
    };
    let deciding = conjunction(used(|used| used == FilterUse::Decides).cloned());
    let wanted = WantedRows {
        projection: projection.filter(|_| deciding.is_none()),
        filters: vec![],
        limit: None,
    };
    let all = PartitionPredicate::all(spec);
    let scan = plan_scan(table, session, &wanted, all, limits).await?;
    let Some(filter) = deciding else {
        return Ok(scan);
    };
    let filter = physical_filter(session, table.schema(), &filter)?;
    let plan = FilterExecBuilder::new(filter, scan)
        .apply_projection(projection.cloned())?
        .build()?;
    debug_assert_eq!(
        plan.schema().fields(),
        project_schema(table.schema().table_schema(), projection)?.fields()
    );
    Ok(Arc::new(plan))
}

/// As many as the session wants, or fewer where it is known that there is too little to read, as
/// DataFusion decides it for a list of files.
fn output_partitions(session: &dyn Session, estimate: &PartitionEstimate) -> usize {
    let most = session.config().target_partitions();
    let (Some(known), Some(bytes)) = (&estimate.values, estimate.bytes) else {
        return most;
    };
    let split_from = session.config_options().optimizer.repartition_file_min_size;
    (known.num_rows() + bytes / split_from.max(1)).clamp(1, most.max(1))
}
