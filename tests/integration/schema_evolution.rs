//! Partitions whose files differ in their columns: missing, additional, reordered.

use datafusion_partitioned_test_utils::FileKind;

use crate::common::{Fixture, modes};

/// Writes a file with the row `SELECT sql` into each directory of the table `t`.
pub(crate) async fn put(fixture: &Fixture, kind: FileKind, files: &[(&str, &str)]) {
    for (directory, sql) in files {
        let key = format!("t/{directory}/f.{}", kind.extension());
        fixture
            .put_query(&key, kind, &format!("SELECT {sql}"))
            .await;
    }
}

/// DataFusion 17420, polars 12036: the partition column is in the files too.
#[tokio::test]
async fn col_01_partition_column_is_in_the_files_too() {
    for kind in FileKind::ALL {
        for config in modes() {
            let fixture = Fixture::with_config(config);
            let files = [
                (
                    "g=a",
                    "CAST(1 AS BIGINT) AS id, arrow_cast('a', 'Utf8') AS g",
                ),
                (
                    "g=b",
                    "CAST(2 AS BIGINT) AS id, arrow_cast('other', 'Utf8') AS g",
                ),
            ];
            put(&fixture, kind, &files).await;
            for columns in ["", "id BIGINT, g TEXT"] {
                fixture.declare(columns, kind, "g", "").await.unwrap();
                let schema = fixture.ctx.table("t").await.unwrap();
                assert_eq!(schema.schema().fields().len(), 2, "{kind:?}");
                assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | a", "2 | b"]);
                assert_eq!(fixture.rows("SELECT id FROM t WHERE g = 'b'").await, ["2"]);
                assert_eq!(
                    fixture
                        .rows("SELECT id FROM t WHERE g = 'b' AND id > 0")
                        .await,
                    ["2"]
                );
                assert_eq!(
                    fixture
                        .rows("SELECT id FROM t WHERE g = 'b' OR id = 1")
                        .await,
                    ["1", "2"]
                );
                assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["2"]);
            }
        }
    }
}

/// spiceai 8514: and there it has another type.
#[tokio::test]
async fn col_02_partition_column_has_another_type_in_the_files() {
    for kind in [FileKind::Parquet, FileKind::Arrow] {
        for config in modes() {
            let fixture = Fixture::with_config(config);
            let files = [
                (
                    "d=2024-01-01",
                    "CAST(1 AS BIGINT) AS id, arrow_cast('2024-01-01', 'LargeUtf8') AS d",
                ),
                (
                    "d=2024-01-02",
                    "CAST(2 AS BIGINT) AS id, arrow_cast('2024-01-02', 'Dictionary(Int32, Utf8)') AS d",
                ),
                ("d=2024-01-03", "CAST(3 AS BIGINT) AS id, 4.5 AS d"),
            ];
            put(&fixture, kind, &files).await;
            fixture.declare("", kind, "d", "").await.unwrap();
            assert_eq!(
                fixture.rows("SELECT id, d FROM t").await,
                ["1 | 2024-01-01", "2 | 2024-01-02", "3 | 2024-01-03"]
            );
            fixture
                .declare("id BIGINT, d DATE", kind, "d", "")
                .await
                .unwrap();
            assert_eq!(
                fixture
                    .rows("SELECT id FROM t WHERE d > DATE '2024-01-01'")
                    .await,
                ["2", "3"]
            );
            assert_eq!(
                fixture
                    .rows("SELECT id FROM t WHERE d > DATE '2024-01-01' AND id < 3")
                    .await,
                ["2"]
            );
        }
    }
}

/// DataFusion 1527 and 14755, DuckDB 16859: the answer must not depend on which file comes first.
#[tokio::test]
async fn col_05_column_added_later() {
    for kind in FileKind::ALL {
        for config in modes() {
            let fixture = Fixture::with_config(config);
            let files = [
                ("m=1", "CAST(1 AS BIGINT) AS id"),
                ("m=2", "CAST(2 AS BIGINT) AS id, CAST(20 AS INT) AS extra"),
            ];
            put(&fixture, kind, &files).await;
            for columns in ["", "id BIGINT, extra INT, m INT"] {
                fixture.declare(columns, kind, "m", "").await.unwrap();
                let rows = |sql: &'static str| fixture.rows(sql);
                assert_eq!(
                    rows("SELECT id, extra FROM t").await,
                    ["1 | <null>", "2 | 20"],
                    "{kind:?}"
                );
                assert_eq!(rows("SELECT extra FROM t WHERE m = 1").await, ["<null>"]);
                assert_eq!(rows("SELECT id FROM t WHERE extra = 20").await, ["2"]);
                assert_eq!(rows("SELECT id FROM t WHERE extra IS NULL").await, ["1"]);
                assert_eq!(
                    rows("SELECT count(extra), count(*) FROM t").await,
                    ["1 | 2"]
                );
                assert_eq!(
                    rows("SELECT extra, m FROM t WHERE id = 1").await,
                    ["<null> | 1"]
                );
            }
        }
    }
}

