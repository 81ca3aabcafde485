//! Writing partitions: which partitions a statement replaces, what is left when it is interrupted, and its files.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::sorted_rows;
use futures::TryStreamExt;
use object_store::ObjectStore;

use crate::common::{Fixture, Step, assert_mentions, source};

pub(crate) const ALL: &str = "SELECT id, p, q FROM t";

/// The table `t` with the partition columns `p` and `q`, and the rows 1 in (1, a), 2 in (1, b) and 3 in (2, a).
pub(crate) async fn table(options: &str) -> Fixture {
    let fixture = Fixture::new();
    let options = format!("'has_header' 'true'{options}");
    let declared = fixture.declare("id BIGINT, p INT, q TEXT", "CSV", "p, q", &options);
    declared.await.unwrap();
    let rows = "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'a')";
    fixture.run(rows).await.unwrap();
    fixture
}

/// What is in the store.
pub(crate) async fn keys(fixture: &Fixture) -> Vec<String> {
    let objects: Vec<_> = fixture.lake.store().list(None).try_collect().await.unwrap();
    let mut keys: Vec<_> = objects.iter().map(|o| o.location.to_string()).collect();
    // The empty object that tells readers of the last statement that has replaced files.
    keys.retain(|key| !key.ends_with(".overwritten"));
    keys.sort();
    keys
}

pub(crate) async fn error(fixture: &Fixture, sql: &str, texts: &[&str]) {
    let error = fixture.run(sql).await.unwrap_err();
    assert_mentions(&error.strip_backtrace(), texts);
}

#[tokio::test]
async fn the_result_has_a_row_for_each_partition() {
    let fixture = table("").await;
    let sql = "INSERT INTO t SELECT * FROM t UNION ALL SELECT 4, 3, NULL";
    let written = fixture.rows(sql).await;
    let name = |row: &String| row.rsplitn(4, " | ").last().unwrap().to_owned();
    assert_eq!(
        written.iter().map(name).collect::<Vec<_>>(),
        [
            "p=1/q=a | memory://lake/t/p=1/q=a",
            "p=1/q=b | memory://lake/t/p=1/q=b",
            "p=2/q=a | memory://lake/t/p=2/q=a",
            "p=3/q=__HIVE_DEFAULT_PARTITION__ | memory://lake/t/p=3/q=__HIVE_DEFAULT_PARTITION__",
        ]
    );
    assert!(written[0].ends_with(" | 1 | 1 | 5"), "{written:?}");
    // `SessionContext::sql` returns the number of rows, as for any other table.
    let batches = fixture
        .ctx
        .sql("INSERT INTO t VALUES (9, 9, 'z')")
        .await
        .unwrap();
    assert_eq!(batches.schema().field(0).name(), "count");
    let plan = fixture.explain("INSERT OVERWRITE t SELECT * FROM t").await;
    assert_mentions(
        &plan,
        &[
            "PartitionedSinkExec: directories(",
            "by=[p, q]",
            "overwrite=dynamic",
        ],
    );
}

#[tokio::test]
async fn a_dynamic_overwrite_replaces_what_it_writes() {
    let fixture = table("").await;
    fixture
        .run("INSERT OVERWRITE t VALUES (7, 1, 'a'), (8, 5, 'x')")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(ALL).await,
        ["2 | 1 | b", "3 | 2 | a", "7 | 1 | a", "8 | 5 | x"]
    );
    fixture
        .run("INSERT OVERWRITE t PARTITION (p = 1, q) SELECT 9, 'b'")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(ALL).await,
        ["3 | 2 | a", "7 | 1 | a", "8 | 5 | x", "9 | 1 | b"]
    );
    // One whose values are all given is replaced by nothing, too.
    let nothing = "INSERT OVERWRITE t PARTITION (p = 1, q = 'b') SELECT 1 WHERE false";
    fixture.run(nothing).await.unwrap();
    fixture
        .run("INSERT OVERWRITE t SELECT 1, 2, 'a' WHERE false")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(ALL).await,
        ["3 | 2 | a", "7 | 1 | a", "8 | 5 | x"]
    );
    assert_eq!(keys(&fixture).await.len(), 3);
}

