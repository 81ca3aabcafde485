//! The example, and the contract of its parts.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion_partitioned::core::contract::{
    CatalogFixture, ReaderFixture, check_catalog, check_reader,
};
use datafusion_partitioned::core::{
    Partition, PartitionCatalog, PartitionReader, PartitionSpec, PartitionValues, RowSourceReader,
};

use super::*;
use crate::service::{FIRST_DAY, ORDERS_PER_SHARD, REGIONS};
use crate::table::{OrderCatalog, OrderSource};

#[tokio::test]
async fn queries_cost_what_they_must() -> Result<()> {
    let service = Arc::new(OrderService::default());
    let ctx = session(&service).await?;
    for query in QUERIES {
        let (rows, requests) = run(&ctx, &service, query.sql).await?;
        let found = (rows, requests.lists, requests.shards_fetched);
        assert_eq!(
            found,
            (query.rows, query.lists, query.shards),
            "{}",
            query.sql
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_limit_leaves_pages_alone() -> Result<()> {
    let service = Arc::new(OrderService::default());
    let ctx = session(&service).await?;
    let sql = "SELECT id FROM orders WHERE region = 'eu' AND day = '2024-06-01' LIMIT 3";
    let (rows, requests) = run(&ctx, &service, sql).await?;
    assert_eq!((rows, requests.fetches), (3, 1));
    Ok(())
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_an_error() -> Result<()> {
    let service = Arc::new(OrderService::default());
    let ctx = session(&service).await?;
    // The regions, four pages of the shards of one, and three of the orders of a shard.
    for n in 1..=8 {
        service.fail_request(n);
        let sql = "SELECT sum(amount) FROM orders WHERE region = 'eu' AND day = '2024-06-01'";
        let error = run(&ctx, &service, sql).await.unwrap_err();
        assert!(
            error.to_string().contains("does not answer"),
            "{n}: {error}"
        );
    }
    Ok(())
}

/// The catalog and the reader of a service.
struct Orders(Arc<OrderService>);

impl Orders {
    fn shard(&self, region: &str, day: i32) -> Partition {
        let values = vec![
            ScalarValue::from((region != "-").then_some(region)),
            ScalarValue::Date32(Some(day)),
        ];
        let values = PartitionValues::try_new(&ReaderFixture::spec(self), values).unwrap();
        Partition::new(values, format!("{region}/{day}").into())
    }
}

impl CatalogFixture for Orders {
    fn catalog(&self) -> Arc<dyn PartitionCatalog> {
        Arc::new(OrderCatalog::try_new(&self.0).unwrap())
    }

    /// Some of them, since every one is asked for by itself.
    fn partitions(&self) -> Vec<PartitionValues> {
        let days = [FIRST_DAY + 200, FIRST_DAY, FIRST_DAY + 365];
        let shards = REGIONS
            .iter()
            .flat_map(|region| days.map(|day| self.shard(region, day)));
        shards.map(|shard| shard.values).collect()
    }

    fn requests(&self) -> Option<usize> {
        Some(self.0.request_count())
    }

    fn fail_request(&self, n: Option<usize>) -> bool {
        self.0.fail_request(n.unwrap_or(0));
        true
    }
}

impl ReaderFixture for Orders {
    fn reader(&self) -> Arc<dyn PartitionReader> {
        let source = Arc::new(OrderSource::new(&self.0));
        Arc::new(RowSourceReader::new(source, &ReaderFixture::spec(self)))
    }

    fn spec(&self) -> PartitionSpec {
        OrderCatalog::try_new(&self.0).unwrap().spec().clone()
    }

    fn partitions(&self) -> Vec<(Partition, RecordBatch)> {
        let shards = [("eu", FIRST_DAY), ("-", FIRST_DAY), ("us", FIRST_DAY + 365)];
        let shards = shards.map(|(region, day)| (self.shard(region, day), orders_of(region, day)));
        shards.to_vec()
    }

    fn unreadable(&self) -> Option<Partition> {
        Some(self.shard("atlantis", FIRST_DAY))
    }
}

/// All orders of a shard.
fn orders_of(region: &str, day: i32) -> RecordBatch {
    let region = REGIONS.iter().position(|known| *known == region).unwrap();
    service::orders(region, day, 0..ORDERS_PER_SHARD).unwrap()
}

#[tokio::test]
async fn the_catalog_keeps_the_contract() {
    check_catalog(&Orders(Arc::default())).await.unwrap();
}

#[tokio::test]
async fn the_reader_keeps_the_contract() {
    check_reader(&Orders(Arc::default())).await.unwrap();
}
