//! Rows in the order of the partition columns, without a sort.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::{Fixture, NULL, csv_tree, property_config, random_files, random_table};

/// Three years of three months with two rows each, and a NULL on both levels.
pub(crate) async fn months(streams: usize) -> Fixture {
    let fixture = Fixture::with_streams(streams);
    for year in [2022, 2023, 2024] {
        for month in [1, 2, 10] {
            let id = year * 100 + month;
            let key = format!("t/year={year}/month={month}/f.csv");
            fixture.put_ids(&key, &[id, id + 50]).await;
        }
    }
    let key = format!("t/year=2023/month={NULL}/f.csv");
    fixture.put_ids(&key, &[202_300]).await;
    let key = format!("t/year={NULL}/month=1/f.csv");
    fixture.put_ids(&key, &[1]).await;
    fixture.create("t", "year INT, month INT").await;
    fixture
}

/// Days from 1 on, each with one file of `rows` rows.
pub(crate) async fn days(fixture: &Fixture, days: i64, rows: i64) {
    for day in 1..=days {
        let ids: Vec<i64> = (0..rows).map(|row| day * 1000 + row).collect();
        fixture.put_ids(&format!("t/day={day}/f.csv"), &ids).await;
    }
    fixture.create("t", "day INT").await;
}

#[tokio::test]
async fn an_order_of_partition_columns_needs_no_sort() {
    let fixture = months(3).await;
    let sql = "SELECT id, month AS m FROM t ORDER BY year DESC NULLS LAST, m";
    insta::assert_snapshot!(fixture.explain(sql).await, @r"
    ProjectionExec: expr=[id@0 as id, m@1 as m]
      SortPreservingMergeExec: [year@2 DESC NULLS LAST, m@1 ASC NULLS LAST]
        ProjectionExec: expr=[id@0 as id, month@2 as m, year@1 as year]
          DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], partition_order=[year DESC NULLS LAST, month ASC NULLS LAST], projection=[id, year, month], file_type=csv, has_header=true
    ");
    let without_sort = "SELECT year, month, id FROM t ORDER BY year, month";
    assert!(!fixture.explain(without_sort).await.contains("SortExec"));
    fixture
        .set("datafusion.optimizer.enable_sort_pushdown", false)
        .await;
    assert!(fixture.explain(without_sort).await.contains("SortExec"));
}

#[tokio::test]
async fn every_direction_and_place_of_null_in_every_mode() {
    let orders = [
        "year, month",
        "year DESC, month DESC",
        "year NULLS FIRST, month DESC NULLS LAST",
        "year DESC NULLS LAST, month NULLS FIRST",
        "month, year DESC",
        "month DESC NULLS LAST",
        "year, month, year DESC",
        "year DESC, id",
        "month NULLS FIRST, id DESC",
    ];
    for streams in [1, 3, 16] {
        let fixture = months(streams).await;
        for work_stealing in [true, false] {
            fixture
                .set(
                    "datafusion.execution.enable_file_stream_work_stealing",
                    work_stealing,
                )
                .await;
            for order in orders {
                for tail in [
                    "",
                    " LIMIT 1",
                    " LIMIT 5",
                    " LIMIT 4 OFFSET 3",
                    " LIMIT 100",
                ] {
                    // Rows of one partition have no order: only its columns are compared.
                    let columns = if order.contains("id") {
                        "year, month, id"
                    } else {
                        "year, month"
                    };
                    let key = if order.contains("year") {
                        columns
                    } else {
                        "month"
                    };
                    let sql = format!("SELECT {key} FROM t ORDER BY {order}{tail}");
                    let ordered = fixture.ordered_rows(&sql).await;
                    fixture
                        .set("datafusion.optimizer.enable_sort_pushdown", false)
                        .await;
                    let sorted = fixture.ordered_rows(&sql).await;
                    fixture
                        .set("datafusion.optimizer.enable_sort_pushdown", true)
                        .await;
                    assert_eq!(ordered, sorted, "{sql}, {streams} streams");
                    assert!(!ordered.is_empty());
                }
            }
        }
    }
}