#[tokio::test]
async fn a_static_overwrite_replaces_all_that_partition_leaves() {
    let fixture = table(", 'sink.overwrite-mode' 'static'").await;
    fixture
        .run("INSERT OVERWRITE t PARTITION (p = 1, q) SELECT 7, 'c'")
        .await
        .unwrap();
    assert_eq!(fixture.rows(ALL).await, ["3 | 2 | a", "7 | 1 | c"]);
    fixture
        .run("INSERT OVERWRITE t SELECT 8, 8 + 0, 'x'")
        .await
        .unwrap();
    assert_eq!(fixture.rows(ALL).await, ["8 | 8 | x"]);
    fixture
        .run("INSERT OVERWRITE t SELECT 8, 8 + 0, 'x' WHERE false")
        .await
        .unwrap();
    assert_eq!(fixture.rows(ALL).await, Vec::<String>::new());
}

#[tokio::test]
async fn all_spellings_of_a_value_are_replaced() {
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", "'has_header' 'true'");
    declared.await.unwrap();
    fixture.put_ids("t/p=1/f.csv", &[1]).await;
    fixture.put_ids("t/p=01/f.csv", &[2]).await;
    fixture.put_ids("t/p=01/_hidden.csv", &[3]).await;
    fixture
        .run("INSERT OVERWRITE t VALUES (4, 1)")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["4"]);
    assert!(
        keys(&fixture)
            .await
            .contains(&"t/p=01/_hidden.csv".to_owned())
    );
}

#[tokio::test]
async fn columns_are_the_same_with_and_without_a_clause() {
    let fixture = table("").await;
    for (sql, row) in [
        (
            "INSERT INTO t PARTITION (p = 5, q = 'x') VALUES (11)",
            "11 | 5 | x",
        ),
        (
            "INSERT INTO t PARTITION (q = 'x', p) SELECT 12, 5",
            "12 | 5 | x",
        ),
        (
            "INSERT INTO t (id) PARTITION (p = 5, q = 'it''s') SELECT 13",
            "13 | 5 | it's",
        ),
        (
            "INSERT INTO TABLE t PARTITION (p, q) SELECT 14, 5, 'y'",
            "14 | 5 | y",
        ),
        (
            "INSERT INTO t PARTITION (p = 5, q = NULL) VALUES (15)",
            "15 | 5 | <null>",
        ),
    ] {
        fixture.run(sql).await.unwrap();
        let rows = fixture.rows(ALL).await;
        assert!(rows.iter().any(|found| found == row), "{sql}: {rows:?}");
    }
    for (sql, texts) in [
        (
            "INSERT INTO t PARTITION (p = 5) SELECT 1",
            ["leaves out a partition column", "p, q"],
        ),
        (
            "INSERT INTO t PARTITION (r = 5) SELECT 1",
            ["'r' is no partition column", "p, q"],
        ),
        (
            "INSERT INTO t PARTITION (p = 5, p = 6, q) SELECT 1, 'a'",
            ["'p' is twice", "table 't'"],
        ),
        (
            "INSERT INTO t PARTITION (p > 5, q) SELECT 1, 'a'",
            ["p > 5", "PARTITION (year = 2024, month)"],
        ),
        (
            "INSERT INTO t PARTITION (p = 'x', q = 'a') SELECT 1",
            ["column 'p'", "'x' is no value"],
        ),
        (
            "REPLACE INTO t VALUES (1, 1, 'a')",
            ["INSERT OVERWRITE", "keys"],
        ),
    ] {
        error(&fixture, sql, &texts).await;
    }
}

#[tokio::test]
async fn files_roll_by_rows_and_by_size() {
    for (format, option, files) in [
        ("CSV", "'sink.rolling-policy.row-count' '30'", 4),
        ("PARQUET", "'sink.rolling-policy.row-count' '50'", 2),
        ("PARQUET", "'sink.rolling-policy.row-count' '100'", 1),
        ("CSV", "'sink.rolling-policy.file-size' '64M'", 1),
    ] {
        let fixture = Fixture::new();
        fixture
            .declare("id BIGINT, p INT", format, "p", option)
            .await
            .unwrap();
        fixture
            .run("INSERT INTO t SELECT value, 1 FROM range(0, 100)")
            .await
            .unwrap();
        assert_eq!(
            fixture.rows("SELECT count(*), sum(id) FROM t").await,
            ["100 | 4950"]
        );
        assert_eq!(keys(&fixture).await.len(), files, "{format} {option}");
    }
}

