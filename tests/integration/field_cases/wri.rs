//! Group WRI: writing partitions.

use std::sync::Arc;

use datafusion::arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionConfig;
use object_store::ObjectStoreExt;

use crate::common::{Fixture, assert_mentions};
use crate::writing::keys;

/// The directories in which there are files, in order.
async fn directories(fixture: &Fixture) -> Vec<String> {
    let keys = keys(fixture).await;
    let mut directories: Vec<_> = keys
        .iter()
        .map(|key| key.rsplit_once('/').unwrap().0.to_owned())
        .collect();
    directories.dedup();
    directories
}

async fn insert(fixture: &Fixture, sql: &str) -> Result<Vec<String>> {
    let batches = fixture.ctx.sql(sql).await?.collect().await?;
    Ok(datafusion_partitioned_test_utils::sorted_rows(&batches))
}

/// The table `source` with the rows of a batch.
fn give(fixture: &Fixture, batch: RecordBatch) {
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    fixture
        .ctx
        .register_table("source", Arc::new(table))
        .unwrap();
}

#[tokio::test]
async fn wri_01_awkward_values_come_back() {
    let long = "z".repeat(200);
    let values = [
        "a/b",
        "..",
        ".",
        "/",
        "a\\b",
        "a=b",
        "%",
        "%2F",
        "a b",
        " lead",
        "trail ",
        "tab\t",
        "new\nline",
        "#",
        "?",
        ":",
        "*",
        "\"",
        "'",
        "{x}",
        "[y]",
        "~",
        "+",
        "&",
        "é",
        "東",
        "🙂",
        "CON",
        "a.parquet",
        "_x",
        ".hid",
        "__HIVE_DEFAULT_PARTITION__",
        "NULL",
        "null",
        &long,
    ];
    for layout in ["hive", "directory"] {
        let fixture = Fixture::new();
        let options = format!("'partition.layout' '{layout}'");
        let declared = fixture.declare("id BIGINT, p TEXT", "PARQUET", "p", &options);
        declared.await.unwrap();
        let texts: StringArray = values.iter().copied().map(Some).chain([None]).collect();
        let ids: Int64Array = (0..texts.len() as i64).collect();
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("p", DataType::Utf8, true),
        ]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(texts)]);
        give(&fixture, batch.unwrap());
        let count = values.len() + 1;
        let inserted = insert(&fixture, "INSERT INTO t SELECT id, p FROM source").await;
        assert_eq!(inserted.unwrap(), [count.to_string()]);
        let keys = keys(&fixture).await;
        assert_eq!(keys.len(), count);
        assert!(keys.iter().all(|key| key.starts_with("t/")), "{keys:?}");

        let counts = fixture
            .rows("SELECT count(*), count(DISTINCT p) FROM t")
            .await;
        assert_eq!(counts, [format!("{count} | {}", count - 1)]);
        let same =
            "SELECT count(*) FROM t JOIN source s ON t.id = s.id AND t.p IS NOT DISTINCT FROM s.p";
        assert_eq!(fixture.rows(same).await, [count.to_string()]);
        for (id, value) in values.iter().enumerate() {
            let value = value.replace('\'', "''");
            let found = fixture
                .rows(&format!("SELECT id FROM t WHERE p = '{value}'"))
                .await;
            assert_eq!(found, [id.to_string()], "{layout}: {value:?}");
        }
        assert_eq!(
            fixture.rows("SELECT id FROM t WHERE p IS NULL").await,
            [values.len().to_string()]
        );
    }
}

#[tokio::test]
async fn wri_01_empty_text_is_refused_where_it_would_become_null() {
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p TEXT", "CSV", "p", "");
    declared.await.unwrap();
    let error = insert(&fixture, "INSERT INTO t VALUES (1, 'a'), (2, '')").await;
    assert_mentions(
        &error.unwrap_err().to_string(),
        &["partition column 'p'", "empty text", "nullif(p, '')"],
    );
    assert_eq!(keys(&fixture).await, Vec::<String>::new());
}

