//! What a scan returns: projections, limits, NULL partitions, values and formats.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_partitioned::core::{MemoryCatalog, PartitionSpec};
use datafusion_partitioned_test_utils::{FileKind, scan_metric};

use crate::common::{Fixture, partition};

async fn two_levels() -> Fixture {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=1/q=a%2Fb/f.csv", &[1, 2]).await;
    fixture
        .put_ids("t/p=1/q=__HIVE_DEFAULT_PARTITION__/f.csv", &[3])
        .await;
    fixture
        .put_ids("t/p=__HIVE_DEFAULT_PARTITION__/q=x/f.csv", &[4])
        .await;
    fixture.put_ids("t/p=02/q=x/f.csv", &[5]).await;
    fixture.create("t", "p INT, q TEXT").await;
    fixture
}

#[tokio::test]
async fn every_subset_and_order_of_columns() {
    let fixture = two_levels().await;
    let rows = |columns: &'static str| {
        let fixture = &fixture;
        async move { fixture.rows(&format!("SELECT {columns} FROM t")).await }
    };
    assert_eq!(
        rows("*").await,
        [
            "1 | 1 | a/b",
            "2 | 1 | a/b",
            "3 | 1 | <null>",
            "4 | <null> | x",
            "5 | 2 | x"
        ]
    );
    assert_eq!(rows("q, id").await.len(), 5);
    assert_eq!(rows("q, p + 1, id, p").await[3], "x | 3 | 5 | 2");
    assert_eq!(rows("p").await, ["1", "1", "1", "2", "<null>"]);
    assert_eq!(rows("q, p").await[0], "<null> | 1");
    assert_eq!(rows("count(*)").await, ["5"]);
    assert_eq!(rows("1").await.len(), 5);
}

#[tokio::test]
async fn null_partitions_are_rows() {
    let fixture = two_levels().await;
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE p IS NULL").await,
        ["4"]
    );
    assert_eq!(
        fixture
            .rows("SELECT id FROM t WHERE p IS NOT NULL")
            .await
            .len(),
        4
    );
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE p NOT IN (1)").await,
        ["5"]
    );
    assert_eq!(
        fixture.rows("SELECT q, count(*) FROM t GROUP BY q").await,
        ["<null> | 1", "a/b | 2", "x | 2"]
    );
    assert_eq!(fixture.rows("SELECT count(p) FROM t").await, ["4"]);
}

#[tokio::test]
async fn a_default_name_of_ones_own() {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=none/f.csv", &[1]).await;
    fixture.put_ids("t/p=7/f.csv", &[2]).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem', 'partition.default-name' 'none')",
        fixture.lake.location("t/")
    );
    fixture.run(&sql).await.unwrap();
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        ["1 | <null>", "2 | 7"]
    );
}

#[tokio::test]
async fn a_limit_returns_that_many_rows_and_stops_reading() {
    let fixture = Fixture::with_streams(1);
    for p in 0..200 {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[p, p]).await;
    }
    fixture.create("t", "p INT").await;
    for limit in [0, 1, 3, 399, 400, 1000] {
        let rows = fixture
            .rows(&format!("SELECT p FROM t LIMIT {limit}"))
            .await;
        assert_eq!(rows.len(), limit.min(400));
    }
    fixture.take_requests();
    fixture.rows("SELECT id FROM t WHERE p >= 10 LIMIT 2").await;
    let gets = fixture.requests.mentioning("f.csv").len();
    assert!(gets < 60, "{gets} files were opened for two rows");
}

