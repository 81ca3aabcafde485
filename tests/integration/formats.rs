//! Every format through the same queries.

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{FileKind, scan_metric};

use crate::common::{Fixture, modes};

const COLUMNS: &str = "id BIGINT, name TEXT, price DECIMAL(8,2), born DATE, ok BOOLEAN, x DOUBLE, \
                       p INT, day DATE";

/// Rows of one file, from those with `id` in `ids`.
fn rows(ids: &str) -> String {
    format!(
        "SELECT CAST(id AS BIGINT) AS id, arrow_cast(name, 'Utf8') AS name,
                CAST(price AS DECIMAL(8,2)) AS price, CAST(born AS DATE) AS born, ok, x
         FROM (VALUES (1, 'a,b', 1.25, '2024-01-31', true, 0.5),
                      (2, NULL, NULL, NULL, NULL, NULL),
                      (3, 'Köln', -3.00, '1969-12-31', false, 1e10),
                      (4, 'd', 4.00, '2024-02-29', true, 4.0))
              AS v(id, name, price, born, ok, x)
         WHERE id IN ({ids}) ORDER BY id"
    )
}

async fn put_lake(fixture: &Fixture, kind: FileKind) {
    let extension = kind.extension();
    for (directory, ids) in [
        ("p=1/day=2024-01-01", "1, 2"),
        ("p=1/day=__HIVE_DEFAULT_PARTITION__", "3"),
        ("p=__HIVE_DEFAULT_PARTITION__/day=2024-01-01", "4"),
    ] {
        let key = format!("t/{directory}/f.{extension}");
        fixture.put_query(&key, kind, &rows(ids)).await;
    }
}

#[tokio::test]
async fn every_format_answers_the_same_queries_in_every_mode() {
    for kind in FileKind::ALL {
        for (mode, config) in modes().into_iter().enumerate() {
            let fixture = Fixture::with_config(config);
            put_lake(&fixture, kind).await;
            fixture.declare(COLUMNS, kind, "p, day", "").await.unwrap();
            assert_rows(&fixture, &format!("{kind:?} in mode {mode}")).await;
        }
    }
}

#[tokio::test]
async fn every_format_with_dictionary_encoded_partition_columns() {
    for kind in FileKind::ALL {
        let fixture = Fixture::new();
        put_lake(&fixture, kind).await;
        let columns = COLUMNS
            .replace("p INT", "p TEXT")
            .replace("day DATE", "day TEXT");
        fixture
            .declare(&columns, kind, "p, day", "'partition.dictionary' 'true'")
            .await
            .unwrap();
        assert_rows(&fixture, &format!("{kind:?}")).await;
        let types = fixture
            .rows("SELECT DISTINCT arrow_typeof(day) FROM t")
            .await;
        assert_eq!(types.len(), 1);
        assert!(types[0].starts_with("Dictionary("), "{types:?}");
    }
}

async fn assert_rows(fixture: &Fixture, context: &str) {
    let queries: [(&str, &[&str]); 14] = [
        (
            "SELECT * FROM t",
            &[
                "1 | a,b | 1.25 | 2024-01-31 | true | 0.5 | 1 | 2024-01-01",
                "2 | <null> | <null> | <null> | <null> | <null> | 1 | 2024-01-01",
                "3 | Köln | -3.00 | 1969-12-31 | false | 10000000000.0 | 1 | <null>",
                "4 | d | 4.00 | 2024-02-29 | true | 4.0 | <null> | 2024-01-01",
            ],
        ),
        (
            "SELECT day, p FROM t",
            &[
                "2024-01-01 | 1",
                "2024-01-01 | 1",
                "2024-01-01 | <null>",
                "<null> | 1",
            ],
        ),
        ("SELECT count(*) FROM t", &["4"]),
        (
            "SELECT count(*), count(p), count(day) FROM t",
            &["4 | 3 | 3"],
        ),
        ("SELECT 7 FROM t", &["7", "7", "7", "7"]),
        (
            "SELECT day, x, p, id FROM t WHERE id = 3",
            &["<null> | 10000000000.0 | 1 | 3"],
        ),
        ("SELECT id FROM t WHERE p = '1' AND day IS NULL", &["3"]),
        ("SELECT id FROM t WHERE p IS NULL", &["4"]),
        ("SELECT id FROM t WHERE price < 2 AND p = '1'", &["1", "3"]),
        (
            "SELECT id FROM t WHERE (day = '2024-01-01' AND ok) OR name = 'Köln'",
            &["1", "3", "4"],
        ),
        (
            "SELECT p, sum(id), min(born) FROM t GROUP BY p",
            &["1 | 6 | 1969-12-31", "<null> | 4 | 2024-02-29"],
        ),
        (
            "SELECT id + 1, p || 'x' FROM t WHERE id > 3",
            &["5 | <null>"],
        ),
        ("SELECT count(*) FROM (SELECT id FROM t LIMIT 3)", &["3"]),
        ("SELECT count(*) FROM (SELECT 1 FROM t LIMIT 0)", &["0"]),
    ];
    for (sql, expected) in queries {
        assert_eq!(fixture.rows(sql).await, expected, "{context}: {sql}");
    }
}