#[tokio::test]
async fn formats_are_written_as_they_are_read() {
    for (format, options, extension) in [
        ("PARQUET", "", ".parquet"),
        ("PARQUET", "'parquet.compression' 'zstd(3)'", ".parquet"),
        ("CSV", "'has_header' 'true'", ".csv"),
        ("CSV", "'has_header' 'false', 'delimiter' ';'", ".csv"),
        (
            "CSV",
            "'has_header' 'true', 'compression' 'gzip'",
            ".csv.gz",
        ),
        ("TSV", "'has_header' 'true'", ".csv"),
        ("JSON", "", ".json"),
        ("JSON", "'compression' 'zstd'", ".json.zst"),
        ("ARROW", "", ".arrow"),
    ] {
        let fixture = Fixture::new();
        let columns = "id BIGINT, name TEXT, at TIMESTAMP, p INT";
        fixture
            .declare(columns, format, "p", options)
            .await
            .unwrap();
        let sql = "INSERT INTO t VALUES (1, 'a;b', TIMESTAMP '2024-06-01T12:00:00', 1), (2, NULL, NULL, NULL)";
        fixture.run(sql).await.unwrap();
        assert_eq!(
            fixture.rows("SELECT * FROM t").await,
            [
                "1 | a;b | 2024-06-01T12:00:00 | 1",
                "2 | <null> | <null> | <null>"
            ],
            "{format} {options}"
        );
        let keys = keys(&fixture).await;
        assert!(
            keys.iter().all(|key| key.ends_with(extension)),
            "{format} {options}: {keys:?}"
        );
    }
}

#[tokio::test]
async fn new_partitions_are_registered() {
    let fixture = Fixture::new();
    let options = "'has_header' 'true', 'partition.catalog' 'registered'";
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", options)
        .await
        .unwrap();
    let elsewhere = fixture.lake.location("elsewhere/");
    let add = format!("ALTER TABLE t ADD PARTITION (p = 2) LOCATION '{elsewhere}'");
    fixture.run(&add).await.unwrap();
    fixture
        .run("INSERT INTO t VALUES (1, 1), (2, 2)")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT id, p FROM t").await,
        ["1 | 1", "2 | 2"]
    );
    let keys = keys(&fixture).await;
    assert!(
        keys[0].starts_with("elsewhere/part-") && keys[1].starts_with("t/p=1/part-"),
        "{keys:?}"
    );
    fixture
        .run("INSERT OVERWRITE t VALUES (3, 2)")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT id, p FROM t").await,
        ["1 | 1", "3 | 2"]
    );
}

/// Nobody would know to which of the two a file belongs.
#[tokio::test]
async fn a_new_partition_is_not_written_into_another_one() {
    let fixture = Fixture::new();
    let options = "'has_header' 'true', 'partition.catalog' 'registered'";
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", options);
    declared.await.unwrap();
    let place = fixture.lake.location("t/p=1/");
    let add = format!("ALTER TABLE t ADD PARTITION (p = 2) LOCATION '{place}'");
    fixture.run(&add).await.unwrap();
    error(
        &fixture,
        "INSERT INTO t VALUES (1, 1)",
        &["'t/p=1'", "each needs one of its own"],
    )
    .await;
    fixture.run("INSERT INTO t VALUES (2, 2)").await.unwrap();
    assert_eq!(fixture.rows("SELECT id, p FROM t").await, ["2 | 2"]);
}

#[tokio::test]
async fn a_partition_that_the_table_leaves_out_is_not_written() {
    let fixture = Fixture::new();
    let options = "'partitions' 'p < 10'";
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", options)
        .await
        .unwrap();
    fixture.run("INSERT INTO t VALUES (1, 1)").await.unwrap();
    error(
        &fixture,
        "INSERT INTO t VALUES (2, 2), (20, 20)",
        &["(p = 20)", "'partitions'"],
    )
    .await;
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["1"]);
}

