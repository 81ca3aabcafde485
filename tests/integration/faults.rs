//! Joins with faults on either side: each query returns the right rows or the error of its fault. It
//! never hangs, and never leaves out rows without an error.
//!
//! ```text
//!   files of f and g --FaultyStore--> partitioned tables --+
//!                                                          +- query -> right rows, or the fault
//!   rows of d --Step::Pause, Step::Fail--> source ---------+
//!   the same rows in memory ---------------------------------- query -> what is right
//! ```
//!
//! The seed is fixed. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` choose more and other cases.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned_test_utils::{Fault, FaultyStore, Request, scan_metric, sorted_rows};
use futures::{StreamExt, TryStreamExt};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};

use crate::common::{FAILED, Fixture, NULL, Step, property_config, random_files, source};

/// Without `PROPTEST_CASES`.
const CASES: u32 = 150;

/// A query that takes longer waits for what never happens.
const WATCHDOG: Duration = Duration::from_secs(20);

/// How long scans wait for keys: longer than the watchdog, which sees it when nobody ends the wait.
const WAIT: &str = "10m";

/// Queries of `f (id, p, q)` and `g (id, r, s)`, which are partitioned by what follows the `id`, and
/// `d (k, l, n)`.
const QUERIES: &[&str] = &[
    "SELECT f.id, n FROM f JOIN d ON p = k",
    "SELECT f.id, n FROM d JOIN f ON p = k AND q = l",
    "SELECT f.id, n FROM d JOIN f ON p IS NOT DISTINCT FROM k",
    "SELECT f.id, n FROM d LEFT JOIN f ON p = k",
    "SELECT f.id, n FROM f LEFT JOIN d ON p = k AND n > 0",
    "SELECT f.id, n FROM f RIGHT JOIN d ON p = k",
    "SELECT f.id, n FROM d RIGHT JOIN f ON p = k",
    "SELECT f.id, n FROM d FULL JOIN f ON p = k AND q = l",
    "SELECT id FROM f WHERE p IN (SELECT k FROM d WHERE n > 0)",
    "SELECT n FROM d WHERE k IN (SELECT p FROM f)",
    "SELECT id FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = p)",
    "SELECT n FROM d WHERE NOT EXISTS (SELECT 1 FROM f WHERE p = k)",
    "SELECT n FROM d WHERE k NOT IN (SELECT p FROM f)",
    "SELECT id FROM f WHERE p NOT IN (SELECT k FROM d)",
    "SELECT f.id, n FROM d JOIN f ON p BETWEEN k AND l",
    "SELECT f.id, n FROM d LEFT JOIN f ON p > k AND q <= l",
    "SELECT f.id, p, q, k, l FROM d JOIN f ON q = l AND p >= k",
    "SELECT f.id, n FROM d CROSS JOIN f",
    "SELECT f.id, g.id AS other, n FROM f JOIN g ON p = r JOIN d ON r = k",
    "SELECT f.id, g.id AS other, n FROM d JOIN f ON p = k LEFT JOIN g ON p = r AND q = s",
    "SELECT f.id, g.id AS other FROM f JOIN g ON p = r AND f.id < g.id WHERE g.id > 20",
    "SELECT f.id, d.n FROM d JOIN f ON p = d.k JOIN (SELECT l AS m FROM d) e ON q = m",
    "SELECT p, total, n FROM d JOIN (SELECT p, sum(id) AS total FROM f GROUP BY p) ON p = k",
    "SELECT id, most, n FROM d JOIN (SELECT id, p, max(id) OVER (PARTITION BY p) AS most FROM f) \
     ON p = k",
    "SELECT id, n FROM d JOIN (SELECT * FROM f UNION ALL SELECT * FROM g) ON p = k",
    "SELECT id FROM f WHERE p > (SELECT min(k) FROM d)",
];

#[derive(Debug, Clone)]
struct Case {
    files: Vec<(Option<i64>, Option<i64>, usize)>,
    other_files: Vec<(Option<i64>, Option<i64>, usize)>,
    rows: Vec<(Option<i32>, Option<i32>, i32)>,
    /// Of the source of these rows.
    streams: usize,
    query: String,
    limit: Option<usize>,
    settings: Settings,
    disturbances: Vec<Disturbance>,
    reading: Reading,
}

#[derive(Debug, Clone)]
struct Settings {
    joins: Joins,
    target_partitions: usize,
    batch_size: usize,
    max_keys: usize,
    list_cache: bool,
}

#[derive(Debug, Clone, Copy)]
enum Joins {
    CollectLeft,
    Partitioned,
    SortMerge,
}

