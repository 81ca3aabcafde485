//! Differential test: random queries over random partitioned tables, under random settings, return
//! what DataFusion returns over the same rows in memory.
//!
//! ```text
//!   Dataset ──hive directories──> f, g ──┐
//!           ──in memory─────────> d, e ──┴─ Query under Settings, dynamic filters on ──┐
//!                                                          and dynamic filters off ────┤ same rows
//!           ──in memory─────────> f, g, d, e ── Query in a plain session ──────────────┘
//! ```
//!
//! The seed is fixed. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` choose more and other cases:
//!
//! ```text
//! PROPTEST_CASES=5000 PROPTEST_RNG_SEED=17 cargo test --workspace --test integration differential
//! ```

mod queries;
mod schema;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::dynamic_filter::PartitionKeyCollectorExec;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Lake, node_metric, scan_metric, sorted_rows};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use tokio::runtime::Runtime;

use queries::{Query, query};
use schema::{Dataset, dataset};

/// Without `PROPTEST_CASES`.
const CASES: u32 = 150;

/// A query that takes longer waits for something that never happens.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What joins must have been seen to prune, or the test proves nothing.
const PRUNING_JOINS: [&str; 12] = [
    "Inner, CollectLeft",
    "Inner, Partitioned",
    "Left, CollectLeft",
    "Left, Partitioned",
    "LeftSemi, CollectLeft",
    "LeftSemi, Partitioned",
    "RightSemi, CollectLeft",
    "RightSemi, Partitioned",
    "LeftAnti, CollectLeft",
    "LeftAnti, Partitioned",
    "LeftMark, CollectLeft",
    "LeftMark, Partitioned",
];

#[test]
fn partitioned_tables_answer_as_tables_in_memory() {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0);
    }
    let cases = config.cases;
    let runtime = Runtime::new().unwrap();
    let tally = RefCell::new(Tally::default());
    let strategy = (dataset(), vec((query(), settings()), 1..=4));
    let result = TestRunner::new(config).run(&strategy, |(dataset, queries)| {
        runtime
            .block_on(check(&dataset, &queries, &tally))
            .map_err(TestCaseError::fail)
    });
    println!("{}", tally.borrow());
    match result {
        Ok(()) if cases >= CASES => tally.borrow().assert_covers(),
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs all queries; the error is a report of the first one with another answer.
async fn check(
    dataset: &Dataset,
    queries: &[(Query, Settings)],
    tally: &RefCell<Tally>,
) -> Result<(), String> {
    let reference = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    dataset.register_reference(&reference).unwrap();
    let lake = Lake::in_memory().unwrap();
    let ctx = SessionContext::new().with_partitioned();
    dataset.register_partitioned(&ctx, &lake).await.unwrap();

    for (query, settings) in queries {
        let sql = query.sql(&dataset.types);
        let expected = match run(&reference, &sql).await {
            Ok(expected) => expected,
            Err(error) => {
                tally.borrow_mut().skipped.push(format!("{sql}\n  {error}"));
                continue;
            }
        };
        for dynamic_filters in [true, false] {
            settings.apply(&ctx, dynamic_filters);
            match run(&ctx, &sql).await {
                Err(Failure::Error(_)) if Query::is_fallible(&sql) => {}
                Ok(actual) if actual.rows == expected.rows => {
                    tally.borrow_mut().count(&actual.plan, dynamic_filters);
                }
                outcome => {
                    let what = format!("{settings:?}, dynamic filters: {dynamic_filters}");
                    return Err(report(dataset, &sql, &what, &expected, outcome));
                }
            }
        }
    }
    Ok(())
}

struct Answer {
    rows: Vec<String>,
    plan: Arc<dyn ExecutionPlan>,
}

enum Failure {
    Error(String),
    Timeout,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(error),
            Self::Timeout => write!(f, "no answer within {TIMEOUT:?}"),
        }
    }
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<Answer, Failure> {
    let answer = async {
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
        Ok(Answer {
            rows: sorted_rows(&batches),
            plan,
        })
    };
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|error: datafusion::error::DataFusionError| {
            Failure::Error(error.strip_backtrace())
        }),
        Err(_) => Err(Failure::Timeout),
    }
}