#[tokio::test]
async fn wri_03_values_that_differ_by_case_are_two() {
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p TEXT", "CSV", "p", "'has_header' 'true'");
    declared.await.unwrap();
    insert(&fixture, "INSERT INTO t VALUES (1, 'a'), (2, 'A')")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["2"]);
    assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 'A'").await, ["2"]);
}

#[tokio::test]
async fn wri_04_columns_are_those_of_the_table() {
    let fixture = Fixture::new();
    let declared = fixture.declare("p TEXT, id BIGINT, q INT, name TEXT", "PARQUET", "p, q", "");
    declared.await.unwrap();
    // The partition columns come last, as in SELECT *.
    insert(&fixture, "INSERT INTO t VALUES (1, 'n1', 'x', 7)")
        .await
        .unwrap();
    insert(&fixture, "INSERT INTO t SELECT 2, 'n2', 'y', 8")
        .await
        .unwrap();
    insert(
        &fixture,
        "INSERT INTO t (q, name, p, id) VALUES (9, 'n3', 'z', 3)",
    )
    .await
    .unwrap();
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        ["1 | n1 | x | 7", "2 | n2 | y | 8", "3 | n3 | z | 9"]
    );
    assert_eq!(
        directories(&fixture).await,
        ["t/p=x/q=7", "t/p=y/q=8", "t/p=z/q=9"]
    );
    for short in [
        "INSERT INTO t VALUES (1, 'n')",
        "INSERT INTO t (p, q) SELECT 1",
    ] {
        assert!(insert(&fixture, short).await.is_err(), "{short}");
    }
}

#[tokio::test]
async fn wri_06_values_of_every_type_come_back() {
    for (sql_type, values) in [
        ("TINYINT", vec!["-128", "127"]),
        ("SMALLINT", vec!["-32768", "7"]),
        ("INT", vec!["0", "-1"]),
        (
            "BIGINT",
            vec!["9223372036854775807", "-9223372036854775808"],
        ),
        ("TINYINT UNSIGNED", vec!["255", "0"]),
        ("BIGINT UNSIGNED", vec!["18446744073709551615", "1"]),
        ("FLOAT", vec!["0.1", "3.4e38"]),
        ("DOUBLE", vec!["0.1", "'-0.0'", "1e300", "'NaN'", "'inf'"]),
        ("DECIMAL(10, 4)", vec!["1.1", "-0.0001"]),
        ("BOOLEAN", vec!["true", "false"]),
        ("DATE", vec!["'0001-01-01'", "'9999-12-31'", "'1969-12-31'"]),
        (
            "TIMESTAMP(0)",
            vec!["'2024-06-01T12:34:56'", "'1969-12-31T23:59:59'"],
        ),
        (
            "TIMESTAMP(3)",
            vec!["'2024-06-01T12:34:56.789'", "'1969-12-31T23:59:59.001'"],
        ),
        ("TIMESTAMP(6)", vec!["'2024-06-01T12:34:56.789012'"]),
        (
            "TIMESTAMP",
            vec!["'2024-06-01T12:34:56.123456789'", "'1900-01-01T00:00:00'"],
        ),
        ("TEXT", vec!["'a'", "'07'"]),
    ] {
        let fixture = Fixture::new();
        let columns = format!("id BIGINT, p {sql_type}");
        fixture.declare(&columns, "PARQUET", "p", "").await.unwrap();
        fixture
            .run(&format!("CREATE TABLE source (id BIGINT, p {sql_type})"))
            .await
            .unwrap();
        for (id, value) in values.iter().enumerate() {
            let sql = format!("INSERT INTO source VALUES ({id}, {value})");
            insert(&fixture, &sql).await.unwrap();
        }
        insert(&fixture, "INSERT INTO source VALUES (99, NULL)")
            .await
            .unwrap();
        insert(&fixture, "INSERT INTO t SELECT id, p FROM source")
            .await
            .unwrap();
        let expected = fixture.rows("SELECT id, p FROM source").await;
        assert_eq!(
            fixture.rows("SELECT id, p FROM t").await,
            expected,
            "{sql_type}"
        );
        for (id, value) in values.iter().enumerate() {
            if value.contains("NaN") || value.contains("-0.0'") {
                continue;
            }
            let found = format!("SELECT id FROM t WHERE p = CAST({value} AS {sql_type})");
            assert_eq!(
                fixture.rows(&found).await,
                [id.to_string()],
                "{sql_type} {value}"
            );
        }
    }
}

