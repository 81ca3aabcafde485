//! Joins whose build side decides which directories of the probe side are listed.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::core::PartitionScan;
use datafusion_partitioned_test_utils::{RequestKind, node_metric, scan_metric};
use insta::assert_snapshot;

use crate::common::Fixture;

/// `t` is partitioned by year and month, `u` by month alone; `d` is a dimension.
async fn star(config: SessionConfig) -> Fixture {
    let fixture = Fixture::with_config(config);
    for year in 2020..2025_i64 {
        for month in 1..=12_i64 {
            let key = format!("t/year={year}/month={month:02}/f.csv");
            fixture.put_ids(&key, &[year * 100 + month]).await;
        }
    }
    for month in 1..=12_i64 {
        fixture
            .put_ids(&format!("u/month={month}/f.csv"), &[month])
            .await;
    }
    fixture.create("t", "year INT, month INT").await;
    fixture.create("u", "month BIGINT").await;
    fixture
        .run(
            "CREATE TABLE d AS SELECT CAST(column1 AS INT) AS y, CAST(column2 AS INT) AS m, \
             column3 AS name FROM (VALUES (2024, 7, 'now'), (2023, 1, 'now'), (2023, 2, 'then'), \
             (2022, NULL, 'now'), (1999, 1, 'old'))",
        )
        .await
        .unwrap();
    fixture
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(2)
}

/// A configuration in which joins are partitioned instead of collecting their build side.
fn partitioned_joins() -> SessionConfig {
    let mut config = config();
    config
        .options_mut()
        .optimizer
        .hash_join_single_partition_threshold = 0;
    config
        .options_mut()
        .optimizer
        .hash_join_single_partition_threshold_rows = 0;
    config
}

const TUPLES: &str =
    "SELECT t.id FROM t JOIN d ON t.year = d.y AND t.month = d.m WHERE name = 'now'";

#[tokio::test]
async fn key_tuples_decide_what_is_listed() {
    let mut logs = vec![];
    for config in [config(), partitioned_joins()] {
        let fixture = star(config).await;
        let (rows, plan) = fixture.analyze(TUPLES).await;
        assert_eq!(rows, ["202301", "202407"]);
        logs.push(fixture.take_requests());
        assert_eq!(scan_metric(&plan, "list_requests"), 5);
        assert_eq!(scan_metric(&plan, "partitions_scanned"), 2);
        assert_eq!(scan_metric(&plan, "files_scanned"), 2);
        assert_eq!(scan_metric(&plan, "dynamic_filters_ready"), 1);
        assert_eq!(
            node_metric(&plan, "PartitionKeyCollectorExec", "keys_collected"),
            2
        );
    }
    assert_snapshot!(logs[0], @r"
    GET /t/year=2023/month=01/f.csv
    GET /t/year=2024/month=07/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=01/
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=07/
    ");
    assert_eq!(logs[1], logs[0]);
}

#[tokio::test]
async fn the_fact_table_is_the_probe_side_whichever_comes_first() {
    for from in ["t JOIN d ON t.year = d.y", "d JOIN t ON t.year = d.y"] {
        let fixture = star(config()).await;
        let sql = format!("SELECT t.id FROM {from} WHERE name = 'then'");
        let (rows, _) = fixture.analyze(&sql).await;
        assert_eq!(rows.len(), 12);
        assert_eq!(fixture.requests.list_count(), 2, "{from}");
    }
}

/// The result of a join on a column of the files is as large as the fact table, as far as anybody
/// knows. Were it taken for as small as the dimension, it would be the build side of the next join.
#[tokio::test]
async fn a_join_on_a_column_of_the_files_leaves_the_fact_table_the_probe_side() {
    let fixture = star(config()).await;
    fixture
        .run(
            "CREATE TABLE kinds AS SELECT column1 AS kind_id, column2 AS kind \
             FROM (VALUES (202407, 'summer'), (202301, 'winter'))",
        )
        .await
        .unwrap();
    let (rows, plan) = fixture
        .analyze(
            "SELECT kind FROM t JOIN kinds ON t.id = kind_id \
             JOIN d ON t.year = d.y AND t.month = d.m",
        )
        .await;
    assert_eq!(rows, ["summer", "winter"]);
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 3);
}

