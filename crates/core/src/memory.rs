//! [`MemoryCatalog`]: a fixed set of partitions.

use async_trait::async_trait;
use datafusion::common::Result;
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
    /// When their values are not those of `spec`.
    pub fn try_new(spec: PartitionSpec, partitions: &[Partition]) -> Result<Self> {
        let partitions = PartitionBatch::from_partitions(&spec, partitions)?;
        Ok(Self { spec, partitions })
    }
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
