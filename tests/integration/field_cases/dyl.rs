//! DYL: dynamic filters come to an end, and have an effect.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{node_metric, scan_metric, sorted_rows};

use super::{Case, Sessions, Table, modes};
use crate::common::{Fixture, Step, source, within};

/// A query that takes longer waits for what never happens. It is less than the time after which scans
/// stop waiting for keys.
const WATCHDOG: Duration = Duration::from_secs(9);

/// Checks the rows of a query in each mode, one answer after the other.
async fn check_in_time(case: &Sessions, sql: &str, expected: &[&str]) {
    let sessions = case.usable();
    for session in sessions.filter(|session| session.mode.concerns(sql)) {
        let name = format!("[{}] {sql}", session.mode.name);
        for answer in within(WATCHDOG, &name, session.ask(sql)).await {
            answer.check_rows(expected);
        }
    }
}

/// A build side that a filter leaves empty has keys all the same: none (trinodb/trino #9917).
#[tokio::test(flavor = "multi_thread")]
async fn dyl_02_filtered_to_nothing() {
    let mut case = Case::new();
    for p in 0..50_i64 {
        let ids: Vec<_> = (p * 10..p * 10 + 10).collect();
        case = case.ids(&format!("T/p={p}/f.parquet"), &ids);
    }
    let case = case
        .table(Table::new("f", "id BIGINT, p INT", "p"))
        .modes(modes::REPEATED)
        .also(modes::STRATEGIES)
        .open_broken()
        .await;
    for filter in ["a.p < 0", "a.id < 0", "b.id < 0"] {
        let sql = format!(
            "SELECT count(*) FROM f a JOIN f b ON a.p = b.p AND a.id = b.id WHERE {filter}"
        );
        check_in_time(&case, &sql, &["0"]).await;
    }
}

/// Each round of a recursive query has keys of its own (apache/datafusion #16998, #17060 and #9687).
#[tokio::test(flavor = "multi_thread")]
async fn dyl_04_each_round_of_a_recursive_query_has_its_own_keys() {
    let file = |dst| rows!(("dst", Int64, [dst]));
    let case = Case::new()
        .parquet("T/src=1/f.parquet", file(2))
        .parquet("T/src=2/f.parquet", file(3))
        .parquet("T/src=3/f.parquet", file(4))
        .parquet("T/src=9/f.parquet", file(10))
        .table(Table::new("e", "dst BIGINT, src BIGINT", "src"))
        .also(modes::STRATEGIES)
        .open()
        .await;
    for join in [
        "r JOIN e ON e.src = r.n",
        "e JOIN r ON e.src = r.n",
        "e JOIN r ON e.src <= r.n AND e.src >= r.n",
    ] {
        let sql = format!(
            "WITH RECURSIVE r(n) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT e.dst FROM {join}) \
             SELECT n FROM r"
        );
        check_in_time(&case, &sql, &["1", "2", "3", "4"]).await;
    }
    let sql = "WITH RECURSIVE r(k) AS (SELECT 0 UNION ALL (SELECT k FROM r ORDER BY k LIMIT 1)) \
               SELECT count(*) FROM (SELECT k FROM r LIMIT 5)";
    check_in_time(&case, sql, &["5"]).await;
}

/// Passes all optimizer rules of the session so many times.
fn optimized(
    ctx: &SessionContext,
    plan: &Arc<dyn ExecutionPlan>,
    times: usize,
) -> Arc<dyn ExecutionPlan> {
    let mut plan = Arc::clone(plan);
    let options = Arc::clone(ctx.copied_config().options());
    for _ in 0..times {
        for rule in ctx.state().physical_optimizers() {
            plan = rule.optimize(plan, &options).unwrap();
        }
    }
    plan
}