#[tokio::test]
async fn the_plan_shows_both_ends_and_the_join_is_left_alone() {
    let fixture = star(config()).await;
    let plan = fixture.plan(TUPLES).await.unwrap();
    assert_snapshot!(displayable(plan.as_ref()).indent(false), @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(y@0, year@1), (m@1, month@2)], projection=[id@2]
      PartitionKeyCollectorExec: keys=[y@0, m@1]
        FilterExec: name@2 = now, projection=[y@0, m@1]
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], dynamic_filters=[(year@0, month@1)], projection=[id, year, month], file_type=csv, has_header=true
    ");

    fixture
        .run("SET partitioned.dynamic_filter.enabled = false")
        .await
        .unwrap();
    let plan = fixture.plan(TUPLES).await.unwrap();
    assert_snapshot!(displayable(plan.as_ref()).indent(false), @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(y@0, year@1), (m@1, month@2)], projection=[id@2]
      FilterExec: name@2 = now, projection=[y@0, m@1]
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], projection=[id, year, month], file_type=csv, has_header=true
    ");

    let fixture = star(partitioned_joins()).await;
    let plan = fixture.plan(TUPLES).await.unwrap();
    assert_snapshot!(displayable(plan.as_ref()).indent(false), @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(y@0, year@1), (m@1, month@2)], projection=[id@2]
      RepartitionExec: partitioning=Hash([y@0, m@1], 2), input_partitions=1
        PartitionKeyCollectorExec: keys=[y@0, m@1]
          FilterExec: name@2 = now, projection=[y@0, m@1]
            DataSourceExec: partitions=1, partition_sizes=[1]
      RepartitionExec: partitioning=Hash([year@1, month@2], 2), input_partitions=2
        DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[year, month], dynamic_filters=[(year@0, month@1)], projection=[id, year, month], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn switched_off_the_rows_are_the_same_and_everything_is_listed() {
    let fixture = star(config()).await;
    let rows = fixture.rows(TUPLES).await;
    fixture
        .run("SET partitioned.dynamic_filter.enabled = false")
        .await
        .unwrap();
    let (off, plan) = fixture.analyze(TUPLES).await;
    assert_eq!(off, rows);
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 60);
    assert_eq!(scan_metric(&plan, "partitions_pruned_dynamic"), 0);
}

/// The number of partitions that a query scans, and its number of rows.
async fn scanned(sql: &str) -> (usize, usize) {
    let fixture = star(config()).await;
    let (rows, plan) = fixture.analyze(sql).await;
    (scan_metric(&plan, "partitions_scanned"), rows.len())
}

#[tokio::test]
async fn keys_reach_the_scan_through_other_operators() {
    let through = [
        // Renames and projections.
        "SELECT * FROM (SELECT id, month AS m2, year AS y2 FROM t) JOIN d ON y2 = y AND m2 = m",
        // A computed key.
        "SELECT * FROM (SELECT id, year * 100 + month AS ym FROM t) JOIN d ON ym = y * 100 + m",
        // A cast between the two sides.
        "SELECT * FROM t JOIN (SELECT CAST(y AS BIGINT) AS y, m FROM d) ON year = y AND month = m",
        // Filters on file columns.
        "SELECT * FROM (SELECT * FROM t WHERE id > 0) JOIN d ON year = y AND month = m",
        // Semi joins.
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM d WHERE y = year AND m = month)",
    ];
    for sql in through {
        assert_eq!(scanned(sql).await, (3, 3), "{sql}");
    }
    let union = "SELECT * FROM (SELECT id, month FROM t WHERE year = 2024 UNION ALL \
                 SELECT id, month FROM u) JOIN d ON month = m WHERE name = 'now'";
    assert_eq!(scanned(union).await, (4, 4));
    let two_joins = "SELECT * FROM t JOIN d a ON t.year = a.y JOIN d b ON t.month = b.m \
                     WHERE a.name = 'then' AND b.name = 'old'";
    assert_eq!(scanned(two_joins).await, (1, 1));
}

