//! [`HybridCatalog`]: the first columns from one catalog, the others from directories.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion_partitioned_core::{
    ListingContext, PartitionBatch, PartitionCatalog, PartitionEstimate, PartitionPredicate,
    PartitionSpec,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::directory::{DirectoryCatalog, Table};
use crate::walk::Walk;

/// Partitions below the locations of another catalog: that one, a projection or a list of
/// locations, knows the first partition columns, and the directories below spell the others.
///
/// A location that does not exist has no partitions. There is no registry, even where the first catalog has
/// one: directories decide what is below a location.
#[derive(Debug, Clone)]
pub struct HybridCatalog {
    first: Arc<dyn PartitionCatalog>,
    spec: PartitionSpec,
    /// The directories below a location of `first`, with the columns of both.
    table: Arc<Table>,
}

impl HybridCatalog {
    /// Puts together the catalog of the first columns and one whose columns, layout and rules are
    /// those of the directories below. The roots of the latter are not used.
    ///
    /// # Errors
    /// When a column is in both.
    pub fn try_new(first: Arc<dyn PartitionCatalog>, rest: &DirectoryCatalog) -> Result<Self> {
        let fields = first.spec().fields().iter().chain(rest.spec().fields());
        let spec = PartitionSpec::try_new(fields.map(|field| field.as_ref().clone()))?;
        if rest.table().text_filter.is_some() {
            return plan_err!("a filter on texts cannot be a part of a hybrid catalog");
        }
        let mut table = Table::clone(rest.table());
        table.spec = spec.clone();
        Ok(Self {
            first,
            spec,
            table: Arc::new(table),
        })
    }

    /// What is wanted of the first columns.
    fn wanted_first(&self, wanted: &PartitionPredicate) -> PartitionPredicate {
        wanted.over_prefix(self.first.spec().len())
    }
}

#[async_trait]
impl PartitionCatalog for HybridCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let table = Arc::clone(&self.table);
        let first = self.first.list(self.wanted_first(&wanted), context.clone());
        first
            .map_ok(move |batch| {
                let (table, wanted) = (Arc::clone(&table), wanted.clone());
                Walk::new(table, wanted, context.clone()).below(batch).run()
            })
            .try_flatten()
            .boxed()
    }

    /// As many partitions as the first catalog estimates, times what walks have seen below one.
    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let first = self
            .first
            .estimate(&self.wanted_first(wanted), context)
            .await?;
        let below = self.table.estimate_below_one();
        let mut distinct = first.distinct;
        distinct.resize(self.first.spec().len(), first.partitions);
        distinct.extend(below.distinct);
        let bytes = below.bytes.unwrap_or_default();
        Ok(PartitionEstimate {
            partitions: first.partitions.saturating_mul(below.partitions),
            bytes: Some(first.partitions.saturating_mul(bytes)),
            distinct,
            ..Default::default()
        })
    }

    fn describe(&self) -> String {
        let rest = self.spec.column_names().skip(self.first.spec().len());
        format!(
            "{} with directories for {}",
            self.first.describe(),
            rest.collect::<Vec<_>>().join(", ")
        )
    }
}