/// Planners that optimize a plan again add no filter to it (apache/datafusion #22523).
#[tokio::test]
async fn dyl_06_optimized_again() {
    let case = Case::new()
        .ids("T/p=1/f.parquet", &[1])
        .ids("T/p=2/f.parquet", &[2])
        .ids("U/p=2/f.parquet", &[3])
        .table(Table::new("f", "id BIGINT, p INT", "p"))
        .table(Table::new("d", "id BIGINT, p INT", "p").at(&["U/"]))
        .also(modes::STRATEGIES)
        .open()
        .await;
    let sql = "SELECT f.id FROM f JOIN d ON f.p = d.p WHERE d.id > 2";
    let sessions = case.usable();
    for session in sessions.filter(|session| session.mode.concerns(sql)) {
        let plan = session.plan(sql).await.unwrap();
        let plans = [1, 2, 5].map(|times| optimized(&session.ctx, &plan, times));
        let texts: Vec<_> = plans
            .iter()
            .map(|plan| displayable(plan.as_ref()).indent(false).to_string())
            .collect();
        assert_eq!(texts[0], texts[2], "[{}]", session.mode.name);
        assert_eq!(texts[0], texts[1], "[{}]", session.mode.name);
        let filters = texts[0].matches("dynamic_filters=[").count();
        assert!(filters <= 1, "[{}] {}", session.mode.name, texts[0]);
        for plan in plans {
            let rows = collect(plan, session.ctx.task_ctx()).await.unwrap();
            assert_eq!(sorted_rows(&rows), ["2"], "[{}]", session.mode.name);
        }
    }
}

/// A fact table by key, and a dimension that is filtered by something else: only the files of the keys
/// that are left are opened, wherever these lie (apache/datafusion #18171, delta-io/delta-rs #4052).
#[tokio::test]
async fn dyl_07_a_star_join_opens_the_files_of_its_keys() {
    let mut case = Case::new();
    for sk in 1..=700 {
        case = case.bytes(&format!("T/sk={sk}/f.csv"), format!("q\n{sk}\n"));
    }
    let case = case
        .table(Table::new("f", "q BIGINT, sk INT", "sk").stored_as("CSV"))
        .statement(
            "CREATE TABLE d AS SELECT CAST(value AS INT) AS sk, CASE WHEN value IN (11, 12, 13) \
             THEN 2001 WHEN value IN (5, 333, 699) THEN 2002 ELSE 1999 END AS year \
             FROM range(1, 701)",
        )
        .modes(modes::REPEATED)
        .also(modes::STRATEGIES)
        .open_broken()
        .await;
    for (year, sum) in [(2001, "36"), (2002, "1037")] {
        let sql = format!("SELECT sum(q) FROM d JOIN f ON f.sk = d.sk WHERE d.year = {year}");
        for session in case.usable().filter(|session| session.mode.concerns(&sql)) {
            for answer in session.ask(&sql).await {
                answer.check_rows(&[sum]);
                let mode = session.mode;
                if mode.filters_by_keys() && mode.keeps_keys() {
                    assert_eq!(answer.metric("files_scanned"), 3, "{}", answer.name);
                }
            }
        }
    }
    let sql = "EXPLAIN ANALYZE SELECT sum(q) FROM d JOIN f ON f.sk = d.sk WHERE d.year = 2001";
    let (rows, _) = case.default().run(sql).await.unwrap();
    let text = sorted_rows(&rows).join("\n");
    assert!(text.contains("partitions_pruned_dynamic=697"), "{text}");
}

/// `f` with 20 partitions of two rows, `m` with the same rows in memory, and `slow`, whose only batch
/// comes after a pause.
async fn slow_fixture(config: SessionConfig, pause: Duration) -> Fixture {
    let fixture = Fixture::with_config(config);
    for p in 0..20_i64 {
        fixture.put_ids(&format!("f/p={p}/f.csv"), &[p, p]).await;
    }
    fixture.create("f", "p INT").await;
    fixture
        .run("CREATE TABLE m AS SELECT value AS id, CAST(value AS INT) AS p FROM range(20) UNION ALL \
              SELECT value, CAST(value AS INT) FROM range(20)")
        .await
        .unwrap();
    let rows = rows!(("k", Int32, [3, 7]));
    let steps = vec![Step::Pause(pause), Step::Rows(rows.clone())];
    let slow = source(&rows.schema(), vec![steps]);
    fixture.ctx.register_table("slow", slow).unwrap();
    fixture
}

/// One for each strategy of joins: collected and partitioned builds, and sorts.
fn strategies() -> [SessionConfig; 3] {
    [(true, 1_000_000_000), (true, 0), (false, 0)].map(|(hash, threshold)| {
        let mut config = SessionConfig::new().with_target_partitions(3);
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.prefer_hash_join = hash;
        optimizer.hash_join_single_partition_threshold = threshold;
        optimizer.hash_join_single_partition_threshold_rows = threshold;
        config
    })
}