#[derive(Debug, Clone)]
enum Disturbance {
    /// A stream of the source fails after so many rows, if it has more.
    SourceFails(usize),
    /// The source pauses before each row.
    SourceIsSlow,
    /// The last line of this file, if there is one, is not what it should be.
    BadFile(usize),
    ListFails(usize),
    /// The listing fails after the first object.
    ListEndsEarly(usize),
    GetFails(usize),
    ListsAreSlow,
    GetsAreSlow,
}

/// How much of the result is read.
#[derive(Debug, Clone, Copy)]
enum Reading {
    All,
    /// One of its partitions alone.
    Partition(usize),
    /// So many batches, after which it is dropped.
    Batches(usize),
}

fn case() -> impl Strategy<Value = Case> {
    let value = || proptest::option::weighted(0.85, 0..4_i32);
    let settings = (
        select(&[Joins::CollectLeft, Joins::Partitioned, Joins::SortMerge][..]),
        select(&[1_usize, 3, 16][..]),
        select(&[1_usize, 8192][..]),
        select(&[0_usize, 2, 100_000][..]),
        any::<bool>(),
    )
        .prop_map(
            |(joins, target_partitions, batch_size, max_keys, list_cache)| Settings {
                joins,
                target_partitions,
                batch_size,
                max_keys,
                list_cache,
            },
        );
    let disturbance = prop_oneof![
        (0..4_usize).prop_map(Disturbance::SourceFails),
        Just(Disturbance::SourceIsSlow),
        (0..8_usize).prop_map(Disturbance::BadFile),
        (1..6_usize).prop_map(Disturbance::ListFails),
        (1..6_usize).prop_map(Disturbance::ListEndsEarly),
        (1..6_usize).prop_map(Disturbance::GetFails),
        Just(Disturbance::ListsAreSlow),
        Just(Disturbance::GetsAreSlow),
    ];
    let reading = prop_oneof![
        4 => Just(Reading::All),
        1 => (0..16_usize).prop_map(Reading::Partition),
        1 => (0..3_usize).prop_map(Reading::Batches),
    ];
    (
        (random_files(), random_files()),
        proptest::collection::vec((value(), value(), 0..3_i32), 0..6),
        1..4_usize,
        select(QUERIES),
        proptest::option::weighted(0.2, 0..4_usize),
        settings,
        proptest::collection::vec(disturbance, 0..3),
        reading,
    )
        .prop_map(
            |(
                (files, other_files),
                rows,
                streams,
                query,
                limit,
                settings,
                disturbances,
                reading,
            )| {
                let query = match limit {
                    Some(limit) => format!("SELECT * FROM ({query}) LIMIT {limit}"),
                    None => query.to_owned(),
                };
                Case {
                    files,
                    other_files,
                    rows,
                    streams,
                    query,
                    limit,
                    settings,
                    disturbances,
                    reading,
                }
            },
        )
}

