//! TYP: types of partition values, declared and inferred.

use super::{Case, Table};

/// The value is 6, the directory says `06`: a path comes from the listing, never from the value
/// (prestodb/presto #2233, StarRocks/starrocks #28941).
#[tokio::test]
async fn typ_01_zero_padded_integers() {
    let case = Case::new()
        .ids("T/day=06/hour=00/f.parquet", &[1])
        .ids("T/day=06/hour=01/f.parquet", &[2])
        .table(Table::new("t", "id BIGINT, day INT, hour INT", "day, hour"))
        .open()
        .await;
    let query = "SELECT id, day, hour FROM t ORDER BY id";
    case.ordered(query, &["1 | 6 | 0", "2 | 6 | 1"]).await;
    let query = "SELECT id FROM t WHERE day = 6 AND hour = 0";
    case.files(query, &["1"], 1).await;
}

/// A column declared as text passes through no number (apache/iceberg #6779, apache/spark #15951).
#[tokio::test]
async fn typ_03_text_keeps_its_zeros() {
    let case = Case::new()
        .ids("T/zip=00501/f.parquet", &[1])
        .ids("T/zip=501/f.parquet", &[2])
        .table(Table::new("t", "id BIGINT, zip TEXT", "zip"))
        .open()
        .await;
    case.ordered(
        "SELECT id, zip FROM t ORDER BY id",
        &["1 | 00501", "2 | 501"],
    )
    .await;
    case.files("SELECT id FROM t WHERE zip = '00501'", &["1"], 1)
        .await;
}

/// The type of a column is inferred from all directories, in whatever order they are listed
/// (duckdb/duckdb #11636).
#[tokio::test]
async fn typ_04_inference_looks_at_all_directories() {
    for case in [Case::new(), Case::listed_backwards()] {
        let case = case
            .ids("T/k=123/f.parquet", &[1])
            .ids("T/k=abc/f.parquet", &[2])
            .table(Table::new("t", "id BIGINT", "k"))
            .open()
            .await;
        case.rows("SELECT count(*) FROM t", &["2"]).await;
        case.ordered("SELECT id, k FROM t ORDER BY id", &["1 | 123", "2 | abc"])
            .await;
        case.files("SELECT id FROM t WHERE k = 'abc'", &["2"], 1)
            .await;
        case.ordered("DESCRIBE t", &["id | Int64 | YES", "k | Utf8View | YES"])
            .await;
    }
}

/// What only begins like a date is text and keeps its value (apache/spark #20621).
#[tokio::test]
async fn typ_06_looks_like_a_date_but_is_not() {
    let case = Case::new()
        .ids("T/h=2018-01-01-04/f.parquet", &[1])
        .ids("T/h=2018-01-02-05/f.parquet", &[2])
        .table(Table::new("t", "id BIGINT", "h"))
        .open()
        .await;
    case.rows("SELECT h FROM t", &["2018-01-01-04", "2018-01-02-05"])
        .await;
    case.ordered("DESCRIBE t", &["id | Int64 | YES", "h | Utf8View | YES"])
        .await;
    case.rows("SELECT count(*) FROM t WHERE h IS NULL", &["0"])
        .await;
    case.files("SELECT id FROM t WHERE h = '2018-01-01-04'", &["1"], 1)
        .await;
}

/// Decimals are equal by value, whatever the digits of path and literal (apache/iceberg #7882,
/// apache/hive #5953).
#[tokio::test]
async fn typ_08_decimals_and_trailing_zeros() {
    let case = Case::new()
        .ids("T/price=1.10/f.parquet", &[1])
        .ids("T/price=1.1/f.parquet", &[2])
        .ids("T/price=1.15/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, price DECIMAL(5,2)", "price"))
        .open()
        .await;
    case.rows("SELECT count(*) FROM t WHERE price = 1.1", &["2"])
        .await;
    let query = "SELECT count(*) FROM t WHERE price IN (1.1000, 9)";
    case.rows(query, &["2"]).await;
    let query = "SELECT id FROM t WHERE price IN (1.1000, 9)";
    case.files(query, &["1", "2"], 2).await;
    let query = "SELECT price, count(*) FROM t GROUP BY price";
    case.rows(query, &["1.10 | 2", "1.15 | 1"]).await;
    let query = "SELECT count(*) FROM t \
                 JOIN (VALUES (CAST(1.1 AS DECIMAL(9,4)))) v(x) ON t.price = v.x";
    case.rows(query, &["2"]).await;
}