/// More partitions than may be open: the rest is sorted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wri_07_many_partitions_at_once() {
    for max_open in [0, 7, 100_000] {
        let config = SessionConfig::new().with_target_partitions(4);
        let fixture = Fixture::with_config(config);
        let options = format!("'has_header' 'true', 'sink.max-open-partitions' '{max_open}'");
        let declared = fixture.declare("id BIGINT, p BIGINT, q TEXT", "CSV", "p, q", &options);
        declared.await.unwrap();
        let sql = "INSERT INTO t SELECT value, (value * 7919) % 500, CASE WHEN value % 2 = 0 THEN 'a' END \
                   FROM range(0, 20000)";
        assert_eq!(insert(&fixture, sql).await.unwrap(), ["20000"]);
        assert_eq!(
            fixture
                .rows("SELECT count(*), count(DISTINCT id), sum(id) FROM t")
                .await,
            ["20000 | 20000 | 199990000"]
        );
        let wrong =
            "SELECT count(*) FROM t WHERE p <> (id * 7919) % 500 OR (q IS NULL) <> (id % 2 = 1)";
        assert_eq!(fixture.rows(wrong).await, ["0"]);
        let files = keys(&fixture).await;
        assert_eq!(
            files.len(),
            directories(&fixture).await.len(),
            "max_open {max_open}"
        );
        assert_eq!(files.len(), 500);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wri_08_files_follow_the_data() {
    let config = SessionConfig::new()
        .with_target_partitions(16)
        .with_batch_size(1024);
    let fixture = Fixture::with_config(config);
    let declared = fixture.declare("id BIGINT, p BIGINT", "PARQUET", "p", "");
    declared.await.unwrap();
    let many = "INSERT INTO t SELECT value, value % 10 FROM range(0, 200000)";
    assert_eq!(insert(&fixture, many).await.unwrap(), ["200000"]);
    let files = keys(&fixture).await;
    assert_eq!(directories(&fixture).await.len(), 10);
    assert_eq!(files.len(), 10, "{files:?}");
    assert_eq!(
        fixture.rows("SELECT count(*), sum(id) FROM t").await,
        ["200000 | 19999900000"]
    );

    let none = "INSERT INTO t SELECT value, value % 10 FROM range(0, 10) WHERE value < 0";
    assert_eq!(insert(&fixture, none).await.unwrap(), ["0"]);
    assert_eq!(keys(&fixture).await, files);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wri_12_nothing_is_left_of_a_failed_insert() {
    let fixture = Fixture::with_config(SessionConfig::new().with_batch_size(8));
    for max_open in [100, 1] {
        let options = format!("'sink.max-open-partitions' '{max_open}'");
        let declared = fixture.declare("id BIGINT, p BIGINT", "PARQUET", "p", &options);
        declared.await.unwrap();
        let failing =
            "INSERT INTO t SELECT value, value % 3 + 0 / (999 - value) FROM range(0, 1000)";
        let error = insert(&fixture, failing).await.unwrap_err().to_string();
        assert_mentions(&error, &["Divide by zero"]);
        assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["0"]);
        assert_eq!(keys(&fixture).await, Vec::<String>::new());
    }
    let working = "INSERT INTO t SELECT value, value % 3 FROM range(0, 999)";
    insert(&fixture, working).await.unwrap();
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["999"]);
}