#[tokio::test]
async fn the_sample_says_how_many_of_the_last_partitions_count() {
    for kind in FileKind::ALL {
        let fixture = Fixture::new();
        let files = [
            ("m=1", "CAST(1 AS BIGINT) AS first, CAST(1 AS INT) AS n"),
            ("m=2", "CAST(2 AS BIGINT) AS middle, CAST(2 AS BIGINT) AS n"),
            ("m=3", "CAST(3 AS INT) AS n, CAST(3 AS BIGINT) AS last"),
        ];
        put(&fixture, kind, &files).await;
        for (sample, expected) in [
            ("", "n last m"),
            ("'schema.sample' '1'", "n last m"),
            ("'schema.sample' '2'", "middle n last m"),
            ("'schema.sample' '3'", "first n middle last m"),
            ("'schema.sample' 'all'", "first n middle last m"),
        ] {
            fixture.declare("", kind, "m", sample).await.unwrap();
            let table = fixture.ctx.table("t").await.unwrap();
            let mut names: Vec<_> = table
                .schema()
                .fields()
                .iter()
                .map(|f| f.name().as_str())
                .collect();
            if kind == FileKind::Json {
                // Names of one JSON file come sorted.
                names.sort_unstable();
                let mut expected: Vec<_> = expected.split(' ').collect();
                expected.sort_unstable();
                assert_eq!(names, expected);
            } else {
                assert_eq!(names.join(" "), expected, "{kind:?} {sample}");
            }
        }
        assert_eq!(
            fixture.rows("SELECT sum(n) FROM t").await,
            ["6"],
            "{kind:?}"
        );
        for sample in ["0", "some"] {
            let option = format!("'schema.sample' '{sample}'");
            let error = fixture.declare("", kind, "m", &option).await;
            assert!(
                error
                    .unwrap_err()
                    .to_string()
                    .contains("a number from 1, or all")
            );
        }
    }
}

#[tokio::test]
async fn lay_03_empty_and_hidden_files_are_not_used_for_inference() {
    for kind in FileKind::ALL {
        let fixture = Fixture::new();
        let e = kind.extension();
        put(&fixture, kind, &[("p=1", "CAST(1 AS BIGINT) AS id")]).await;
        for key in ["p=1/a", "p=1/z", "p=2/a"] {
            fixture
                .lake
                .put_text(&format!("t/{key}.{e}"), "")
                .await
                .unwrap();
        }
        for key in ["p=1/_hidden", "p=2/.hidden", "_tmp/p=9/f"] {
            fixture
                .lake
                .put_text(&format!("t/{key}.{e}"), "garbage")
                .await
                .unwrap();
        }
        fixture.declare("", kind, "p", "").await.unwrap();
        assert_eq!(
            fixture.rows("SELECT id, p FROM t").await,
            ["1 | 1"],
            "{kind:?}"
        );
        assert_eq!(
            fixture.rows("SELECT count(*) FROM t WHERE p = 2").await,
            ["0"]
        );
        assert_eq!(fixture.rows("SELECT DISTINCT p FROM t").await, ["1"]);
    }
}

/// Presto 8911, Trino 1558: reading by position shifts values.
#[tokio::test]
async fn col_07_columns_in_another_order_or_dropped() {
    for kind in FileKind::ALL {
        for config in modes() {
            let fixture = Fixture::with_config(config);
            let text = |value: &str, name: &str| format!("arrow_cast('{value}', 'Utf8') AS {name}");
            let one = [text("a1", "a"), text("b1", "b"), text("c1", "c")].join(", ");
            let two = [text("c2", "c"), text("a2", "a")].join(", ");
            put(&fixture, kind, &[("m=1", &one), ("m=2", &two)]).await;
            fixture
                .declare("a TEXT, b TEXT, c TEXT, m INT", kind, "m", "")
                .await
                .unwrap();
            let rows = |sql: &'static str| fixture.rows(sql);
            assert_eq!(
                rows("SELECT a, b, c, m FROM t").await,
                ["a1 | b1 | c1 | 1", "a2 | <null> | c2 | 2"],
                "{kind:?}"
            );
            assert_eq!(rows("SELECT m FROM t WHERE c = 'c2'").await, ["2"]);
            assert_eq!(rows("SELECT b FROM t").await, ["<null>", "b1"]);
            assert_eq!(rows("SELECT b, m FROM t WHERE m = 2").await, ["<null> | 2"]);
            assert_eq!(
                rows("SELECT count(b), count(*) FROM t WHERE m = 2").await,
                ["0 | 1"]
            );
        }
    }
}
