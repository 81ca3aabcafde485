//! One plan, executed more than once: in turn, at once, in part, cancelled, reset.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, collect, collect_partitioned,
};
use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{Fault, FaultyStore, Gate, RequestKind, sorted_rows};
use futures::{StreamExt, TryStreamExt};

use crate::common::Fixture;

async fn fixture(target_partitions: usize) -> Fixture {
    let config = SessionConfig::new().with_target_partitions(target_partitions);
    let fixture = Fixture::with_config(config);
    for p in 0..40_i64 {
        fixture
            .put_ids(&format!("t/p={p}/f.csv"), &[p, p + 100])
            .await;
    }
    fixture.create("t", "p BIGINT").await;
    fixture
        .run("CREATE TABLE d AS SELECT column1 AS k FROM (VALUES (3), (7), (7), (NULL), (99))")
        .await
        .unwrap();
    fixture
}

const SCAN: &str = "SELECT id, p FROM t WHERE p > 9";
const JOIN: &str = "SELECT t.id, t.p FROM t JOIN d ON t.p = d.k";

async fn run(fixture: &Fixture, plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    sorted_rows(
        &collect(Arc::clone(plan), fixture.ctx.task_ctx())
            .await
            .unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_executed_twice_and_twice_at_once() {
    for target_partitions in [1, 2, 8] {
        let fixture = fixture(target_partitions).await;
        let plan = fixture.plan(SCAN).await.unwrap();
        let first = run(&fixture, &plan).await;
        assert_eq!(first.len(), 60);
        assert_eq!(run(&fixture, &plan).await, first);
        let (a, b) = tokio::join!(run(&fixture, &plan), run(&fixture, &plan));
        assert_eq!((&a, &b), (&first, &first));

        // The same context for all of them.
        let context = fixture.ctx.task_ctx();
        for _ in 0..3 {
            let rows = collect(Arc::clone(&plan), Arc::clone(&context))
                .await
                .unwrap();
            assert_eq!(sorted_rows(&rows), first);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_executed_twice_after_a_reset_and_at_once() {
    for target_partitions in [1, 2, 8] {
        let fixture = fixture(target_partitions).await;
        let expected = ["103 | 3", "107 | 7", "107 | 7", "3 | 3", "7 | 7", "7 | 7"];
        let plan = fixture.plan(JOIN).await.unwrap();
        assert_eq!(run(&fixture, &plan).await, expected);
        for _ in 0..3 {
            let again = reset_plan_states(Arc::clone(&plan)).unwrap();
            fixture.take_requests();
            assert_eq!(run(&fixture, &again).await, expected);
            assert_eq!(
                fixture.requests.list_count(),
                3,
                "the dynamic filter works again"
            );
        }
        let (one, other) = (
            reset_plan_states(Arc::clone(&plan)),
            reset_plan_states(plan),
        );
        let (one, other) = (one.unwrap(), other.unwrap());
        let (a, b) = tokio::join!(run(&fixture, &one), run(&fixture, &other));
        assert_eq!(a, expected);
        assert_eq!(b, expected);
    }
}

#[tokio::test]
async fn a_reset_plan_sees_new_partitions() {
    let fixture = fixture(2).await;
    let plan = fixture.plan(JOIN).await.unwrap();
    assert_eq!(run(&fixture, &plan).await.len(), 6);
    fixture.put_ids("t/p=99/f.csv", &[1]).await;
    let again = reset_plan_states(plan).unwrap();
    assert_eq!(run(&fixture, &again).await.len(), 7);
}

#[tokio::test]
async fn partitions_of_a_plan_one_after_the_other() {
    let fixture = fixture(4).await;
    let plan = fixture.plan(SCAN).await.unwrap();
    let partitions = plan.output_partitioning().partition_count();
    assert_eq!(partitions, 4);
    let context = fixture.ctx.task_ctx();
    let mut rows: Vec<RecordBatch> = vec![];
    for partition in 0..partitions {
        let stream = plan.execute(partition, Arc::clone(&context)).unwrap();
        rows.extend(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    assert_eq!(sorted_rows(&rows).len(), 60);
}

#[tokio::test]
async fn without_work_sharing_each_partition_stands_alone() {
    let mut config = SessionConfig::new().with_target_partitions(4);
    config
        .options_mut()
        .execution
        .enable_file_stream_work_stealing = false;
    let fixture = Fixture::with_config(config);
    for p in 0..40_i64 {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[p]).await;
    }
    fixture.create("t", "p BIGINT").await;
    let plan = fixture.plan("SELECT id FROM t").await.unwrap();
    // Each partition in a context of its own, as in different processes, and one of them twice.
    let mut sizes = vec![];
    for partition in [0, 1, 2, 3, 1] {
        let stream = plan.execute(partition, fixture.ctx.task_ctx()).unwrap();
        let rows: Vec<RecordBatch> = stream.try_collect().await.unwrap();
        sizes.push(rows.iter().map(RecordBatch::num_rows).sum::<usize>());
    }
    assert_eq!(sizes[..4].iter().sum::<usize>(), 40);
    assert_eq!(sizes[4], sizes[1]);
    assert!(sizes.iter().all(|size| *size < 40), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_in_the_middle_and_then_again() {
    for sql in [SCAN, JOIN] {
        for target_partitions in [1, 2, 8] {
            let fixture = fixture(target_partitions).await;
            let expected = fixture.rows(sql).await;
            let plan = fixture.plan(sql).await.unwrap();
            let context = fixture.ctx.task_ctx();
            let mut streams: Vec<_> = (0..plan.output_partitioning().partition_count())
                .map(|partition| plan.execute(partition, Arc::clone(&context)).unwrap())
                .collect();
            let first = streams[0].next().await;
            assert!(first.is_none_or(|batch| batch.is_ok()));
            drop(streams);
            let again = reset_plan_states(plan).unwrap();
            assert_eq!(run(&fixture, &again).await, expected);
            // A retry with the very context that was cancelled.
            let again = reset_plan_states(again).unwrap();
            let rows = collect(again, context).await.unwrap();
            assert_eq!(sorted_rows(&rows), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_while_a_listing_hangs_stops_it() {
    let fixture = fixture(2).await;
    let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
    fixture
        .lake
        .clone()
        .with_store(Arc::new(faulty.clone()))
        .register(&fixture.ctx);
    let gate = Gate::new();
    faulty.inject(Fault::hold(&gate, |request| {
        request.kind == RequestKind::List
    }));
    let plan = fixture.plan(SCAN).await.unwrap();
    let running = collect_partitioned(Arc::clone(&plan), fixture.ctx.task_ctx());
    assert!(
        tokio::time::timeout(Duration::from_millis(200), running)
            .await
            .is_err()
    );
    assert!(gate.held() <= 32, "no more requests than list_concurrency");
    faulty.heal();
    gate.open();
    fixture.take_requests();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        fixture.take_requests(),
        "",
        "a cancelled query asks for nothing more"
    );
    assert_eq!(run(&fixture, &plan).await.len(), 60);
}

#[tokio::test]
async fn memory_is_given_back_when_the_query_ends() {
    let fixture = fixture(2).await;
    let pool = Arc::clone(&fixture.ctx.runtime_env().memory_pool);
    let plan = fixture.plan(JOIN).await.unwrap();
    assert_eq!(run(&fixture, &plan).await.len(), 6);
    // The join keeps its build side as long as the plan lives; the scan and the collector nothing.
    let plan = reset_plan_states(plan).unwrap();
    assert_eq!(pool.reserved(), 0);
    drop(plan);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_of_a_plan_at_once_with_one_context() {
    for sql in [SCAN, JOIN] {
        let fixture = fixture(4).await;
        let expected = fixture.rows(sql).await;
        let plan = fixture.plan(sql).await.unwrap();
        for _ in 0..20 {
            let context = fixture.ctx.task_ctx();
            let mut runs = JoinSet::new();
            for _ in 0..4 {
                let copy = reset_plan_states(Arc::clone(&plan)).unwrap();
                runs.spawn(collect(copy, Arc::clone(&context)));
            }
            while let Some(rows) = runs.join_next().await {
                assert_eq!(sorted_rows(&rows.unwrap().unwrap()), expected);
            }
        }
    }
}

#[tokio::test]
async fn a_plan_that_was_opened_in_part_gives_its_memory_back_when_it_is_reset() {
    let fixture = fixture(4).await;
    let pool = Arc::clone(&fixture.ctx.runtime_env().memory_pool);
    let plan = fixture.plan(JOIN).await.unwrap();
    let stream = plan.execute(0, fixture.ctx.task_ctx()).unwrap();
    stream.try_collect::<Vec<_>>().await.unwrap();
    let plan = reset_plan_states(plan).unwrap();
    assert_eq!(pool.reserved(), 0);
    drop(plan);
}
