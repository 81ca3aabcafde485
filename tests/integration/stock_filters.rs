//! Dynamic filters that DataFusion's own operators make choose partitions too, and never wrong ones.

use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{FileKind, node_metric, scan_metric, sorted_rows};

use crate::common::Fixture;

fn config(prefer_hash_join: bool, threshold: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(3);
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.prefer_hash_join = prefer_hash_join;
    optimizer.hash_join_single_partition_threshold = threshold;
    optimizer.hash_join_single_partition_threshold_rows = threshold;
    config
}

fn collected() -> SessionConfig {
    config(true, 1_000_000)
}

fn partitioned() -> SessionConfig {
    config(true, 0)
}

fn sorted() -> SessionConfig {
    config(false, 0)
}

/// The rows with the filters, which are the rows, or the error, without them.
async fn check(fixture: &Fixture, sql: &str) -> Vec<String> {
    let mut answers = vec![];
    for enabled in [false, true] {
        fixture
            .set("partitioned.dynamic_filter.enabled", enabled)
            .await;
        let rows = fixture.run(sql).await;
        answers.push(rows.map(|r| sorted_rows(&r)).map_err(|e| e.to_string()));
    }
    let plan = fixture.explain(sql).await;
    assert_eq!(answers[0], answers[1], "{sql}\n{plan}");
    answers.remove(0).unwrap()
}

/// The day of `f` that the `id` leads to is the next one.
async fn chain(config: SessionConfig) -> Fixture {
    let fixture = Fixture::with_config(config);
    for day in 2..=8 {
        fixture
            .put_ids(&format!("f/day={day}/f.csv"), &[day - 1])
            .await;
    }
    fixture.create("f", "day BIGINT").await;
    fixture
}

/// An exchange above a join of two tables finds columns by their names.
#[tokio::test]
async fn the_day_of_one_table_is_not_the_day_of_another() {
    for config in [collected(), partitioned(), sorted()] {
        let fixture = Fixture::with_config(config);
        for (key, id) in [
            ("f/day=1", 1),
            ("f/day=2", 2),
            ("g/day=2", 1),
            ("g/day=1", 2),
        ] {
            fixture.put_ids(&format!("{key}/f.csv"), &[id]).await;
        }
        fixture.create("f", "day INT").await;
        fixture.create("g", "day INT").await;
        let d = "CREATE TABLE d AS SELECT CAST(column1 AS INT) AS k, column2 AS name \
                 FROM (VALUES (2, 'a'), (7, 'b'))";
        fixture.run(d).await.unwrap();
        let sql = "SELECT f.day, g.day FROM f JOIN g ON f.id = g.id JOIN d ON g.day = d.k \
                   WHERE d.name = 'a'";
        assert_eq!(check(&fixture, sql).await, ["1 | 2"]);
        let sql = "SELECT f.day, g.day FROM f JOIN g ON f.id = g.id ORDER BY g.day LIMIT 1";
        assert_eq!(check(&fixture, sql).await, ["2 | 1"]);
    }
}

/// Its one side is looked for columns of the other, by their names.
#[tokio::test]
async fn the_day_of_a_table_below_a_semi_join_is_not_the_day_above() {
    for config in [collected(), partitioned(), sorted()] {
        let fixture = Fixture::with_config(config);
        for day in 1..=6 {
            fixture.put_ids(&format!("f/day={day}/f.csv"), &[day]).await;
            fixture
                .put_ids(&format!("g/day={day}/f.csv"), &[7 - day])
                .await;
        }
        fixture.create("f", "day BIGINT").await;
        fixture.create("g", "day BIGINT").await;
        fixture.run("CREATE TABLE d AS VALUES (2)").await.unwrap();
        for exists in ["EXISTS", "NOT EXISTS"] {
            let sql = format!(
                "SELECT t.id FROM d JOIN (SELECT * FROM f WHERE {exists} \
                 (SELECT 1 FROM g WHERE g.id = f.day AND g.day <> f.id)) t ON t.day = column1"
            );
            let rows = check(&fixture, &sql).await;
            assert_eq!(rows.len(), usize::from(exists == "EXISTS"), "{sql}");
        }
    }
}

/// Operators keep what they know from one execution of a plan to the next.
#[tokio::test]
async fn a_plan_that_runs_again() {
    runs_again(&chain(collected()).await).await;
}

/// Parquet files are read with the filters too.
#[tokio::test]
async fn a_plan_over_parquet_that_runs_again() {
    let mut config = collected();
    config.options_mut().execution.parquet.pushdown_filters = true;
    let fixture = Fixture::with_config(config);
    for day in 2..=8 {
        let sql = format!("SELECT CAST({} AS BIGINT) AS id", day - 1);
        let key = format!("t/day={day}/f.parquet");
        fixture.put_query(&key, FileKind::Parquet, &sql).await;
    }
    let declared = fixture.declare("id BIGINT, day BIGINT", "PARQUET", "day", "");
    declared.await.unwrap();
    fixture
        .run("CREATE VIEW f AS SELECT * FROM t")
        .await
        .unwrap();
    runs_again(&fixture).await;
}

