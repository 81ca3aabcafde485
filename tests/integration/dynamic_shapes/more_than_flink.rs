//! Shapes that get filters here and none in Flink.

use insta::assert_snapshot;

use super::{collected, filtered, sorted};

#[tokio::test]
async fn several_tables_as_the_dimension() {
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
async fn small_dimension_without_a_filter() {
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
async fn keys_computed_of_partition_columns() {
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
async fn ranges_of_a_partition_column() {
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
        DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(CAST(day@0 AS Int64) >= ANY, CAST(day@0 AS Int64) <= ANY)], projection=[id, day, join_proj_push_down_3, join_proj_push_down_4], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn sort_merge_joins() {
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
async fn partitioned_dimension() {
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
async fn key_of_the_other_fact_under_a_join() {
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
