//! A partitioned table that is not files: orders behind a service.
//!
//! `cargo run --example service` makes a table of a service that keeps orders in shards by region and
//! day and returns them page by page. Two small types are all it takes: `table.rs` has a
//! `PartitionCatalog`, which shards there are, and a `RowSource`, how the orders of one are fetched.
//! With them the table gets what tables of files have: shards are chosen by the `WHERE` clause and by
//! the other side of a join, before they are listed; limits and sort orders stop early; what the service
//! has counted is not fetched. The service counts its requests, and the example checks them.
//!
//! The tests run the suites of `datafusion_partitioned::core::contract` over both types.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod service;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;

use service::{OrderService, Requests};

/// 1,830 shards with 24 orders each. The names of a region take 4 pages, the orders of a shard 3.
const QUERIES: [Query; 6] = [
    Query {
        sql: "SELECT sum(amount) FROM orders WHERE region = 'eu' AND day = '2024-06-01'",
        rows: 1,
        lists: 1 + 4,
        shards: 1,
    },
    Query {
        sql: "SELECT sum(amount) FROM orders WHERE region IS NULL AND day >= '2024-12-30'",
        rows: 1,
        lists: 1 + 4,
        shards: 2,
    },
    // Which regions and days a campaign has is only known when `campaigns` has been read.
    Query {
        sql: "SELECT c.name, sum(o.amount) FROM orders o \
              JOIN campaigns c ON o.region = c.region AND o.day = c.day \
              WHERE c.name <> 'summer' GROUP BY c.name",
        rows: 2,
        lists: 1 + 2 * 4,
        shards: 3,
    },
    Query {
        sql: "SELECT id, day FROM orders WHERE region = 'us' ORDER BY day DESC LIMIT 5",
        rows: 5,
        lists: 1 + 4,
        shards: 1,
    },
    // The service has counted the orders of each shard.
    Query {
        sql: "SELECT region, count(*), max(day) FROM orders GROUP BY region",
        rows: 5,
        lists: 1 + 5 * 4,
        shards: 0,
    },
    Query {
        sql: "EXPLAIN SELECT * FROM orders WHERE region = 'us'",
        rows: 2,
        lists: 0,
        shards: 0,
    },
];

/// A query, and what it may cost.
struct Query {
    sql: &'static str,
    rows: usize,
    lists: usize,
    shards: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let service = Arc::new(OrderService::default());
    let ctx = session(&service).await?;
    println!("rows  LIST requests  shards fetched  query");
    for query in QUERIES {
        let (
            rows,
            Requests {
                lists,
                shards_fetched,
                ..
            },
        ) = run(&ctx, &service, query.sql).await?;
        println!(
            "{rows:>4}  {lists:>13}  {shards_fetched:>14}  {}",
            query.sql
        );
        if (rows, lists, shards_fetched) != (query.rows, query.lists, query.shards) {
            return exec_err!(
                "expected {} rows, {} LIST requests and {} shards",
                query.rows,
                query.lists,
                query.shards
            );
        }
    }
    Ok(())
}

async fn session(service: &Arc<OrderService>) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(4);
    let ctx = SessionContext::new_with_config(config).with_partitioned();
    ctx.register_table("orders", Arc::new(table::orders(service)?))?;
    let campaigns = "CREATE TABLE campaigns (name TEXT, region TEXT, day DATE) AS VALUES \
        ('spring', 'eu', DATE '2024-03-01'), ('spring', 'eu', DATE '2024-03-02'), \
        ('summer', 'us', DATE '2024-07-01'), ('autumn', 'latam', DATE '2024-10-01')";
    ctx.sql(campaigns).await?.collect().await?;
    Ok(ctx)
}

/// The number of rows of a query, and what the service was asked for.
async fn run(ctx: &SessionContext, service: &OrderService, sql: &str) -> Result<(usize, Requests)> {
    service.take_requests();
    let rows = ctx.sql(sql).await?.collect().await?;
    let rows = rows.iter().map(|batch| batch.num_rows()).sum();
    Ok((rows, service.take_requests()))
}