#[tokio::test]
async fn where_pruning_would_be_wrong_nothing_is_pruned() {
    let unpruned = [
        ("SELECT * FROM t LEFT JOIN d ON year = y AND month = m", 60),
        ("SELECT * FROM d FULL JOIN t ON year = y AND month = m", 62),
        (
            "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE y = year AND m = month)",
            57,
        ),
        (
            "SELECT * FROM (SELECT * FROM u LIMIT 100) JOIN d ON month = m",
            4,
        ),
    ];
    for (sql, rows) in unpruned {
        let (partitions, found) = scanned(sql).await;
        assert_eq!(found, rows, "{sql}");
        assert!(
            partitions == 60 || partitions == 12,
            "{sql} scanned {partitions} partitions"
        );
    }
}

#[tokio::test]
async fn an_outer_join_that_keeps_the_build_side_prunes_the_probe_side() {
    let (partitions, rows) = scanned("SELECT * FROM d LEFT JOIN t ON year = y AND month = m").await;
    assert_eq!((partitions, rows), (3, 5));
}

#[tokio::test]
async fn null_keys_match_null_partitions_only_where_the_join_says_so() {
    for max_keys in [100, 0] {
        let fixture = Fixture::new();
        fixture
            .put_ids("t/p=__HIVE_DEFAULT_PARTITION__/f.csv", &[1])
            .await;
        fixture.put_ids("t/p=2/f.csv", &[2]).await;
        fixture.put_ids("t/p=3/f.csv", &[3]).await;
        fixture.create("t", "p BIGINT").await;
        fixture
            .run("CREATE TABLE d AS SELECT column1 AS k FROM (VALUES (2), (NULL))")
            .await
            .unwrap();
        fixture
            .run(&format!(
                "SET partitioned.dynamic_filter.max_keys = {max_keys}"
            ))
            .await
            .unwrap();
        let (rows, plan) = fixture
            .analyze("SELECT id FROM t JOIN d ON p IS NOT DISTINCT FROM k")
            .await;
        assert_eq!(rows, ["1", "2"]);
        assert_eq!(scan_metric(&plan, "partitions_scanned"), 2);
        assert_eq!(
            fixture.rows("SELECT id FROM t JOIN d ON p = k").await,
            ["2"]
        );
    }
}

#[tokio::test]
async fn too_many_keys_become_bounds() {
    let fixture = star(config()).await;
    fixture
        .run("SET partitioned.dynamic_filter.max_keys = 1")
        .await
        .unwrap();
    let (rows, plan) = fixture.analyze(TUPLES).await;
    assert_eq!(rows, ["202301", "202407"]);
    // Years 2023 and 2024, months 1 to 7.
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 14);
    assert_eq!(
        node_metric(&plan, "PartitionKeyCollectorExec", "key_set_overflowed"),
        1
    );
}

#[tokio::test]
async fn an_empty_build_side_lists_nothing() {
    for config in [config(), partitioned_joins()] {
        let fixture = star(config).await;
        let sql = "SELECT t.id FROM t JOIN d ON t.year = d.y WHERE name = 'never'";
        assert!(fixture.rows(sql).await.is_empty());
        assert_eq!(fixture.take_requests(), "");
    }
}

#[tokio::test]
async fn one_output_partition_of_a_join_alone_does_not_hang() {
    use futures::StreamExt;
    for config in [config(), partitioned_joins()] {
        let fixture = star(config).await;
        let plan = fixture.plan(TUPLES).await.unwrap();
        let mut stream = plan.execute(0, fixture.ctx.task_ctx()).unwrap();
        let read = async { while stream.next().await.transpose().unwrap().is_some() {} };
        tokio::time::timeout(std::time::Duration::from_secs(20), read)
            .await
            .expect("no hang");
    }
}

#[tokio::test]
async fn without_work_sharing_the_keys_reach_every_partition() {
    let mut config = config();
    config
        .options_mut()
        .execution
        .enable_file_stream_work_stealing = false;
    let fixture = star(config).await;
    let (rows, plan) = fixture.analyze(TUPLES).await;
    assert_eq!(rows, ["202301", "202407"]);
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 2);
    assert_eq!(scan_metric(&plan, "dynamic_filters_late"), 0);
}