#[test]
fn joins_with_faults_return_the_right_rows_or_fail() {
    let config = property_config(CASES);
    let cases = config.cases;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let outcomes = std::cell::RefCell::new(BTreeMap::<Outcome, u32>::new());
    let result = TestRunner::new(config).run(&case(), |case| {
        let seen = runtime
            .block_on(check(&case))
            .map_err(TestCaseError::fail)?;
        for outcome in seen {
            *outcomes.borrow_mut().entry(outcome).or_default() += 1;
        }
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
    println!("{:?}", outcomes.borrow());
    // A test in which nothing happens shows nothing.
    if cases >= CASES {
        for outcome in [Outcome::Rows, Outcome::Fault, Outcome::Pruned] {
            let count = outcomes.borrow().get(&outcome).copied();
            assert!(count >= Some(cases / 10), "{outcome:?}: {count:?}");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The right ones.
    Rows,
    /// What failed was to fail.
    Fault,
    /// Dynamic filters have left out partitions.
    Pruned,
}

/// Runs the query of a case with its faults, and once more when the store is well again. The error
/// is a report.
async fn check(case: &Case) -> Result<Vec<Outcome>, String> {
    let expected = case.expected().await;
    let (fixture, store) = case.fixture().await;
    for disturbance in &case.disturbances {
        disturbance.inject(&store);
    }
    let mut seen = vec![];
    for (run, reading) in [("disturbed", case.reading), ("healed", Reading::All)] {
        let mut plan = None;
        let work = read(&fixture.ctx, &case.query, reading, &mut plan);
        let answer = tokio::time::timeout(WATCHDOG, work).await;
        let shown = plan
            .as_ref()
            .map(|plan| displayable(plan.as_ref()).indent(false).to_string());
        let report = |what: &dyn fmt::Display| {
            Err(format!(
                "{run}: {what}\nexpected {expected:#?}\n{case:#?}\n{}",
                shown.as_deref().unwrap_or_default()
            ))
        };
        let answer = match answer {
            Err(_) => return report(&"it hangs"),
            Ok(answer) => answer.map(|batches| sorted_rows(&batches)),
        };
        match answer {
            Ok(rows) if case.accepts(&rows, &expected, reading) => seen.push(Outcome::Rows),
            Ok(rows) => return report(&format!("wrong rows {rows:#?}")),
            Err(error) if case.may_fail_with(&error.to_string()) => seen.push(Outcome::Fault),
            Err(error) => return report(&error),
        }
        if plan.is_some_and(|plan| scan_metric(&plan, "partitions_pruned_dynamic") > 0) {
            seen.push(Outcome::Pruned);
        }
        store.heal();
    }
    Ok(seen)
}

async fn read(
    ctx: &SessionContext,
    sql: &str,
    reading: Reading,
    plan: &mut Option<Arc<dyn ExecutionPlan>>,
) -> Result<Vec<RecordBatch>> {
    let made = ctx.sql(sql).await?.create_physical_plan().await?;
    *plan = Some(Arc::clone(&made));
    let context = ctx.task_ctx();
    match reading {
        Reading::All => collect(made, context).await,
        Reading::Partition(partition) => {
            let partitions = made.properties().partitioning.partition_count();
            let stream = made.execute(partition % partitions, context)?;
            stream.try_collect().await
        }
        Reading::Batches(batches) => {
            let stream = execute_stream(made, context)?;
            stream.take(batches).try_collect().await
        }
    }
}

impl Case {
    /// The rows of the query without its limit, over tables in memory.
    async fn expected(&self) -> Vec<String> {
        let config = SessionConfig::new().with_target_partitions(1);
        let ctx = SessionContext::new_with_config(config);
        for (table, columns, files) in
            [("f", "p, q", &self.files), ("g", "r, s", &self.other_files)]
        {
            let columns: Vec<_> = columns.split(", ").collect();
            let text = |value: &Option<i64>| value.map_or("NULL".to_owned(), |v| v.to_string());
            let mut rows = vec!["(CAST(NULL AS BIGINT), NULL, NULL)".to_owned()];
            for (file, (a, b, count)) in files.iter().enumerate() {
                let own = ids(file, *count).into_iter();
                rows.extend(own.map(|id| format!("({id}, {}, {})", text(a), text(b))));
            }
            let sql = format!(
                "CREATE TABLE {table} AS SELECT column1 AS id, CAST(column2 AS INT) AS {}, \
                 CAST(column3 AS INT) AS {} FROM (VALUES {}) WHERE column1 IS NOT NULL",
                columns[0],
                columns[1],
                rows.join(", ")
            );
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        ctx.register_batch("d", self.rows_of(0, 1)).unwrap();
        let query = self.query.trim_end_matches(|c: char| c.is_ascii_digit());
        let query = match self.limit {
            Some(_) => query.trim_end_matches(" LIMIT "),
            None => &self.query,
        };
        let rows = ctx.sql(query).await.unwrap().collect().await.unwrap();
        sorted_rows(&rows)
    }

    /// The rows of one of some streams of `d`.
    fn rows_of(&self, stream: usize, streams: usize) -> RecordBatch {
        let rows: Vec<_> = self.rows.iter().skip(stream).step_by(streams).collect();
        let k: Int32Array = rows.iter().map(|row| row.0).collect();
        let l: Int32Array = rows.iter().map(|row| row.1).collect();
        let n: Int32Array = rows.iter().map(|row| Some(row.2)).collect();
        RecordBatch::try_from_iter_with_nullable([
            ("k", Arc::new(k) as _, true),
            ("l", Arc::new(l) as _, true),
            ("n", Arc::new(n) as _, true),
        ])
        .unwrap()
    }

    /// The partitioned tables over a store that can be disturbed, and the source.
    async fn fixture(&self) -> (Fixture, FaultyStore) {
        let mut fixture = Fixture::with_config(self.settings.config());
        let store = FaultyStore::new(Arc::clone(fixture.lake.store()));
        fixture.lake = fixture.lake.with_store(Arc::new(store.clone()));
        fixture.lake.register(&fixture.ctx);
        let name = |value: &Option<i64>| value.map_or(NULL.to_owned(), |v| v.to_string());
        for (table, a, b, files) in [
            ("f", "p", "q", &self.files),
            ("g", "r", "s", &self.other_files),
        ] {
            for (file, (x, y, count)) in files.iter().enumerate() {
                let mut text = "id\n".to_owned();
                for id in ids(file, *count) {
                    text.push_str(&format!("{id}\n"));
                }
                if table == "f" && *count > 0 && self.has_bad_file(file) {
                    text.push_str("bad\n");
                }
                let key = format!("{table}/{a}={}/{b}={}/{file}.csv", name(x), name(y));
                fixture.lake.put_text(&key, &text).await.unwrap();
            }
            fixture.create(table, &format!("{a} INT, {b} INT")).await;
        }
        let streams = (0..self.streams).map(|stream| self.steps(stream));
        let schema = self.rows_of(0, 1).schema();
        let d = source(&schema, streams.collect());
        fixture.ctx.register_table("d", d).unwrap();
        fixture.set("partitioned.dynamic_filter.wait", WAIT).await;
        let max_keys = self.settings.max_keys;
        fixture
            .set("partitioned.dynamic_filter.max_keys", max_keys)
            .await;
        let ttl = if self.settings.list_cache { "1h" } else { "0s" };
        fixture.set("partitioned.list_cache.ttl", ttl).await;
        (fixture, store)
    }

    /// One row after the other.
    fn steps(&self, stream: usize) -> Vec<Step> {
        let rows = self.rows_of(stream, self.streams);
        let mut steps = vec![];
        for row in 0..rows.num_rows() {
            for disturbance in &self.disturbances {
                match disturbance {
                    Disturbance::SourceFails(at) if row == *at => steps.push(Step::Fail),
                    Disturbance::SourceIsSlow => steps.push(Step::Pause(Duration::from_millis(5))),
                    _ => {}
                }
            }
            steps.push(Step::Rows(rows.slice(row, 1)));
        }
        steps
    }

    fn has_bad_file(&self, file: usize) -> bool {
        let mut disturbances = self.disturbances.iter();
        disturbances.any(|d| matches!(d, Disturbance::BadFile(bad) if *bad == file))
    }

    fn may_fail_with(&self, error: &str) -> bool {
        self.disturbances.iter().any(|disturbance| {
            disturbance
                .error()
                .is_some_and(|expected| error.contains(expected))
        })
    }

    /// Whether `rows` are what a complete or a partial `reading` may return.
    fn accepts(&self, rows: &[String], expected: &[String], reading: Reading) -> bool {
        match (reading, self.limit) {
            (Reading::All, None) => rows == expected,
            (Reading::All, Some(limit)) => {
                rows.len() == limit.min(expected.len()) && are_some_of(rows, expected)
            }
            _ => are_some_of(rows, expected),
        }
    }
}

/// Whether each of `rows` is one of `all`; both are sorted.
fn are_some_of(rows: &[String], all: &[String]) -> bool {
    let mut all = all.iter();
    rows.iter().all(|row| all.any(|other| other == row))
}

fn ids(file: usize, count: usize) -> Vec<i64> {
    (0..count).map(|row| (file * 10 + row) as i64).collect()
}

impl Settings {
    fn config(&self) -> SessionConfig {
        let mut config = SessionConfig::new()
            .with_target_partitions(self.target_partitions)
            .with_batch_size(self.batch_size);
        let optimizer = &mut config.options_mut().optimizer;
        let threshold = match self.joins {
            Joins::CollectLeft => usize::MAX,
            Joins::Partitioned | Joins::SortMerge => 0,
        };
        optimizer.hash_join_single_partition_threshold = threshold;
        optimizer.hash_join_single_partition_threshold_rows = threshold;
        optimizer.prefer_hash_join = !matches!(self.joins, Joins::SortMerge);
        config
    }
}

impl Disturbance {
    fn inject(&self, store: &FaultyStore) {
        let pause = Duration::from_millis(3);
        let is_list = |request: &Request| request.kind.is_list();
        let is_get = |request: &Request| !request.kind.is_list();
        match self {
            Self::SourceFails(_) | Self::SourceIsSlow | Self::BadFile(_) => {}
            Self::ListFails(nth) => store.inject(Fault::fail(is_list).nth(*nth)),
            Self::ListEndsEarly(nth) => store.inject(Fault::fail_after(1, is_list).nth(*nth)),
            Self::GetFails(nth) => store.inject(Fault::fail(is_get).nth(*nth)),
            Self::ListsAreSlow => store.inject(Fault::delay(pause, is_list)),
            Self::GetsAreSlow => store.inject(Fault::delay(pause, is_get)),
        }
    }

    /// A text in the error with which a query may fail.
    fn error(&self) -> Option<&'static str> {
        match self {
            Self::SourceFails(_) => Some(FAILED),
            Self::BadFile(_) => Some("bad"),
            Self::ListFails(_) | Self::ListEndsEarly(_) | Self::GetFails(_) => {
                Some("injected failure of")
            }
            Self::SourceIsSlow | Self::ListsAreSlow | Self::GetsAreSlow => None,
        }
    }
}
