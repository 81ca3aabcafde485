//! The shapes of joins that get dynamic partition filters, and those that get none, as plans.
//!
//! These are the shapes that the tests of Flink's `DynamicPartitionPruningProgram` distinguish. Where
//! more is done here than there, the name of the test says so. What is read is in
//! [`joins`](crate::joins).

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::FileKind;
use insta::assert_snapshot;

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

#[tokio::test]
async fn fact_on_either_side() {
    let sql = "SELECT f.id FROM f JOIN d ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a, projection=[k@0]
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM d JOIN f ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a, projection=[k@0]
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn fact_on_either_side_of_an_exchange() {
    let sql = "SELECT f.id FROM f JOIN d ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(partitioned(), sql).await, @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      RepartitionExec: partitioning=Hash([k@0], 2), input_partitions=1
        PartitionKeyCollectorExec: keys=[k@0]
          FilterExec: name@1 = a, projection=[k@0]
            DataSourceExec: partitions=1, partition_sizes=[1]
      RepartitionExec: partitioning=Hash([day@1], 2), input_partitions=2
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM d JOIN f ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(partitioned(), sql).await, @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      RepartitionExec: partitioning=Hash([k@0], 2), input_partitions=1
        PartitionKeyCollectorExec: keys=[k@0]
          FilterExec: name@1 = a, projection=[k@0]
            DataSourceExec: partitions=1, partition_sizes=[1]
      RepartitionExec: partitioning=Hash([day@1], 2), input_partitions=2
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

/// A column that is computed of the fact table is in no one's way.
#[tokio::test]
async fn fact_below_a_calculation() {
    let sql = "SELECT * FROM (SELECT id + 1 AS next, day FROM f WHERE id > 10) JOIN d ON day \
               = k WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[next@2, day@3, k@0, name@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
      ProjectionExec: expr=[id@0 + 1 as next, day@1 as day]
        FilterExec: id@0 > 10
          DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn fact_below_a_calculation_and_an_exchange() {
    let sql = "SELECT * FROM (SELECT id + 1 AS next, day FROM f WHERE id > 10) JOIN d ON day \
               = k WHERE name = 'a'";
    assert_snapshot!(filtered(partitioned(), sql).await, @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(k@0, day@1)], projection=[next@2, day@3, k@0, name@1]
      RepartitionExec: partitioning=Hash([k@0], 2), input_partitions=1
        PartitionKeyCollectorExec: keys=[k@0]
          FilterExec: name@1 = a
            DataSourceExec: partitions=1, partition_sizes=[1]
      RepartitionExec: partitioning=Hash([day@1], 2), input_partitions=2
        ProjectionExec: expr=[id@0 + 1 as next, day@1 as day]
          FilterExec: id@0 > 10
            DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

/// The filter is one of the scan, of the rows of a Parquet file and of a partition.
#[tokio::test]
async fn filter_pushed_into_the_dimension() {
    let sql = "SELECT f.id FROM f JOIN files ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(pushed(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        DataSourceExec: file_groups={1 group: [[files/f.parquet]]}, projection=[k], file_type=parquet, predicate=name@1 = a, pruning_predicate=name_null_count@2 != row_count@3 AND name_min@0 <= a AND a <= name_max@1, required_guarantees=[name in (a)]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM f JOIN g ON f.day = g.day WHERE g.day = 3 OR g.day = 4";
    assert_snapshot!(filtered(pushed(), sql).await, @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(day@0, day@1)], projection=[id@1]
      RepartitionExec: partitioning=Hash([day@0], 2), input_partitions=2
        PartitionKeyCollectorExec: keys=[day@0]
          DataSourceExec: partitions=directories(memory://lake/g), partitioned_by=[day], partition_filters=[day@0 = 3 OR day@0 = 4], projection=[day], file_type=csv, has_header=true
      RepartitionExec: partitioning=Hash([day@1], 2), input_partitions=2
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], partition_filters=[day@0 = 3 OR day@0 = 4], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn left_outer_join_with_the_fact_on_the_right() {
    let sql = "SELECT * FROM (SELECT * FROM d WHERE name = 'a') d LEFT JOIN f ON day = k";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Left, on=[(k@0, day@1)]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT * FROM f RIGHT JOIN (SELECT * FROM d WHERE name = 'a') d ON day = k";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Left, on=[(k@0, day@1)], projection=[id@2, day@3, k@0, name@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn semi_join() {
    let sql = "SELECT id FROM f WHERE day IN (SELECT k FROM d WHERE name = 'a')";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=RightSemi, on=[(k@0, day@1)], projection=[id@0]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a, projection=[k@0]
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn renamed_and_reordered_keys() {
    let sql = "SELECT * FROM (SELECT day AS x, id AS day FROM f) JOIN d ON x = k WHERE name = \
               'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, x@0)], projection=[x@2, day@3, k@0, name@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[x, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn several_joins() {
    let sql = "SELECT f.id FROM f JOIN d ON f.day = d.k JOIN g ON f.day = g.day AND f.id = \
               g.id WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(day@1, day@1), (id@0, id@0)], projection=[id@0]
      RepartitionExec: partitioning=Hash([day@1, id@0], 2), input_partitions=2
        PartitionKeyCollectorExec: keys=[day@1]
          HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1, day@2]
            PartitionKeyCollectorExec: keys=[k@0]
              FilterExec: name@1 = a, projection=[k@0]
                DataSourceExec: partitions=1, partition_sizes=[1]
            DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
      RepartitionExec: partitioning=Hash([day@1, id@0], 2), input_partitions=2
        DataSourceExec: partitions=directories(memory://lake/g), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn subquery_as_the_dimension() {
    let sql = "SELECT f.id FROM f JOIN (SELECT k, max(name) AS name FROM d WHERE name > 'A' \
               GROUP BY k) ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=RightSemi, on=[(k@0, day@1)], projection=[id@0]
      CoalescePartitionsExec
        PartitionKeyCollectorExec: keys=[k@0]
          FilterExec: max(d.name)@1 = a, projection=[k@0]
            AggregateExec: mode=FinalPartitioned, gby=[k@0 as k], aggr=[max(d.name)]
              RepartitionExec: partitioning=Hash([k@0], 2), input_partitions=2
                AggregateExec: mode=Partial, gby=[k@0 as k], aggr=[max(d.name)]
                  RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
                    FilterExec: name@1 > A
                      DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn union_of_facts() {
    let sql = "SELECT id FROM (SELECT * FROM f UNION ALL SELECT * FROM g) JOIN d ON day = k \
               WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a, projection=[k@0]
          DataSourceExec: partitions=1, partition_sizes=[1]
      UnionExec
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
        DataSourceExec: partitions=directories(memory://lake/g), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn groups_by_the_key() {
    let sql = "SELECT * FROM (SELECT day, max(id) FROM f GROUP BY day) JOIN d ON day = k \
               WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@0)], projection=[day@2, max(f.id)@3, k@0, name@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
      AggregateExec: mode=FinalPartitioned, gby=[day@0 as day], aggr=[max(f.id)]
        RepartitionExec: partitioning=Hash([day@0], 2), input_partitions=2
          AggregateExec: mode=Partial, gby=[day@1 as day], aggr=[max(f.id)]
            DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn key_computed_of_the_dimension() {
    let sql = "SELECT f.id FROM f JOIN d ON day = k + 1 WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(d.k + Int64(1)@1, CAST(f.day AS Int64)@2)], projection=[id@2]
      CoalescePartitionsExec
        PartitionKeyCollectorExec: keys=[d.k + Int64(1)@1]
          ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) + 1 as d.k + Int64(1)]
            RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
              FilterExec: name@1 = a, projection=[k@0]
                DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(CAST(day@0 AS Int64))], projection=[id, day, CAST(f.day AS Int64)], file_type=csv, has_header=true
    ");
}

/// The fact table is the probe side where no join is turned around.
#[tokio::test]
async fn joins_in_the_order_as_written() {
    let sql = "SELECT f.id FROM d JOIN f ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(as_written(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a, projection=[k@0]
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn more_than_flink_several_tables_as_the_dimension() {
    let sql = "SELECT f.id FROM f JOIN (SELECT d.k FROM d JOIN e ON d.k = e.l WHERE size = 1) \
               ON day = k";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(l@0, k@0)], projection=[k@1]
          FilterExec: size@1 = 1, projection=[l@0]
            DataSourceExec: partitions=1, partition_sizes=[1]
          DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

/// One of fewer rows than the fact table has partitions, as far as that is known.
#[tokio::test]
async fn more_than_flink_small_dimension_without_a_filter() {
    let sql = "SELECT f.id FROM f JOIN d ON day = k";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM f JOIN d ON day = k WHERE name IS NOT NULL";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn more_than_flink_keys_computed_of_partition_columns() {
    let sql = "SELECT id FROM (SELECT id, day * 10 AS tens FROM f) JOIN d ON tens = k WHERE \
               name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, tens@1)], projection=[id@2]
      CoalescePartitionsExec
        PartitionKeyCollectorExec: keys=[CAST(d.k AS Int64)@1]
          ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
            RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
              FilterExec: name@1 = a, projection=[k@0]
                DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(CAST(day@0 AS Int64) * 10)], projection=[id, tens], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM f JOIN d ON day + 1 = k WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, f.day + Int64(1)@2)], projection=[id@2]
      CoalescePartitionsExec
        PartitionKeyCollectorExec: keys=[CAST(d.k AS Int64)@1]
          ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
            RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
              FilterExec: name@1 = a, projection=[k@0]
                DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(CAST(day@0 AS Int64) + 1)], projection=[id, day, f.day + Int64(1)], file_type=csv, has_header=true
    ");
}

/// A partition column that is no key of the join.
#[tokio::test]
async fn more_than_flink_ranges_of_a_partition_column() {
    let sql = "SELECT f.id FROM f JOIN d ON f.id = k AND day > k WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, id@0)], filter=day@0 > k@1, projection=[id@2]
      CoalescePartitionsExec
        PartitionKeyCollectorExec: bounds=[k@0]
          ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
            RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
              FilterExec: name@1 = a, projection=[k@0]
                DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0 > ANY)], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM f JOIN d ON day BETWEEN k AND k + 1 WHERE name = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    ProjectionExec: expr=[id@1 as id]
      NestedLoopJoinExec: join_type=Inner, filter=join_proj_push_down_3@2 >= join_proj_push_down_1@0 AND join_proj_push_down_4@3 <= join_proj_push_down_2@1, projection=[k@0, id@3, day@4]
        PartitionKeyCollectorExec: bounds=[join_proj_push_down_1@1, join_proj_push_down_2@2]
          ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as join_proj_push_down_1, CAST(k@0 AS Int64) + 1 as join_proj_push_down_2]
            FilterExec: name@1 = a, projection=[k@0]
              DataSourceExec: partitions=1, partition_sizes=[1]
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(CAST(day@0 AS Int64) >=, CAST(day@0 AS Int64) <=)], projection=[id, day, join_proj_push_down_3, join_proj_push_down_4], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn more_than_flink_sort_merge_joins() {
    let sql = "SELECT f.id FROM f JOIN d ON day = k WHERE name = 'a'";
    assert_snapshot!(filtered(sorted(), sql).await, @r"
    ProjectionExec: expr=[id@0 as id]
      SortMergeJoinExec: join_type=Inner, on=[(day@1, k@0)]
        SortExec: expr=[day@1 ASC], preserve_partitioning=[true]
          RepartitionExec: partitioning=Hash([day@1], 2), input_partitions=2
            DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
        StartEarlyExec
          SortExec: expr=[k@0 ASC], preserve_partitioning=[true]
            RepartitionExec: partitioning=Hash([k@0], 2), input_partitions=1
              PartitionKeyCollectorExec: keys=[k@0]
                FilterExec: name@1 = a, projection=[k@0]
                  DataSourceExec: partitions=1, partition_sizes=[1]
    ");
}

/// Its own partitions are chosen by the query.
#[tokio::test]
async fn more_than_flink_partitioned_dimension() {
    let sql = "SELECT f.id FROM f JOIN g ON f.day = g.day WHERE g.id = 30";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=Partitioned, join_type=Inner, on=[(day@0, day@1)], projection=[id@1]
      RepartitionExec: partitioning=Hash([day@0], 2), input_partitions=2
        PartitionKeyCollectorExec: keys=[day@0]
          FilterExec: id@0 = 30, projection=[day@1]
            DataSourceExec: partitions=directories(memory://lake/g), partitioned_by=[day], projection=[id, day], file_type=csv, has_header=true
      RepartitionExec: partitioning=Hash([day@1], 2), input_partitions=2
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn more_than_flink_key_of_the_other_fact_under_a_join() {
    let sql = "SELECT f.id FROM f JOIN g ON f.day + 1 = g.day JOIN d ON g.day = k WHERE name \
               = 'a'";
    assert_snapshot!(filtered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      PartitionKeyCollectorExec: keys=[k@0]
        FilterExec: name@1 = a, projection=[k@0]
          DataSourceExec: partitions=1, partition_sizes=[1]
      HashJoinExec: mode=Partitioned, join_type=Inner, on=[(CAST(g.day AS Int64)@1, f.day + Int64(1)@2)], projection=[id@2, day@0]
        RepartitionExec: partitioning=Hash([CAST(g.day AS Int64)@1], 2), input_partitions=2
          PartitionKeyCollectorExec: keys=[CAST(g.day AS Int64)@1]
            DataSourceExec: partitions=directories(memory://lake/g), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[day, CAST(g.day AS Int64)], file_type=csv, has_header=true
        RepartitionExec: partitioning=Hash([f.day + Int64(1)@2], 2), input_partitions=2
          DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(CAST(day@0 AS Int64) + 1)], projection=[id, day, f.day + Int64(1)], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn key_that_is_no_partition_column() {
    let sql = "SELECT f.id FROM f JOIN d ON f.id = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, id@0)], projection=[id@2]
      CoalescePartitionsExec
        ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
          RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
            FilterExec: name@1 = a, projection=[k@0]
              DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn table_without_partitions() {
    let sql = "SELECT flat.id FROM flat JOIN d ON flat.id = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, id@0)], projection=[id@2]
      CoalescePartitionsExec
        ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
          RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
            FilterExec: name@1 = a, projection=[k@0]
              DataSourceExec: partitions=1, partition_sizes=[1]
      RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
        DataSourceExec: file_groups={1 group: [[flat/f.csv]]}, projection=[id], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn source_of_another_kind() {
    let sql = "SELECT memory.id FROM memory JOIN d ON day = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(k@0, day@1)], projection=[id@1]
      FilterExec: name@1 = a, projection=[k@0]
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=1, partition_sizes=[1]
    ");
}

#[tokio::test]
async fn key_computed_of_a_file_column() {
    let sql = "SELECT f.day FROM f JOIN d ON f.id + 1 = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, f.id + Int64(1)@2)], projection=[day@3]
      CoalescePartitionsExec
        ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
          RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
            FilterExec: name@1 = a, projection=[k@0]
              DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day, f.id + Int64(1)], file_type=csv, has_header=true
    ");
    let sql = "SELECT f.id FROM f JOIN d ON f.id + day = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@1, f.id + f.day@2)], projection=[id@2]
      CoalescePartitionsExec
        ProjectionExec: expr=[k@0 as k, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
          RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
            FilterExec: name@1 = a, projection=[k@0]
              DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day, f.id + f.day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn full_outer_join() {
    let sql = "SELECT * FROM f FULL JOIN (SELECT * FROM d WHERE name = 'a') d ON day = k";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Full, on=[(k@0, day@1)], projection=[id@2, day@3, k@0, name@1]
      FilterExec: name@1 = a
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn anti_join() {
    let sql = "SELECT id FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = day AND name = 'a')";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=RightAnti, on=[(k@0, day@1)], projection=[id@0]
      FilterExec: name@1 = a, projection=[k@0]
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn left_outer_join_with_the_fact_on_the_left() {
    let sql = "SELECT * FROM f LEFT JOIN (SELECT * FROM d WHERE name = 'a') d ON day = k";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Right, on=[(k@0, day@1)], projection=[id@2, day@3, k@0, name@1]
      FilterExec: name@1 = a
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day], file_type=csv, has_header=true
    ");
    let sql = "SELECT * FROM (SELECT * FROM d WHERE name = 'a') d RIGHT JOIN f ON day = k";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Right, on=[(k@0, day@1)]
      FilterExec: name@1 = a
        DataSourceExec: partitions=1, partition_sizes=[1]
      DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day], file_type=csv, has_header=true
    ");
}

/// With and without groups by something else.
#[tokio::test]
async fn aggregate_of_the_key() {
    let sql = "SELECT * FROM (SELECT id, max(day) AS day FROM f GROUP BY id) JOIN d ON day = \
               k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(day@1, k@0)]
      CoalescePartitionsExec
        ProjectionExec: expr=[id@0 as id, max(f.day)@1 as day]
          AggregateExec: mode=FinalPartitioned, gby=[id@0 as id], aggr=[max(f.day)]
            RepartitionExec: partitioning=Hash([id@0], 2), input_partitions=2
              AggregateExec: mode=Partial, gby=[id@0 as id], aggr=[max(f.day)]
                DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id, day], file_type=csv, has_header=true
      RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
    ");
    let sql = "SELECT * FROM (SELECT max(day) AS day FROM f) JOIN d ON day = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(day@0, k@0)]
      ProjectionExec: expr=[max(f.day)@0 as day]
        AggregateExec: mode=Final, gby=[], aggr=[max(f.day)]
          CoalescePartitionsExec
            AggregateExec: mode=Partial, gby=[], aggr=[max(f.day)]
              DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], rows_needed=[largest day], projection=[day], file_type=csv, has_header=true
      RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
        FilterExec: name@1 = a
          DataSourceExec: partitions=1, partition_sizes=[1]
    ");
}

#[tokio::test]
async fn key_expression_over_a_file_column_below_a_join() {
    let sql = "SELECT * FROM (SELECT f.id + g.id AS x FROM f JOIN g ON f.id = g.id) JOIN d ON \
               x = k WHERE name = 'a'";
    assert_snapshot!(unfiltered(collected(), sql).await, @r"
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(d.k AS Int64)@2, x@0)], projection=[x@3, k@0, name@1]
      CoalescePartitionsExec
        ProjectionExec: expr=[k@0 as k, name@1 as name, CAST(k@0 AS Int64) as CAST(d.k AS Int64)]
          RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
            FilterExec: name@1 = a
              DataSourceExec: partitions=1, partition_sizes=[1]
      ProjectionExec: expr=[id@0 + id@1 as x]
        HashJoinExec: mode=Partitioned, join_type=Inner, on=[(id@0, id@0)]
          RepartitionExec: partitioning=Hash([id@0], 2), input_partitions=2
            DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], projection=[id], file_type=csv, has_header=true
          RepartitionExec: partitioning=Hash([id@0], 2), input_partitions=2
            DataSourceExec: partitions=directories(memory://lake/g), partitioned_by=[day], projection=[id], file_type=csv, has_header=true
    ");
}
