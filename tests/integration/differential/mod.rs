//! Differential test: random queries over random partitioned tables, under random settings, return
//! what DataFusion returns over the same rows in memory.
//!
//! ```text
//!   Dataset --hive directories--> f, g --+
//!           --in memory---------> d, e --+- Query under Settings, dynamic filters on --+
//!                                                          and dynamic filters off ----+ same rows
//!           --in memory---------> f, g, d, e -- Query in a plain session --------------+
//! ```
//!
//! The seed is fixed. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` choose more and other cases:
//!
//! ```text
//! PROPTEST_CASES=2000 PROPTEST_RNG_SEED=17 cargo test --workspace --test integration differential
//! ```

mod coverage;
mod pruning;
mod queries;
mod schema;
mod settings;
mod sql;

use std::cell::RefCell;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Lake, scan_metric, sorted_rows};
use futures::FutureExt;
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};
use tokio::runtime::{Builder, Runtime};

use crate::common::property_config;

use coverage::Coverage;
use queries::{Query, query};
use schema::{Dataset, dataset};
use settings::{Settings, settings};

/// Without `PROPTEST_CASES`.
const CASES: u32 = 200;

/// A query that takes longer waits for something that never happens.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Plans of nested queries recurse deeply, the more so without optimizations.
const STACK: usize = 64 << 20;

#[test]
fn partitioned_tables_answer_as_tables_in_memory() {
    let thread = std::thread::Builder::new().stack_size(STACK);
    let outcome = thread.spawn(run_cases).unwrap().join();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn run_cases() {
    let config = property_config(CASES);
    let cases = config.cases;
    let runtime = runtime();
    let coverage = RefCell::new(Coverage::default());
    let result = TestRunner::new(config).run(&case(), |(dataset, queries)| {
        runtime
            .block_on(check(&dataset, &queries, &coverage))
            .map_err(TestCaseError::fail)
    });
    println!("{}", coverage.borrow());
    match result {
        Ok(()) if cases >= CASES => coverage.borrow().assert_sufficient(),
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .unwrap()
}

/// Some tables, and some queries that each run under settings of their own.
fn case() -> impl Strategy<Value = (Dataset, Vec<(Query, Settings)>)> {
    (dataset(), vec((query(), settings()), 1..=4)).prop_map(|(dataset, mut queries)| {
        for (_, settings) in &mut queries {
            // A sort merge join panics when a key is NaN.
            settings.prefer_hash_join |= dataset.has_special_numbers();
        }
        (dataset, queries)
    })
}

/// Runs all queries; the error is a report of the first one with another answer.
async fn check(
    dataset: &Dataset,
    queries: &[(Query, Settings)],
    coverage: &RefCell<Coverage>,
) -> Result<(), String> {
    let config = SessionConfig::new().with_target_partitions(1);
    let reference = SessionContext::new_with_config(config);
    dataset.register_reference(&reference).unwrap();
    let lake = Lake::in_memory().unwrap();
    let ctx = SessionContext::new().with_partitioned();
    dataset.register_partitioned(&ctx, &lake).await.unwrap();

    for (query, settings) in queries {
        let sql = query.sql(dataset);
        let Ok(expected) = run(&reference, &sql, 1).await.rows else {
            coverage.borrow_mut().failing += 1;
            continue;
        };
        for partition_filters in [true, false] {
            settings.apply(&ctx, partition_filters);
            let answer = run(&ctx, &sql, settings.runs).await;
            match &answer.plan {
                Some(plan) if answer.rows.as_ref() == Ok(&expected) => {
                    if partition_filters {
                        coverage.borrow_mut().count(plan, settings);
                    } else {
                        assert_eq!(scan_metric(plan, "partitions_pruned_dynamic"), 0);
                    }
                    continue;
                }
                _ if answer.rows.as_ref().is_err_and(|e| depends_on_order(e)) => {
                    coverage.borrow_mut().failing += 1;
                    continue;
                }
                _ => {}
            }
            let wrong = Wrong {
                dataset,
                settings,
                sql: &sql,
                expected: &expected,
                answer,
            };
            if wrong.is_wrong_in_memory_too().await {
                coverage.borrow_mut().upstream.push(sql.clone());
            } else {
                return Err(format!("{wrong}\n\npartition filters: {partition_filters}"));
            }
        }
    }
    Ok(())
}

/// What a query returns.
struct Answer {
    plan: Option<Arc<dyn ExecutionPlan>>,
    rows: Result<Vec<String>, String>,
}

async fn run(ctx: &SessionContext, sql: &str, times: usize) -> Answer {
    let mut plan = None;
    let rows = async {
        let mut current = ctx.sql(sql).await?.create_physical_plan().await?;
        plan = Some(Arc::clone(&current));
        let mut rows = vec![];
        for run in 0..times {
            if run > 0 {
                current = reset_plan_states(current)?;
            }
            rows = sorted_rows(&collect(Arc::clone(&current), ctx.task_ctx()).await?);
        }
        Ok(rows)
    };
    let rows = AssertUnwindSafe(tokio::time::timeout(TIMEOUT, rows))
        .catch_unwind()
        .await;
    let rows = match rows {
        Ok(Ok(rows)) => rows.map_err(|error: DataFusionError| error.strip_backtrace()),
        Ok(Err(_)) => Err(format!("no answer within {TIMEOUT:?}")),
        Err(_) => Err("a panic".to_owned()),
    };
    Answer { plan, rows }
}

/// Whether a query may fail like this or not, depending on which rows it looks at first.
fn depends_on_order(error: &str) -> bool {
    error.contains("Divide by zero") || error.contains("Overflowing on")
}

/// An answer that is another one than in memory.
struct Wrong<'a> {
    dataset: &'a Dataset,
    settings: &'a Settings,
    sql: &'a str,
    expected: &'a Vec<String>,
    answer: Answer,
}

impl Wrong<'_> {
    /// Whether DataFusion is to blame: its own tables give the same wrong rows under these settings.
    async fn is_wrong_in_memory_too(&self) -> bool {
        let memory = SessionContext::new().with_partitioned();
        self.dataset.register_reference(&memory).unwrap();
        self.settings.apply(&memory, false);
        let answer = run(&memory, self.sql, self.settings.runs).await;
        answer.rows.as_ref() != Ok(self.expected)
    }
}

/// All that is needed to reproduce it.
impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n\n{:?}", self.dataset, self.sql, self.settings)?;
        writeln!(f, "\nexpected {:#?}", self.expected)?;
        writeln!(f, "\nfound {:#?}", self.answer.rows)?;
        match &self.answer.plan {
            Some(plan) => write!(f, "\n{}", displayable(plan.as_ref()).indent(false)),
            None => Ok(()),
        }
    }
}
