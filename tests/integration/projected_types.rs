//! Projected columns of every type, and where their partitions are: the answers of a listed table.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Fault, FaultyStore, RequestKind, sorted_rows};

use crate::common::{Fixture, csv_tree};

const ON: &str = "'projection.enabled' 'true'";

/// `t/p=P/f.csv` with the position of `P` in `texts` as `id`.
async fn lake(texts: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    for (id, text) in (0..).zip(texts) {
        fixture.put_ids(&format!("t/p={text}/f.csv"), &[id]).await;
    }
    fixture
}

/// The rows of the queries with a projection, which are those without one.
async fn compare(fixture: &Fixture, columns: &str, rules: &str, queries: &[&str]) -> Vec<String> {
    let mut all = vec![];
    for query in queries {
        let mut answers = vec![];
        for options in ["", &format!("{ON}, {rules}")] {
            fixture.declare(columns, "CSV", "p", options).await.unwrap();
            answers.push(fixture.ordered_rows(query).await);
        }
        assert_eq!(answers[0], answers[1], "{columns} with {rules}: {query}");
        all.append(&mut answers[0]);
    }
    all
}

#[tokio::test]
async fn integers_are_found_as_values_of_every_type() {
    let fixture = lake(&["001", "002", "010"]).await;
    let rules = "'projection.p.type' 'integer', 'projection.p.range' '1,99', \
                 'projection.p.digits' '3'";
    for data_type in [
        "TINYINT",
        "BIGINT",
        "INT UNSIGNED",
        "BIGINT UNSIGNED",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(5, 2)",
        "DECIMAL(38, 0)",
    ] {
        let columns = format!("id BIGINT, p {data_type}");
        let queries = [
            "SELECT id FROM t WHERE p = 2",
            "SELECT id FROM t WHERE p IN (1, 10, 300) ORDER BY id",
            "SELECT id FROM (VALUES (1), (10)) AS d(x) JOIN t ON p = x ORDER BY id",
            "SELECT id FROM t WHERE p = 2.5",
        ];
        let found = compare(&fixture, &columns, rules, &queries).await;
        assert_eq!(found, ["1", "0", "2", "0", "2"], "{data_type}");
    }
    for data_type in ["BOOLEAN", "DATE", "TIMESTAMP"] {
        let columns = format!("id BIGINT, p {data_type}");
        let rules = "'projection.p.type' 'integer', 'projection.p.range' '0,1'";
        let options = format!("{ON}, {rules}");
        let declared = fixture.declare(&columns, "CSV", "p", &options).await;
        let error = declared.unwrap_err().to_string();
        assert!(error.contains("integers are no values of type"), "{error}");
    }
}

#[tokio::test]
async fn dates_are_found_as_values_of_every_type() {
    let fixture = lake(&["01022024", "11022024", "02022024"]).await;
    let rules = "'projection.p.type' 'date', 'projection.p.range' '31012024,20022024', \
                 'projection.p.format' 'ddMMyyyy'";
    for data_type in ["INT", "BIGINT UNSIGNED", "DOUBLE", "DECIMAL(10, 1)"] {
        let queries = [
            "SELECT id FROM t WHERE p = 1022024",
            "SELECT id FROM t WHERE p IN (11022024, 2022024) ORDER BY id",
        ];
        let columns = format!("id BIGINT, p {data_type}");
        let found = compare(&fixture, &columns, rules, &queries).await;
        assert_eq!(found, ["0", "1", "2"], "{data_type}");
    }
}

