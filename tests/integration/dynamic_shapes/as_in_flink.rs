//! Shapes that get filters in Flink, too.

use insta::assert_snapshot;

use super::{as_written, collected, filtered, partitioned, pushed};

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
