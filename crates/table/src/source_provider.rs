//! [`PartitionedSourceProvider`]: a partitioned table of any source.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_partitioned_core::{PartitionCatalog, PartitionLimits, PartitionReader};

use crate::plan::{PartitionedTable, WantedRows, scan, supported_filters, table_schema};

/// A table whose partitions come from a [`PartitionCatalog`] and are read by a [`PartitionReader`]:
/// all it takes to make a source that is not files a partitioned table.
///
/// Its columns are those of the reader's template: those of the source, followed by the partition
/// columns. Filters choose partitions as they do for files, see
/// [`PartitionedTableProvider`](crate::PartitionedTableProvider).
#[derive(Debug)]
pub struct PartitionedSourceProvider {
    catalog: Arc<dyn PartitionCatalog>,
    reader: Arc<dyn PartitionReader>,
    schema: TableSchema,
    limits: PartitionLimits,
}

impl PartitionedSourceProvider {
    /// A table with the partitions of `catalog`, read by `reader`.
    ///
    /// # Errors
    /// When the last columns of the reader's template are not the partition columns of the catalog,
    /// or another one has the name of a partition column.
    pub fn try_new(
        catalog: Arc<dyn PartitionCatalog>,
        reader: Arc<dyn PartitionReader>,
    ) -> Result<Self> {
        let columns = Arc::clone(reader.template().eq_properties().schema());
        let fields = columns.fields();
        let spec = catalog.spec();
        let split = fields.len().checked_sub(spec.len());
        let split = split.map(|source_columns| fields.split_at(source_columns));
        let is_same =
            |(a, b): (&FieldRef, &FieldRef)| a.name() == b.name() && a.data_type() == b.data_type();
        let Some((source, _)) =
            split.filter(|(_, last)| last.iter().zip(spec.fields()).all(is_same))
        else {
            let names = spec.column_names().collect::<Vec<_>>().join(", ");
            return plan_err!(
                "the columns of the reader must end with the partition columns ({names}), with their \
                 types; it has {columns}"
            );
        };
        let schema = table_schema(Arc::new(Schema::new(source.to_vec())), spec)?;
        Ok(Self {
            catalog,
            reader,
            schema,
            limits: PartitionLimits::default(),
        })
    }

    /// Sets what queries of this table may not do.
    pub fn with_limits(mut self, limits: PartitionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Where the partitions come from.
    pub fn catalog(&self) -> &Arc<dyn PartitionCatalog> {
        &self.catalog
    }
}

#[async_trait]
impl TableProvider for PartitionedSourceProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
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
}

#[async_trait]
impl PartitionedTable for PartitionedSourceProvider {
    fn catalog(&self) -> &Arc<dyn PartitionCatalog> {
        &self.catalog
    }

    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn limits(&self) -> PartitionLimits {
        self.limits
    }

    /// All scans share the template.
    fn metrics(&self) -> Option<ExecutionPlanMetricsSet> {
        Some(ExecutionPlanMetricsSet::new())
    }

    async fn reader(
        &self,
        session: &dyn Session,
        wanted: &WantedRows<'_>,
    ) -> Result<Arc<dyn PartitionReader>> {
        let mut template = Arc::clone(self.reader.template());
        let filters = wanted.physical_filters(session, &self.schema)?;
        let pushed = template.try_pushdown_filters(filters, session.config_options())?;
        if let Some(filtered) = pushed.updated_node {
            template = filtered;
        }
        if let Some(limited) = wanted
            .limit
            .and_then(|limit| template.with_fetch(Some(limit)))
        {
            template = limited;
        }
        if let Some(projection) = wanted.projection {
            let columns = ProjectionExprs::from_indices(projection, self.schema.table_schema());
            let projected = template.try_swapping_with_projection(&columns)?;
            template = projected.ok_or_else(|| {
                plan_datafusion_err!(
                    "the template of the reader {:?} takes no projection to some of its columns; its \
                     DataSource::try_swapping_with_projection must",
                    self.reader
                )
            })?;
        }
        Ok(self.reader.with_template(template))
    }
}