#[tokio::test]
async fn dates_beyond_a_type_are_refused() {
    let fixture = Fixture::new();
    for (data_type, range, message) in [
        ("TIMESTAMP", "1500,2024", "'1500' is not a value of type"),
        ("TIMESTAMP", "2024,2500", "'2500' is not a value of type"),
        ("TIME", "2024,NOW", "holds no dates"),
    ] {
        let columns = format!("id BIGINT, p {data_type}");
        let options = format!(
            "{ON}, 'projection.p.type' 'date', 'projection.p.range' '{range}', \
             'projection.p.format' 'yyyy'"
        );
        let declared = fixture.declare(&columns, "CSV", "p", &options).await;
        let error = declared.unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains("column 'p'"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn all_integers_are_a_range() {
    let fixture = lake(&["-9223372036854775808", "7", "9223372036854775807"]).await;
    let rules = "'projection.p.type' 'integer', \
                 'projection.p.range' '-9223372036854775808,9223372036854775807'";
    let queries = [
        "SELECT id FROM t WHERE p = 7",
        "SELECT id FROM t WHERE p IN (-9223372036854775808, 9223372036854775807) ORDER BY id",
    ];
    let found = compare(&fixture, "id BIGINT, p BIGINT", rules, &queries).await;
    assert_eq!(found, ["1", "0", "2"]);
}

#[tokio::test]
async fn a_wide_range_below_others_is_no_end() {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=0/q=1/f.csv", &[1]).await;
    let options = format!(
        "{ON}, 'projection.p.type' 'integer', 'projection.p.range' '0,9', \
         'projection.q.type' 'integer', 'projection.q.range' '0,9223372036854775807'"
    );
    fixture
        .declare("id BIGINT, p INT, q BIGINT", "CSV", "p, q", &options)
        .await
        .unwrap();
    let sql = "SELECT id FROM t LIMIT 1";
    assert_eq!(fixture.rows(sql).await, ["1"]);
}

#[tokio::test]
async fn values_with_two_spellings_do_not_break_an_order() {
    let fixture = Fixture::new();
    for p in ["1", "01", "2"] {
        for q in ["1", "2"] {
            let id = (p.to_owned() + q).parse().unwrap();
            fixture
                .put_ids(&format!("t/p={p}/q={q}/f.csv"), &[id])
                .await;
        }
    }
    let options = format!(
        "{ON}, 'projection.p.type' 'enum', 'projection.p.values' '1,01,2', \
         'projection.q.type' 'integer', 'projection.q.range' '1,2'"
    );
    fixture
        .declare("id BIGINT, p INT, q INT", "CSV", "p, q", &options)
        .await
        .unwrap();
    for ordered_scan in [false, true] {
        fixture.set("partitioned.ordered_scan", ordered_scan).await;
        assert_eq!(
            fixture.ordered_rows("SELECT id FROM t ORDER BY p, q").await,
            ["11", "11", "12", "12", "21", "22"]
        );
        let sql = "SELECT p, q, count(*) FROM t GROUP BY p, q";
        assert_eq!(
            fixture.rows(sql).await,
            ["1 | 1 | 2", "1 | 2 | 2", "2 | 1 | 1", "2 | 2 | 1"]
        );
    }
}

#[tokio::test]
async fn injected_values_of_another_type_than_the_column() {
    let injected = "'projection.p.type' 'injected'";
    let fixture = lake(&["1", "2", "-3"]).await;
    for data_type in ["INT", "SMALLINT", "TINYINT"] {
        let queries = [
            "SELECT id FROM t WHERE p IN (2, 99999999999)",
            "SELECT id FROM t WHERE p = 99999999999",
            "SELECT id FROM t WHERE CAST(p AS TEXT) = '2'",
            "SELECT id FROM t WHERE p IS NULL OR p = -3",
            "SELECT id FROM (VALUES (2), (99999999999), (NULL)) AS d(x) JOIN t ON p = x",
            "SELECT id FROM (VALUES (2.0), (2.5)) AS d(x) JOIN t ON p = x",
            "SELECT x, id FROM (VALUES (2), (7)) AS d(x) LEFT JOIN t ON p = x ORDER BY x",
            "SELECT id FROM t WHERE p IN (SELECT column1 FROM (VALUES (2), (7)))",
            "SELECT x FROM (VALUES (2), (7)) AS d(x) WHERE NOT EXISTS (SELECT 1 FROM t WHERE p = x)",
        ];
        let columns = format!("id BIGINT, p {data_type}");
        let found = compare(&fixture, &columns, injected, &queries).await;
        assert_eq!(
            found,
            ["1", "1", "2", "1", "1", "2 | 1", "7 | <null>", "1", "7"],
            "{data_type}"
        );
    }

    let fixture = lake(&["true", "false"]).await;
    let queries = [
        "SELECT id FROM t WHERE p",
        "SELECT id FROM t WHERE NOT p",
        "SELECT id FROM t WHERE p IN (true, false) ORDER BY id",
        "SELECT id FROM t WHERE p IS NOT TRUE AND p IS NOT NULL AND p = false",
        "SELECT id FROM (VALUES (false)) AS d(x) JOIN t ON p = x",
    ];
    let found = compare(&fixture, "id BIGINT, p BOOLEAN", injected, &queries).await;
    assert_eq!(found, ["0", "1", "0", "1", "1", "1"]);

    let fixture = lake(&["2024-01-15", "2024-01-16"]).await;
    let queries = [
        "SELECT id FROM t WHERE CAST(p AS TEXT) = '2024-01-16'",
        "SELECT id FROM (VALUES (TIMESTAMP '2024-01-15 00:00:00'), \
         (TIMESTAMP '2024-01-16 10:00:00')) AS d(x) JOIN t ON p = x",
    ];
    let found = compare(&fixture, "id BIGINT, p DATE", injected, &queries).await;
    assert_eq!(found, ["1", "0"]);

    let fixture = lake(&["a", "b"]).await;
    let queries = [
        "SELECT id FROM (SELECT arrow_cast(column1, 'LargeUtf8') AS x \
                    FROM (VALUES ('b'), ('c'))) AS d JOIN t ON p = x",
    ];
    for option in [
        "'partition.dictionary' 'false'",
        "'partition.dictionary' 'true'",
    ] {
        let rules = format!("{injected}, {option}");
        let found = compare(&fixture, "id BIGINT, p TEXT", &rules, &queries).await;
        assert_eq!(found, ["1"]);
    }
    fixture.requests.clear();
    fixture.rows("SELECT id FROM t WHERE p IS NULL").await;
    assert_eq!(fixture.requests.count(RequestKind::List), 0);
}

#[tokio::test]
async fn a_template_is_decoded_as_a_location_is() {
    let fixture = Fixture::new();
    fixture.put_ids("in x/1/a b/f.csv", &[1]).await;
    fixture.put_ids("t/y%20z/1/c%20d/f.csv", &[2]).await;
    let url = fixture.lake.location("in%20x/${p}/a%20b/");
    for (template, id) in [(url.as_str(), "1"), ("y%20z/${p}/c%20d", "2")] {
        let options = format!(
            "{ON}, 'projection.p.type' 'integer', 'projection.p.range' '1,2', \
             'storage.location.template' '{template}'"
        );
        fixture
            .declare("id BIGINT, p INT", "CSV", "p", &options)
            .await
            .unwrap();
        assert_eq!(fixture.rows("SELECT id FROM t").await, [id], "{template}");
    }
}

#[tokio::test]
async fn a_local_name_of_no_directory_is_an_empty_partition() {
    let tree = csv_tree(&[("a=1/b=1", &[1])]);
    std::fs::write(tree.path().join("a=2"), "x").unwrap();
    std::fs::write(tree.path().join("a=1/b=2"), "x").unwrap();
    let ctx = SessionContext::new().with_partitioned();
    for b in ["'projection.b.type' 'injected',", ""] {
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (id BIGINT, a TEXT, b TEXT) STORED AS CSV \
             PARTITIONED BY (a, b) LOCATION '{}' OPTIONS ('connector' 'filesystem', {b} \
             'projection.enabled' 'true', 'projection.a.type' 'injected')",
            tree.path().display()
        );
        ctx.sql(&sql).await.unwrap();
        for filter in ["b IN ('1', '2')", "b IN ('1', repeat('x', 300))"] {
            let sql = format!(
                "SELECT id FROM (VALUES ('1'), ('2'), (repeat('x', 300))) AS d(x) JOIN t \
                 ON a = x WHERE {filter}"
            );
            let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            assert_eq!(sorted_rows(&rows), ["1"], "{sql}");
        }
    }
}

#[tokio::test]
async fn a_listing_that_fails_is_no_empty_partition() {
    let fixture = Fixture::new();
    for p in 1..=3 {
        let key = format!("t/p={p}/q=1/f.csv");
        fixture.put_ids(&key, &[p]).await;
    }
    let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
    let lake = fixture.lake.clone().with_store(Arc::new(faulty.clone()));
    lake.register(&fixture.ctx);
    fixture.set("partitioned.list_cache.ttl", "1h").await;
    let p = "'projection.p.type' 'integer', 'projection.p.range' '1,9'";
    let q = "'projection.q.type' 'injected'";
    for rules in [p, &format!("{p}, {q}")] {
        let options = format!("{ON}, {rules}");
        fixture
            .declare("id BIGINT, p INT, q TEXT", "CSV", "p, q", &options)
            .await
            .unwrap();
        for sql in [
            "SELECT id FROM t WHERE q = '1'",
            "SELECT p, count(*) FROM t WHERE q = '1' GROUP BY p",
            "SELECT DISTINCT p FROM t WHERE q = '1'",
            "SELECT min(p), max(p) FROM t WHERE q = '1' AND p <> 3",
            "SELECT id FROM t WHERE q = '1' ORDER BY p, id",
        ] {
            faulty.inject(Fault::fail(|request| {
                request.kind != RequestKind::Get && request.path.as_ref().contains("p=2")
            }));
            fixture.ctx.listing_cache().unwrap().clear();
            for _ in 0..2 {
                let error = fixture.error(sql).await;
                assert!(error.contains("p=2"), "{sql}: {error}");
            }
            faulty.heal();
            let found = fixture.rows(sql).await;
            assert_eq!(fixture.rows(sql).await, found, "{sql}");
            let rows = if sql.contains("min") { 1 } else { 3 };
            assert_eq!(found.len(), rows, "{sql}");
        }
    }
}
