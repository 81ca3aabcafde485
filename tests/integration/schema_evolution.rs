//! Partitions whose files differ in their columns: missing, additional, reordered, widened, and of
//! another kind.

use datafusion_partitioned_test_utils::FileKind;

use crate::common::{Fixture, modes};

/// The formats whose files have types of their own.
const TYPED: [FileKind; 4] = [
    FileKind::Parquet,
    FileKind::Arrow,
    FileKind::ArrowStream,
    FileKind::Avro,
];

async fn put(fixture: &Fixture, kind: FileKind, files: &[(&str, &str)]) {
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
                fixture
                    .declare(columns, &kind.to_string(), "g", "")
                    .await
                    .unwrap();
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
            fixture
                .declare("", &kind.to_string(), "d", "")
                .await
                .unwrap();
            assert_eq!(
                fixture.rows("SELECT id, d FROM t").await,
                ["1 | 2024-01-01", "2 | 2024-01-02", "3 | 2024-01-03"]
            );
            fixture
                .declare("id BIGINT, d DATE", &kind.to_string(), "d", "")
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
                fixture
                    .declare(columns, &kind.to_string(), "m", "")
                    .await
                    .unwrap();
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
            fixture
                .declare("", &kind.to_string(), "m", sample)
                .await
                .unwrap();
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
            let error = fixture.declare("", &kind.to_string(), "m", &option).await;
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
async fn types_without_a_common_one_are_an_error_when_inferred() {
    for kind in TYPED {
        let fixture = Fixture::new();
        let files = [
            ("m=1", "CAST(1 AS BIGINT) AS x"),
            ("m=2", "arrow_cast('a', 'Utf8') AS x"),
        ];
        put(&fixture, kind, &files).await;
        let all = "'schema.sample' 'all'";
        let error = fixture.declare("", &kind.to_string(), "m", all).await;
        let error = error.unwrap_err().to_string();
        for text in ["'x'", "Int64", "Utf8", "t/m=1/f.", "t/m=2/f."] {
            assert!(error.contains(text), "{error}");
        }
    }
    // Values of CSV files are text to begin with.
    let fixture = Fixture::new();
    for (key, text) in [("t/m=1/f", "x,y\n1,1\n"), ("t/m=2/f", "y,x\n1.5,a\n")] {
        fixture.lake.put_text(key, text).await.unwrap();
    }
    fixture
        .declare("", "CSV", "m", "'schema.sample' 'all'")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT x, y FROM t").await,
        ["1 | 1.0", "a | 1.5"]
    );
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
        fixture
            .declare("", &kind.to_string(), "p", "")
            .await
            .unwrap();
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
                .declare("a TEXT, b TEXT, c TEXT, m INT", &kind.to_string(), "m", "")
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

/// Trino 137, Presto 8510: a wider type in the table is harmless, text for a number is not.
#[tokio::test]
async fn col_08_column_type_changed() {
    for kind in FileKind::ALL {
        for config in modes() {
            let fixture = Fixture::with_config(config);
            let files = [
                ("m=1", "CAST(1 AS INT) AS x"),
                ("m=2", "CAST(5000000000 AS BIGINT) AS x"),
                ("m=3", "arrow_cast('oops', 'Utf8') AS x"),
            ];
            put(&fixture, kind, &files).await;
            fixture
                .declare("x BIGINT, m INT", &kind.to_string(), "m", "")
                .await
                .unwrap();
            assert_eq!(
                fixture.rows("SELECT sum(x) FROM t WHERE m < 3").await,
                ["5000000001"],
                "{kind:?}"
            );
            assert_eq!(
                fixture
                    .rows("SELECT x FROM t WHERE x > 4000000000 AND m < 3")
                    .await,
                ["5000000000"]
            );
            assert_eq!(
                fixture.rows("SELECT x FROM t WHERE x = 1 AND m < 3").await,
                ["1"]
            );
            assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["3"]);
            for sql in [
                "SELECT x FROM t",
                "SELECT count(*) FROM t WHERE x > 4000000000",
            ] {
                let error = fixture.error(sql).await;
                assert!(
                    error.contains("memory://lake/t/m=3/f."),
                    "{kind:?}: {error}"
                );
                if TYPED.contains(&kind) {
                    assert!(error.contains("column 'x'"), "{kind:?}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn widened_numbers_dates_and_times() {
    let narrow = "CAST(7 AS SMALLINT) AS i, CAST(1.5 AS REAL) AS f, CAST(12 AS DECIMAL(6,0)) AS d, \
                  CAST(3 AS INT) AS j, arrow_cast('2024-02-29T01:02:03.5', 'Timestamp(Millisecond, None)') AS ts";
    let wide = "CAST(8 AS BIGINT) AS i, CAST(2.5 AS DOUBLE) AS f, CAST(13 AS DECIMAL(8,0)) AS d, \
                CAST(4 AS DECIMAL(12,2)) AS j, arrow_cast('2024-02-29T01:02:03.25', 'Timestamp(Microsecond, None)') AS ts";
    for kind in TYPED {
        for config in modes() {
            let fixture = Fixture::with_config(config);
            put(&fixture, kind, &[("m=1", narrow), ("m=2", wide)]).await;
            for columns in [
                "i BIGINT, f DOUBLE, d DECIMAL(8,0), j DECIMAL(12,2), ts TIMESTAMP, m INT",
                "",
            ] {
                fixture
                    .declare(columns, &kind.to_string(), "m", "'schema.sample' 'all'")
                    .await
                    .unwrap();
                assert_eq!(
                    fixture.rows("SELECT i, f, d, j, ts FROM t").await,
                    [
                        "7 | 1.5 | 12 | 3.00 | 2024-02-29T01:02:03.500",
                        "8 | 2.5 | 13 | 4.00 | 2024-02-29T01:02:03.250",
                    ],
                    "{kind:?}"
                );
                assert_eq!(
                    fixture
                        .rows("SELECT m FROM t WHERE f < 2 AND d = 12 AND j = 3")
                        .await,
                    ["1"]
                );
                assert_eq!(
                    fixture
                        .rows("SELECT m FROM t WHERE ts < TIMESTAMP '2024-02-29T01:02:03.4'")
                        .await,
                    ["2"]
                );
            }
        }
    }
}

#[tokio::test]
async fn narrower_types_in_the_table_are_an_error_and_never_rounded() {
    for kind in TYPED {
        for (file, table) in [
            ("CAST(1 AS BIGINT)", "INT"),
            ("CAST(1.7 AS DOUBLE)", "BIGINT"),
            ("CAST(1.7 AS DOUBLE)", "REAL"),
            ("CAST(1.25 AS DECIMAL(6,2))", "DECIMAL(6,1)"),
            ("arrow_cast('12', 'Utf8')", "INT"),
            (
                "arrow_cast('2024-01-01T10:00:00', 'Timestamp(Microsecond, None)')",
                "DATE",
            ),
        ] {
            let fixture = Fixture::new();
            let files = [("m=1", format!("{file} AS x, CAST(1 AS INT) AS y"))];
            put(&fixture, kind, &[(files[0].0, &files[0].1)]).await;
            fixture
                .declare(
                    &format!("x {table}, y INT, m INT"),
                    &kind.to_string(),
                    "m",
                    "",
                )
                .await
                .unwrap();
            let error = fixture.error("SELECT x FROM t").await;
            assert!(
                error.contains("column 'x'") && error.contains("t/m=1/f."),
                "{kind:?}, {file} as {table}: {error}"
            );
            // Who does not read the column is not concerned.
            assert_eq!(fixture.rows("SELECT y, m FROM t").await, ["1 | 1"]);
        }
    }
}