#[tokio::test]
async fn large_files_of_every_format_are_read_once_in_pieces() {
    for kind in FileKind::ALL {
        let mut config = SessionConfig::new().with_target_partitions(4);
        config.options_mut().optimizer.repartition_file_min_size = 1;
        let fixture = Fixture::with_config(config);
        let sql = "SELECT value AS id, arrow_cast(concat('n', value), 'Utf8') AS name \
                   FROM generate_series(1, 20000)";
        let key = format!("t/p=1/f.{}", kind.extension());
        fixture.put_query(&key, kind, sql).await;
        fixture
            .declare("id BIGINT, name TEXT, p INT", kind, "p", "")
            .await
            .unwrap();
        for (sql, row) in [
            (
                "SELECT count(*), sum(id), min(p), max(name) FROM t",
                "20000 | 200010000 | 1 | n9999",
            ),
            ("SELECT count(*) FROM t", "20000"),
            ("SELECT count(p), sum(p) FROM t", "20000 | 20000"),
        ] {
            assert_eq!(fixture.rows(sql).await, [row], "{kind:?}: {sql}");
        }
    }
}

#[tokio::test]
async fn one_table_mixes_both_arrow_formats() {
    let fixture = Fixture::new();
    let sql = |n: u8| format!("SELECT CAST({n} AS BIGINT) AS id");
    for (key, kind, n) in [
        ("t/p=1/a", FileKind::Arrow, 1),
        ("t/p=1/b", FileKind::ArrowStream, 2),
        ("t/p=2/a.arrow", FileKind::ArrowStream, 3),
    ] {
        fixture.put_query(key, kind, &sql(n)).await;
    }
    fixture
        .declare("id BIGINT, p INT", "ARROW", "p", "")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT id, p FROM t").await,
        ["1 | 1", "2 | 1", "3 | 2"]
    );
    // Each file is requested once.
    fixture.take_requests();
    fixture.rows("SELECT id, p FROM t").await;
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=1/a
    GET /t/p=1/b
    GET /t/p=2/a.arrow
    LIST /t/
    ");
}

#[tokio::test]
async fn a_damaged_file_of_every_format_is_an_error_that_names_it() {
    for kind in FileKind::ALL {
        let fixture = Fixture::new();
        let key = format!("t/p=1/f.{}", kind.extension());
        fixture
            .lake
            .put_text(&key, "id\nno, number\n\0")
            .await
            .unwrap();
        let good = format!("t/p=2/f.{}", kind.extension());
        fixture
            .put_query(&good, kind, "SELECT CAST(1 AS BIGINT) AS id")
            .await;
        fixture
            .declare("id BIGINT, p INT", kind, "p", "")
            .await
            .unwrap();
        let message = format!("cannot read 'memory://lake/{key}'");
        fixture.fails("SELECT id FROM t", &[&message]).await;
        assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 2").await, ["1"]);
    }
    let fixture = Fixture::new();
    fixture
        .lake
        .put_text("t/p=1/f.csv.gz", "id\n1\n")
        .await
        .unwrap();
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", "")
        .await
        .unwrap();
    let message = "cannot read 'memory://lake/t/p=1/f.csv.gz'";
    fixture.fails("SELECT id FROM t", &[message]).await;
}

#[tokio::test]
async fn a_limit_opens_few_files_of_every_format() {
    for kind in FileKind::ALL {
        let fixture = Fixture::with_streams(1);
        for p in 0..60 {
            let key = format!("t/p={p}/f.{}", kind.extension());
            fixture
                .put_query(&key, kind, "SELECT CAST(1 AS BIGINT) AS id")
                .await;
        }
        fixture
            .declare("id BIGINT, p INT", kind, "p", "")
            .await
            .unwrap();
        assert_eq!(fixture.rows("SELECT p FROM t LIMIT 2").await.len(), 2);
        let opened = fixture.requests.mentioning("/f.").len();
        assert!(
            (1..40).contains(&opened),
            "{kind:?}: {opened} requests for two rows"
        );
        let (rows, plan) = fixture.analyze("SELECT id FROM t WHERE p = 7").await;
        assert_eq!(rows, ["1"]);
        assert_eq!(scan_metric(&plan, "files_scanned"), 1);
    }
}

#[tokio::test]
async fn tab_separated_values_may_have_another_delimiter() {
    let fixture = Fixture::new();
    fixture
        .lake
        .put_text("t/p=1/f", "id;name\n1;a\tb\n")
        .await
        .unwrap();
    fixture
        .declare("id BIGINT, name TEXT, p INT", "TSV", "p", "'delimiter' ';'")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id, name FROM t").await, ["1 | a\tb"]);
    let error = fixture
        .declare("id BIGINT, p INT", "PARQUET", "p", "'csv.match-by' 'name'")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'csv.match-by'") && error.contains("PARQUET"),
        "{error}"
    );
}
