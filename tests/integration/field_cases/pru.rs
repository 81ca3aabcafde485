//! PRU: pruning that does not happen or costs too much.

use std::fmt::Write;
use std::time::{Duration, Instant};

use datafusion_partitioned_test_utils::scan_metric;

use super::{Case, Sessions, Table};

/// A tree of files with one row each, whose `id` counts them from 1. They are JSON, which takes
/// least time to open.
fn tree(directories: impl IntoIterator<Item = String>) -> Case {
    let mut case = Case::new();
    for (id, directory) in (1..).zip(directories) {
        case = case.bytes(&format!("{directory}/f.json"), format!("{{\"id\":{id}}}\n"));
    }
    case
}

fn json(name: &'static str, columns: &str, partitioned_by: &str) -> Table {
    Table::new(name, columns, partitioned_by).stored_as("JSON")
}

/// The planner casts one side of a comparison, and partitions are chosen all the same
/// (delta-io/delta-rs #3278, apache/iceberg #12491, pola-rs/polars #17045).
#[tokio::test]
async fn pru_01_literal_of_another_type() {
    let case = tree((1..=1000).map(|day| format!("T/day={day}")))
        .table(json("t", "id BIGINT, day INT", "day"))
        .table(json("s", "id BIGINT, day TEXT", "day"))
        .open_broken()
        .await;
    let filters = [
        "day = '7'",
        "day = 7.0",
        "CAST(day AS BIGINT) = 7",
        "CAST(day AS TEXT) = '7'",
    ];
    case.prunes("t", &filters.map(|filter| (filter, 1, 1)))
        .await;
    let (_, plan) = case
        .default()
        .run("SELECT id FROM t WHERE day = '7'")
        .await
        .unwrap();
    assert_eq!(scan_metric(&plan, "partitions_pruned_static"), 999);
    let filters = [
        "day = 7",
        "CAST(day AS INT) = 7",
        "CAST(day AS INT) BETWEEN 7 AND 7",
    ];
    case.prunes("s", &filters.map(|filter| (filter, 1, 1)))
        .await;
}

/// A partition is a row of constants: any deterministic expression over them can be evaluated
/// (pola-rs/polars #13358, duckdb/duckdb #4330, apache/hive #916, apache/flink #10704).
#[tokio::test]
async fn pru_02_any_expression_over_partition_columns() {
    let lengths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days: Vec<String> = (1..)
        .zip(lengths)
        .flat_map(|(month, days)| (1..=days).map(move |day| format!("2024-{month:02}-{day:02}")))
        .collect();
    let all_but_two: Vec<_> = days[2..].iter().map(|day| format!("'{day}'")).collect();
    let not_in = format!("d NOT IN ({})", all_but_two.join(", "));
    let case = tree(days.iter().map(|day| format!("T/d={day}")))
        .table(json("t", "id BIGINT, d DATE", "d"))
        .open()
        .await;
    let filters = [
        ("d IN ('2024-02-01', '2024-02-02')", 2),
        (&not_in, 2),
        ("d = '2024-02-01' OR d = '2024-02-02'", 2),
        ("NOT (d < '2024-12-30')", 2),
        ("CAST(d AS TEXT) LIKE '2024-02-0%'", 9),
        ("extract(month FROM d) = 2", 29),
        ("date_trunc('month', d) = '2024-02-01'", 29),
        ("d BETWEEN '2024-02-01' AND '2024-02-02'", 2),
        (
            "CAST(CAST(d AS TIMESTAMP) AT TIME ZONE 'Asia/Tokyo' AS DATE) = '2024-02-01'",
            1,
        ),
    ];
    case.prunes("t", &filters.map(|(filter, files)| (filter, files, files)))
        .await;
}

/// A conjunct that says nothing about partitions leaves the others as they are
/// (pola-rs/polars #21706, duckdb/duckdb #12585).
#[tokio::test]
async fn pru_03_a_predicate_on_data_does_not_switch_pruning_off() {
    let mut case = Case::new();
    for p in 1..=100 {
        let rows = rows!(("id", Int64, [p]), ("name", Utf8, ["x"]));
        case = case.parquet(&format!("T/p={p}/f.parquet"), rows);
    }
    let case = case
        .table(Table::new("t", "id BIGINT, name TEXT, p INT", "p"))
        .open()
        .await;
    case.prunes(
        "t",
        &[
            ("p = 5 AND name LIKE '%x%'", 1, 1),
            ("p = 4 AND upper(name) = 'X' AND id % 2 = 0", 1, 1),
            ("p = 5 AND upper(name) = 'X' AND id % 2 = 0", 0, 1),
            ("p = 5 AND name NOT IN ('a', 'b')", 1, 1),
            ("p = 5 AND random() < 2", 1, 1),
        ],
    )
    .await;
}

