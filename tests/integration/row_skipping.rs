//! What DataFusion's Parquet reader skips within files goes on to be skipped, and small files are read
//! without the effort.

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{FileKind, scan_metric};
use insta::assert_snapshot;

use crate::common::Fixture;

/// Of the Parquet writer, in its batches.
const ROWS_OF_A_PAGE: usize = 20 * 1024;

/// A partition with these many rows of 8 bytes, the `id` ascending from 1.
async fn fixture(rows: usize, pushdown_filters: bool) -> Fixture {
    let mut config = SessionConfig::new();
    config.options_mut().execution.parquet.pushdown_filters = pushdown_filters;
    let fixture = Fixture::with_config(config);
    let sql = format!("SELECT value AS id FROM generate_series(1, {rows})");
    fixture
        .put_query("t/p=1/f.parquet", FileKind::Parquet, &sql)
        .await;
    fixture.declare("", "PARQUET", "p", "").await.unwrap();
    fixture.run("CREATE TABLE d AS VALUES (7)").await.unwrap();
    fixture.take_requests();
    fixture
}

/// How many rows the scan returns.
async fn rows_read(fixture: &Fixture, sql: &str) -> usize {
    let (rows, plan) = fixture.analyze(sql).await;
    assert_eq!(rows, ["7"]);
    scan_metric(&plan, "output_rows")
}

const BY_VALUE: &str = "SELECT id FROM t WHERE id = 7";
const BY_JOIN: &str = "SELECT id FROM d JOIN t ON column1 = id";

#[tokio::test]
async fn pages_of_large_files_by_filters_and_by_joins() {
    let fixture = fixture(200_000, false).await;
    assert_eq!(rows_read(&fixture, BY_VALUE).await, ROWS_OF_A_PAGE);
    assert_eq!(rows_read(&fixture, BY_JOIN).await, ROWS_OF_A_PAGE);
}

#[tokio::test]
async fn files_below_a_mebibyte_without_the_filters_of_joins() {
    let fixture = fixture(100_000, false).await;
    assert_eq!(rows_read(&fixture, BY_VALUE).await, ROWS_OF_A_PAGE);
    assert_eq!(rows_read(&fixture, BY_JOIN).await, 100_000);
}

#[tokio::test]
async fn files_below_a_quarter_of_it_without_the_page_index_and_the_request_for_it() {
    let fixture = fixture(25_000, false).await;
    assert_eq!(rows_read(&fixture, BY_VALUE).await, 25_000);
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=1/f.parquet (bytes=4-246995)
    LIST /t/
    ");
}

/// The reader filters the rows itself, and needs all that it can get for that.
#[tokio::test]
async fn rows_are_filtered_while_reading_where_that_is_asked_for() {
    let fixture = fixture(25_000, true).await;
    assert_eq!(rows_read(&fixture, BY_VALUE).await, 1);
    assert_eq!(rows_read(&fixture, BY_JOIN).await, 1);
}
