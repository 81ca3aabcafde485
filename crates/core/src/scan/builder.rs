//! [`PartitionScanBuilder`]: what a scan is made of.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::Statistics;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use super::{PartitionLimits, PartitionScan, RowsNeeded};
use crate::catalog::PartitionCatalog;
use crate::order::PartitionOrder;
use crate::predicate::PartitionPredicate;
use crate::reader::PartitionReader;

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
                metrics: reader.template().metrics(),
                catalog,
                reader,
                predicate,
                statistics: None,
                dynamic_filters: vec![],
                outputs,
                partitions: 1,
                fetch: None,
                order: None,
                rows_needed: RowsNeeded::All,
                limits: PartitionLimits::default(),
                declined_filters: vec![],
                known_partitions: None,
                running: vec![],
                executions: Arc::default(),
            },
        }
    }

    /// Sets which partitions are wanted.
    pub fn with_predicate(mut self, predicate: PartitionPredicate) -> Self {
        self.scan.predicate = predicate;
        self
    }

    /// Sets what is known of the rows that the scan returns, in their columns. Without it the template
    /// is asked.
    pub fn with_statistics(mut self, statistics: Statistics) -> Self {
        self.scan.statistics = Some(Arc::new(statistics));
        self
    }

    /// Sets where the scan counts what it does, and its reader through
    /// [`ReadContext::metrics`](crate::ReadContext). Without it, the metrics of the template are shared.
    pub fn with_metrics(mut self, metrics: ExecutionPlanMetricsSet) -> Self {
        self.scan.metrics = metrics;
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

    /// Says how many partitions are wanted, if that is known when planning.
    pub fn with_known_partitions(mut self, partitions: Option<usize>) -> Self {
        self.scan.known_partitions = partitions;
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