#[tokio::test]
async fn static_values_are_constants_of_any_text() {
    let fixture = table("").await;
    for (sql, row) in [
        // Two that are equal, and one that the query has too.
        (
            "INSERT INTO t PARTITION (p = 5, q = '5') SELECT 20",
            "20 | 5 | 5",
        ),
        (
            "INSERT INTO t PARTITION (p = NULL, q = NULL) SELECT 21",
            "21 | <null> | <null>",
        ),
        (
            "INSERT INTO t PARTITION (q = 'x', p) SELECT 22, length('x')",
            "22 | 1 | x",
        ),
        // Quotes and backslashes.
        (
            "INSERT INTO t PARTITION (p = 6, q = 'a''''b') SELECT 23",
            "23 | 6 | a''b",
        ),
        (
            r"INSERT INTO t PARTITION (p = 6, q = '\''') SELECT 24",
            r"24 | 6 | \'",
        ),
        (
            "INSERT INTO t PARTITION (p = 6, q = 'u') SELECT 25 UNION ALL SELECT 25",
            "25 | 6 | u",
        ),
        (
            "INSERT INTO t PARTITION (p = 6, q = 'w') WITH c AS (SELECT 26 AS x) SELECT x FROM c",
            "26 | 6 | w",
        ),
        (
            "INSERT INTO t (id) PARTITION (p, q) SELECT 27, 7, 'y'",
            "27 | 7 | y",
        ),
    ] {
        fixture.run(sql).await.unwrap();
        let rows = fixture.rows(ALL).await;
        assert!(rows.iter().any(|found| found == row), "{sql}: {rows:?}");
    }
    let analyze = "EXPLAIN ANALYZE INSERT OVERWRITE t PARTITION (p = 5, q) SELECT 1, 'a'";
    let before = fixture.rows(ALL).await;
    error(&fixture, analyze, &["EXPLAIN ANALYZE", "PARTITION (..)"]).await;
    assert_eq!(fixture.rows(ALL).await, before);
}

#[tokio::test]
async fn what_the_table_cannot_hold_is_an_error() {
    let fixture = Fixture::new();
    let columns = "id BIGINT NOT NULL, name TEXT, p INT";
    fixture.declare(columns, "PARQUET", "p", "").await.unwrap();
    error(
        &fixture,
        "INSERT INTO t VALUES (NULL, 'a', 1)",
        &["id", "null"],
    )
    .await;
    error(&fixture, "INSERT INTO t (name, p) VALUES ('a', 1)", &["id"]).await;
    let frame = fixture
        .ctx
        .sql("SELECT CAST(1 AS BIGINT) AS x, 'a' AS name, CAST(1 AS INT) AS p")
        .await;
    let written = frame.unwrap().write_table("t", Default::default()).await;
    assert_mentions(&written.unwrap_err().to_string(), &["'x'", "'id'"]);
    assert_eq!(keys(&fixture).await, Vec::<String>::new());

    let pattern = "'source.path.regex-pattern' '.*/mine-.*'";
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", pattern)
        .await
        .unwrap();
    let texts = ["nobody would read", "source.path.regex-pattern"];
    error(&fixture, "INSERT INTO t VALUES (1, 1)", &texts).await;
    fixture
        .declare("id BIGINT, p BYTEA", "CSV", "p", "")
        .await
        .unwrap();
    error(
        &fixture,
        "INSERT INTO t VALUES (1, X'6162')",
        &["'p' is binary"],
    )
    .await;
    assert_eq!(keys(&fixture).await, Vec::<String>::new());
}

#[tokio::test]
async fn files_keep_the_order_of_a_query() {
    let fixture = Fixture::new();
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", "'has_header' 'true'")
        .await
        .unwrap();
    for sql in [
        "INSERT INTO t SELECT value, 1 FROM range(0, 1000) ORDER BY value DESC",
        "INSERT INTO t PARTITION (p = 2) SELECT value FROM range(0, 1000) ORDER BY value DESC",
    ] {
        fixture.run(sql).await.unwrap();
    }
    for p in [1, 2] {
        let rows = fixture
            .ordered_rows(&format!("SELECT id FROM t WHERE p = {p}"))
            .await;
        let sorted: Vec<_> = (0..1000).rev().map(|id: i32| id.to_string()).collect();
        assert!(rows == sorted, "{p}: {:?} ..", &rows[..5]);
    }
}

