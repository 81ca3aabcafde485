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

/// Writes the ratings as one directory for each day in Shanghai, which the table computes from their times (Alink's
/// `partitionsFormat`), and returns their number.
///
/// # Errors
/// When they cannot be written.
pub(crate) async fn lay_out(ctx: &SessionContext, lake: &Lake) -> Result<usize> {
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE laid_out (
             user_id BIGINT, item_id BIGINT, rating DOUBLE, ts TIMESTAMP, year VARCHAR, month VARCHAR, day VARCHAR
         )
         STORED AS PARQUET
         PARTITIONED BY (year, month, day)
         LOCATION '{}'
         OPTIONS (
             'connector' 'filesystem',
             'sink.partitions-format' 'year=yyyy/month=MM/day=dd',
             'sink.partitions-format.time-column' 'ts',
             'sink.partitions-format.time-zone' 'Asia/Shanghai'
         )",
        lake.location(TREE)
    ))
    .await?;
    ctx.sql(
        "INSERT INTO laid_out (user_id, item_id, rating, ts)
         SELECT user_id, item_id, rating, ts FROM ratings",
    )
    .await?
    .collect()
    .await?;
    ctx.table("laid_out").await?.count().await
}