#[tokio::test]
async fn the_rule_changes_nothing_the_second_time() {
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion_partitioned::dynamic_filter::InsertDynamicPartitionFilter;
    let fixture = star(config()).await;
    let plan = fixture.plan(TUPLES).await.unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let options = Arc::clone(fixture.ctx.copied_config().options());
    let again = InsertDynamicPartitionFilter
        .optimize(plan, &options)
        .unwrap();
    assert_eq!(displayable(again.as_ref()).indent(false).to_string(), text);
}

#[tokio::test]
async fn keys_that_keep_every_partition_cost_one_flat_listing() {
    let fixture = star(config()).await;
    fixture
        .run("CREATE TABLE months AS SELECT value AS k FROM range(1, 13)")
        .await
        .unwrap();
    let sql = "SELECT count(*) FROM u JOIN months ON month = k";
    assert_eq!(fixture.rows(sql).await, ["12"]);
    assert_eq!(fixture.requests.list_count(), 2);
}

#[tokio::test]
async fn keys_that_cannot_be_compared_keep_everything() {
    let fixture = star(partitioned_joins()).await;
    fixture
        .run("SET partitioned.dynamic_filter.max_keys = 1")
        .await
        .unwrap();
    let sql = "SELECT t.id FROM t JOIN d ON struct(t.year, t.month) = struct(d.y, d.m)";
    assert_eq!(fixture.rows(sql).await, ["202301", "202302", "202407"]);
}

#[tokio::test]
async fn a_scan_says_on_which_columns_it_takes_filters() {
    let fixture = star(config()).await;
    let plan = fixture.plan("SELECT month, id, year FROM t").await.unwrap();
    let scan = plan.downcast_ref::<DataSourceExec>().unwrap();
    let scan = scan.data_source().downcast_ref::<PartitionScan>().unwrap();
    assert_eq!(scan.accepted_filter_columns(), [0, 2]);
}

/// A sort with a limit says which rows it still needs: of CSV files too, and before they are opened.
#[tokio::test]
async fn filters_of_other_operators_choose_partitions_of_every_format() {
    let fixture = Fixture::with_config(config().with_target_partitions(1));
    for p in 0..50_i64 {
        for file in 0..4 {
            let key = format!("t/p={p}/{file}.csv");
            fixture.put_ids(&key, &[p * 4 + file]).await;
        }
    }
    fixture.create("t", "p BIGINT").await;
    let sql = "SELECT id FROM t ORDER BY p + 1 DESC, id LIMIT 3";
    let (rows, plan) = fixture.analyze(sql).await;
    assert_eq!(rows, ["196", "197", "198"]);
    let skipped = scan_metric(&plan, "files_pruned_dynamic");
    assert_eq!(fixture.requests.count(RequestKind::Get) + skipped, 200);

    fixture
        .set("datafusion.optimizer.enable_dynamic_filter_pushdown", false)
        .await;
    let (off, plan) = fixture.analyze(sql).await;
    assert_eq!(off, rows);
    assert_eq!(scan_metric(&plan, "files_pruned_dynamic"), 0);
}

/// Without the rule of this project the filter of DataFusion's join reaches the catalog.
#[tokio::test]
async fn the_filter_of_a_hash_join_chooses_what_is_listed() {
    let mut fixture = star(config()).await;
    let state = fixture.ctx.state();
    let rules = state.physical_optimizers().iter().cloned();
    let others = rules.filter(|rule| rule.name() != "InsertDynamicPartitionFilter");
    let state = SessionStateBuilder::new_from_existing(state.clone())
        .with_physical_optimizer_rules(others.collect());
    fixture.ctx = SessionContext::new_with_state(state.build());
    for (enabled, scanned) in [(true, 2), (false, 60)] {
        fixture
            .set("partitioned.dynamic_filter.enabled", enabled)
            .await;
        let (rows, plan) = fixture.analyze(TUPLES).await;
        assert_eq!(rows, ["202301", "202407"]);
        assert_eq!(scan_metric(&plan, "partitions_scanned"), scanned);
    }
}
