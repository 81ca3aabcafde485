//! [`MemoryCatalog`]: a fixed set of partitions.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::{Result, plan_err};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::catalog::{ListingContext, PartitionCatalog, PartitionEstimate};
use crate::location::{enclosing_locations, overlap_error};
use crate::predicate::PartitionPredicate;
use crate::spec::{Partition, PartitionBatch, PartitionSource, PartitionSpec};

/// The predicate is asked about this many partitions at a time.
const PARTITIONS_PER_BATCH: usize = 8192;

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
    partitions: Arc<PartitionBatch>,
}

impl MemoryCatalog {
    /// All partitions.
    pub fn partitions(&self) -> &PartitionBatch {
        &self.partitions
    }

    /// A catalog of exactly `partitions`.
    ///
    /// # Errors
    /// When their values are not those of `spec`, or when the location of one is that of another
    /// one or inside of it, since its rows would be counted twice. Partitions whose files are given
    /// ([`PartitionSource::objects`](crate::PartitionSource::objects)) may share a location.
    pub fn try_new(spec: PartitionSpec, partitions: &[Partition]) -> Result<Self> {
        let partitions = PartitionBatch::from_partitions(&spec, partitions)?;
        Self::from_batch(spec, partitions)
    }

    /// A catalog of exactly the partitions of a batch: for very many of them, which need less
    /// memory in columns.
    ///
    /// # Errors
    /// When the columns of the batch have other types than those of `spec`, and when locations
    /// overlap; see [`Self::try_new`].
    pub fn from_batch(spec: PartitionSpec, partitions: PartitionBatch) -> Result<Self> {
        let found = partitions.values().schema_ref().fields();
        let expected = spec.fields();
        let is_of_spec = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(found, expected)| found.data_type() == expected.data_type());
        if !is_of_spec {
            return plan_err!(
                "the values of the partitions have the types {:?}, but the partition columns {:?}",
                found.iter().map(|f| f.data_type()).collect::<Vec<_>>(),
                expected.iter().map(|f| f.data_type()).collect::<Vec<_>>()
            );
        }
        check_locations(partitions.sources())?;
        Ok(Self {
            spec,
            partitions: Arc::new(partitions),
        })
    }
}

/// Fails when files of one partition would be found in another one too.
fn check_locations(sources: &[PartitionSource]) -> Result<()> {
    let listed = sources.iter().filter(|source| source.objects.is_none());
    let listed: Vec<&str> = listed.map(|source| source.location.as_ref()).collect();
    let mut locations = HashSet::with_capacity(listed.len());
    for location in &listed {
        if !locations.insert(*location) {
            return Err(overlap_error(location, location));
        }
    }
    for location in &listed {
        let mut around = enclosing_locations(location);
        if let Some(around) = around.find(|around| locations.contains(around)) {
            return Err(overlap_error(location, around));
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
        let partitions = Arc::clone(&self.partitions);
        stream::iter((0..partitions.len()).step_by(PARTITIONS_PER_BATCH))
            .map(move |start| {
                let length = PARTITIONS_PER_BATCH.min(partitions.len() - start);
                let pruned = wanted.evaluate(&partitions.values().slice(start, length))?;
                context.metrics.record_pruned(&pruned);
                let rows = pruned.keep.values().set_indices();
                let rows: Vec<u32> = rows.map(|row| (start + row) as u32).collect();
                partitions.take(&rows)
            })
            .try_filter(|batch| std::future::ready(!batch.is_empty()))
            .boxed()
    }

    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        _context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let pruned = wanted.evaluate(self.partitions.values())?;
        let sources = self.partitions.sources();
        let kept = || pruned.keep.values().set_indices();
        // Bytes are known when the files of every partition are.
        let bytes = kept().try_fold(0_usize, |bytes, row| {
            let objects = sources[row].objects.iter().flatten();
            let size = objects.map(|object| object.size as usize).sum::<usize>();
            sources[row].objects.as_ref().map(|_| bytes + size)
        });
        let rows = kept().try_fold(0_usize, |rows, row| {
            Some(rows.saturating_add(sources[row].rows?.get()))
        });
        let partitions = pruned.keep.true_count();
        let values = (partitions <= PartitionEstimate::MOST_VALUES)
            .then(|| filter_record_batch(self.partitions.values(), &pruned.keep))
            .transpose()?;
        Ok(PartitionEstimate {
            partitions,
            bytes,
            rows,
            distinct: vec![],
            values,
        })
    }

    fn describe(&self) -> String {
        format!("memory({} partitions)", self.partitions.len())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use datafusion::prelude::SessionContext;
    use object_store::path::Path;

    use super::*;

    fn spec(data_type: DataType) -> PartitionSpec {
        PartitionSpec::try_new(vec![Field::new("p", data_type, true)]).unwrap()
    }

    fn batch(partitions: i32) -> PartitionBatch {
        let values = Int32Array::from_iter_values(0..partitions);
        let schema = Arc::clone(spec(DataType::Int32).schema());
        let values = RecordBatch::try_new(schema, vec![Arc::new(values)]).unwrap();
        let sources = (0..partitions).map(|p| PartitionSource::new(Path::from(format!("{p}"))));
        PartitionBatch::try_new(values, sources.collect()).unwrap()
    }

    #[tokio::test]
    async fn survivors_come_in_batches_and_nothing_else_is_copied() {
        let spec = spec(DataType::Int32);
        let catalog = MemoryCatalog::from_batch(spec.clone(), batch(20_000)).unwrap();
        let context = ListingContext::for_planning(&SessionContext::new().state());
        let list = |wanted| {
            catalog
                .list(wanted, context.clone())
                .try_collect::<Vec<_>>()
        };

        let all = list(PartitionPredicate::all(&spec)).await.unwrap();
        let sizes: Vec<_> = all.iter().map(PartitionBatch::len).collect();
        assert_eq!(sizes, [8192, 8192, 3616]);

        let filter = binary(
            col("p", spec.schema()).unwrap(),
            Operator::GtEq,
            lit(19_998_i32),
            spec.schema(),
        );
        let wanted = PartitionPredicate::all(&spec).with_filter(&filter.unwrap());
        let found = list(wanted.clone()).await.unwrap();
        let found: Vec<_> = found.iter().flat_map(PartitionBatch::sources).collect();
        let locations: Vec<_> = found.iter().map(|s| s.location.as_ref()).collect();
        assert_eq!(locations, ["19998", "19999"]);
        let estimate = catalog.estimate(&wanted, &context).await.unwrap();
        assert_eq!((estimate.partitions, estimate.bytes), (2, None));
    }

    #[test]
    fn values_of_another_type_are_refused() {
        let error = MemoryCatalog::from_batch(spec(DataType::Utf8), batch(1)).unwrap_err();
        assert!(error.to_string().contains("[Int32]"), "{error}");
    }
}
