//! The first rows in the order of the partition columns: few partitions are listed and opened.

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{FileKind, scan_metric};

use crate::common::Fixture;
use crate::order::{days, months};

#[tokio::test]
async fn a_limit_lists_and_opens_the_first_partitions_only() {
    let fixture = Fixture::with_streams(3);
    days(&fixture, 100, 4).await;
    let sql = "SELECT day, id FROM t ORDER BY day DESC LIMIT 6";
    let rows = fixture.ordered_rows(sql).await;
    assert_eq!(rows.len(), 6);
    assert!(rows[..4].iter().all(|row| row.starts_with("100 |")));
    assert!(rows[4..].iter().all(|row| row.starts_with("99 |")));
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/day=100/f.csv
    GET /t/day=99/f.csv
    LIST /t/ (delimiter)
    LIST /t/day=100/
    LIST /t/day=99/
    ");
}

#[tokio::test]
async fn a_limit_goes_past_empty_directories_and_files() {
    let fixture = Fixture::with_streams(2);
    days(&fixture, 20, 1).await;
    for day in 30..50 {
        let key = format!("t/day={day}/_SUCCESS");
        fixture.lake.put_text(&key, "x").await.unwrap();
    }
    for day in 50..60 {
        fixture.put_ids(&format!("t/day={day}/f.csv"), &[]).await;
    }
    fixture.lake.put_text("t/day=99/f.csv", "").await.unwrap();
    fixture
        .lake
        .put_text("t/_tmp/day=98/f.csv", "id\n1\n")
        .await
        .unwrap();
    fixture.lake.put_text("t/docs/x", "").await.unwrap();
    let sql = "SELECT day FROM t ORDER BY day DESC LIMIT 2";
    fixture.take_requests();
    assert_eq!(fixture.ordered_rows(sql).await, ["20", "19"]);
    assert!(fixture.requests.mentioning("day=3/").is_empty());
    assert_eq!(fixture.requests.mentioning("day=18/f.csv").len(), 0);
    // A directory with data that is no partition is an error here too.
    fixture.put_ids("t/day=oops/f.csv", &[1]).await;
    assert!(fixture.error(sql).await.contains("'oops'"));
}

#[tokio::test]
async fn levels_with_few_directories_are_walked_by_name() {
    let fixture = months(3).await;
    let sql = "SELECT id FROM t ORDER BY year DESC NULLS LAST, month DESC NULLS LAST LIMIT 1";
    fixture.take_requests();
    fixture.rows(sql).await;
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/year=2024/month=10/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2022/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=10/
    LIST /t/year=__HIVE_DEFAULT_PARTITION__/ (delimiter)
    ");
    // More directories on a level than requests in flight: one flat listing below each.
    fixture.set("partitioned.list_concurrency", 1).await;
    let (rows, plan) = fixture.analyze(sql).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 1);
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/year=2024/month=10/f.csv
    LIST /t/
    LIST /t/ (delimiter)
    ");
}

#[tokio::test]
async fn a_limit_stays_above_a_filter_on_file_columns() {
    let fixture = Fixture::with_streams(3);
    days(&fixture, 30, 3).await;
    for (filter, expected) in [
        ("id % 1000 = 2", "30"),
        ("id < 5000", "4"),
        ("id % 7000 = 0", "28"),
    ] {
        let sql = format!("SELECT day FROM t WHERE {filter} ORDER BY day DESC LIMIT 1");
        assert_eq!(fixture.rows(&sql).await, [expected], "{filter}");
    }
    let sql = "SELECT day FROM t WHERE day < 7 ORDER BY day DESC LIMIT 4";
    assert_eq!(fixture.ordered_rows(sql).await, ["6", "6", "6", "5"]);
}

/// DataFusion offers a scan the filters of joins and sorts above, also when the limit of an ordered
/// subquery is in the scan.
#[tokio::test]
async fn a_filter_known_at_run_time_stays_above_a_limit() {
    for streams in [1, 3] {
        for pushdown in [false, true] {
            let mut config = SessionConfig::new().with_target_partitions(streams);
            config.options_mut().execution.parquet.pushdown_filters = pushdown;
            // The subquery is the probe side.
            config.options_mut().optimizer.join_reordering = false;
            let fixture = Fixture::with_config(config);
            for (day, id) in [(1, 50), (2, 60), (3, 40), (4, 1), (5, 3)] {
                let sql = format!("SELECT * FROM (VALUES ({id}), ({id} + 1)) v(id)");
                let key = format!("t/day={day}/f.parquet");
                fixture.put_query(&key, FileKind::Parquet, &sql).await;
            }
            let declared = fixture.declare("id BIGINT, day INT", "PARQUET", "day", "");
            declared.await.unwrap();
            let first = "(SELECT id, day FROM t ORDER BY day LIMIT 6)";
            for (sql, expected) in [
                (
                    "SELECT x.id FROM (VALUES (41), (1), (4)) v(k) JOIN $first x ON x.id = k",
                    vec!["41"],
                ),
                (
                    "SELECT x.id FROM (VALUES (41), (1)) v(k) RIGHT SEMI JOIN $first x ON x.id = k",
                    vec!["41"],
                ),
                (
                    "SELECT id FROM $first ORDER BY id LIMIT 2",
                    vec!["40", "41"],
                ),
                ("SELECT min(id) FROM $first", vec!["40"]),
            ] {
                let sql = sql.replace("$first", first);
                assert_eq!(fixture.rows(&sql).await, expected, "{sql}, {streams}");
            }
        }
    }
}

#[tokio::test]
async fn an_order_that_goes_on_with_file_columns_reads_few_partitions_for_a_limit() {
    let fixture = Fixture::with_streams(2);
    days(&fixture, 100, 4).await;
    let sql = "SELECT day, id FROM t ORDER BY day DESC, id DESC LIMIT 3";
    assert_eq!(
        fixture.ordered_rows(sql).await,
        ["100 | 100003", "100 | 100002", "100 | 100001"]
    );
    fixture.take_requests();
    fixture.rows(sql).await;
    let opened = fixture.requests.mentioning("f.csv").len();
    assert!(opened <= 80, "{opened} files were opened for three rows");
}
