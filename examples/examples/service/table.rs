//! The service as a partitioned table: a catalog and a source of rows.

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, BooleanArray, Date32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion_partitioned::core::{
    ListingContext, Partition, PartitionBatch, PartitionCatalog, PartitionEstimate,
    PartitionPredicate, PartitionSource, PartitionSpec, RowSource, RowSourceReader, ScanMetrics,
};
use datafusion_partitioned::table::PartitionedSourceProvider;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::service::{Name, OrderService};

/// The orders of `service`, partitioned by region and day.
pub(crate) fn orders(service: &Arc<OrderService>) -> Result<PartitionedSourceProvider> {
    let catalog = OrderCatalog::try_new(service)?;
    let source = OrderSource::new(service);
    let reader = RowSourceReader::new(Arc::new(source), catalog.spec());
    PartitionedSourceProvider::try_new(Arc::new(catalog), Arc::new(reader))
}

/// Which shards there are.
#[derive(Debug)]
pub(crate) struct OrderCatalog {
    service: Arc<OrderService>,
    spec: PartitionSpec,
}

impl OrderCatalog {
    pub(crate) fn try_new(service: &Arc<OrderService>) -> Result<Self> {
        Ok(Self {
            service: Arc::clone(service),
            spec: PartitionSpec::try_new([
                Field::new("region", DataType::Utf8, true),
                Field::new("day", DataType::Date32, true),
            ])?,
        })
    }
}

#[async_trait]
impl PartitionCatalog for OrderCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    /// Lists the regions, and then the shards of several of them at once.
    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let listing = Arc::new(Listing {
            service: Arc::clone(&self.service),
            wanted,
            metrics: context.metrics,
        });
        Arc::clone(&listing)
            .regions()
            .map_ok(move |region| Arc::clone(&listing).shards(region))
            .try_flatten_unordered(context.concurrency)
            .boxed()
    }

    /// Without a request: there are some thousand shards.
    async fn estimate(
        &self,
        _wanted: &PartitionPredicate,
        _context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        Ok(PartitionEstimate {
            partitions: 2000,
            ..PartitionEstimate::default()
        })
    }

    fn describe(&self) -> String {
        "orders(service)".to_owned()
    }
}

/// One listing.
struct Listing {
    service: Arc<OrderService>,
    wanted: PartitionPredicate,
    metrics: ScanMetrics,
}

impl Listing {
    /// The regions in which there may be wanted shards.
    fn regions(self: Arc<Self>) -> BoxStream<'static, Result<String>> {
        Arc::clone(&self)
            .pages(None)
            .and_then(move |names| ready(self.wanted_regions(&names)))
            .map_ok(|regions| stream::iter(regions.into_iter().map(Ok::<_, DataFusionError>)))
            .try_flatten()
            .boxed()
    }

    /// The shards of a region that may be wanted.
    fn shards(self: Arc<Self>, region: String) -> BoxStream<'static, Result<PartitionBatch>> {
        Arc::clone(&self)
            .pages(Some(region.clone()))
            .and_then(move |names| ready(self.wanted_shards(&region, &names)))
            .boxed()
    }

    /// What the service lists, page by page.
    fn pages(self: Arc<Self>, region: Option<String>) -> BoxStream<'static, Result<Vec<Name>>> {
        stream::try_unfold(Some(0), move |page| {
            let (listing, region) = (Arc::clone(&self), region.clone());
            async move {
                let Some(page) = page else { return Ok(None) };
                listing.metrics.list_requests.add(1);
                let page = listing.service.list(region.as_deref(), page).await?;
                Ok(Some((page.content, page.next)))
            }
        })
        .boxed()
    }

    /// Nothing is known about days yet.
    fn wanted_regions(&self, names: &[Name]) -> Result<Vec<String>> {
        let regions = names.iter().filter_map(|name| match name {
            Name::Region(region) => Some(region),
            Name::Shard { .. } => None,
        });
        let values = regions.clone().map(|region| region_value(region));
        let values = Arc::new(values.collect::<StringArray>()) as ArrayRef;
        let spec = self.wanted.spec();
        let keep = self.wanted(&RecordBatch::try_new(spec.prefix(1), vec![values])?)?;
        let kept = regions.zip(keep.values()).filter(|(_, keep)| *keep);
        Ok(kept.map(|(region, _)| region.clone()).collect())
    }

    fn wanted_shards(&self, region: &str, names: &[Name]) -> Result<PartitionBatch> {
        let shards = names.iter().filter_map(|name| match name {
            Name::Shard { day, orders } => Some((*day, *orders)),
            Name::Region(_) => None,
        });
        let (days, sources): (Vec<i32>, Vec<PartitionSource>) = shards
            .map(|(day, orders)| {
                let source = PartitionSource::new(format!("{region}/{day}").into());
                // They need not be fetched to be counted.
                (day, source.with_rows(orders))
            })
            .unzip();
        let regions: StringArray = days.iter().map(|_| region_value(region)).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(regions), Arc::new(Date32Array::from(days))];
        let values = RecordBatch::try_new(Arc::clone(self.wanted.spec().schema()), columns)?;
        let keep = self.wanted(&values)?;
        PartitionBatch::try_new(values, sources)?.filter(&keep)
    }

    /// Asks the predicate each time: keys of a join may have arrived.
    fn wanted(&self, values: &RecordBatch) -> Result<BooleanArray> {
        let pruned = self.wanted.evaluate(values)?;
        self.metrics.record_pruned(&pruned);
        Ok(pruned.keep)
    }
}

fn region_value(name: &str) -> Option<&str> {
    (name != "-").then_some(name)
}

/// How the orders of a shard are read.
#[derive(Debug)]
pub(crate) struct OrderSource {
    service: Arc<OrderService>,
    schema: SchemaRef,
}

impl OrderSource {
    pub(crate) fn new(service: &Arc<OrderService>) -> Self {
        Self {
            service: Arc::clone(service),
            schema: OrderService::schema(),
        }
    }
}

impl RowSource for OrderSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Asks for the columns that the query needs, a page when the one before has been taken.
    fn rows(
        &self,
        partition: Partition,
        columns: Vec<usize>,
        _context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let service = Arc::clone(&self.service);
        let shard: Arc<str> = partition.source.location.as_ref().into();
        let columns: Arc<[usize]> = columns.into();
        stream::try_unfold(Some(0), move |page| {
            let (service, shard) = (Arc::clone(&service), Arc::clone(&shard));
            let columns = Arc::clone(&columns);
            async move {
                let Some(page) = page else { return Ok(None) };
                let page = service.fetch(&shard, &columns, page).await?;
                Ok(Some((page.content, page.next)))
            }
        })
        .boxed()
    }

    fn describe(&self) -> String {
        "orders(service)".to_owned()
    }
}
