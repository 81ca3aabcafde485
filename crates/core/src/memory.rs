//! [`MemoryCatalog`]: a fixed set of partitions.

use std::collections::HashSet;

use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::catalog::{ListingContext, PartitionCatalog, PartitionEstimate};
use crate::predicate::PartitionPredicate;
use crate::spec::{Partition, PartitionBatch, PartitionSpec};

/// A catalog of partitions that are given when it is made, each with a location of its own.
///
/// ```
/// # use datafusion::arrow::datatypes::{DataType, Field};
/// # use datafusion::scalar::ScalarValue;
/// # use datafusion_partitioned_core::{MemoryCatalog, Partition, PartitionSpec, PartitionValues};
/// let spec = PartitionSpec::try_new(vec![Field::new("day", DataType::Date32, true)])?;
/// let values = PartitionValues::try_new(&spec, vec![ScalarValue::from("2024-06-01")])?;
/// let catalog = MemoryCatalog::try_new(spec, &[Partition::new(values, "archive/first".into())])?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryCatalog {
    spec: PartitionSpec,
    partitions: PartitionBatch,
}

impl MemoryCatalog {
    /// A catalog of exactly `partitions`.
    ///
    /// # Errors
    /// When their values are not those of `spec`, or when the location of one is that of another
    /// one or inside of it, since its rows would be counted twice. Partitions whose files are given
    /// ([`PartitionSource::objects`](crate::PartitionSource::objects)) may share a location.
    pub fn try_new(spec: PartitionSpec, partitions: &[Partition]) -> Result<Self> {
        check_locations(partitions)?;
        let partitions = PartitionBatch::from_partitions(&spec, partitions)?;
        Ok(Self { spec, partitions })
    }
}

/// Fails when files of one partition would be found in another one too.
fn check_locations(partitions: &[Partition]) -> Result<()> {
    let sources = partitions.iter().map(|partition| &partition.source);
    let listed = sources.filter(|source| source.objects.is_none());
    let listed: Vec<&str> = listed.map(|source| source.location.as_ref()).collect();
    let mut locations = HashSet::with_capacity(listed.len());
    for location in &listed {
        if !locations.insert(*location) {
            return plan_err!("two partitions have the location '{location}'");
        }
    }
    for location in &listed {
        let parents = location.match_indices('/').map(|(end, _)| &location[..end]);
        let root = (!location.is_empty()).then_some("");
        if let Some(parent) = root
            .into_iter()
            .chain(parents)
            .find(|p| locations.contains(p))
        {
            return plan_err!(
                "the partition at '{location}' is inside the partition at '{parent}', which would \
                 count its rows twice"
            );
        }
    }
    Ok(())
}

#[async_trait]
impl PartitionCatalog for MemoryCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let partitions = self.partitions.clone();
        stream::once(async move {
            let pruned = wanted.evaluate(partitions.values())?;
            context.metrics.record_pruned(&pruned);
            partitions.filter(&pruned.keep)
        })
        .boxed()
    }

    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        _runtime: &RuntimeEnv,
    ) -> Result<PartitionEstimate> {
        let pruned = wanted.evaluate(self.partitions.values())?;
        let kept = self.partitions.clone().filter(&pruned.keep)?;
        // Bytes are known when the files of every partition are.
        let bytes = kept.sources().iter().try_fold(0_usize, |bytes, source| {
            let objects = source.objects.as_ref()?;
            Some(
                bytes
                    + objects
                        .iter()
                        .map(|object| object.size as usize)
                        .sum::<usize>(),
            )
        });
        let rows = kept
            .sources()
            .iter()
            .map(|source| source.rows.map(usize::from))
            .sum();
        Ok(PartitionEstimate {
            partitions: kept.len(),
            bytes,
            rows,
            distinct: vec![],
        })
    }

    fn describe(&self) -> String {
        format!("memory({} partitions)", self.partitions.len())
    }
}
