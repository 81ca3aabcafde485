//! [`TextFilteredCatalog`]: the partitions of another catalog whose texts satisfy a predicate.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::common::{Result, ScalarValue};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::catalog::{ListingContext, PartitionCatalog, PartitionEstimate};
use crate::order::PartitionOrder;
use crate::predicate::PartitionPredicate;
use crate::registry::PartitionRegistry;
use crate::spec::{PartitionBatch, PartitionSpec};
use crate::text::value_to_text;

/// A catalog less the partitions whose values, written as text ([`value_to_text`]), do not satisfy
/// a predicate.
#[derive(Debug)]
pub struct TextFilteredCatalog {
    inner: Arc<dyn PartitionCatalog>,
    filter: PartitionPredicate,
}

impl TextFilteredCatalog {
    /// The partitions of `inner` that satisfy `filter`, a predicate over its columns as text.
    pub fn new(inner: Arc<dyn PartitionCatalog>, filter: PartitionPredicate) -> Self {
        Self { inner, filter }
    }

    fn filter(
        &self,
        partitions: BoxStream<'static, Result<PartitionBatch>>,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let filter = self.filter.clone();
        partitions
            .and_then(move |batch| std::future::ready(filter_by_text(batch, &filter)))
            .boxed()
    }
}

/// The partitions whose values, written as text ([`value_to_text`]), satisfy a predicate.
///
/// # Errors
/// When a value has no text form.
pub fn filter_by_text(
    batch: PartitionBatch,
    filter: &PartitionPredicate,
) -> Result<PartitionBatch> {
    let columns = batch
        .values()
        .columns()
        .iter()
        .map(|values| {
            let texts = (0..values.len())
                .map(|row| value_to_text(&ScalarValue::try_from_array(values, row)?));
            Ok(Arc::new(texts.collect::<Result<StringArray>>()?) as ArrayRef)
        })
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
    let schema = Arc::clone(filter.spec().schema());
    let texts = RecordBatch::try_new_with_options(schema, columns, &options)?;
    batch.filter(&filter.evaluate(&texts)?.keep)
}

#[async_trait]
impl PartitionCatalog for TextFilteredCatalog {
    fn spec(&self) -> &PartitionSpec {
        self.inner.spec()
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        self.filter(self.inner.list(wanted, context))
    }

    fn list_in_order(
        &self,
        wanted: PartitionPredicate,
        order: &PartitionOrder,
        context: ListingContext,
    ) -> Option<BoxStream<'static, Result<PartitionBatch>>> {
        let partitions = self.inner.list_in_order(wanted, order, context)?;
        Some(self.filter(partitions))
    }

    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        self.inner.estimate(wanted, context).await
    }

    /// That of the unfiltered catalog: a partition can be registered that the filter hides.
    fn registry(&self) -> Option<Arc<dyn PartitionRegistry>> {
        self.inner.registry()
    }

    fn describe(&self) -> String {
        format!("{} where {}", self.inner.describe(), self.filter)
    }
}