async fn runs_again(fixture: &Fixture) {
    for (sql, resets) in [
        ("SELECT min(day) FROM f WHERE id > 0", true),
        ("SELECT min(day) FROM f WHERE id > 0", false),
        ("SELECT day FROM f ORDER BY day + 0 LIMIT 1", true),
    ] {
        let mut plan = fixture.plan(sql).await.unwrap();
        for _ in 0..3 {
            let context = fixture.ctx.task_ctx();
            let rows = collect(Arc::clone(&plan), context).await.unwrap();
            assert_eq!(sorted_rows(&rows), ["2"], "{sql}");
            if resets {
                plan = reset_plan_states(plan).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn each_step_of_a_recursion() {
    for config in [collected(), partitioned(), sorted()] {
        let fixture = chain(config).await;
        let sql = "WITH RECURSIVE r(n) AS (SELECT CAST(1 AS BIGINT) UNION ALL \
                   (SELECT n FROM (SELECT min(t.day) AS n FROM r JOIN f t ON t.id = r.n) \
                   WHERE n IS NOT NULL)) SELECT n FROM r";
        assert_eq!(check(&fixture, sql).await.len(), 8);
    }
}

/// The first execution makes use of them.
#[tokio::test]
async fn a_sort_with_a_limit_reads_the_days_that_it_needs() {
    let fixture = chain(SessionConfig::new().with_target_partitions(1)).await;
    let sql = "SELECT day FROM f ORDER BY day + 0 LIMIT 1";
    let (rows, plan) = fixture.analyze(sql).await;
    assert_eq!(rows, ["2"]);
    assert!(scan_metric(&plan, "files_pruned_dynamic") > 0);
}

/// A whole table gives no keys to ours, and DataFusion's filter is kept where it is right.
#[tokio::test]
async fn keys_that_a_join_compares_otherwise_than_its_filter() {
    let fixture = Fixture::with_config(collected());
    let ids: Vec<i64> = (0..2000).collect();
    for p in ["-0.0", "1.5"] {
        fixture.put_ids(&format!("f/p={p}/f.csv"), &ids).await;
    }
    fixture.create("f", "p DOUBLE").await;
    fixture
        .run("CREATE TABLE d AS VALUES (0.0e0), (1.5e0), (7.5e0)")
        .await
        .unwrap();
    fixture.run("SELECT count(id) FROM f").await.unwrap();
    for (left, right) in [
        ("p", "column1"),
        ("arrow_cast(p, 'Float16')", "arrow_cast(column1, 'Float16')"),
    ] {
        let sql = format!("SELECT count(*) FROM f JOIN d ON {left} = {right}");
        assert_eq!(check(&fixture, &sql).await, ["4000"]);
    }
}

#[tokio::test]
async fn keys_in_lists_structs_and_dictionaries() {
    let fixture = Fixture::with_config(collected());
    for table in ["f", "g"] {
        for (p, id) in [("1", 1), ("2", 2), ("__HIVE_DEFAULT_PARTITION__", 3)] {
            fixture
                .put_ids(&format!("{table}/p={p}/f.csv"), &[id])
                .await;
        }
        fixture.create(table, "p BIGINT").await;
        let count = format!("SELECT count(id) FROM {table}");
        fixture.run(&count).await.unwrap();
    }
    for (left, right, rows) in [
        ("[f.p]", "[g.p]", 3),
        ("struct(f.p)", "struct(g.p)", 3),
        (
            "arrow_cast(f.p, 'Dictionary(Int32, Int64)')",
            "arrow_cast(g.p, 'Dictionary(Int32, Int64)')",
            2,
        ),
    ] {
        let sql = format!("SELECT f.id, g.id FROM f JOIN g ON {left} = {right}");
        for _ in 0..2 {
            assert_eq!(check(&fixture, &sql).await.len(), rows, "{sql}");
        }
    }
}

/// The keys of ours, which are collected where something selects them.
#[tokio::test]
async fn half_precision_zeros_are_one_key() {
    for config in [collected(), partitioned(), sorted()] {
        let fixture = Fixture::with_config(config);
        for (p, id) in [("-0.0", 0), ("0.0", 1), ("1.5", 2)] {
            fixture.put_ids(&format!("f/p={p}/f.csv"), &[id]).await;
        }
        fixture.create("f", "p DOUBLE").await;
        fixture
            .run("CREATE TABLE d AS SELECT column1 AS k, column2 AS w FROM (VALUES (0.0e0, 1), (1.5e0, 2))")
            .await
            .unwrap();
        let sql = "SELECT f.id FROM f JOIN d \
                   ON arrow_cast(f.p, 'Float16') = arrow_cast(d.k, 'Float16') WHERE w = 1";
        assert_eq!(check(&fixture, sql).await, ["0", "1"]);
    }
}

#[test]
fn waiting_needs_no_runtime_with_timers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let fixture = chain(sorted()).await;
        fixture
            .run("CREATE TABLE d AS VALUES (2), (4)")
            .await
            .unwrap();
        let sql = "SELECT id FROM f JOIN d ON day = column1";
        assert_eq!(fixture.rows(sql).await, ["1", "3"]);
    });
}

#[tokio::test]
async fn metrics_are_of_one_execution() {
    let fixture = chain(sorted()).await;
    fixture
        .run("CREATE TABLE d AS VALUES (2), (4)")
        .await
        .unwrap();
    let sql = "SELECT id FROM f JOIN d ON day = column1";
    let (_, plan) = fixture.analyze(sql).await;
    let rows = |plan| node_metric(plan, "StartEarlyExec", "output_rows");
    assert_eq!(rows(&plan), 2);
    let again = reset_plan_states(Arc::clone(&plan)).unwrap();
    collect(Arc::clone(&again), fixture.ctx.task_ctx())
        .await
        .unwrap();
    assert_eq!(rows(&again), 2);
}