#[tokio::test]
async fn parquet_with_pushed_filters_and_every_batch_size() {
    for (pushdown, batch_size) in [(false, 8192), (true, 8192), (true, 1)] {
        let mut config = SessionConfig::new()
            .with_target_partitions(3)
            .with_batch_size(batch_size);
        config.options_mut().execution.parquet.pushdown_filters = pushdown;
        let fixture = Fixture::with_config(config);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("p", DataType::Int64, true),
            Field::new("name", DataType::Utf8, true),
        ]));
        let columns: Vec<_> = vec![
            Arc::new((0..100).collect::<Int64Array>()) as _,
            Arc::new(
                (0..100)
                    .map(|n| (n % 10 > 0).then_some(n % 10))
                    .collect::<Int64Array>(),
            ) as _,
            Arc::new(
                (0..100)
                    .map(|n| Some(format!("n{n}")))
                    .collect::<StringArray>(),
            ) as _,
        ];
        let batch = RecordBatch::try_new(schema, columns).unwrap();
        fixture
            .lake
            .put_partitioned("t", FileKind::Parquet, &batch, &["p"])
            .await
            .unwrap();
        let sql = format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, name TEXT, p BIGINT) STORED AS PARQUET \
             PARTITIONED BY (p) LOCATION '{}' OPTIONS ('connector' 'filesystem')",
            fixture.lake.location("t/")
        );
        fixture.run(&sql).await.unwrap();
        assert_eq!(fixture.rows("SELECT * FROM t").await.len(), 100);
        assert_eq!(
            fixture
                .rows("SELECT name, p FROM t WHERE id > 90 AND p = 5")
                .await,
            ["n95 | 5"]
        );
        assert_eq!(
            fixture
                .rows("SELECT id FROM t WHERE (p = 5 AND id > 90) OR (p = 6 AND id < 10)")
                .await,
            ["6", "95"]
        );
        assert_eq!(
            fixture.rows("SELECT count(*) FROM t WHERE p IS NULL").await,
            ["10"]
        );
        assert_eq!(
            fixture
                .rows("SELECT max(id) FROM t WHERE p IS DISTINCT FROM 9")
                .await,
            ["98"]
        );
        assert_eq!(
            fixture
                .rows("SELECT p, id FROM t ORDER BY p DESC NULLS LAST, id LIMIT 1")
                .await,
            ["9 | 9"]
        );
    }
}

#[tokio::test]
async fn large_files_are_split_between_streams() {
    let mut config = SessionConfig::new().with_target_partitions(4);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let fixture = Fixture::with_config(config);
    let ids: Vec<i64> = (0..10_000).collect();
    fixture.put_ids("t/p=1/f.csv", &ids).await;
    fixture.create("t", "p INT").await;
    let (rows, _) = fixture
        .analyze("SELECT count(*), sum(id), min(p) FROM t")
        .await;
    assert_eq!(rows, ["10000 | 49995000 | 1"]);
    assert!(fixture.requests.mentioning("f.csv").len() > 4);
}

#[tokio::test]
async fn markers_and_hidden_names_are_no_data() {
    let fixture = Fixture::new();
    fixture.lake.put_text("t/_SUCCESS", "").await.unwrap();
    fixture.put_ids("t/_temporary/0/p=1/f.csv", &[900]).await;
    fixture.put_ids("t/.hive-staging/p=1/f.csv", &[901]).await;
    fixture.put_ids("t/old.csv", &[902]).await;
    fixture.put_ids("t/p=1/.f.csv.crc", &[903]).await;
    fixture.lake.put_text("t/p=1/empty.csv", "").await.unwrap();
    fixture.put_ids("t/p=1/f.csv", &[1]).await;
    fixture.put_ids("t/p=2/SUB/deep/f.csv", &[2]).await;
    fixture.create("t", "p INT").await;
    assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | 1", "2 | 2"]);
    assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 1").await, ["1"]);
    assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 2").await, ["2"]);
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["2"]);
}

#[tokio::test]
async fn a_million_row_count_survives_work_sharing_off_and_on() {
    for stealing in [true, false] {
        let mut config = SessionConfig::new().with_target_partitions(3);
        config
            .options_mut()
            .execution
            .enable_file_stream_work_stealing = stealing;
        let fixture = Fixture::with_config(config);
        for p in 0..30 {
            fixture.put_ids(&format!("t/p={p}/f.csv"), &[p]).await;
        }
        fixture.create("t", "p INT").await;
        assert_eq!(fixture.rows("SELECT * FROM t").await.len(), 30);
        assert_eq!(
            fixture.rows("SELECT sum(id) FROM t WHERE p < 20").await,
            ["190"]
        );
    }
}

