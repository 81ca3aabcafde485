//! A table in an object store: `cargo run --locked --features s3 --example object_store_s3`.
//!
//! The store is an S3 server inside of this process, so that there is nothing to set up and no request is paid for.
//! The client is the one for any bucket.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_s3_server::{BUCKET, S3Server};
use url::Url;

#[tokio::main]
async fn main() -> Result<()> {
    let server = S3Server::start().await?;
    let context = SessionContext::new().with_partitioned();
    let bucket = Url::parse(&format!("s3://{BUCKET}"));
    let bucket = bucket.map_err(|error| exec_datafusion_err!("{error}"))?;
    // For a bucket elsewhere: `AmazonS3Builder::from_env().with_bucket_name("..").build()?`.
    context.register_object_store(&bucket, Arc::new(server.client()?));

    // 366 days of 10 sales, a directory for each day.
    let copy = format!(
        "COPY (SELECT value AS id, DATE '2024-01-01' + CAST(value % 366 AS INT) AS day FROM range(0, 3660))
         TO 's3://{BUCKET}/sales/' STORED AS PARQUET PARTITIONED BY (day)"
    );
    let create = format!(
        "CREATE EXTERNAL TABLE sales (id BIGINT, day DATE) STORED AS PARQUET PARTITIONED BY (day)
         LOCATION 's3://{BUCKET}/sales/' OPTIONS ('connector' 'filesystem')"
    );
    let holidays = "CREATE TABLE holidays (day DATE, name VARCHAR) AS VALUES
         ('2024-05-01', 'May Day'), ('2024-10-03', 'Unity Day'), ('2024-12-25', 'Christmas')";
    for sql in [copy.as_str(), &create, holidays] {
        context.sql(sql).await?.collect().await?;
    }
    println!("{} objects are in the bucket.", server.count("PutObject"));

    for query in [
        "SELECT count(*) FROM sales WHERE day BETWEEN '2024-06-29' AND '2024-07-01'",
        "SELECT name, count(*) AS sales FROM sales JOIN holidays USING (day) WHERE name <> 'May Day' GROUP BY name",
        "SELECT max(day) FROM sales",
    ] {
        server.clear();
        println!("\n{query}");
        context.sql(query).await?.show().await?;
        for request in server.requests() {
            println!("{request}");
        }
    }
    Ok(())
}