/// On a local file system, where a file that is missing cannot be deleted: statements at the same time help each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_at_the_same_time_all_land() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("t")).unwrap();
    let context = SessionContext::new().with_partitioned();
    let create = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) LOCATION '{}' \
         OPTIONS ('connector' 'filesystem', 'has_header' 'true')",
        directory.path().join("t").display()
    );
    context.sql(&create).await.unwrap();
    let run = async |sql: String| -> Result<Vec<String>> {
        Ok(sorted_rows(&context.sql(&sql).await?.collect().await?))
    };
    for round in 0..5 {
        let inserts = (0..8).map(|writer| {
            let first = (round * 8 + writer) * 1000;
            run(format!(
                "INSERT INTO t SELECT {first} + value, value % 50 FROM range(0, 1000)"
            ))
        });
        for inserted in futures::future::join_all(inserts).await {
            assert_eq!(inserted.unwrap(), ["1000"]);
        }
    }
    let counts = "SELECT count(*), count(DISTINCT id) FROM t".to_owned();
    assert_eq!(run(counts).await.unwrap(), ["40000 | 40000"]);
    assert!(!directory.path().join("t/_commits").exists());
}

/// Whether a query has read rows that come while it runs cannot be known.
#[tokio::test]
async fn rows_that_come_while_partitions_are_replaced_are_a_conflict() {
    let fixture = table("").await;
    let rows = fixture
        .run("SELECT CAST(9 AS BIGINT) AS id, CAST(1 AS INT) AS p, 'a' AS q")
        .await;
    let rows = rows.unwrap().remove(0);
    let steps = vec![
        Step::Pause(Duration::from_secs(2)),
        Step::Rows(rows.clone()),
    ];
    let slow = source(&rows.schema(), vec![steps]);
    fixture.ctx.register_table("slow", slow).unwrap();
    let late = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.put_ids("t/p=1/q=a/late.csv", &[50]).await;
    };
    let (replaced, ()) = tokio::join!(fixture.run("INSERT OVERWRITE t SELECT * FROM slow"), late);
    let error = replaced.unwrap_err().strip_backtrace();
    assert_mentions(&error, &["conflict", "late.csv", "run it again"]);
    assert_eq!(
        fixture.rows(ALL).await,
        ["1 | 1 | a", "2 | 1 | b", "3 | 2 | a", "50 | 1 | a"]
    );
    let left = keys(&fixture).await;
    assert!(
        !left
            .iter()
            .any(|key| key.contains("pending") || key.contains("_commits")),
        "{left:?}"
    );
}

/// `WITH ORDER` sorts each file, whatever the order of the rows; Parquet files say so in their metadata.
#[tokio::test]
async fn files_are_sorted_as_the_table_says() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = SessionContext::new().with_partitioned();
    let create = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, name TEXT, p INT) STORED AS PARQUET PARTITIONED BY (p) WITH ORDER (name DESC, \
         id) LOCATION '{}' OPTIONS ('connector' 'filesystem', 'sink.rolling-policy.row-count' '2000')",
        directory.path().display()
    );
    ctx.sql(&create).await.unwrap();
    let insert = "INSERT INTO t SELECT (value * 7919) % 10007, CAST(value % 10 AS TEXT), value % 3 FROM range(0, 10000)";
    ctx.partitioned_sql(insert).await.unwrap();
    let mut rows = 0;
    let mut files = 0;
    for partition in 0..3 {
        let partition = directory.path().join(format!("p={partition}"));
        for file in std::fs::read_dir(partition).unwrap() {
            let path = file.unwrap().path();
            let file = std::fs::File::open(&path).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let sorting = reader.metadata().row_group(0).sorting_columns().unwrap();
            let sorting: Vec<_> = sorting
                .iter()
                .map(|c| (c.column_idx, c.descending))
                .collect();
            assert_eq!(sorting, [(1, true), (0, false)]);
            let frame = ctx.read_parquet(path.to_str().unwrap(), Default::default());
            let read = frame.await.unwrap().collect().await.unwrap();
            let read = concat_batches(&read[0].schema(), &read).unwrap();
            let names = cast(read.column(1), &DataType::Utf8).unwrap();
            let names = names.as_string::<i32>();
            let ids = read.column(0).as_primitive::<Int64Type>();
            let keys: Vec<_> = (0..read.num_rows())
                .map(|row| (Reverse(names.value(row)), ids.value(row)))
                .collect();
            assert!(keys.is_sorted(), "{path:?}");
            rows += keys.len();
            files += 1;
        }
    }
    assert_eq!((rows, files), (10_000, 6));
    let read = ctx.sql("SELECT count(DISTINCT id) FROM t").await.unwrap();
    assert_eq!(sorted_rows(&read.collect().await.unwrap()), ["10000"]);
}