#[tokio::test]
async fn partitions_of_a_memory_catalog_have_locations_of_their_own() {
    let fixture = Fixture::new();
    fixture.put_ids("archive/old/f.csv", &[1]).await;
    fixture.put_ids("elsewhere/new/f.csv", &[2, 3]).await;
    let spec = PartitionSpec::try_new([Field::new("p", DataType::Int32, true)]).unwrap();
    let partitions = [(1, "archive/old"), (2, "elsewhere/new")]
        .map(|(p, location): (i32, _)| partition(&spec, [p.into()], location));
    let catalog = MemoryCatalog::try_new(spec, &partitions).unwrap();
    fixture.register_csv("t", catalog);
    assert_eq!(
        fixture.rows("SELECT id, p FROM t").await,
        ["1 | 1", "2 | 2", "3 | 2"]
    );

    fixture.take_requests();
    let (rows, plan) = fixture.analyze("SELECT id FROM t WHERE p = 2").await;
    assert_eq!(rows, ["2", "3"]);
    assert!(fixture.requests.mentioning("archive").is_empty());
    assert_eq!(scan_metric(&plan, "partitions_pruned_static"), 1);
    assert_eq!(scan_metric(&plan, "list_requests"), 1);
}

#[tokio::test]
async fn quoted_and_mixed_case_names() {
    let fixture = Fixture::new();
    fixture.put_ids("t/Order Day=x%3Dy/f.csv", &[1]).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, \"Order Day\" TEXT) STORED AS CSV \
         PARTITIONED BY (\"Order Day\") LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("t/")
    );
    fixture.run(&sql).await.unwrap();
    let query = "SELECT id, \"Order Day\" FROM t WHERE \"Order Day\" = 'x=y'";
    assert_eq!(fixture.rows(query).await, ["1 | x=y"]);

    fixture.put_ids("u/p=7/f.csv", &[1]).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE u (id BIGINT) STORED AS CSV PARTITIONED BY (P INT) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("u/")
    );
    // DataFusion's grammar allows types in this clause only for columns not declared before.
    fixture.run(&sql).await.unwrap();
    assert_eq!(fixture.rows("SELECT p FROM u WHERE P = 7").await, ["7"]);
}

#[tokio::test]
async fn statistics_are_inexact_and_large_before_anything_is_known() {
    let fixture = two_levels().await;
    let plan = fixture.plan("SELECT id FROM t").await.unwrap();
    let statistics = datafusion::physical_plan::statistics::StatisticsContext::new()
        .compute(plan.as_ref(), &Default::default())
        .unwrap();
    assert!(
        statistics.num_rows.is_exact() == Some(false),
        "{:?}",
        statistics.num_rows
    );
    assert!(*statistics.num_rows.get_value().unwrap() > 1_000_000);
    let _: &dyn ExecutionPlan = plan.as_ref();
}

#[tokio::test]
async fn the_plan_names_each_filter_on_partitions_once() {
    let fixture = two_levels().await;
    let sql = "SELECT id FROM t WHERE p = 1 AND id > 0 AND (q = 'x' OR id = 2)";
    let plan = fixture.plan(sql).await.unwrap();
    let plan = datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string();
    insta::assert_snapshot!(plan, @r"
    FilterExec: id@0 > 0 AND (q@1 = x OR id@0 = 2), projection=[id@0]
      DataSourceExec: partitions=directories(memory://lake/t), partitioned_by=[p, q], partition_filters=[p@0 = 1, q@1 = x OR id@2 = 2], projection=[id, q], file_type=csv, has_header=true
    ");
}

#[tokio::test]
async fn a_partition_column_may_look_hidden() {
    let fixture = Fixture::new();
    fixture.put_ids("t/_p=1/.q=2/f.csv", &[1]).await;
    fixture
        .put_ids("t/_temporary/0/_p=1/.q=2/f.csv", &[2])
        .await;
    fixture.put_ids("t/_p=1/.q=2/_tmp/f.csv", &[3]).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, _p INT, \".q\" INT) STORED AS CSV \
         PARTITIONED BY (_p, \".q\") LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("t/")
    );
    fixture.run(&sql).await.unwrap();
    assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | 1 | 2"]);
    assert_eq!(
        fixture
            .rows("SELECT id FROM t WHERE _p = 1 AND \".q\" > 0")
            .await,
        ["1"]
    );
}

#[tokio::test]
async fn a_directory_without_rows_fails_no_filter() {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=5/f.csv", &[1]).await;
    fixture.lake.put_text("t/p=0/_SUCCESS", "").await.unwrap();
    fixture.create("t", "p INT").await;
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE 10 / p > 1").await,
        ["1"]
    );
    fixture.put_ids("t/p=0/f.csv", &[2]).await;
    assert!(
        fixture
            .error("SELECT id FROM t WHERE 10 / p > 1")
            .await
            .contains("ivide by zero")
    );
}