/// Keys that come late are waited for once, and not for each file; a side that has no use for them
/// does not mind (trinodb/trino #3414, #4991, #22527 and #18383).
#[tokio::test(flavor = "multi_thread")]
async fn dyl_08_a_slow_build_side_takes_its_time_once() {
    let pause = Duration::from_secs(1);
    for config in strategies() {
        let fixture = slow_fixture(config, pause).await;
        for (from, scanned) in [("slow JOIN f ON f.p = k", 2), ("slow JOIN m ON m.p = k", 0)] {
            let sql = format!("SELECT id FROM {from}");
            let start = Instant::now();
            let (rows, plan) = within(WATCHDOG, &sql, fixture.analyze(&sql)).await;
            let elapsed = start.elapsed();
            assert_eq!(rows, ["3", "3", "7", "7"], "{sql}");
            assert_eq!(scan_metric(&plan, "partitions_scanned"), scanned, "{sql}");
            // There are 20 files.
            assert!(
                elapsed >= pause && elapsed < 7 * pause,
                "{elapsed:?}: {sql}"
            );
        }
    }
}

/// A scan that runs at the same time as the other side does not wait longer than it is told to, and
/// then reads everything (trinodb/trino #22527).
#[tokio::test(flavor = "multi_thread")]
async fn dyl_08_keys_that_come_too_late_are_not_waited_for() {
    let [_, _, sort_merge] = strategies();
    let fixture = slow_fixture(sort_merge, Duration::from_secs(1)).await;
    fixture.set("partitioned.dynamic_filter.wait", "50ms").await;
    let sql = "SELECT id FROM f JOIN slow ON f.p = k";
    let (rows, plan) = within(WATCHDOG, sql, fixture.analyze(sql)).await;
    assert_eq!(rows, ["3", "3", "7", "7"]);
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 20);
    assert_eq!(scan_metric(&plan, "dynamic_filters_ready"), 0);
}

/// More keys than are kept become bounds, in bounded memory (apache/datafusion #21931).
#[tokio::test(flavor = "multi_thread")]
async fn dyl_08_more_keys_than_are_kept_become_bounds() {
    for mut config in strategies() {
        let pool = Arc::new(KeyMemory::default());
        config = config.with_batch_size(65_536);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
            .build_arc()
            .unwrap();
        let mut fixture = Fixture::new();
        fixture.ctx = SessionContext::new_with_config_rt(config, runtime).with_partitioned();
        fixture.lake.register(&fixture.ctx);
        for p in 0..20_i64 {
            let key = format!("f/p={}/f.csv", p * 30_000);
            fixture.put_ids(&key, &[p]).await;
        }
        fixture.create("f", "p INT").await;
        let steps = (0..4).map(|batch| {
            let values = (0..65_536).map(|row| batch * 65_536 + row);
            let values = Arc::new(Int32Array::from_iter_values(values));
            Step::Rows(RecordBatch::try_from_iter([("k", values as _)]).unwrap())
        });
        let steps: Vec<_> = steps.collect();
        let Step::Rows(first) = &steps[0] else {
            unreachable!()
        };
        let many = source(&first.schema(), vec![steps.clone()]);
        fixture.ctx.register_table("many", many).unwrap();

        let sql = "SELECT count(*) FROM many JOIN f ON f.p = k";
        let (rows, plan) = within(5 * WATCHDOG, sql, fixture.analyze(sql)).await;
        assert_eq!(rows, ["9"]);
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(scan_metric(&plan, "partitions_scanned"), 9, "{text}");
        let overflowed = node_metric(&plan, "PartitionKeyCollectorExec", "key_set_overflowed");
        assert_eq!(overflowed, 1, "{text}");
        let peak = pool.peak.load(Ordering::Relaxed);
        assert!(peak > 0 && peak <= 32 << 20, "{peak} bytes");
    }
}

/// Grants all memory, and sees how much of it keys take.
#[derive(Debug, Default)]
struct KeyMemory {
    all: UnboundedMemoryPool,
    keys: AtomicUsize,
    peak: AtomicUsize,
}

impl KeyMemory {
    fn is_of_keys(reservation: &MemoryReservation) -> bool {
        reservation.consumer().name() == "PartitionKeyCollector"
    }
}

impl fmt::Display for KeyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for KeyMemory {
    fn name(&self) -> &'static str {
        "KeyMemory"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        if Self::is_of_keys(reservation) {
            let keys = self.keys.fetch_add(additional, Ordering::Relaxed) + additional;
            self.peak.fetch_max(keys, Ordering::Relaxed);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        if Self::is_of_keys(reservation) {
            self.keys.fetch_sub(shrink, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }
}
