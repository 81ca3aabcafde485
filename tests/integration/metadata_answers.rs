//! Aggregates over partition columns, answered without reading more than a row of each value.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion_partitioned_test_utils::{FileKind, RequestKind, scan_metric, sorted_rows};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::{Fixture, NULL, property_config, random_files, random_table};

pub(crate) const SWITCH: &str = "partitioned.metadata_answers";

/// Rows of the column `id`.
pub(crate) fn ids(rows: i64) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    let column = Arc::new((0..rows).collect::<Int64Array>());
    RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
}

/// Partitions of Parquet files: (2023, 1), (2023, 12), (2024, 1), (2024, NULL), (NULL, 3), and around
/// them directories and files without rows that would be the smallest and the largest.
async fn odd_lake(streams: usize) -> Fixture {
    let fixture = Fixture::with_streams(streams);
    let put = |key: String, rows: i64| {
        let fixture = &fixture;
        async move {
            fixture
                .lake
                .put(&key, FileKind::Parquet, &ids(rows))
                .await
                .unwrap()
        }
    };
    for (year, month) in [
        ("2023", "1"),
        ("2023", "12"),
        ("2024", "1"),
        ("2024", NULL),
        (NULL, "3"),
    ] {
        put(format!("t/year={year}/month={month}/a.parquet"), 0).await;
        put(format!("t/year={year}/month={month}/b.parquet"), 3).await;
        put(format!("t/year={year}/month={month}/c.parquet"), 2).await;
    }
    put("t/year=2030/month=99/a.parquet".to_owned(), 0).await;
    put("t/year=1000/month=-5/a.parquet".to_owned(), 0).await;
    for key in [
        "t/year=2031/month=1/a.parquet",
        "t/year=2032/month=1/_SUCCESS",
    ] {
        fixture.lake.put_text(key, "").await.unwrap();
    }
    fixture
        .lake
        .put_text("t/year=2033/_tmp/a.parquet", "PAR1")
        .await
        .unwrap();
    let columns = "id BIGINT, year INT, month INT";
    let declared = fixture.declare(columns, "PARQUET", "year, month", "");
    declared.await.unwrap();
    fixture
}