#[tokio::test]
async fn wri_11_overwriting_what_is_read() {
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", "'has_header' 'true'");
    declared.await.unwrap();
    fixture.put_ids("t/p=1/f.csv", &[1, 2]).await;
    fixture.put_ids("t/p=2/f.csv", &[3]).await;

    insert(
        &fixture,
        "INSERT OVERWRITE t SELECT id + 10, p FROM t WHERE p = 1",
    )
    .await
    .unwrap();
    let all = "SELECT id, p FROM t";
    assert_eq!(fixture.rows(all).await, ["11 | 1", "12 | 1", "3 | 2"]);

    let failing = "INSERT OVERWRITE t SELECT CAST(concat('x', id) AS BIGINT), 1 FROM t";
    assert!(insert(&fixture, failing).await.is_err());
    assert_eq!(fixture.rows(all).await, ["11 | 1", "12 | 1", "3 | 2"]);

    insert(&fixture, "INSERT INTO t SELECT * FROM t")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(all).await,
        ["11 | 1", "11 | 1", "12 | 1", "12 | 1", "3 | 2", "3 | 2"]
    );
    assert_eq!(keys(&fixture).await.len(), 4);
}

/// A file has to have a column: such a table can neither be declared nor written.
#[tokio::test]
async fn wri_13_a_table_of_partition_columns_alone_is_refused() {
    let fixture = Fixture::new();
    let declared = fixture.declare("a INT, b TEXT", "PARQUET", "a, b", "");
    let error = declared.await.unwrap_err().to_string();
    assert_mentions(&error, &["table 't'", "declare the columns"]);
}

#[tokio::test]
async fn wri_14_static_values_are_those_of_the_column() {
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", "'has_header' 'true'");
    declared.await.unwrap();
    for sql in [
        "INSERT INTO t PARTITION (p = '00011') SELECT 1",
        "INSERT INTO t PARTITION (p = 11) SELECT 2",
        "INSERT INTO t PARTITION (p = null) SELECT 3",
        "INSERT INTO t PARTITION (p = 12) SELECT 4 WHERE false",
    ] {
        fixture.run(sql).await.unwrap();
    }
    assert_eq!(
        fixture.rows("SELECT p, count(*) FROM t GROUP BY p").await,
        ["11 | 2", "<null> | 1"]
    );
    assert_eq!(
        directories(&fixture).await,
        ["t/p=11", "t/p=__HIVE_DEFAULT_PARTITION__"]
    );
    let error = fixture
        .run("INSERT INTO t PARTITION (p = 'x') SELECT 5")
        .await;
    assert_mentions(
        &error.unwrap_err().to_string(),
        &["table 't'", "column 'p'", "'x'"],
    );
}

#[tokio::test]
async fn wri_15_every_way_to_write_knows_the_partitions() {
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", "'has_header' 'true'");
    declared.await.unwrap();
    fixture.put_ids("t/p=1/f.csv", &[1]).await;
    insert(&fixture, "INSERT INTO t VALUES (2, 2)")
        .await
        .unwrap();
    let frame = fixture
        .ctx
        .sql("SELECT CAST(3 AS BIGINT) AS id, CAST(2 AS INT) AS p")
        .await
        .unwrap();
    frame.write_table("t", Default::default()).await.unwrap();
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["3"]);
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE p = 2").await,
        ["2", "3"]
    );
    let directories = directories(&fixture).await;
    assert_eq!(directories, ["t/p=1", "t/p=2"]);
    for key in keys(&fixture)
        .await
        .iter()
        .filter(|key| key.contains("part-"))
    {
        let object = fixture
            .lake
            .store()
            .get(&key.as_str().into())
            .await
            .unwrap();
        let text = String::from_utf8(object.bytes().await.unwrap().to_vec()).unwrap();
        assert!(text.starts_with("id\n"), "{key}: {text}");
    }
}
