//! The shapes of joins that get dynamic partition filters, and those that get none, as plans.
//!
//! These are the shapes that the tests of Flink's `DynamicPartitionPruningProgram` distinguish, and those
//! for which more is done here than there. What is read is in [`joins`](crate::joins).

mod as_in_flink;
mod more_than_flink;
mod unfiltered;

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::FileKind;

use crate::common::Fixture;

fn collected() -> SessionConfig {
    SessionConfig::new().with_target_partitions(2)
}

fn partitioned() -> SessionConfig {
    let mut config = collected();
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    config
}

fn sorted() -> SessionConfig {
    let mut config = collected();
    config.options_mut().optimizer.prefer_hash_join = false;
    config
}

fn as_written() -> SessionConfig {
    let mut config = collected();
    config.options_mut().optimizer.join_reordering = false;
    config
}

fn pushed() -> SessionConfig {
    let mut config = collected();
    config.options_mut().execution.parquet.pushdown_filters = true;
    config
}

/// `f` and `g` are partitioned by day 1 to 8. Of the dimensions `d` and `e` are in memory, and `files`
/// has the rows of `d` in a Parquet file. `flat` has no partitions, `memory` the rows of `f`.
async fn fixture(config: SessionConfig) -> Fixture {
    let fixture = Fixture::with_config(config);
    for day in 1..=8 {
        for table in ["f", "g"] {
            let key = format!("{table}/day={day}/f.csv");
            fixture.put_ids(&key, &[day * 10, day * 10 + 1]).await;
        }
    }
    fixture.create("f", "day INT").await;
    fixture.create("g", "day INT").await;
    fixture.put_ids("flat/f.csv", &[1, 2, 3]).await;
    let dimension = "SELECT CAST(column1 AS INT) AS k, column2 AS name FROM (VALUES (2, 'a'), \
                     (5, 'a'), (7, 'b'), (99, 'a'), (NULL, 'a'))";
    fixture
        .put_query("files/f.parquet", FileKind::Parquet, dimension)
        .await;
    let external = |name: &str, format: &str| {
        let location = fixture.lake.location(&format!("{name}/"));
        format!("CREATE EXTERNAL TABLE {name} STORED AS {format} LOCATION '{location}'")
    };
    for sql in [
        format!("CREATE TABLE d AS {dimension}"),
        "CREATE TABLE e AS SELECT CAST(column1 AS INT) AS l, column2 AS size \
         FROM (VALUES (2, 1), (7, 2))"
            .to_owned(),
        external("flat", "CSV"),
        external("files", "PARQUET"),
        "CREATE TABLE memory AS SELECT column1 AS id, CAST(column2 AS INT) AS day \
         FROM (VALUES (20, 2), (30, 3))"
            .to_owned(),
    ] {
        fixture.run(&sql).await.unwrap();
    }
    fixture
}

/// The plan of a query in a new session. Its rows are the same with and without dynamic filters.
async fn plan(config: SessionConfig, sql: &str) -> String {
    let fixture = fixture(config).await;
    let plan = fixture.explain(sql).await;
    let rows = fixture.rows(sql).await;
    fixture
        .set("partitioned.dynamic_filter.enabled", false)
        .await;
    assert_eq!(rows, fixture.rows(sql).await, "{sql}");
    plan
}

/// A plan with a filter at both ends.
async fn filtered(config: SessionConfig, sql: &str) -> String {
    let plan = plan(config, sql).await;
    assert!(plan.contains("PartitionKeyCollectorExec"), "{sql}\n{plan}");
    assert!(plan.contains("dynamic_filters=[("), "{sql}\n{plan}");
    plan
}

/// A plan without one.
async fn unfiltered(config: SessionConfig, sql: &str) -> String {
    let plan = plan(config, sql).await;
    assert!(!plan.contains("PartitionKeyCollectorExec"), "{sql}\n{plan}");
    assert!(!plan.contains("dynamic_filters=[("), "{sql}\n{plan}");
    plan
}
