//! A star query that opens one month of five years.
//!
//! `cargo run --example quickstart` writes TPC-DS `store_sales` as one directory of Parquet for each
//! day and asks for the sales of a month. Which days that month has is only known when `date_dim`
//! has been read, so nothing in the query's text could prune the directories: the join does, while
//! the query runs. The report shows what it saved, and the answer is checked against the same rows
//! in a single file.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{
    Lake, RequestCountingStore, TpcdsTable, compare_rows, scan_metric,
};

/// 240,000 sales.
const SCALE: f64 = 0.1;

const DIMENSIONS: [&str; 3] = ["date_dim", "item", "store"];

const QUERY: &str = "
    SELECT s_store_name, i_brand, sum(ss_ext_sales_price) AS sales
    FROM store_sales
    JOIN date_dim ON d_date_sk = ss_sold_date_sk
    JOIN item ON i_item_sk = ss_item_sk
    JOIN store ON s_store_sk = ss_store_sk
    WHERE d_year = 2001 AND d_moy = 11 AND i_category = 'Books'
    GROUP BY s_store_name, i_brand
    ORDER BY sales DESC, s_store_name, i_brand
    LIMIT 10";

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let lake = Lake::local(directory.path())?;

    let start = Instant::now();
    for dimension in DIMENSIONS {
        TpcdsTable::named(dimension)?.write(&lake, SCALE).await?;
    }
    let written = TpcdsTable::named("store_sales")?
        .write(&lake, SCALE)
        .await?;
    println!(
        "Wrote {} sales into {} directories in {:.1} s.",
        written.rows,
        written.partitions,
        start.elapsed().as_secs_f64()
    );

    let store = RequestCountingStore::new(Arc::clone(lake.store()));
    let lake = lake.with_store(Arc::new(store.clone()));
    let pruned = run_partitioned(&lake, &store, true).await?;
    let unpruned = run_partitioned(&lake, &store, false).await?;

    println!("{QUERY}\n\n{}\n", pretty_format_batches(&pruned.answer)?);
    print_report(written.partitions, &pruned, &unpruned);

    let expected = run_flat(&lake).await?;
    compare_rows(&pruned.answer, &expected)?;
    compare_rows(&unpruned.answer, &expected)?;
    println!("\nBoth answers are those of a single file without partitions.");
    Ok(())
}

/// An answer and what it cost.
struct Run {
    answer: Vec<RecordBatch>,
    milliseconds: u128,
    list_requests: usize,
    partitions_listed: usize,
    partitions_scanned: usize,
    files_scanned: usize,
}

/// Runs the query over the directories, with or without the filter that the join provides.
async fn run_partitioned(
    lake: &Lake,
    store: &RequestCountingStore,
    dynamic_filter: bool,
) -> Result<Run> {
    let ctx = SessionContext::new().with_partitioned();
    create_dimensions(&ctx, lake).await?;
    ctx.sql(&format!(
        "SET partitioned.dynamic_filter.enabled = {dynamic_filter}"
    ))
    .await?;

    store.clear();
    let start = Instant::now();
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE store_sales (
             ss_item_sk INT,
             ss_store_sk INT,
             ss_ext_sales_price DECIMAL(7, 2),
             ss_sold_date_sk INT
         )
         STORED AS PARQUET
         PARTITIONED BY (ss_sold_date_sk)
         LOCATION '{}'
         OPTIONS ('connector' 'filesystem')",
        lake.location("store_sales/")
    ))
    .await?;
    let plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
    let answer = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok(Run {
        answer,
        milliseconds: start.elapsed().as_millis(),
        list_requests: store.list_count(),
        partitions_listed: scan_metric(&plan, "partitions_listed"),
        partitions_scanned: scan_metric(&plan, "partitions_scanned"),
        files_scanned: scan_metric(&plan, "files_scanned"),
    })
}

/// Runs the query over the same rows in one file, with DataFusion alone.
async fn run_flat(lake: &Lake) -> Result<Vec<RecordBatch>> {
    let ctx = SessionContext::new();
    create_dimensions(&ctx, lake).await?;
    create_table(
        &ctx,
        "store_sales",
        &lake.location("store_sales_flat.parquet"),
    )
    .await?;
    ctx.sql(QUERY).await?.collect().await
}

async fn create_dimensions(ctx: &SessionContext, lake: &Lake) -> Result<()> {
    lake.register(ctx);
    for table in DIMENSIONS {
        create_table(ctx, table, &lake.location(&format!("{table}.parquet"))).await?;
    }
    Ok(())
}

async fn create_table(ctx: &SessionContext, name: &str, location: &str) -> Result<()> {
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{location}'"
    ))
    .await?;
    Ok(())
}

fn print_report(partitions: usize, pruned: &Run, unpruned: &Run) {
    let row = |label: &str, figure: &dyn Fn(&Run) -> String| {
        println!("{label:<24}{:>12}{:>12}", figure(pruned), figure(unpruned));
    };
    println!("{:<24}{:>12}{:>12}", "dynamic filter", "on", "off");
    row("partitions there", &|_| partitions.to_string());
    row("partitions listed", &|run| {
        run.partitions_listed.to_string()
    });
    row("partitions opened", &|run| {
        run.partitions_scanned.to_string()
    });
    row("files opened", &|run| run.files_scanned.to_string());
    row("LIST requests", &|run| run.list_requests.to_string());
    row("milliseconds", &|run| run.milliseconds.to_string());
}
