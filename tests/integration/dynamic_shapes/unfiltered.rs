//! Shapes that get no filters.

use insta::assert_snapshot;

use super::{collected, unfiltered};

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