fn report(
    dataset: &Dataset,
    sql: &str,
    settings: &str,
    expected: &Answer,
    outcome: Result<Answer, Failure>,
) -> String {
    let (actual, plan) = match outcome {
        Ok(answer) => {
            let plan = displayable(answer.plan.as_ref()).indent(false).to_string();
            (format!("{:#?}", answer.rows), plan)
        }
        Err(failure) => (failure.to_string(), String::new()),
    };
    let expected = format!("{:#?}", expected.rows);
    format!("{dataset}\n{sql}\n\n{settings}\n\nexpected {expected}\n\nfound {actual}\n\n{plan}")
}

// ---- settings ----

/// What a query runs under.
#[derive(Debug, Clone)]
struct Settings {
    partitioned_joins: bool,
    join_reordering: bool,
    prefer_hash_join: bool,
    target_partitions: usize,
    batch_size: usize,
    /// Of the Parquet reader.
    pushdown_filters: bool,
    /// DataFusion's own.
    dynamic_filters: bool,
    work_stealing: bool,
    /// The smallest file that is split.
    split_files_from: usize,
    join_buffer: usize,
    static_pruning: bool,
    max_keys: usize,
}

fn settings() -> impl Strategy<Value = Settings> {
    let rarely = || proptest::bool::weighted(0.1);
    (
        [any::<bool>(), any::<bool>()],
        [rarely(), rarely(), rarely(), rarely()],
        select(&[1_usize, 2, 8][..]),
        select(&[1_usize, 8192][..]),
        [any::<bool>(), any::<bool>()],
        proptest::bool::weighted(0.8),
        select(&[0_usize, 2, 100_000, 100_000][..]),
    )
        .prop_map(
            |(joins, rare, target_partitions, batch_size, filters, pruning, max_keys)| Settings {
                partitioned_joins: joins[0],
                join_reordering: joins[1],
                prefer_hash_join: !rare[0],
                target_partitions,
                batch_size,
                pushdown_filters: filters[0],
                dynamic_filters: filters[1],
                work_stealing: !rare[1],
                split_files_from: if rare[2] { 1 } else { 1 << 20 },
                join_buffer: if rare[3] { 1 << 20 } else { 0 },
                static_pruning: pruning,
                max_keys,
            },
        )
}

impl Settings {
    fn apply(&self, ctx: &SessionContext, dynamic_filters: bool) {
        let single_partition = if self.partitioned_joins {
            0
        } else {
            usize::MAX
        };
        let options = [
            (
                "optimizer.hash_join_single_partition_threshold",
                single_partition.to_string(),
            ),
            (
                "optimizer.hash_join_single_partition_threshold_rows",
                single_partition.to_string(),
            ),
            (
                "optimizer.join_reordering",
                self.join_reordering.to_string(),
            ),
            (
                "optimizer.prefer_hash_join",
                self.prefer_hash_join.to_string(),
            ),
            (
                "optimizer.enable_dynamic_filter_pushdown",
                self.dynamic_filters.to_string(),
            ),
            (
                "optimizer.repartition_file_min_size",
                self.split_files_from.to_string(),
            ),
            (
                "execution.target_partitions",
                self.target_partitions.to_string(),
            ),
            ("execution.batch_size", self.batch_size.to_string()),
            (
                "execution.parquet.pushdown_filters",
                self.pushdown_filters.to_string(),
            ),
            (
                "execution.enable_file_stream_work_stealing",
                self.work_stealing.to_string(),
            ),
            (
                "execution.hash_join_buffering_capacity",
                self.join_buffer.to_string(),
            ),
        ];
        let own = [
            ("static_pruning", self.static_pruning.to_string()),
            ("dynamic_filter.enabled", dynamic_filters.to_string()),
            ("dynamic_filter.max_keys", self.max_keys.to_string()),
        ];
        let state = ctx.state_ref();
        let mut state = state.write();
        let config = state.config_mut().options_mut();
        for (prefix, options) in [("datafusion", &options[..]), ("partitioned", &own)] {
            for (key, value) in options {
                config.set(&format!("{prefix}.{key}"), value).unwrap();
            }
        }
    }
}

