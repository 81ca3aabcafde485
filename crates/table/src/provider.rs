//! [`PartitionedTableProvider`]: a partitioned table of files.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{
    Constraints, Result, internal_datafusion_err, internal_err, not_impl_err, plan_err,
};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::physical_plan::{ArrowSource, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_partitioned_core::{PartitionCatalog, PartitionLimits, PartitionReader};

use crate::constraints::ColumnRules;
use crate::files::FileReadOptions;
use crate::filter::decides_about_files;
use crate::metadata::MetadataColumn;
use crate::null_counts::with_unknown_null_counts;
use crate::plan::{
    PartitionedTable, WantedRows, physical_filter, scan, supported_filters, table_schema,
};
use crate::reader::{FilePartitionReader, OnMissing};
use crate::text_filter::filtered_by_text;
use crate::widening::WideningAdapterFactory;
use crate::write::{
    Leftovers, PartitionedSinkExec, Sink, SinkOptions, cast_to, counted, finish_interrupted,
    remove_leftovers,
};

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
    on_missing: OnMissing,
    column_rules: ColumnRules,
    sink_options: SinkOptions,
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
        let schema = table_schema(file_schema, catalog.spec())?;
        Ok(Self {
            catalog,
            format,
            object_store_url,
            schema,
            definition: None,
            limits: PartitionLimits::default(),
            metadata_columns: vec![],
            read_options: FileReadOptions::default(),
            on_missing: OnMissing::default(),
            column_rules: ColumnRules::default(),
            sink_options: SinkOptions::default(),
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

    /// Sets what to do with a partition of the catalog that has no files.
    pub fn with_on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// Adds columns that describe the file of a row, behind the partition columns.
    ///
    /// # Errors
    /// When another column has such a name.
    pub fn with_metadata_columns(mut self, columns: &[MetadataColumn]) -> Result<Self> {
        let spec = self.catalog.spec().fields();
        let file_schema = self.schema.file_schema();
        for (index, column) in columns.iter().enumerate() {
            let name = column.name();
            if columns[..index].contains(column) {
                return plan_err!(
                    "metadata column '{name}' is named twice in the option 'metadata.columns'"
                );
            }
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

    pub(crate) fn with_column_rules(mut self, command: &CreateExternalTable) -> Result<Self> {
        self.column_rules = ColumnRules::try_new(command, self.schema.table_schema())?;
        Ok(self)
    }

    pub(crate) fn with_sink_options(mut self, options: SinkOptions) -> Self {
        self.sink_options = options;
        self
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

    /// The store that holds the locations of the partitions.
    pub fn object_store_url(&self) -> &ObjectStoreUrl {
        &self.object_store_url
    }

    /// Where the partitions come from.
    pub fn catalog(&self) -> &Arc<dyn PartitionCatalog> {
        &self.catalog
    }

    /// Finishes the statements that were killed behind their commits, before files of theirs are deleted.
    ///
    /// # Errors
    /// When the table cannot be written, and when requests fail.
    pub async fn finish_interrupted(&self, state: &SessionState) -> Result<()> {
        let sink = self.sink_of(state, false)?;
        finish_interrupted(&sink, &TaskContext::from(state)).await
    }

    /// Finishes the statements that were killed behind their commits, and deletes the hidden files that others have left:
    /// those older than the option `sink.pending.grace-time` says.
    ///
    /// # Errors
    /// When the table cannot be written, and when requests fail.
    pub async fn remove_leftovers(&self, state: &SessionState) -> Result<Leftovers> {
        let sink = self.sink_of(state, false)?;
        remove_leftovers(&sink, &TaskContext::from(state)).await
    }

    /// The table as one that is written to.
    fn sink(&self, session: &dyn Session, overwrites: bool) -> Result<Arc<Sink>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a table needs a SessionState");
        };
        if !self.metadata_columns.is_empty() {
            return plan_err!(
                "a table with columns that describe its files cannot be written; declare another one in this place \
                 without the option 'metadata.columns'"
            );
        }
        let mut fields = self.catalog.spec().fields().iter();
        if let Some(field) = fields.find(|field| field.data_type().is_binary()) {
            return plan_err!(
                "partition column '{}' is binary, which no name of a directory spells; write a text, as encode({}, 'hex') \
                 gives",
                field.name(),
                field.name()
            );
        }
        if self.schema.file_schema().fields().is_empty() {
            return plan_err!(
                "a table all of whose columns are partition columns cannot be written, since files need a column"
            );
        }
        self.sink_of(state, overwrites)
    }

    fn sink_of(&self, state: &SessionState, overwrites: bool) -> Result<Arc<Sink>> {
        let Some(committer) = self.catalog.committer() else {
            return plan_err!(
                "partitions cannot be written where they are {}",
                self.catalog.describe()
            );
        };
        Ok(Arc::new(Sink {
            catalog: Arc::clone(&self.catalog),
            committer,
            spec: self.catalog.spec().clone(),
            store_url: self.object_store_url.clone(),
            format: Arc::clone(&self.format),
            file_schema: Arc::clone(self.schema.file_schema()),
            options: self.sink_options.clone(),
            state: state.clone(),
            overwrites,
        }))
    }

    /// A file scan of no files, as the format plans it. It knows the filters where it can use them to
    /// skip parts of files.
    async fn template(
        &self,
        session: &dyn Session,
        wanted: &WantedRows<'_>,
    ) -> Result<FileScanConfig> {
        let source = self.format.file_source(self.schema.clone());
        let config = FileScanConfigBuilder::new(self.object_store_url.clone(), source)
            .with_limit(wanted.limit)
            .build();
        let filters = wanted.physical_filters(session, &self.schema)?;
        let filtered = config.try_pushdown_filters(filters, session.config_options())?;
        let config = match &filtered.updated_node {
            Some(filtered) => file_scan(filtered)?,
            None => config,
        };
        let config = FileScanConfigBuilder::from(config)
            .with_projection_indices(wanted.projection.cloned())?
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

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.column_rules.constraints)
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.column_rules.defaults.get(column)
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(supported_filters(self.catalog.spec(), filters))
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        scan(self, session, projection, filters, limit).await
    }

    /// Adds the rows of `input` to the partitions that their values say, or puts them in the place of what is there.
    /// Readers see nothing of it before all of its files are complete.
    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let overwrites = match operation {
            InsertOp::Append => false,
            InsertOp::Overwrite => true,
            InsertOp::Replace => {
                return not_impl_err!(
                    "a partitioned table has no keys by which rows could be replaced; use INSERT OVERWRITE"
                );
            }
        };
        let sink = self.sink(session, overwrites)?;
        // DataFusion coerces the inputs of a UNION when it has cast them to the types of the table.
        let schema = self.schema.table_schema();
        let mut input = cast_to(input, schema)?;
        if let Some(partitions) = &self.sink_options.time_partitions {
            input = partitions.apply(input, schema, &sink.state)?;
        }
        counted(PartitionedSinkExec::new(input, sink))
    }
}

#[async_trait]
impl PartitionedTable for PartitionedTableProvider {
    fn catalog(&self) -> &Arc<dyn PartitionCatalog> {
        &self.catalog
    }

    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn limits(&self) -> PartitionLimits {
        self.limits
    }

    fn trailing_columns(&self) -> Vec<Field> {
        self.metadata_columns.iter().map(|c| c.field()).collect()
    }

    async fn reader(
        &self,
        session: &dyn Session,
        wanted: &WantedRows<'_>,
    ) -> Result<Arc<dyn PartitionReader>> {
        let template = self.template(session, wanted).await?;
        let spec = self.catalog.spec();
        let file_filters = wanted
            .filters
            .iter()
            .filter(|filter| decides_about_files(filter, spec, &self.metadata_columns))
            .map(|filter| physical_filter(session, &self.schema, filter))
            .collect::<Result<Vec<_>>>()?;
        let reader = FilePartitionReader::new(template)
            .with_file_filters(file_filters)
            .with_options(self.read_options)
            .with_on_missing(self.on_missing)
            .with_metadata_columns(&self.metadata_columns);
        Ok(Arc::new(reader))
    }
}
