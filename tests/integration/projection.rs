//! Partitions that are computed: Athena's partition projection, alone and above listed levels.

use std::sync::Arc;

use chrono::{Days, Utc};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::catalog::{DirectoryCatalog, HybridCatalog};
use datafusion_partitioned::core::{
    MemoryCatalog, Partition, PartitionLayout, PartitionSpec, PartitionValues,
};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned::table::PartitionedTableProvider;
use datafusion_partitioned_test_utils::{RequestKind, sorted_rows};
use insta::assert_snapshot;

use crate::common::{Fixture, csv_tree};

const COLUMNS: &str = "id BIGINT, tenant TEXT, day TEXT, n INT";

/// `t/tenant=T/day=D/n=N/f.csv` for two tenants, two days and three numbers, one of which is missing.
async fn lake() -> Fixture {
    let fixture = Fixture::new();
    let mut id = 0;
    for tenant in ["a", "b c"] {
        for day in ["2024-02-28", "2024-02-29"] {
            for n in ["01", "03", "05"] {
                id += 1;
                if id != 5 {
                    let key = format!("t/tenant={tenant}/day={day}/n={n}/f.csv");
                    fixture.put_ids(&key, &[id]).await;
                }
            }
        }
    }
    fixture
}

const RULES: &str = "'projection.enabled' 'true', 'projection.tenant.type' 'enum', \
    'projection.tenant.values' 'a, b c', 'projection.day.type' 'date', \
    'projection.day.format' 'yyyy-MM-dd', 'projection.day.range' '2024-02-01,2024-03-31', \
    'projection.n.type' 'integer', 'projection.n.range' '1,9', 'projection.n.interval' '2', \
    'projection.n.digits' '2'";

async fn projected() -> Fixture {
    let fixture = lake().await;
    let partitioned_by = "tenant, day, n";
    let declared = fixture.declare(COLUMNS, "CSV", partitioned_by, RULES).await;
    declared.unwrap();
    fixture
}

async fn requests(filter: &str, rows: usize) -> String {
    let fixture = projected().await;
    let sql = format!("SELECT * FROM t WHERE {filter}");
    assert_eq!(fixture.rows(&sql).await.len(), rows, "{filter}");
    fixture.take_requests()
}