// ---- what has been covered ----

/// How often something happened, so that a run in which nothing happens does not pass.
#[derive(Debug, Default)]
struct Tally {
    queries: usize,
    pruned_static: usize,
    pruned_dynamic: usize,
    pruned_by_bounds: usize,
    joins: BTreeMap<String, usize>,
    /// Those that fail in memory as well.
    skipped: Vec<String>,
}

impl Tally {
    fn count(&mut self, plan: &Arc<dyn ExecutionPlan>, dynamic_filters: bool) {
        let pruned_dynamic = scan_metric(plan, "partitions_pruned_dynamic") > 0;
        if !dynamic_filters {
            assert!(
                !pruned_dynamic,
                "{}",
                displayable(plan.as_ref()).indent(false)
            );
            return;
        }
        self.queries += 1;
        self.pruned_static += usize::from(scan_metric(plan, "partitions_pruned_static") > 0);
        if pruned_dynamic {
            self.pruned_dynamic += 1;
            let collector = "PartitionKeyCollectorExec";
            let overflowed = node_metric(plan, collector, "key_set_overflowed") > 0;
            self.pruned_by_bounds += usize::from(overflowed);
            let mut joins = BTreeSet::new();
            joins_with_filters(plan, &mut joins);
            // Of several joins it is not known which one has pruned.
            if let [join] = &joins.into_iter().collect::<Vec<_>>()[..] {
                *self.joins.entry(join.clone()).or_default() += 1;
            }
        }
    }

    fn assert_covers(&self) {
        let share = |part: usize| part as f64 / self.queries as f64;
        assert!(
            share(self.skipped.len()) < 0.2,
            "too many queries fail anyway"
        );
        assert!(share(self.pruned_static) > 0.1, "too little static pruning");
        assert!(
            share(self.pruned_dynamic) > 0.1,
            "too little dynamic pruning"
        );
        assert!(self.pruned_by_bounds > 0, "no pruning by bounds");
        let missing: Vec<_> = PRUNING_JOINS
            .iter()
            .filter(|join| !self.joins.contains_key(**join))
            .collect();
        assert!(missing.is_empty(), "no pruning by these joins: {missing:?}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            queries,
            pruned_static,
            pruned_dynamic,
            pruned_by_bounds,
            joins,
            skipped,
        } = self;
        writeln!(
            f,
            "{queries} queries, {} more that fail in memory",
            skipped.len()
        )?;
        writeln!(f, "{pruned_static} pruned static, {pruned_dynamic} dynamic")?;
        writeln!(f, "{pruned_by_bounds} of these with bounds")?;
        joins
            .iter()
            .try_for_each(|(join, count)| writeln!(f, "{count} by {join}"))
    }
}

/// The types and modes of the joins that feed a collector.
fn joins_with_filters(plan: &Arc<dyn ExecutionPlan>, joins: &mut BTreeSet<String>) {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && feeds_collector(join.left())
    {
        let mode = match join.partition_mode() {
            PartitionMode::CollectLeft => "CollectLeft",
            _ => "Partitioned",
        };
        joins.insert(format!("{}, {mode}", join.join_type()));
    }
    for child in plan.children() {
        joins_with_filters(child, joins);
    }
}

/// Whether a collector is among the operators that only move rows.
fn feeds_collector(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<PartitionKeyCollectorExec>()
        || (matches!(plan.name(), "RepartitionExec" | "CoalescePartitionsExec")
            && plan.children().into_iter().all(feeds_collector))
}
