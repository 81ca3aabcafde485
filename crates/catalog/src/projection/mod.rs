//! [`ProjectionCatalog`]: partitions that are computed instead of listed.

mod column;
mod date_format;
mod dates;
mod expansion;
mod locations;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::Utc;
use datafusion::common::{DataFusionError, Result, assert_or_internal_err, plan_datafusion_err};
use datafusion_partitioned_core::{
    ListingContext, PartitionBatch, PartitionCatalog, PartitionEstimate, PartitionOrder,
    PartitionPredicate, PartitionSpec,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::data_file::url_of;
pub use column::ColumnProjection;
use column::Domain;
pub use date_format::{DateFormat, DateUnit};
pub use dates::DateProjection;
use expansion::Expansion;
pub use locations::ProjectedLocations;

/// Up to this many combinations of values are gone through for an estimate.
const COUNTED_EXACTLY: usize = 1 << 16;

/// The estimate for more than this many combinations, and for those that are not known.
const MOST_PARTITIONS: usize = 1 << 30;

/// A table whose partitions follow from rules for the values of each column (Athena: partition
/// projection). It lists nothing, and computes only what a query asks for.
///
/// A partition whose directory does not exist is empty. There is no partition for NULL.
///
/// ```
/// # use datafusion::arrow::datatypes::{DataType, Field};
/// # use datafusion::datasource::listing::ListingTableUrl;
/// # use datafusion_partitioned_catalog::*;
/// # use datafusion_partitioned_core::{PartitionLayout, PartitionSpec};
/// let fields = [("tenant", DataType::Utf8), ("day", DataType::Date32)];
/// let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
/// let spec = PartitionSpec::try_new(fields)?;
/// let root = ListingTableUrl::parse("s3://lake/events/")?;
/// let locations = ProjectedLocations::layout(root, PartitionLayout::hive(&spec));
/// let days = DateProjection::try_new(DateFormat::try_new("yyyy-MM-dd")?, "2020-01-01,NOW")?;
/// let columns = vec![ColumnProjection::Injected, ColumnProjection::Date(days)];
/// let catalog = ProjectionCatalog::try_new(spec, columns, locations)?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ProjectionCatalog {
    spec: PartitionSpec,
    columns: Arc<[ColumnProjection]>,
    locations: Arc<ProjectedLocations>,
    /// Over the texts of the columns.
    text_filter: Option<PartitionPredicate>,
}

impl ProjectionCatalog {
    /// A catalog of all combinations of the values of `columns`, one rule for each column of `spec`.
    ///
    /// # Errors
    /// When a rule has values that are not of its column's type.
    pub fn try_new(
        spec: PartitionSpec,
        columns: Vec<ColumnProjection>,
        locations: ProjectedLocations,
    ) -> Result<Self> {
        assert_or_internal_err!(
            columns.len() == spec.len() && !columns.is_empty(),
            "{} projections for {} partition columns",
            columns.len(),
            spec.len()
        );
        for (projection, field) in columns.iter().zip(spec.fields()) {
            projection.check(field).map_err(|error| {
                error.context(format!("the projection of column '{}'", field.name()))
            })?;
        }
        Ok(Self {
            spec,
            columns: columns.into(),
            locations: Arc::new(locations),
            text_filter: None,
        })
    }

    /// The values of each column in one query.
    fn domains(&self, wanted: &PartitionPredicate) -> Result<Vec<Domain>> {
        let now = Utc::now();
        let columns = self.columns.iter().zip(self.spec.fields()).enumerate();
        columns
            .map(|(index, (projection, field))| {
                let candidates = wanted.candidates(index);
                let domain = projection.domain(field, candidates.as_ref(), now)?;
                domain.ok_or_else(|| {
                    let name = field.name();
                    plan_datafusion_err!(
                        "nothing says which values of the partition column '{name}' to read, whose \
                         projection is 'injected'; add a condition {name} = .. or {name} IN (..) (with \
                         partitioned.static_pruning on), or join it with the column of a table with at \
                         most partitioned.dynamic_filter.max_keys values, written before this table"
                    )
                })
            })
            .collect()
    }

    fn expand(
        &self,
        wanted: PartitionPredicate,
        is_reversed: Vec<bool>,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let catalog = self.clone();
        stream::once(async move {
            let expansion = Expansion::try_new(catalog, wanted, context.metrics, &is_reversed)?;
            let batches = stream::try_unfold(expansion, |mut expansion| async move {
                // A long way with few files must not keep others from running, those included that
                // read them for the same task: their budget is not to be consumed here.
                tokio::task::yield_now().await;
                let batch = expansion.step()?;
                Ok(batch.map(|batch| (batch, expansion)))
            });
            Ok::<_, DataFusionError>(batches)
        })
        .try_flatten()
        .try_filter(|batch| std::future::ready(!batch.is_empty()))
        .boxed()
    }
}

#[async_trait]
impl PartitionCatalog for ProjectionCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        self.expand(wanted, vec![], context)
    }

    /// Where the order is that of the first columns, and their values are known in order.
    fn list_in_order(
        &self,
        wanted: PartitionPredicate,
        order: &PartitionOrder,
        context: ListingContext,
    ) -> Option<BoxStream<'static, Result<PartitionBatch>>> {
        let is_ordered =
            |column: usize| self.columns[column].is_ordered(&self.spec.fields()[column]);
        let mut columns = order.columns().iter().enumerate();
        let is_known = columns.all(|(i, (column, _))| i == *column && is_ordered(i));
        let is_reversed = order.columns().iter().map(|(_, o)| o.descending).collect();
        is_known.then(|| self.expand(wanted, is_reversed, context))
    }

    /// Makes no request. Few partitions are counted; of many it is known how many there would be if
    /// all combinations were wanted, and of an injected column that the query does not name that
    /// there are very many.
    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let Ok(domains) = self.domains(wanted) else {
            return Ok(PartitionEstimate {
                partitions: MOST_PARTITIONS,
                ..PartitionEstimate::default()
            });
        };
        let distinct: Vec<usize> = domains.iter().map(Domain::len).collect();
        let all = distinct.iter().fold(1_usize, |n, d| n.saturating_mul(*d));
        let mut partitions = all.min(MOST_PARTITIONS);
        if partitions <= COUNTED_EXACTLY {
            let metrics = context.metrics.clone();
            let mut expansion = Expansion::try_new(self.clone(), wanted.clone(), metrics, &[])?;
            partitions = 0;
            while let Some(batch) = expansion.step()? {
                partitions += batch.len();
            }
        }
        Ok(PartitionEstimate {
            partitions,
            distinct: distinct.iter().map(|d| *d.min(&partitions)).collect(),
            ..PartitionEstimate::default()
        })
    }

    fn with_text_filter(&self, filter: PartitionPredicate) -> Option<Arc<dyn PartitionCatalog>> {
        Some(Arc::new(Self {
            text_filter: Some(filter),
            ..self.clone()
        }))
    }

    fn describe(&self) -> String {
        let columns: Vec<_> = self.spec.column_names().collect();
        let root = self.locations.root();
        format!(
            "projection({} in {})",
            columns.join(", "),
            url_of(&root.object_store(), root.prefix())
        )
    }
}
