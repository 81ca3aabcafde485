//! The service: orders in shards by region and day, behind two calls.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;

/// `-` holds orders without a region.
pub(crate) const REGIONS: [&str; 5] = ["-", "apac", "eu", "latam", "us"];
/// 1 January 2024.
pub(crate) const FIRST_DAY: i32 = 19_723;
const DAYS: i32 = 366;
pub(crate) const ORDERS_PER_SHARD: usize = 24;
const NAMES_PER_PAGE: usize = 100;
const ORDERS_PER_PAGE: usize = 10;

/// Answers a page at a time and counts its requests.
#[derive(Debug, Default)]
pub(crate) struct OrderService {
    lists: AtomicUsize,
    fetches: AtomicUsize,
    shards_fetched: AtomicUsize,
    /// How many requests are left until one fails, it included; 0 for none.
    failing: AtomicUsize,
}

/// A part of an answer, and how many pages come before the next one, if there is one.
pub(crate) struct Page<T> {
    pub(crate) content: T,
    pub(crate) next: Option<usize>,
}

/// What a listing returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Region(String),
    /// A day since 1970, and how many orders there are.
    Shard {
        day: i32,
        orders: usize,
    },
}

/// The requests since the last question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) lists: usize,
    pub(crate) fetches: usize,
    pub(crate) shards_fetched: usize,
}

impl OrderService {
    pub(crate) fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("customer", DataType::Int64, true),
            Field::new("amount", DataType::Float64, true),
        ]))
    }

    /// All regions, or the shards of one.
    pub(crate) async fn list(&self, region: Option<&str>, page: usize) -> Result<Page<Vec<Name>>> {
        self.request(&self.lists).await?;
        let names: Vec<Name> = match region {
            None => REGIONS
                .map(|region| Name::Region(region.to_owned()))
                .to_vec(),
            Some(region) if REGIONS.contains(&region) => (FIRST_DAY..FIRST_DAY + DAYS)
                .map(|day| Name::Shard {
                    day,
                    orders: ORDERS_PER_SHARD,
                })
                .collect(),
            Some(region) => return exec_err!("the order service has no region '{region}'"),
        };
        let first = page * NAMES_PER_PAGE;
        let end = names.len().min(first + NAMES_PER_PAGE);
        Ok(Page {
            content: names[first..end].to_vec(),
            next: (end < names.len()).then_some(page + 1),
        })
    }

    /// Some orders of the shard `region/day`, with these of their fields.
    pub(crate) async fn fetch(
        &self,
        shard: &str,
        fields: &[usize],
        page: usize,
    ) -> Result<Page<RecordBatch>> {
        self.request(&self.fetches).await?;
        if page == 0 {
            self.shards_fetched.fetch_add(1, Ordering::Relaxed);
        }
        let found = shard.split_once('/').and_then(|(region, day)| {
            let region = REGIONS.iter().position(|known| *known == region)?;
            let day = day.parse().ok()?;
            (FIRST_DAY..FIRST_DAY + DAYS)
                .contains(&day)
                .then_some((region, day))
        });
        let (region, day) = found
            .ok_or_else(|| exec_datafusion_err!("the order service has no shard '{shard}'"))?;
        let first = page * ORDERS_PER_PAGE;
        let end = ORDERS_PER_SHARD.min(first + ORDERS_PER_PAGE);
        Ok(Page {
            content: orders(region, day, first..end)?.project(fields)?,
            next: (end < ORDERS_PER_SHARD).then_some(page + 1),
        })
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Requests {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        Requests {
            lists: take(&self.lists),
            fetches: take(&self.fetches),
            shards_fetched: take(&self.shards_fetched),
        }
    }

    /// Makes the `n`th request from now on fail, counted from 1; 0 for none.
    #[cfg(test)]
    pub(crate) fn fail_request(&self, n: usize) {
        self.failing.store(n, Ordering::Relaxed);
    }

    /// How many there have been since then.
    #[cfg(test)]
    pub(crate) fn request_count(&self) -> usize {
        self.lists.load(Ordering::Relaxed) + self.fetches.load(Ordering::Relaxed)
    }

    async fn request(&self, counter: &AtomicUsize) -> Result<()> {
        counter.fetch_add(1, Ordering::Relaxed);
        // Here a request would be on its way.
        tokio::task::yield_now().await;
        let left = self.failing.load(Ordering::Relaxed);
        self.failing
            .store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            return exec_err!("the order service does not answer");
        }
        Ok(())
    }
}

/// Some orders of a shard, with all of their fields.
pub(crate) fn orders(region: usize, day: i32, orders: Range<usize>) -> Result<RecordBatch> {
    let first = (i64::from(day) * 10 + region as i64) * 100;
    let ids: Vec<i64> = orders.map(|order| first + order as i64).collect();
    let customers = ids.iter().map(|id| Some(id % 7));
    let amounts = ids.iter().map(|id| Some((id % 90) as f64));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(customers.collect::<Int64Array>()),
        Arc::new(amounts.collect::<Float64Array>()),
    ];
    Ok(RecordBatch::try_new(OrderService::schema(), columns)?)
}