#[tokio::test]
async fn values_come_from_rows_and_never_from_names() {
    for streams in [1, 3, 16] {
        let fixture = odd_lake(streams).await;
        for stealing in [true, false] {
            let key = "datafusion.execution.enable_file_stream_work_stealing";
            fixture.set(key, stealing).await;
            for (sql, expected) in [
                ("SELECT max(year), min(year) FROM t", vec!["2024 | 2023"]),
                (
                    "SELECT max(month), min(month), max(year) FROM t",
                    vec!["12 | 1 | 2024"],
                ),
                (
                    "SELECT max(year + 1), min(-month) FROM t",
                    vec!["2025 | -12"],
                ),
                (
                    "SELECT DISTINCT year FROM t",
                    vec!["2023", "2024", "<null>"],
                ),
                (
                    "SELECT count(DISTINCT year), count(DISTINCT month) FROM t",
                    vec!["2 | 3"],
                ),
                (
                    "SELECT DISTINCT year, month FROM t",
                    vec![
                        "2023 | 1",
                        "2023 | 12",
                        "2024 | 1",
                        "2024 | <null>",
                        "<null> | 3",
                    ],
                ),
                (
                    "SELECT y FROM (SELECT year / 2 AS y, month FROM t) GROUP BY y",
                    vec!["1011", "1012", "<null>"],
                ),
                (
                    "SELECT year, max(month) FROM t GROUP BY year HAVING max(month) > 1",
                    vec!["2023 | 12", "<null> | 3"],
                ),
                (
                    "SELECT max(month) FILTER (WHERE year = 2024), bool_or(year = 2023) FROM t",
                    vec!["1 | true"],
                ),
                (
                    "SELECT year, sum(DISTINCT month) FROM t GROUP BY year",
                    vec!["2023 | 13", "2024 | 1", "<null> | 3"],
                ),
                ("SELECT max(year) FROM t WHERE year > 2024", vec!["<null>"]),
                ("SELECT max(year) FROM t WHERE year IS NULL", vec!["<null>"]),
                ("SELECT max(year) FROM t WHERE id = 7", vec!["<null>"]),
                ("SELECT max(year), count(*) FROM t", vec!["2024 | 25"]),
                ("SELECT max(year), max(id) FROM t", vec!["2024 | 2"]),
                (
                    "SELECT year, count(*) FROM t GROUP BY year",
                    vec!["2023 | 10", "2024 | 10", "<null> | 5"],
                ),
                (
                    "SELECT count(*) FROM (SELECT DISTINCT year FROM t LIMIT 2)",
                    vec!["2"],
                ),
                (
                    "SELECT count(*) FROM (SELECT DISTINCT year FROM t LIMIT 200)",
                    vec!["3"],
                ),
                (
                    "SELECT max(year) FROM (SELECT year FROM t UNION ALL SELECT id FROM t)",
                    vec!["2024"],
                ),
                (
                    "SELECT id FROM t WHERE year = (SELECT max(year) FROM t) AND month = 1",
                    vec!["0", "0", "1", "1", "2"],
                ),
                (
                    "SELECT a.year FROM (SELECT DISTINCT year FROM t) a JOIN t b ON a.year = b.year - 1 GROUP BY a.year",
                    vec!["2023"],
                ),
                (
                    "SELECT year, month, grouping(month) FROM t WHERE year = 2023 GROUP BY ROLLUP (year, month)",
                    vec![
                        "2023 | 1 | 0",
                        "2023 | 12 | 0",
                        "2023 | <null> | 1",
                        "<null> | <null> | 1",
                    ],
                ),
            ] {
                for on in [true, false] {
                    fixture.set(SWITCH, on).await;
                    assert_eq!(
                        fixture.rows(sql).await,
                        expected,
                        "{sql}, {streams} streams, {on}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn the_plan_shows_what_is_needed() {
    let fixture = odd_lake(2).await;
    let scan = |sql: &'static str| {
        let fixture = &fixture;
        async move {
            let plan = fixture.explain(sql).await;
            let line = plan
                .lines()
                .find(|line| line.contains("rows_needed"))
                .map(str::trim);
            line.unwrap_or("all rows").trim().to_owned()
        }
    };
    insta::assert_snapshot!(scan("SELECT max(year), min(month) FROM t").await, @"DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], rows_needed=[largest year, smallest month], projection=[year, month], file_type=parquet");
    insta::assert_snapshot!(scan("SELECT count(DISTINCT month) FROM t").await, @"DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], rows_needed=one of each [month], projection=[month], file_type=parquet");
    insta::assert_snapshot!(scan("SELECT year + month FROM t GROUP BY year + month").await, @"DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], rows_needed=one of each [year, month], projection=[year, month], file_type=parquet");
    for sql in [
        "SELECT count(year) FROM t",
        "SELECT sum(year) FROM t",
        "SELECT max(year + id) FROM t",
        "SELECT year, count(*) FROM t GROUP BY year",
        "SELECT max(year) FILTER (WHERE id > 1) FROM t",
        "SELECT max(year) FROM (SELECT year FROM t LIMIT 5)",
        "SELECT max(year + random()) FROM t",
    ] {
        assert_eq!(scan(sql).await, "all rows", "{sql}");
    }
}

#[tokio::test]
async fn the_largest_value_is_proven_by_one_file() {
    let fixture = odd_lake(3).await;
    assert_eq!(
        fixture
            .rows("SELECT max(month) FROM t WHERE year = 2023")
            .await,
        ["12"]
    );
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/year=2023/month=12/a.parquet (bytes=0-270)
    GET /t/year=2023/month=12/b.parquet (bytes=0-504)
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=12/
    ");
}

#[tokio::test]
async fn ten_thousand_partitions_open_one_file_for_each_value() {
    let fixture = Fixture::with_streams(4);
    for p in 0..10_000_i64 {
        let key = format!("t/p={p}/q={}/f.csv", p % 7);
        fixture.put_ids(&key, &[p, p]).await;
    }
    fixture.create("t", "p INT, q INT").await;
    for (sql, expected, opened) in [
        ("SELECT max(p) FROM t", "9999", 1),
        ("SELECT min(p), max(p) FROM t", "0 | 9999", 2),
        ("SELECT max(q) FROM t", "6", 1),
        ("SELECT count(DISTINCT q) FROM t", "7", 7),
        ("SELECT count(DISTINCT p) FROM t", "10000", 10_000),
        (
            "SELECT count(*) FROM (SELECT DISTINCT p FROM t)",
            "10000",
            10_000,
        ),
        ("SELECT count(*) FROM (SELECT DISTINCT q FROM t)", "7", 7),
    ] {
        fixture.requests.clear();
        let (rows, plan) = fixture.analyze(sql).await;
        assert_eq!(rows, [expected], "{sql}");
        assert_eq!(fixture.requests.count(RequestKind::Get), opened, "{sql}");
        assert_eq!(scan_metric(&plan, "files_scanned"), opened, "{sql}");
        assert!(
            fixture.requests.list_count() <= 2,
            "{sql}: {} LISTs",
            fixture.requests.list_count()
        );
    }
}

#[tokio::test]
async fn the_newest_partition_is_opened_first_and_its_files_are_listed_alone() {
    let fixture = Fixture::with_streams(4);
    for p in 0..300_i64 {
        for file in 0..3 {
            fixture.put_ids(&format!("t/p={p}/{file}.csv"), &[p]).await;
        }
    }
    fixture.create("t", "p INT").await;
    assert_eq!(fixture.rows("SELECT max(p) FROM t").await, ["299"]);
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=299/0.csv
    LIST /t/ (delimiter)
    LIST /t/p=299/
    ");
}

#[tokio::test]
async fn counts_of_parquet_files_read_their_footers_only() {
    let fixture = Fixture::with_streams(2);
    let rows = ids(200_000);
    for p in 1..=3 {
        let key = format!("t/p={p}/f.parquet");
        fixture
            .lake
            .put(&key, FileKind::Parquet, &rows)
            .await
            .unwrap();
    }
    let declared = fixture.declare("id BIGINT, p INT", "PARQUET", "p", "");
    declared.await.unwrap();
    for (sql, expected) in [
        ("SELECT count(*) FROM t", vec!["600000"]),
        (
            "SELECT p, count(*) FROM t GROUP BY p",
            vec!["1 | 200000", "2 | 200000", "3 | 200000"],
        ),
        (
            "SELECT count(p), sum(p) FROM t WHERE p < 3",
            vec!["400000 | 600000"],
        ),
    ] {
        let (rows, plan) = fixture.analyze(sql).await;
        assert_eq!(rows, expected);
        let bytes = scan_metric(&plan, "bytes_scanned");
        assert!(bytes <= 3 * 10_000, "{sql}: {bytes} bytes");
    }
}

#[tokio::test]
async fn an_aggregate_that_drops_rows_it_needs_is_not_believed() {
    // DataFusion forgets about `b` as long as it has been NULL, and drops what could change it.
    let fixture = Fixture::with_streams(2);
    for p in 100..160 {
        let q = if p < 130 {
            NULL.to_owned()
        } else {
            p.to_string()
        };
        let key = format!("t/p={p}/q={q}/f.parquet");
        fixture
            .lake
            .put(&key, FileKind::Parquet, &ids(2))
            .await
            .unwrap();
    }
    let declared = fixture.declare("id BIGINT, p INT, q INT", "PARQUET", "p, q", "");
    declared.await.unwrap();
    fixture.set(SWITCH, false).await;
    for (sql, expected) in [
        ("SELECT min(p), max(q) FROM t", "100 | 159"),
        ("SELECT min(p), max(p + q) FROM t", "100 | 318"),
        ("SELECT min(p), max(p) FROM t", "100 | 159"),
    ] {
        assert_eq!(fixture.rows(sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn options_of_the_table_count_for_what_is_read() {
    let fixture = Fixture::with_streams(2);
    for p in 1..=9 {
        fixture.put_ids(&format!("t/p={p}/new.csv"), &[p]).await;
    }
    fixture.put_ids("t/p=10/old.csv", &[10]).await;
    let create = |name: &str, option: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
             LOCATION '{}' OPTIONS ('connector' 'filesystem', {option})",
            fixture.lake.location("t/")
        )
    };
    let sql = create("few", "'partition.max' '2'");
    fixture.run(&sql).await.unwrap();
    for sql in [
        "SELECT min(p), max(p) FROM few",
        "SELECT p FROM few WHERE p > 8 GROUP BY p",
        "SELECT p FROM few ORDER BY p DESC LIMIT 2",
    ] {
        assert!(!fixture.rows(sql).await.is_empty(), "{sql}");
    }
    for sql in [
        "SELECT DISTINCT p FROM few",
        "SELECT p FROM few ORDER BY p LIMIT 3",
    ] {
        assert!(fixture.error(sql).await.contains("partition.max"), "{sql}");
    }
    let sql = create("chosen", "'source.path.regex-pattern' '.*/new[.]csv'");
    fixture.run(&sql).await.unwrap();
    assert_eq!(fixture.rows("SELECT max(p) FROM chosen").await, ["9"]);
    assert_eq!(
        fixture
            .rows("SELECT p FROM chosen ORDER BY p DESC LIMIT 1")
            .await,
        ["9"]
    );
    assert_eq!(
        fixture.rows("SELECT count(DISTINCT p) FROM chosen").await,
        ["9"]
    );
}

#[tokio::test]
async fn plans_are_prepared_and_executed_again() {
    let fixture = odd_lake(3).await;
    fixture
        .run("PREPARE newest AS SELECT max(month) FROM t WHERE year = $1")
        .await
        .unwrap();
    assert_eq!(fixture.rows("EXECUTE newest(2023)").await, ["12"]);
    assert_eq!(fixture.rows("EXECUTE newest(2024)").await, ["1"]);
    let mut plan = fixture
        .plan("SELECT count(DISTINCT month), max(year) FROM t")
        .await
        .unwrap();
    for _ in 0..3 {
        plan = reset_plan_states(plan).unwrap();
        let rows = collect(Arc::clone(&plan), fixture.ctx.task_ctx())
            .await
            .unwrap();
        assert_eq!(sorted_rows(&rows), ["3 | 2024"]);
    }
}

/// Random partitions, many of them without rows, and random aggregates.
#[test]
fn random_aggregates_are_those_of_all_rows() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let aggregate = proptest::sample::select(vec![
        "max(p)",
        "min(q)",
        "min(p), max(p), max(q)",
        "count(DISTINCT p)",
        "max(p + q), min(p)",
        "bool_and(p > 1), count(DISTINCT q)",
        "sum(DISTINCT q), max(p) FILTER (WHERE q > 0)",
        "approx_distinct(p)",
        "max(p), count(*)",
        "min(p % 2), count(DISTINCT p + q)",
    ]);
    let group = proptest::sample::select(vec!["", "p", "q", "p, q", "p % 2", "q IS NULL, p"]);
    let filter =
        proptest::sample::select(vec!["true", "p > 1", "q IS NOT NULL", "p <> q", "id > 0"]);
    let strategy = (
        random_files(),
        aggregate,
        group,
        filter,
        1..5_usize,
        any::<[bool; 3]>(),
    );
    let outcome = TestRunner::new(property_config(40)).run(
        &strategy,
        |(files, aggregate, group, filter, streams, [stealing, ordered, outer])| {
            runtime.block_on(async {
                let fixture = random_table(&files, streams, stealing).await;
                fixture.set("partitioned.ordered_scan", ordered).await;
                let group_by = if group.is_empty() {
                    String::new()
                } else {
                    format!("GROUP BY {group}")
                };
                let keys = if group.is_empty() { "1" } else { group };
                let mut sql =
                    format!("SELECT {keys}, {aggregate} FROM t WHERE {filter} {group_by}");
                if outer {
                    sql = format!("SELECT DISTINCT {keys} FROM t WHERE {filter}");
                }
                let on = fixture.rows(&sql).await;
                fixture.set(SWITCH, false).await;
                prop_assert_eq!(on, fixture.rows(&sql).await, "{}", sql);
                Ok(())
            })
        },
    );
    outcome.unwrap();
}