#[tokio::test]
async fn local_directories_are_read_in_order() {
    let tree = csv_tree(&[
        ("t/p=1/q=b%20c", &[1]),
        ("t/p=02/q=a", &[2]),
        ("t/p=10/q=x", &[]),
        ("t/p=__HIVE_DEFAULT_PARTITION__/q=a", &[3]),
        ("t/.hidden/q=a", &[4]),
    ]);
    let fixture = Fixture::with_streams(2);
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT, q TEXT) STORED AS CSV PARTITIONED BY (p, q) \
         LOCATION '{}/' OPTIONS ('connector' 'filesystem')",
        tree.path().join("t").display()
    );
    fixture.run(&sql).await.unwrap();
    for (sql, expected) in [
        (
            "SELECT p, q FROM t ORDER BY p DESC NULLS LAST LIMIT 1",
            "2 | a",
        ),
        (
            "SELECT p, q FROM t ORDER BY p NULLS FIRST LIMIT 1",
            "<null> | a",
        ),
        ("SELECT p, q FROM t ORDER BY q DESC LIMIT 1", "1 | b c"),
        ("SELECT max(p), min(p), max(q) FROM t", "2 | 1 | b c"),
    ] {
        assert_eq!(fixture.rows(sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn joins_unions_and_subqueries_above_an_order() {
    let fixture = Fixture::with_streams(3);
    days(&fixture, 10, 2).await;
    let union = "SELECT day FROM (SELECT day FROM t UNION ALL SELECT day + 100 FROM t) \
                 ORDER BY day DESC LIMIT 3";
    assert_eq!(fixture.ordered_rows(union).await, ["110", "110", "109"]);
    let nested = "SELECT sum(id) FROM (SELECT id FROM t ORDER BY day LIMIT 2)";
    assert_eq!(fixture.rows(nested).await, ["2001"]);
    let joined = "SELECT t.day FROM t JOIN (VALUES (3), (5), (7)) v(d) ON t.day = v.d \
                  ORDER BY t.day DESC LIMIT 3";
    assert_eq!(fixture.ordered_rows(joined).await, ["7", "7", "5"]);
}

#[tokio::test]
async fn a_plan_is_executed_again_and_a_reader_stops_early() {
    let fixture = Fixture::with_streams(3);
    days(&fixture, 50, 2).await;
    let plan = fixture
        .plan("SELECT day FROM t ORDER BY day DESC LIMIT 3")
        .await
        .unwrap();
    for _ in 0..3 {
        let plan = datafusion::physical_plan::execution_plan::reset_plan_states(Arc::clone(&plan))
            .unwrap();
        let rows = datafusion::physical_plan::collect(plan, fixture.ctx.task_ctx())
            .await
            .unwrap();
        assert_eq!(
            datafusion_partitioned_test_utils::sorted_rows(&rows),
            ["49", "50", "50"]
        );
    }
    let plan = fixture
        .plan("SELECT day FROM t ORDER BY day")
        .await
        .unwrap();
    let mut stream =
        datafusion::physical_plan::execute_stream(plan, fixture.ctx.task_ctx()).unwrap();
    assert!(futures::StreamExt::next(&mut stream).await.unwrap().is_ok());
    drop(stream);
    let sql = "SELECT day FROM t ORDER BY day";
    assert_eq!(fixture.ordered_rows(sql).await.len(), 100);
}

#[tokio::test]
async fn ordered_scans_spare_group_by_and_windows_a_sort() {
    let queries = [
        "SELECT year, month, count(*) FROM t GROUP BY year, month",
        "SELECT id, row_number() OVER (PARTITION BY year ORDER BY month) > 0 FROM t",
        "SELECT a.id, b.id FROM t a JOIN t b ON a.year = b.year AND a.month = b.month",
        "SELECT DISTINCT year FROM t",
        "SELECT year, max(month) FROM t GROUP BY year ORDER BY year",
        "SELECT max(month), min(year) FROM t",
        "SELECT id FROM t WHERE year = 2023",
        "SELECT count(*) FROM (SELECT id FROM t LIMIT 7)",
    ];
    for streams in [1, 4] {
        let fixture = months(streams).await;
        for threshold in ["threshold", "threshold_rows"] {
            let key = format!("datafusion.optimizer.hash_join_single_partition_{threshold}");
            fixture.set(&key, 0).await;
        }
        fixture
            .set("datafusion.optimizer.prefer_hash_join", false)
            .await;
        fixture
            .set("datafusion.optimizer.prefer_existing_sort", true)
            .await;
        for sql in queries {
            fixture.set("partitioned.ordered_scan", false).await;
            let expected = fixture.rows(sql).await;
            fixture.set("partitioned.ordered_scan", true).await;
            assert_eq!(fixture.rows(sql).await, expected, "{sql}");
        }
        let merge_join = fixture.explain(queries[2]).await;
        assert_eq!(
            merge_join.contains("SortMergeJoin"),
            streams > 1,
            "{merge_join}"
        );
        for sql in &queries[..2] {
            let plan = fixture.explain(sql).await;
            assert!(!plan.contains("SortExec"), "{plan}");
            assert!(plan.contains("partition_order=[year ASC NULLS LAST, month ASC NULLS LAST]"));
        }
    }
}

#[tokio::test]
async fn zero_is_one_group_in_an_ordered_scan() {
    for streams in [1, 3] {
        let fixture = Fixture::with_streams(streams);
        for (directory, id) in [
            ("p=-0.0/q=1", 1),
            ("p=-0.0/q=2", 2),
            ("p=0/q=1", 3),
            ("p=1/q=1", 4),
        ] {
            let key = format!("t/{directory}/f.csv");
            fixture.put_ids(&key, &[id]).await;
        }
        for ordered in [false, true] {
            fixture.set("partitioned.ordered_scan", ordered).await;
            for columns in ["p DOUBLE, q INT", "p TEXT, q INT"] {
                let declared = format!("id BIGINT, {columns}");
                let declared = fixture.declare(&declared, "CSV", "p, q", "");
                declared.await.unwrap();
                let sql = "SELECT CAST(p AS DOUBLE) + 0, q, s FROM \
                           (SELECT p, q, sum(id) AS s FROM t GROUP BY p, q)";
                let expected = match columns {
                    "p DOUBLE, q INT" => vec!["0.0 | 1 | 4", "0.0 | 2 | 2", "1.0 | 1 | 4"],
                    _ => vec!["0.0 | 1 | 1", "0.0 | 1 | 3", "0.0 | 2 | 2", "1.0 | 1 | 4"],
                };
                assert_eq!(fixture.rows(sql).await, expected, "{columns}");
            }
        }
    }
}

#[tokio::test]
async fn large_partitions_are_split_and_small_ones_share_a_unit() {
    let fixture = Fixture::with_streams(4);
    fixture
        .set("datafusion.optimizer.repartition_file_min_size", 1024)
        .await;
    let large: Vec<i64> = (0..200_000).collect();
    fixture.put_ids("t/p=5/a.csv", &large).await;
    fixture.put_ids("t/p=5/b.csv", &large).await;
    for p in [1, 2, 3, 7, 9] {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[p]).await;
    }
    fixture.create("t", "p INT").await;
    let rows = fixture
        .ordered_rows("SELECT p FROM t ORDER BY p DESC")
        .await;
    assert_eq!(rows.len(), 400_005);
    assert!(rows.is_sorted_by_key(|p| std::cmp::Reverse(p.parse::<i64>().unwrap())));
}

/// Random partitions and orders give what a sort gives.
#[test]
fn random_orders_are_those_of_a_sort() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let order = proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 1..3);
    let limit = prop_oneof![Just(None), (0..9_usize).prop_map(Some)];
    let strategy = (random_files(), order, limit, 1..5_usize, any::<bool>());
    let outcome = TestRunner::new(property_config(30)).run(
        &strategy,
        |(files, order, limit, streams, stealing)| {
            runtime.block_on(async {
                let fixture = random_table(&files, streams, stealing).await;
                let columns: Vec<String> = order
                    .iter()
                    .map(|(q, descending, nulls_first)| {
                        let column = if *q { "q" } else { "p" };
                        let direction = if *descending { "DESC" } else { "ASC" };
                        let nulls = if *nulls_first { "FIRST" } else { "LAST" };
                        format!("{column} {direction} NULLS {nulls}")
                    })
                    .collect();
                let keys = match (order.iter().any(|o| o.0), order.iter().any(|o| !o.0)) {
                    (true, false) => "q",
                    (false, _) => "p",
                    _ => "p, q",
                };
                let limit = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
                let sql = format!(
                    "SELECT {keys} FROM t ORDER BY {}{limit}",
                    columns.join(", ")
                );
                let ordered = fixture.ordered_rows(&sql).await;
                fixture
                    .set("datafusion.optimizer.enable_sort_pushdown", false)
                    .await;
                prop_assert_eq!(ordered, fixture.ordered_rows(&sql).await, "{}", sql);
                Ok(())
            })
        },
    );
    outcome.unwrap();
}
