//! The ratings: read from a file, dated in Shanghai, and laid out as directories.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{CsvReadOptions, SessionContext};
use datafusion_partitioned_test_utils::Lake;

/// The key of the tree in its lake.
pub(crate) const TREE: &str = "data_with_partitions/";

/// The first line of a file. The words after the colons are RecBole's types; `timestamp` is in
/// seconds since 1970.
const HEADER: &str = "user_id:token\titem_id:token\trating:float\ttimestamp:float";

/// The ratings with the day in Shanghai at which each was given, as text that sorts like the time.
///
/// A timestamp without a zone would be taken as one of Shanghai, hence the step through `UTC`.
const RATINGS: &str = "
    CREATE VIEW ratings AS
    WITH times AS (
        SELECT *, to_timestamp(seconds) AS ts FROM ratings_file
    ), local_times AS (
        SELECT *, ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Shanghai' AS local_time FROM times
    )
    SELECT
        user_id,
        item_id,
        rating,
        ts,
        lpad(CAST(extract(YEAR FROM local_time) AS VARCHAR), 4, '0') AS year,
        lpad(CAST(extract(MONTH FROM local_time) AS VARCHAR), 2, '0') AS month,
        lpad(CAST(extract(DAY FROM local_time) AS VARCHAR), 2, '0') AS day
    FROM local_times";

/// Makes a file known as the view `ratings`.
///
/// # Errors
/// When the file cannot be read or its header is another one.
pub(crate) async fn register(ctx: &SessionContext, file: &Path) -> Result<()> {
    let shown = file.display();
    let file = file.canonicalize().map_err(|error| {
        DataFusionError::Execution(format!(
            "cannot read {shown}: {error}; run examples/fetch-movielens.sh, or name a file of ratings"
        ))
    })?;
    let mut header = String::new();
    BufReader::new(File::open(&file)?).read_line(&mut header)?;
    let header = header.trim_end_matches(['\r', '\n']);
    if header != HEADER {
        return exec_err!("the header of {shown} is {header:?}; expected {HEADER:?}");
    }

    let column = |name: &str, data_type| Field::new(name, data_type, true);
    let schema = Schema::new(vec![
        column("user_id", DataType::Int64),
        column("item_id", DataType::Int64),
        column("rating", DataType::Float64),
        column("seconds", DataType::Int64),
    ]);
    let options = CsvReadOptions::new()
        .schema(&schema)
        .delimiter(b'\t')
        .file_extension("");
    ctx.register_csv("ratings_file", file.to_string_lossy(), options)
        .await?;
    ctx.sql(RATINGS).await?;
    Ok(())
}

/// Writes the view `ratings` as one directory for each day and returns the number of ratings.
///
/// # Errors
/// When a rating has no day: `COPY` would write it into a directory of a wrong name.
pub(crate) async fn lay_out(ctx: &SessionContext, lake: &Lake) -> Result<usize> {
    let undated = ctx
        .sql("SELECT * FROM ratings WHERE year IS NULL OR month IS NULL OR day IS NULL")
        .await?
        .count()
        .await?;
    if undated > 0 {
        return exec_err!("{undated} ratings have no timestamp, so there is no directory for them");
    }
    ctx.sql(&format!(
        "COPY (SELECT * FROM ratings) TO '{}' STORED AS PARQUET PARTITIONED BY (year, month, day)",
        lake.location(TREE)
    ))
    .await?
    .collect()
    .await?;
    ctx.table("ratings").await?.count().await
}