/// From `(p = 1 AND x > 5) OR (p = 2 AND x < 3)` follows `p IN (1, 2)` (duckdb/duckdb #23748).
#[tokio::test]
async fn pru_04_partition_condition_hidden_in_an_or() {
    let mut case = Case::new();
    for p in 1..=50 {
        let rows = rows!(("x", Int32, [1, 9]));
        case = case.parquet(&format!("T/p={p}/f.parquet"), rows);
    }
    let case = case
        .table(Table::new("t", "x INT, p INT", "p"))
        .open()
        .await;
    let hidden = "(p = 1 AND x > 5) OR (p = 2 AND x < 3)";
    case.rows(&format!("SELECT count(*) FROM t WHERE {hidden}"), &["2"])
        .await;
    case.files(
        &format!("SELECT p, x FROM t WHERE {hidden}"),
        &["1 | 9", "2 | 1"],
        2,
    )
    .await;
    let open = "p = 1 OR x > 100";
    case.rows(&format!("SELECT count(*) FROM t WHERE {open}"), &["2"])
        .await;
    case.files(
        &format!("SELECT p, x FROM t WHERE {open}"),
        &["1 | 1", "1 | 9"],
        50,
    )
    .await;
}

/// One condition, written in different ways (pola-rs/polars #13107).
#[tokio::test]
async fn pru_05_different_ways_to_write_a_condition() {
    let directories = (0..1000).map(|n| format!("T/a={}/b={}", n / 10, n % 10));
    let case = tree(directories)
        .table(json("t", "id BIGINT, a INT, b INT", "a, b"))
        .statement("CREATE VIEW w AS SELECT id, a, b FROM t WHERE a = 10")
        .statement("PREPARE q AS SELECT id FROM t WHERE a = $1 AND b = $2")
        .open_broken()
        .await;
    for query in [
        "SELECT id FROM t WHERE a = 10 AND b = 2",
        "SELECT id FROM (SELECT * FROM t WHERE a = 10) WHERE b = 2",
        "WITH v AS (SELECT * FROM t) SELECT id FROM v WHERE a = 10 AND b = 2",
        "SELECT id FROM w WHERE b = 2",
        "EXECUTE q(10, 2)",
        "SELECT id FROM t WHERE (a, b) IN ((10, 2))",
        "SELECT id FROM t WHERE b = 2 AND 10 = a",
    ] {
        case.files(query, &["103"], 1).await;
    }
}

/// A file of a partition that is not wanted is not touched: here it would fail
/// (duckdb/duckdb #12741, duckdb/duckdb-delta #165).
#[tokio::test]
async fn pru_07_files_that_are_pruned_are_not_opened() {
    let mut case = Case::new().ids("T/p=7/f.parquet", &[1]);
    for p in (1..=500).filter(|p| *p != 7) {
        case = case.bytes(&format!("T/p={p}/f.parquet"), "this is no Parquet file");
    }
    let case = case
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .open_broken()
        .await;
    // Without pruning all of them are opened.
    case.rows_where_pruned("SELECT count(*) FROM t WHERE p = 7", &["1"])
        .await;
    case.rows_where_pruned("SELECT id FROM t WHERE p = 7", &["1"])
        .await;
    case.fails_where_not_pruned("SELECT id FROM t WHERE p = 7", &["Parquet"])
        .await;
    let requests = case.requests("SELECT count(*) FROM t WHERE p = 7").await;
    let others: Vec<_> = requests
        .iter()
        .filter(|request| request.contains("/p=") && !request.contains("/p=7/"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    case.fails("SELECT id FROM t", &["Parquet"]).await;
}

async fn two_thousand_partitions() -> Sessions {
    tree((1..=2000).map(|p| format!("T/p={p}")))
        .table(json("t", "id BIGINT, p INT", "p"))
        .open_broken()
        .await
}

/// Asks for three partitions of [`two_thousand_partitions`], which by default takes below a second.
async fn finds_three(case: &Sessions, filter: &str) {
    let query = format!("SELECT id FROM t WHERE {filter}");
    case.files(&query, &["1999", "5", "500"], 3).await;
    // Without optimizations everything takes several times as long.
    let limit = if cfg!(debug_assertions) { 20 } else { 1 };
    let start = Instant::now();
    case.default().run(&query).await.unwrap();
    let taken = start.elapsed();
    assert!(taken < Duration::from_secs(limit), "{taken:?}");
}

/// Filters that programs write take no quadratic time (apache/spark #20988 and #31646).
#[tokio::test]
async fn pru_08_very_long_in_list() {
    let case = two_thousand_partitions().await;
    let mut filter = String::from("p IN (5, 500, 1999");
    for value in 0..20_000 - 3 {
        write!(filter, ", {}", 100_000 + value).unwrap();
    }
    finds_three(&case, &format!("{filter})")).await;
}

/// The same as a chain, which must not overflow the stack either.
#[tokio::test]
async fn pru_08_very_long_or_chain() {
    let case = two_thousand_partitions().await;
    let mut filter = String::from("p = 5 OR p = 500 OR p = 1999");
    for value in 0..5_000 - 3 {
        write!(filter, " OR p = {}", 100_000 + value).unwrap();
    }
    finds_three(&case, &filter).await;
}