#[tokio::test]
async fn filters_above_a_join_reach_the_column_they_mean() {
    // DataFusion confuses columns of one name above a projection over a swapped join, see its
    // `ProjectionExec::gather_filters_for_pushdown`.
    let fixture = Fixture::new();
    for p in [1, 7] {
        fixture.put_ids(&format!("l/p={p}/f.csv"), &[p]).await;
        fixture.put_ids(&format!("c/p={p}/f.csv"), &[10 * p]).await;
    }
    fixture.put_ids("c/p=2/f.csv", &[20]).await;
    fixture.create("l", "p INT").await;
    fixture.create("c", "p INT").await;
    for sql in [
        "SELECT r.id, l.p FROM l RIGHT JOIN c r ON l.id + 0 = r.p WHERE l.p IS NULL OR l.p = 7",
        "SELECT r.id, l.p FROM c r LEFT JOIN l ON l.id + 0 = r.p WHERE l.p IS NULL OR l.p = 7",
        "SELECT r.id, s.p FROM c s RIGHT JOIN c r ON r.p = s.p + 1 WHERE s.p IS NULL OR s.p = 1",
    ] {
        let pruned = fixture.rows(sql).await;
        for option in [
            "partitioned.static_pruning",
            "datafusion.optimizer.enable_dynamic_filter_pushdown",
        ] {
            fixture.run(&format!("SET {option} = false")).await.unwrap();
        }
        assert_eq!(pruned, fixture.rows(sql).await, "{sql}");
        assert!(!pruned.is_empty());
        fixture
            .run("SET partitioned.static_pruning = true")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn json_files_are_read_and_a_column_of_theirs_does_not_count() {
    let fixture = Fixture::new();
    fixture
        .lake
        .put_text("t/p=1/f.json", "{\"id\": 5, \"p\": 99}\n")
        .await
        .unwrap();
    fixture
        .lake
        .put_text("t/p=2/f.json", "{\"id\": 6, \"p\": 99}\n")
        .await
        .unwrap();
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS JSON PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("t/")
    );
    fixture.run(&sql).await.unwrap();
    assert_eq!(
        fixture.rows("SELECT id, p FROM t").await,
        ["5 | 1", "6 | 2"]
    );
    assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 2").await, ["6"]);
}

#[tokio::test]
async fn batches_have_the_schema_of_the_plan() {
    let fixture = Fixture::with_streams(4);
    for p in ["1", "5", "__HIVE_DEFAULT_PARTITION__", "9"] {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[1, 2]).await;
    }
    fixture.create("t", "p INT").await;
    for _ in 0..10 {
        for batch in fixture.run("SELECT p, id FROM t").await.unwrap() {
            assert!(batch.schema().field(0).is_nullable());
        }
        assert_eq!(
            fixture
                .rows("SELECT p, id FROM t ORDER BY id, p LIMIT 6")
                .await
                .len(),
            6
        );
    }
}

#[tokio::test]
async fn a_filter_behind_a_guard_is_not_evaluated_for_what_the_guard_excludes() {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=0/q=b/f.csv", &[1]).await;
    fixture.put_ids("t/p=5/q=a/f.csv", &[2]).await;
    fixture.create("t", "p INT, q TEXT").await;
    for filter in [
        "q = 'a' AND 10 / p > 1",
        "CASE WHEN q = 'a' THEN 10 / p > 1 ELSE false END",
        "(q = 'a' AND 10 / p > 1) OR q = 'c'",
    ] {
        let sql = format!("SELECT id FROM t WHERE {filter}");
        assert_eq!(fixture.rows(&sql).await, ["2"], "{filter}");
    }
}

#[tokio::test]
async fn a_stray_directory_counts_only_when_it_holds_data() {
    let fixture = two_levels().await;
    fixture.put_ids("t/docs/readme.csv", &[900]).await;
    fixture.put_ids("t/p=oops/readme.csv", &[901]).await;
    fixture.put_ids("t/tmp/x/_hidden", &[902]).await;
    fixture
        .lake
        .put_text("t/p=1/lost+found/marker", "")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["5"]);
    assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 2").await, ["5"]);
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE q = 'x'").await,
        ["4", "5"]
    );
    fixture.put_ids("t/p=oops/q=x/f.csv", &[903]).await;
    for sql in ["SELECT count(*) FROM t", "SELECT id FROM t WHERE p = 2"] {
        assert!(fixture.error(sql).await.contains("'oops'"), "{sql}");
    }
}