#[tokio::test]
async fn nothing_is_listed_above_the_partitions() {
    assert_snapshot!(requests("tenant = 'a' AND day = '2024-02-28' AND n < 4", 2).await, @r"
    GET /t/tenant=a/day=2024-02-28/n=01/f.csv
    GET /t/tenant=a/day=2024-02-28/n=03/f.csv
    LIST /t/tenant=a/day=2024-02-28/n=01/
    LIST /t/tenant=a/day=2024-02-28/n=03/
    ");
    assert_snapshot!(requests("n = 5 AND day IN ('2024-02-29', '2024-02-30')", 2).await, @r"
    GET /t/tenant=a/day=2024-02-29/n=05/f.csv
    GET /t/tenant=b c/day=2024-02-29/n=05/f.csv
    LIST /t/tenant=a/day=2024-02-29/n=05/
    LIST /t/tenant=b c/day=2024-02-29/n=05/
    ");
    assert_snapshot!(requests("tenant = 'c'", 0).await, @"");
    assert_snapshot!(requests("n = 4", 0).await, @"");
    assert_snapshot!(requests("day = '2024-2-28' OR tenant IS NULL", 0).await, @"");
}

#[tokio::test]
async fn answers_are_those_of_the_listed_table() {
    let fixture = projected().await;
    let queries = [
        "SELECT * FROM t",
        "SELECT * FROM t WHERE day BETWEEN '2024-02-29' AND '2024-03-02'",
        "SELECT * FROM t WHERE day LIKE '%-28' AND n <> 3",
        "SELECT * FROM t WHERE tenant = 'a' OR n = 1",
        "SELECT * FROM t WHERE n + id > 8",
        "SELECT count(*), min(day), max(day), max(n), count(DISTINCT n) FROM t",
        "SELECT DISTINCT tenant, n FROM t",
        "SELECT n, count(*) FROM t GROUP BY n",
        "SELECT t.* FROM t JOIN (VALUES ('2024-02-28', 5), ('2024-02-29', 1)) AS d(day, n) \
         ON t.day = d.day AND t.n = d.n",
        "SELECT * FROM t WHERE day = (SELECT max(day) FROM t WHERE tenant = 'a')",
    ];
    let mut projected = vec![];
    for query in queries {
        projected.push(fixture.rows(query).await);
    }
    assert_eq!(projected[0].len(), 11);
    fixture
        .declare(COLUMNS, "CSV", "tenant, day, n", "")
        .await
        .unwrap();
    for (query, projected) in queries.iter().zip(&projected) {
        assert_eq!(&fixture.rows(query).await, projected, "{query}");
    }
    for key in [
        "static_pruning",
        "metadata_answers",
        "dynamic_filter.enabled",
    ] {
        fixture.set(&format!("partitioned.{key}"), "false").await;
    }
    fixture
        .declare(COLUMNS, "CSV", "tenant, day, n", RULES)
        .await
        .unwrap();
    for (query, projected) in queries.iter().zip(&projected) {
        assert_eq!(&fixture.rows(query).await, projected, "unpruned: {query}");
    }
}

#[tokio::test]
async fn keys_of_a_join_are_all_that_is_computed() {
    let fixture = projected().await;
    let sql = "SELECT t.id FROM (VALUES ('b c', '2024-02-28', 3), ('a', '2024-02-29', 1)) \
               AS d(tenant, day, n) JOIN t ON t.tenant = d.tenant AND t.day = d.day AND t.n = d.n";
    assert_eq!(fixture.rows(sql).await, ["4", "8"]);
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/tenant=a/day=2024-02-29/n=01/f.csv
    GET /t/tenant=b c/day=2024-02-28/n=03/f.csv
    LIST /t/tenant=a/day=2024-02-29/n=01/
    LIST /t/tenant=b c/day=2024-02-28/n=03/
    ");
}

const INJECTED: &str = "'projection.enabled' 'true', 'projection.tenant.type' 'injected', \
    'projection.day.type' 'date', 'projection.day.format' 'yyyy-MM-dd', \
    'projection.day.range' '2024-02-28,2024-02-29', 'projection.n.type' 'injected'";

#[tokio::test]
async fn injected_values_come_from_the_query() {
    let fixture = lake().await;
    fixture
        .declare(
            "id BIGINT, tenant TEXT, day TEXT, n TEXT",
            "CSV",
            "tenant, day, n",
            INJECTED,
        )
        .await
        .unwrap();
    let ids = async |filter: &str| {
        let ids = fixture
            .rows(&format!("SELECT id FROM t WHERE {filter}"))
            .await;
        (ids.join(" "), fixture.requests.count(RequestKind::List))
    };
    assert_eq!(ids("tenant = 'a' AND n = '03'").await, ("2".to_owned(), 2));
    fixture.requests.clear();
    let both = "tenant IN ('a', 'b c', 'x') AND (n = '01' OR n = '05')";
    assert_eq!(ids(both).await.0, "1 10 12 3 4 6 7 9");
    fixture.requests.clear();
    // As the directories spell it, and nothing else.
    assert_eq!(ids("tenant = 'a' AND n = '3'").await, (String::new(), 2));
    assert_eq!(
        ids("tenant = 'a' AND n IN ('', '03') AND id < 3").await.0,
        "2"
    );
    assert_eq!(ids("tenant = 'a' AND n = '01' AND n = '03'").await.0, "");
    assert_eq!(ids("tenant = NULL AND n = '01'").await.0, "");

    let sql = "SELECT t.id FROM (VALUES ('a', '05'), ('b c', '01')) AS d(tenant, n) \
               JOIN t ON t.tenant = d.tenant AND t.n = d.n";
    assert_eq!(fixture.rows(sql).await, ["10", "3", "6", "7"]);
    let sql =
        "SELECT id FROM t WHERE tenant = (SELECT min(column1) FROM (VALUES ('b c'))) AND n = '01'";
    assert_eq!(fixture.rows(sql).await, ["10", "7"]);
    let prepared = "PREPARE p(TEXT) AS SELECT id FROM t WHERE tenant = $1 AND n = '03'";
    fixture.run(prepared).await.unwrap();
    assert_eq!(fixture.rows("EXECUTE p('b c')").await, ["11", "8"]);

    for filter in [
        "tenant = 'a'",
        "tenant = 'a' AND n > '0'",
        "tenant = 'a' OR n = '01'",
    ] {
        let error = fixture
            .error(&format!("SELECT * FROM t WHERE {filter}"))
            .await;
        let expected = "nothing says which values of the partition column";
        assert!(
            error.contains(expected) && error.contains("add a condition"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn injected_values_stay_in_their_directory() {
    let fixture = Fixture::new();
    fixture.put_ids("t/a/secret/f.csv", &[1]).await;
    fixture.put_ids("t/a/f.csv", &[2]).await;
    let rules = "'projection.enabled' 'true', 'projection.p.type' 'injected'";
    let raw = format!("{rules}, 'storage.location.template' '${{p}}'");
    fixture
        .declare("id BIGINT, p TEXT", "CSV", "p", &raw)
        .await
        .unwrap();
    for value in ["a/secret", "../t/a", "..", "."] {
        fixture
            .error(&format!("SELECT * FROM t WHERE p = '{value}'"))
            .await;
    }
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE p = 'a'").await,
        ["1", "2"]
    );
    // A layout escapes them.
    let escaped = format!("{rules}, 'partition.layout' 'directory'");
    fixture
        .declare("id BIGINT, p TEXT", "CSV", "p", &escaped)
        .await
        .unwrap();
    for value in ["a/secret", "../t/a", "..", "."] {
        let rows = fixture
            .rows(&format!("SELECT id FROM t WHERE p = '{value}'"))
            .await;
        assert!(rows.is_empty(), "{value}: {rows:?}");
    }
}

#[tokio::test]
async fn a_template_places_partitions_anywhere_in_the_store() {
    let fixture = Fixture::new();
    fixture.put_ids("in/2024/02/28/a-x/f.csv", &[1]).await;
    fixture.put_ids("in/2024/02/29/b-x/f.csv", &[2]).await;
    fixture.put_ids("in/2024/03/01/b-x/f.csv", &[3]).await;
    let template = format!("{}${{d}}/${{p}}-x/", fixture.lake.location("in/"));
    let options = format!(
        "'projection.enabled' 'true', 'projection.p.type' 'enum', 'projection.p.values' 'a,b', \
         'projection.d.type' 'date', 'projection.d.format' 'yyyy/MM/dd', \
         'projection.d.range' '2024/02/01,2024/02/29', 'storage.location.template' '{template}'"
    );
    fixture
        .declare("id BIGINT, p TEXT, d DATE", "CSV", "p, d", &options)
        .await
        .unwrap();
    assert_eq!(
        fixture
            .rows("SELECT * FROM t WHERE d >= '2024-02-28'")
            .await,
        ["1 | a | 2024-02-28", "2 | b | 2024-02-29"]
    );
    fixture.requests.clear();
    assert_eq!(
        fixture
            .rows("SELECT id FROM t WHERE d = DATE '2024-02-29' AND p = 'b'")
            .await,
        ["2"]
    );
    assert_snapshot!(fixture.take_requests(), @r"
    GET /in/2024/02/29/b-x/f.csv
    LIST /in/2024/02/29/b-x/
    ");
}

#[tokio::test]
async fn now_is_when_the_query_starts() {
    let fixture = Fixture::new();
    let today = Utc::now().date_naive();
    for days in [0, 1, 2, 3, 40] {
        let day = today - Days::new(days);
        fixture
            .put_ids(&format!("t/d={day}/f.csv"), &[days as i64])
            .await;
    }
    let options = "'projection.enabled' 'true', 'projection.d.type' 'date', \
                   'projection.d.format' 'yyyy-MM-dd', 'projection.d.range' 'NOW-3DAYS,NOW'";
    fixture
        .declare("id BIGINT, d DATE", "CSV", "d", options)
        .await
        .unwrap();
    let found = fixture.rows("SELECT id FROM t").await;
    let recent = "SELECT id FROM t WHERE d >= CURRENT_DATE - INTERVAL '1 day'";
    fixture.requests.clear();
    let found_recent = fixture.rows(recent).await;
    if Utc::now().date_naive() > today {
        return; // It has just become midnight.
    }
    assert_eq!(found, ["0", "1", "2", "3"]);
    assert_eq!(found_recent, ["0", "1"]);
    assert_eq!(fixture.take_requests().matches("LIST").count(), 2);
}

#[tokio::test]
async fn listed_columns_follow_projected_ones() {
    let fixture = lake().await;
    let options = "'projection.enabled' 'true', 'projection.tenant.type' 'enum', \
                   'projection.tenant.values' 'a,b c,gone'";
    fixture
        .declare(COLUMNS, "CSV", "tenant, day, n", options)
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id FROM t").await.len(), 11);
    assert_eq!(
        fixture
            .rows("SELECT * FROM t WHERE n = 3 AND tenant = 'a'")
            .await,
        ["2 | a | 2024-02-28 | 3"]
    );
    fixture.requests.clear();
    let sql = "SELECT id FROM t WHERE tenant = 'b c' AND day = '2024-02-29'";
    assert_eq!(fixture.rows(sql).await, ["10", "11", "12"]);
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/tenant=b c/day=2024-02-29/n=01/f.csv
    GET /t/tenant=b c/day=2024-02-29/n=03/f.csv
    GET /t/tenant=b c/day=2024-02-29/n=05/f.csv
    LIST /t/tenant=b c/ (delimiter)
    LIST /t/tenant=b c/day=2024-02-29/
    ");
    assert_eq!(
        fixture
            .rows("SELECT count(*), max(day) FROM t WHERE tenant <> 'a'")
            .await,
        ["6 | 2024-02-29"]
    );
    fixture
        .put_ids("t/tenant=a/day=2024-02-28/n=x/f.csv", &[99])
        .await;
    let error = fixture.error("SELECT * FROM t").await;
    assert!(
        error.contains("partition column 'n': 'x' is not a value"),
        "{error}"
    );
    let skip = format!("{options}, 'partition.on-mismatch' 'skip'");
    fixture
        .declare(COLUMNS, "CSV", "tenant, day, n", &skip)
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id FROM t").await.len(), 11);
}

#[tokio::test]
async fn a_hybrid_lists_below_given_locations() {
    let fixture = Fixture::new();
    fixture.put_ids("here/q=1/f.csv", &[1]).await;
    fixture.put_ids("here/q=2/f.csv", &[2]).await;
    fixture.put_ids("there/old/q=1/f.csv", &[3]).await;
    let p = PartitionSpec::try_new([Field::new("p", DataType::Utf8, true)]).unwrap();
    let q = PartitionSpec::try_new([Field::new("q", DataType::Int32, true)]).unwrap();
    let partition = |value: Option<&str>, location: &str| {
        let values = PartitionValues::try_new(&p, vec![ScalarValue::from(value)]).unwrap();
        Partition::new(values, location.into())
    };
    let partitions = [
        partition(Some("x"), "here"),
        partition(None, "there/old"),
        partition(Some("z"), "nowhere"),
    ];
    let first = MemoryCatalog::try_new(p.clone(), &partitions).unwrap();
    let root = ListingTableUrl::parse(fixture.lake.location("")).unwrap();
    let store_url = root.object_store();
    let rest = DirectoryCatalog::try_new(&[root], q.clone(), PartitionLayout::hive(&q)).unwrap();
    let catalog = HybridCatalog::try_new(Arc::new(first), &rest).unwrap();
    assert!(HybridCatalog::try_new(Arc::new(rest.clone()), &rest).is_err());
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let table = PartitionedTableProvider::try_new(
        Arc::new(catalog),
        Arc::new(CsvFormat::default().with_has_header(true)),
        store_url,
        schema,
    )
    .unwrap();
    fixture.ctx.register_table("t", Arc::new(table)).unwrap();
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        ["1 | x | 1", "2 | x | 2", "3 | <null> | 1"]
    );
    fixture.requests.clear();
    assert_eq!(
        fixture
            .rows("SELECT id FROM t WHERE p IS NULL AND q = 1")
            .await,
        ["3"]
    );
    assert_snapshot!(fixture.take_requests(), @r"
    GET /there/old/q=1/f.csv
    LIST /there/old/ (delimiter)
    LIST /there/old/q=1/
    ");
    let sql = "SELECT t.id FROM (VALUES ('x', 2), ('z', 1)) AS d(p, q) JOIN t \
               ON t.p = d.p AND t.q = d.q";
    assert_eq!(fixture.rows(sql).await, ["2"]);
}

#[tokio::test]
async fn a_local_directory_that_is_missing_is_empty() {
    let tree = csv_tree(&[("a=1/b=1", &[1]), ("a=3/b=1", &[3])]);
    let ctx = SessionContext::new().with_partitioned();
    for (name, rules) in [
        (
            "whole",
            "'projection.b.type' 'integer', 'projection.b.range' '1,2',",
        ),
        ("hybrid", ""),
    ] {
        let sql = format!(
            "CREATE EXTERNAL TABLE {name} (id BIGINT, a INT, b INT) STORED AS CSV \
             PARTITIONED BY (a, b) LOCATION '{}' OPTIONS ('connector' 'filesystem', {rules} \
             'projection.enabled' 'true', 'projection.a.type' 'integer', 'projection.a.range' '1,4')",
            tree.path().display()
        );
        ctx.sql(&sql).await.unwrap();
        for sql in [
            "SELECT id FROM",
            "SELECT id FROM (SELECT * FROM t WHERE b = 1)",
        ] {
            let sql = sql.replace(" t ", &format!(" {name} "));
            let sql = if sql.ends_with("FROM") {
                format!("{sql} {name}")
            } else {
                sql
            };
            let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            assert_eq!(sorted_rows(&rows), ["1", "3"], "{sql}");
        }
    }
}

#[tokio::test]
async fn an_ordered_scan_computes_no_more_than_it_reads() {
    let fixture = projected().await;
    fixture
        .set("datafusion.execution.target_partitions", 1)
        .await;
    for (order, expected) in [
        ("tenant, day, n", "1 2"),
        ("tenant DESC, day DESC, n DESC", "12 11"),
        ("tenant, day DESC, n", "4 6"),
    ] {
        let sql = format!(
            "SELECT id FROM t WHERE day IN ('2024-02-28', '2024-02-29') ORDER BY {order} LIMIT 2"
        );
        fixture.requests.clear();
        assert_eq!(
            fixture.ordered_rows(&sql).await.join(" "),
            expected,
            "{order}"
        );
        let listed = fixture.take_requests().matches("LIST").count();
        assert!(listed < 8, "{order}: {listed}");
    }
    let all = "SELECT id, tenant, day, n FROM t";
    for order in [
        "n",
        "day DESC NULLS LAST, tenant",
        "tenant, n",
        "n DESC, day",
    ] {
        let ordered = fixture
            .ordered_rows(&format!("{all} ORDER BY {order}, id"))
            .await;
        fixture.set("partitioned.ordered_scan", "false").await;
        assert_eq!(
            fixture
                .ordered_rows(&format!("{all} ORDER BY {order}, id"))
                .await,
            ordered
        );
        fixture.set("partitioned.ordered_scan", "true").await;
    }
}

#[tokio::test]
async fn texts_are_those_of_the_directories() {
    let fixture = lake().await;
    let condition = "'partitions' 'n LIKE ''0_'' AND n <> ''03'' AND day LIKE ''%-29'''";
    let options = format!("{RULES}, {condition}");
    fixture
        .declare(COLUMNS, "CSV", "tenant, day, n", &options)
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT id FROM t").await,
        ["10", "12", "4", "6"]
    );
}

#[tokio::test]
async fn limits_hold_for_computed_partitions() {
    let fixture = lake().await;
    let options = format!("{RULES}, 'partition.max' '10', 'partition.filter-required' 'true'");
    fixture
        .declare(COLUMNS, "CSV", "tenant, day, n", &options)
        .await
        .unwrap();
    let error = fixture.error("SELECT * FROM t WHERE n = 1").await;
    assert!(error.contains("10"), "{error}");
    assert!(fixture.error("SELECT * FROM t").await.contains("filter"));
    let few = "SELECT id FROM t WHERE n = 1 AND day = '2024-02-29'";
    assert_eq!(fixture.rows(few).await, ["10", "4"]);
}

#[tokio::test]
async fn explain_names_the_projection() {
    let fixture = projected().await;
    let plan = fixture.explain("SELECT id FROM t WHERE n = 1").await;
    assert!(
        plan.contains("projection(tenant, day, n in memory://"),
        "{plan}"
    );
    assert_eq!(fixture.take_requests(), "");
}

#[tokio::test]
async fn rules_that_do_not_fit_are_refused() {
    let fixture = Fixture::new();
    let on = "'projection.enabled' 'true',";
    for (options, message) in [
        (
            "'projection.enabled' 'true'",
            "no partition column has a projection",
        ),
        (
            "'projection.p.type' 'injected'",
            "but not 'projection.enabled'",
        ),
        ("'projection.enabled' 'maybe'", "expected true or false"),
        (
            &format!("{on} 'projection.q.type' 'injected'"),
            "'p' before it has none",
        ),
        (on, "no partition column has a projection"),
        (
            &format!("{on} 'projection.x.type' 'injected'"),
            "there is no partition column 'x'",
        ),
        (
            &format!("{on} 'projection.p.type' 'hash'"),
            "expected enum, integer, date or injected",
        ),
        (
            &format!("{on} 'projection.p.type' 'enum'"),
            "missing option 'projection.p.values'",
        ),
        (
            &format!("{on} 'projection.p.type' 'enum', 'projection.p.values' '1,x'"),
            "the projection of column 'p'",
        ),
        (
            &format!("{on} 'projection.p.type' 'enum', 'projection.p.values' '1,2,1'"),
            "'1' is listed twice",
        ),
        (
            &format!("{on} 'projection.p.type' 'injected', 'projection.p.values' '1'"),
            "option 'projection.p.values' has no effect",
        ),
        (
            &format!("{on} 'projection.p.type' 'integer', 'projection.p.range' '5'"),
            "option 'projection.p.range'",
        ),
        (
            &format!("{on} 'projection.p.type' 'integer', 'projection.p.range' '5,1'"),
            "ends before it begins",
        ),
        (
            &format!("{on} 'projection.p.type' 'integer', 'projection.p.range' '1,9999999999'"),
            "'9999999999' is not a value of type Int32",
        ),
        (
            &format!(
                "{on} 'projection.p.type' 'integer', 'projection.p.range' '1,2', \
                 'projection.p.interval' '0'"
            ),
            "expected an integer from 1",
        ),
        (
            &format!(
                "{on} 'projection.p.type' 'date', 'projection.p.range' '2024,NOW', \
                 'projection.p.format' 'yyyy', 'projection.p.interval.unit' 'DAYS'"
            ),
            "finer than the format",
        ),
        (
            &format!("{on} 'projection.p.type' 'injected', 'storage.location.template' '${{x}}'"),
            "names 'x'",
        ),
        (
            &format!("{on} 'projection.p.type' 'injected', 'partitions' 'p = ''1'''"),
            "option 'partitions' does not go with",
        ),
        (
            &format!("{on} 'projection.p.type' 'injected', 'schema.sample' 'all'"),
            "option 'schema.sample' does not go with",
        ),
        (
            &format!("{on} 'projection.p.type' 'injected', 'projection.p.tpye' 'x'"),
            "unknown option 'projection.p.tpye'",
        ),
    ] {
        let declared = fixture
            .declare("id BIGINT, p INT, q INT", "CSV", "p, q", options)
            .await;
        let error = declared.unwrap_err().to_string();
        assert!(error.contains(message), "{options}: {error}");
    }
    let rules = format!("{on} 'projection.p.type' 'injected'");
    let error = fixture
        .declare("p INT", "CSV", "p", &rules)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("declare the columns"), "{error}");
    // Switched off, the rules may stay.
    fixture.put_ids("t/p=1/q=1/f.csv", &[7]).await;
    let off = "'projection.enabled' 'false', 'projection.p.type' 'injected'";
    fixture
        .declare("id BIGINT, p INT, q INT", "CSV", "p, q", off)
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["7"]);
}
