//! Partitions chosen by a condition over their text, as Alink's `setPartitions` does.
//!
//! The example takes a file of ratings and lays it out as one directory for each day in Shanghai,
//! `year=1997/month=09/day=20/`. Each selection is then a table of its own over that tree, with the
//! option `partitions`; what a selection leaves out is neither listed nor opened. The rows of each
//! are checked against the same condition over the file. With the file of MovieLens 100k the
//! statistics are checked too, against those in the chapter on partitioned data of an Alink
//! tutorial:
//!
//! ```text
//! examples/fetch-movielens.sh
//! cargo run --locked --example movielens [FILE]
//! ```
//!
//! FILE is `target/movielens/ml-100k.inter` by default, where the script puts it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod ratings;
mod statistics;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionContext, col};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Lake, compare_rows, scan_metric, sorted_rows};

use statistics::{ColumnStatistics, chapter_statistics, statistics};

/// Where `fetch-movielens.sh` puts the file.
const DEFAULT_FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/movielens/ml-100k.inter"
);

/// The name of the file whose statistics are known.
const KNOWN_FILE: &str = "ml-100k.inter";

/// The whole table, and the conditions that leave some of its directories.
const SELECTIONS: [Option<&str>; 6] = [
    None,
    Some("year='1997'"),
    Some("year='1997' AND month>='10'"),
    Some("day LIKE '3_'"),
    Some("day LIKE '%3%'"),
    Some("day IN ('01', '02')"),
];

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(DEFAULT_FILE), PathBuf::from);
    let directory = tempfile::tempdir()?;
    std::fs::create_dir(directory.path().join(ratings::TREE))?;
    let lake = Lake::local(directory.path())?;

    let ctx = SessionContext::new().with_partitioned();
    ratings::register(&ctx, &file).await?;
    let written = ratings::lay_out(&ctx, &lake).await?;
    println!("Wrote {written} ratings by year, month and day in Shanghai.");

    let is_known = file.file_name() == Some(Path::new(KNOWN_FILE).as_os_str());
    let mut runs = Vec::new();
    for partitions in SELECTIONS {
        let run = run_selection(&ctx, &lake, partitions).await?;
        if is_known && let Some(expected) = chapter_statistics(partitions) {
            statistics::check(&run.statistics, &expected)?;
        }
        runs.push(run);
    }

    for run in &runs {
        println!("\n{}:\n{}", run.title(), statistics::table(&run.statistics));
        println!("days of the month: {}", run.days.join(" "));
    }
    print_costs(&runs);
    println!("\nAll rows are those of the file under the same condition.");
    if is_known {
        println!("The statistics are those of the chapter.");
    }
    Ok(())
}

/// What a selection holds, and what it cost to read all of it.
#[derive(Debug)]
struct Run {
    partitions: Option<&'static str>,
    rows: usize,
    statistics: Vec<ColumnStatistics>,
    days: Vec<String>,
    list_requests: usize,
    partitions_listed: usize,
    files_scanned: usize,
}

impl Run {
    fn title(&self) -> &str {
        self.partitions.unwrap_or("all partitions")
    }
}

/// Reads the directories of a selection and checks its rows against those of the file.
async fn run_selection(
    ctx: &SessionContext,
    lake: &Lake,
    partitions: Option<&'static str>,
) -> Result<Run> {
    create_table(ctx, "selected", lake, partitions).await?;
    let plan = ctx
        .sql("SELECT * FROM selected")
        .await?
        .create_physical_plan()
        .await?;
    let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await?;

    let condition = partitions.unwrap_or("true");
    let expected = ctx
        .sql(&format!("SELECT * FROM ratings WHERE {condition}"))
        .await?;
    compare_rows(&rows, &expected.collect().await?)?;

    let run = Run {
        partitions,
        rows: rows.iter().map(RecordBatch::num_rows).sum(),
        statistics: statistics(ctx, "selected").await?,
        days: days(ctx, "selected").await?,
        list_requests: scan_metric(&plan, "list_requests"),
        partitions_listed: scan_metric(&plan, "partitions_listed"),
        files_scanned: scan_metric(&plan, "files_scanned"),
    };
    ctx.deregister_table("selected")?;
    Ok(run)
}

/// Declares the tree as a table of the directories that satisfy `partitions`.
async fn create_table(
    ctx: &SessionContext,
    name: &str,
    lake: &Lake,
    partitions: Option<&str>,
) -> Result<()> {
    let mut options = "'connector' 'filesystem'".to_owned();
    if let Some(partitions) = partitions {
        options += &format!(", 'partitions' '{}'", partitions.replace('\'', "''"));
    }
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE {name} (
             user_id BIGINT,
             item_id BIGINT,
             rating DOUBLE,
             ts TIMESTAMP,
             year VARCHAR,
             month VARCHAR,
             day VARCHAR
         )
         STORED AS PARQUET
         PARTITIONED BY (year, month, day)
         LOCATION '{}'
         OPTIONS ({options})",
        lake.location(ratings::TREE)
    ))
    .await?;
    Ok(())
}

/// The days of the month that a table has rows of, sorted.
async fn days(ctx: &SessionContext, table: &str) -> Result<Vec<String>> {
    let days = ctx
        .table(table)
        .await?
        .select(vec![col("day")])?
        .distinct()?;
    Ok(sorted_rows(&days.collect().await?))
}

fn print_costs(runs: &[Run]) {
    println!(
        "\n{:<32}{:>8}{:>16}{:>22}{:>14}",
        "selection", "rows", "LIST requests", "directories with data", "files opened"
    );
    for run in runs {
        println!(
            "{:<32}{:>8}{:>16}{:>22}{:>14}",
            run.title(),
            run.rows,
            run.list_requests,
            run.partitions_listed,
            run.files_scanned
        );
    }
}