/// Partition columns that are in the files too do not count when they are read.
#[tokio::test]
async fn partition_columns_are_kept_in_files_on_request() {
    for (options, columns) in [("", 1), (", 'sink.keep-partition-columns' 'true'", 3)] {
        let directory = tempfile::tempdir().unwrap();
        let ctx = SessionContext::new().with_partitioned();
        let create = format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, p INT, q TEXT) STORED AS PARQUET PARTITIONED BY (p, q) LOCATION '{}' \
             OPTIONS ('connector' 'filesystem', 'sink.max-open-partitions' '1'{options})",
            directory.path().display()
        );
        ctx.sql(&create).await.unwrap();
        let insert = "INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, 'b'), (3, 1, 'a'), (4, 2, NULL)";
        ctx.partitioned_sql(insert).await.unwrap();
        for partition in ["p=1/q=a", "p=__HIVE_DEFAULT_PARTITION__/q=b"] {
            let path = directory.path().join(partition);
            let frame = ctx.read_parquet(path.to_str().unwrap(), Default::default());
            let file = frame.await.unwrap();
            assert_eq!(file.schema().fields().len(), columns, "{partition}");
        }
        let read = ctx
            .sql("SELECT * FROM t WHERE p = 1 OR q = 'b' OR q IS NULL")
            .await;
        let read = read.unwrap().collect().await.unwrap();
        assert_eq!(
            sorted_rows(&read),
            ["1 | 1 | a", "2 | <null> | b", "3 | 1 | a", "4 | 2 | <null>"]
        );
    }
}

/// More partitions than can be open, in memory and when that does not suffice, give the same files.
#[tokio::test]
async fn rows_beyond_the_open_partitions_are_kept_in_memory_or_sorted() {
    let insert = "INSERT INTO t SELECT value, CASE WHEN value % 5 = 0 THEN NULL ELSE repeat('x', 50) END, value % 97 \
                  FROM range(0, 60000)";
    let expected = "60000 | 97 | 12000 | 1799970000";
    for (pool, streams) in [
        (None, 1),
        (None, 4),
        (Some(40 << 20), 1),
        (Some(40 << 20), 3),
    ] {
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(bytes) = pool {
            runtime = runtime.with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
        }
        let mut config = SessionConfig::new().with_target_partitions(streams);
        config.options_mut().execution.sort_spill_reservation_bytes = 1 << 20;
        let fixture = Fixture::with_runtime(config, runtime);
        let options = "'sink.max-open-partitions' '3'";
        let declared = fixture.declare("id BIGINT, q TEXT, p BIGINT", "JSON", "p", options);
        declared.await.unwrap();
        let written = fixture.rows(insert).await;
        assert_eq!(written.len(), 97, "{pool:?} {streams}");
        assert!(
            written
                .iter()
                .all(|row| row.split(" | ").nth(3) == Some("1"))
        );
        let summary =
            "SELECT count(*), count(DISTINCT p), count(*) FILTER (WHERE q IS NULL), sum(id) FROM t";
        assert_eq!(
            fixture.rows(summary).await,
            [expected],
            "{pool:?} {streams}"
        );
    }
}
