//! Partitions whose files have columns of other types: wider, narrower, and of another kind.

use datafusion_partitioned_test_utils::FileKind;

use crate::common::{Fixture, modes};
use crate::schema_evolution::put;

/// The formats whose files have types of their own.
const TYPED: [FileKind; 4] = [
    FileKind::Parquet,
    FileKind::Arrow,
    FileKind::ArrowStream,
    FileKind::Avro,
];

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
        let error = fixture.declare("", kind, "m", all).await;
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
                .declare("x BIGINT, m INT", kind, "m", "")
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
                    .declare(columns, kind, "m", "'schema.sample' 'all'")
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
                .declare(&format!("x {table}, y INT, m INT"), kind, "m", "")
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