/// A TIMESTAMP without a zone is wall-clock time in every session zone
/// (facebookincubator/velox #12368, ClickHouse/ClickHouse #86654).
#[tokio::test]
async fn typ_09_timestamps_ignore_the_time_zone_of_the_session() {
    for zone in ["Europe/Berlin", "UTC", "America/Los_Angeles"] {
        let case = Case::new()
            .ids("T/ts=2024-03-31 02%3A30%3A00/f.parquet", &[1])
            .ids("T/ts=2024-03-31 23%3A30%3A00/f.parquet", &[2])
            .table(Table::new("t", "id BIGINT, ts TIMESTAMP", "ts"))
            .statement(format!("SET TIME ZONE = '{zone}'"))
            .open()
            .await;
        let expected = ["1 | 2024-03-31T02:30:00", "2 | 2024-03-31T23:30:00"];
        case.ordered("SELECT id, ts FROM t ORDER BY id", &expected)
            .await;
        let query = "SELECT id FROM t WHERE ts >= TIMESTAMP '2024-03-31 00:00:00' \
                     AND ts < TIMESTAMP '2024-04-01 00:00:00' ORDER BY id";
        case.ordered(query, &["1", "2"]).await;
        let query = "SELECT id FROM t WHERE ts >= TIMESTAMP '2024-03-31 12:00:00'";
        case.files(query, &["2"], 1).await;
    }
}

/// A blank or a `T`, a fraction, a `Z`, a date alone: all are one time (delta-io/delta #6034).
#[tokio::test]
async fn typ_10_several_spellings_of_a_timestamp() {
    let case = Case::new()
        .ids("T/ts=2024-01-15 00%3A00%3A00/f.parquet", &[1])
        .ids("T/ts=2024-01-15T00%3A00%3A00/f.parquet", &[2])
        .ids("T/ts=2024-01-15T00%3A00%3A00.000000Z/f.parquet", &[3])
        .ids("T/ts=2024-01-15/f.parquet", &[4])
        .table(Table::new("t", "id BIGINT, ts TIMESTAMP", "ts"))
        .open()
        .await;
    let query = "SELECT count(*) FROM t WHERE ts = TIMESTAMP '2024-01-15 00:00:00'";
    case.rows(query, &["4"]).await;
}

fn one_bad_directory() -> Case {
    Case::new()
        .ids("T/year=2023/f.parquet", &[1])
        .ids("T/year=oops/f.parquet", &[2])
}

/// A directory whose text is not of the column's type is an error that names column, text and path,
/// also for a query that wants other partitions (apache/datafusion #18083, duckdb/duckdb #11636).
#[tokio::test]
async fn typ_11_text_that_does_not_fit_the_type_is_an_error() {
    let case = one_bad_directory()
        .table(Table::new("t", "id BIGINT, year INT", "year"))
        .open_broken()
        .await;
    let texts = ["'year'", "'oops'", "T/year=oops"];
    for query in [
        "SELECT count(*) FROM t",
        "SELECT id FROM t WHERE year = 2023",
    ] {
        for error in case.fails(query, &texts).await {
            assert!(!error.contains("Cast error"), "{error}");
        }
    }
}

/// The lenient ways, by an option of the table: the value is NULL, or its directory is left out.
#[tokio::test]
async fn typ_11_text_that_does_not_fit_the_type_by_the_option() {
    for (on_mismatch, count, null_count) in [("null", "2", "1"), ("skip", "1", "0")] {
        let table = Table::new("t", "id BIGINT, year INT", "year");
        let case = one_bad_directory()
            .table(table.option("partition.on-mismatch", on_mismatch))
            .open()
            .await;
        case.rows("SELECT count(*) FROM t", &[count]).await;
        case.files("SELECT id FROM t WHERE year = 2023", &["1"], 1)
            .await;
        let query = "SELECT count(*) FROM t WHERE year IS NULL";
        case.rows(query, &[null_count]).await;
    }
}
