//! [`PartitionedTableProvider`]: a partitioned table of files.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    DFSchema, Result, Statistics, internal_datafusion_err, internal_err, plan_err, project_schema,
};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::physical_plan::{ArrowSource, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion_partitioned_core::{
    ListingContext, PartitionCatalog, PartitionEstimate, PartitionLimits, PartitionOrder,
    PartitionPredicate, PartitionScanBuilder, PartitionedOptions,
};

use crate::files::FileReadOptions;
use crate::filter::{FilterUse, decides_about_files};
use crate::metadata::MetadataColumn;
use crate::null_counts::with_unknown_null_counts;
use crate::reader::FilePartitionReader;
use crate::statistics::estimated_statistics;
use crate::text_filter::filtered_by_text;
use crate::widening::WideningAdapterFactory;

/// A table whose partitions come from a [`PartitionCatalog`] and whose files have one format.
///
/// Its columns are those of the files, followed by the partition columns, followed by metadata columns
/// where they are asked for.
///
/// # Filters
///
/// | conjunct of the WHERE clause | partitions | rows |
/// |---|---|---|
/// | partition columns only, deterministic | chosen by it when the scan is first polled | nothing left to do |
/// | partition and file columns, e.g. `(p = 1 AND x > 5) OR (p = 2 AND x < 3)` | chosen by what it says about `p` | filtered |
/// | file columns only, or with subqueries or volatile functions | all | filtered |
///
/// Planning makes no request, unless the catalog needs one for its estimate.
#[derive(Debug)]
pub struct PartitionedTableProvider {
    catalog: Arc<dyn PartitionCatalog>,
    format: Arc<dyn FileFormat>,
    object_store_url: ObjectStoreUrl,
    schema: TableSchema,
    definition: Option<String>,
    limits: PartitionLimits,
    metadata_columns: Vec<MetadataColumn>,
    read_options: FileReadOptions,
}

impl PartitionedTableProvider {
    /// A table with the partitions of `catalog`, whose locations are in the store at
    /// `object_store_url` and hold files of `format` with the columns `file_schema`.
    ///
    /// # Errors
    /// When a file column has the name of a partition column.
    pub fn try_new(
        catalog: Arc<dyn PartitionCatalog>,
        format: Arc<dyn FileFormat>,
        object_store_url: ObjectStoreUrl,
        file_schema: SchemaRef,
    ) -> Result<Self> {
        let partition_columns = catalog.spec().fields().clone();
        for field in &partition_columns {
            if file_schema.column_with_name(field.name()).is_some() {
                return plan_err!(
                    "column '{}' is both a file column and a partition column; \
                     leave it out of the file columns",
                    field.name()
                );
            }
        }
        let schema = TableSchema::builder(file_schema)
            .with_table_partition_cols(partition_columns)
            .build();
        Ok(Self {
            catalog,
            format,
            object_store_url,
            schema,
            definition: None,
            limits: PartitionLimits::default(),
            metadata_columns: vec![],
            read_options: FileReadOptions::default(),
        })
    }

    /// Sets the SQL text that made this table.
    pub fn with_definition(mut self, definition: Option<String>) -> Self {
        self.definition = definition;
        self
    }

    /// Sets how the files are read, beyond what their format decides.
    pub fn with_read_options(mut self, options: FileReadOptions) -> Self {
        self.read_options = options;
        self
    }

    /// Adds columns that describe the file of a row, behind the partition columns.
    ///
    /// # Errors
    /// When another column has such a name.
    pub fn with_metadata_columns(mut self, columns: &[MetadataColumn]) -> Result<Self> {
        let spec = self.catalog.spec().fields();
        let file_schema = self.schema.file_schema();
        for column in columns {
            let name = column.name();
            if file_schema.fields().find(name).is_some() || spec.find(name).is_some() {
                return plan_err!(
                    "metadata column '{name}' has the name of another column of the table; leave it out \
                     of the option 'metadata.columns'"
                );
            }
        }
        let metadata = columns.iter().map(|column| Arc::new(column.field()));
        let constant = spec.iter().cloned().chain(metadata).collect::<Vec<_>>();
        self.schema = TableSchema::builder(Arc::clone(file_schema))
            .with_table_partition_cols(constant)
            .build();
        self.metadata_columns = columns.to_vec();
        Ok(self)
    }

    /// Sets what queries of this table may not do.
    pub fn with_limits(mut self, limits: PartitionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Leaves out the partitions that do not satisfy `sql`, a condition over the partition columns
    /// as text such as `year='1997' AND month>='10'` (Alink: `setPartitions`). The text of a value is
    /// that of its directory, decoded, whatever the column's type: `month=07` is `'07'`.
    ///
    /// # Errors
    /// When `sql` is no condition over partition columns alone.
    pub fn with_partition_filter_sql(mut self, state: &SessionState, sql: &str) -> Result<Self> {
        self.catalog = filtered_by_text(self.catalog, state, sql)?;
        Ok(self)
    }

    /// Where the partitions come from.
    pub fn catalog(&self) -> &Arc<dyn PartitionCatalog> {
        &self.catalog
    }

    /// What the filters say about partitions, over the columns of the spec.
    fn predicate(&self, session: &dyn Session, filters: &[&Expr]) -> Result<PartitionPredicate> {
        let spec = self.catalog.spec();
        let file_columns = self.schema.file_schema().fields().len();
        filters
            .iter()
            .try_fold(PartitionPredicate::all(spec), |predicate, filter| {
                let filter = self.physical_filter(session, filter)?;
                // File columns follow the partition columns in the predicate's numbering.
                let filter = filter.transform(|expr| {
                    let Some(column) = expr.downcast_ref::<Column>() else {
                        return Ok(Transformed::no(expr));
                    };
                    let index = match column.index().checked_sub(file_columns) {
                        Some(partition_column) if partition_column < spec.len() => partition_column,
                        // A metadata column: there are as many columns in front of it.
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

    fn physical_filter(
        &self,
        session: &dyn Session,
        filter: &Expr,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(Arc::clone(self.schema.table_schema()))?;
        session.create_physical_expr(filter.clone(), &schema)
    }

    /// A file scan of no files, as the format plans it. It knows `filters` where it can use them to
    /// skip parts of files.
    async fn template(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[&Expr],
        limit: Option<usize>,
        statistics: Statistics,
    ) -> Result<FileScanConfig> {
        let source = self.format.file_source(self.schema.clone());
        let config = FileScanConfigBuilder::new(self.object_store_url.clone(), source)
            .with_statistics(statistics)
            .with_limit(limit)
            .build();
        let filters = filters
            .iter()
            .map(|filter| self.physical_filter(session, filter))
            .collect::<Result<Vec<_>>>()?;
        let filtered = config.try_pushdown_filters(filters, session.config_options())?;
        let config = match &filtered.updated_node {
            Some(filtered) => file_scan(filtered)?,
            None => config,
        };
        let config = FileScanConfigBuilder::from(config)
            .with_projection_indices(projection.cloned())?
            .with_expr_adapter(Some(Arc::new(WideningAdapterFactory)))
            .build();
        if config.file_source().is::<ArrowSource>() {
            // The format would look at the first file, to tell Arrow's two formats apart.
            return Ok(config);
        }
        let plan = self.format.create_physical_plan(session, config).await?;
        match plan.downcast_ref::<DataSourceExec>() {
            Some(scan) => Ok(with_unknown_null_counts(file_scan(scan.data_source())?)),
            None => internal_err!("expected a DataSourceExec, not {}", plan.name()),
        }
    }
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

fn file_scan(source: &Arc<dyn DataSource>) -> Result<FileScanConfig> {
    source
        .downcast_ref::<FileScanConfig>()
        .cloned()
        .ok_or_else(|| internal_datafusion_err!("expected a FileScanConfig, not {source:?}"))
}

#[async_trait]
impl TableProvider for PartitionedTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let spec = self.catalog.spec();
        Ok(filters
            .iter()
            .map(|filter| FilterUse::of(filter, spec).pushdown())
            .collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let spec = self.catalog.spec();
        let options = PartitionedOptions::from_config(session.config_options());
        if !options.static_pruning {
            return self.scan_unpruned(session, projection, filters).await;
        }
        let filters = || {
            filters
                .iter()
                .map(|filter| (filter, FilterUse::of(filter, spec)))
        };
        let choosing: Vec<&Expr> = filters()
            .filter(|(_, used)| *used != FilterUse::None)
            .map(|(f, _)| f)
            .collect();
        let remaining: Vec<&Expr> = filters()
            .filter(|(_, used)| *used != FilterUse::Decides)
            .map(|(f, _)| f)
            .collect();
        let predicate = self.predicate(session, &choosing)?;
        self.plan_scan(
            session,
            projection,
            predicate,
            &remaining,
            limit,
            self.limits,
        )
        .await
    }
}

impl PartitionedTableProvider {
    async fn plan_scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        predicate: PartitionPredicate,
        filters: &[&Expr],
        limit: Option<usize>,
        limits: PartitionLimits,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let context = ListingContext::for_planning(session);
        let estimate = self.catalog.estimate(&predicate, &context).await?;
        let statistics = estimated_statistics(&self.schema, &estimate);
        let template = self
            .template(session, projection, filters, limit, statistics)
            .await?;
        let spec = self.catalog.spec();
        let file_filters = filters
            .iter()
            .filter(|filter| decides_about_files(filter, spec, &self.metadata_columns))
            .map(|filter| self.physical_filter(session, filter))
            .collect::<Result<Vec<_>>>()?;
        let reader = FilePartitionReader::new(template)
            .with_file_filters(file_filters)
            .with_options(self.read_options)
            .with_metadata_columns(&self.metadata_columns);
        let metadata: Vec<_> = self.metadata_columns.iter().map(|c| c.field()).collect();
        let order = PartitionedOptions::from_config(session.config_options())
            .ordered_scan
            .then(|| PartitionOrder::ascending(self.catalog.spec()))
            .filter(|order| !order.columns().is_empty());
        let mut scan = PartitionScanBuilder::new(
            Arc::clone(&self.catalog),
            Arc::new(reader),
            self.schema.file_schema(),
        )
        .with_trailing_columns(&metadata)
        .with_predicate(predicate)
        .with_partitions(output_partitions(session, &estimate))
        .with_known_partitions(estimate.values.as_ref().map(RecordBatch::num_rows))
        .with_limits(limits)
        .with_fetch(limit)
        .with_order(order);
        if let Some(projection) = projection {
            scan = scan.with_projection(projection);
        }
        Ok(DataSourceExec::from_data_source(scan.build()))
    }

    /// The scan when `partitioned.static_pruning` is off: reads every partition and filters the
    /// rows, also by the filters that the planner has left to this table alone.
    async fn scan_unpruned(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let spec = self.catalog.spec();
        let used = |wanted: fn(FilterUse) -> bool| {
            let filters = filters.iter();
            filters.filter(move |filter| wanted(FilterUse::of(filter, spec)))
        };
        let choosing: Vec<&Expr> = used(|used| used != FilterUse::None).collect();
        let is_restricted = self.predicate(session, &choosing)?.constrains_from(0);
        let limits = PartitionLimits {
            filter_required: self.limits.filter_required && !is_restricted,
            ..self.limits
        };
        let all = PartitionPredicate::all(spec);
        let deciding = used(|used| used == FilterUse::Decides).cloned();
        let Some(filter) = conjunction(deciding) else {
            return self
                .plan_scan(session, projection, all, &[], None, limits)
                .await;
        };
        let filter = self.physical_filter(session, &filter)?;
        let scan = self
            .plan_scan(session, None, all, &[], None, limits)
            .await?;
        let plan = FilterExecBuilder::new(filter, scan)
            .apply_projection(projection.cloned())?
            .build()?;
        debug_assert_eq!(
            plan.schema().fields(),
            project_schema(&self.schema(), projection)?.fields()
        );
        Ok(Arc::new(plan))
    }
}
