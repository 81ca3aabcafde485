//! [`Sessions`]: queries asked in every mode, and what is checked of their answers.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{
    RequestCountingStore, ordered_rows, scan_metric, sorted_rows,
};

use super::modes::Mode;
use super::table::catalog_of;

/// A session with the options of a mode.
pub(super) struct Session {
    pub(super) mode: &'static Mode,
    pub(super) ctx: SessionContext,
}

impl Session {
    pub(super) fn new(mode: &'static Mode) -> Self {
        Self {
            mode,
            ctx: mode.session(),
        }
    }

    /// Makes the listing cache cold.
    fn forget_listings(&self) {
        self.ctx.listing_cache().unwrap().clear();
    }

    /// Asks a query: in modes that could remember something twice, with cold and with warm caches.
    pub(super) async fn ask(&self, sql: &str) -> Vec<Answer> {
        self.forget_listings();
        let runs: &[&str] = match self.mode.asks_twice {
            true => &["cold", "warm"],
            false => &["once"],
        };
        let mut answers = vec![];
        for run in runs {
            let name = format!("[{}, {run}] {sql}", self.mode.name);
            let (batches, plan) = match self.run(sql).await {
                Ok(answer) => answer,
                Err(error) => panic!("{name}: {error}"),
            };
            // A listing that a limit cuts short is not remembered.
            if self.mode.remembers_listings && *run == "warm" && !sql.contains("LIMIT") {
                let requests = scan_metric(&plan, "list_requests");
                assert_eq!(requests, 0, "listings of {name}");
            }
            answers.push(Answer {
                name,
                batches,
                plan,
            });
        }
        answers
    }

    /// Executes one plan of a query again and again, and checks its rows.
    pub(super) async fn repeat(&self, times: usize, sql: &str, expected: &[&str]) {
        let mut plan = self.plan(sql).await.unwrap();
        for run in 1..=times {
            plan = reset_plan_states(plan).unwrap();
            let batches = collect(Arc::clone(&plan), self.ctx.task_ctx()).await;
            let rows = sorted_rows(&batches.unwrap());
            assert_eq!(rows, expected, "[{}, run {run}] {sql}", self.mode.name);
        }
    }

    pub(super) async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
        self.ctx.sql(sql).await?.create_physical_plan().await
    }

    pub(super) async fn run(
        &self,
        sql: &str,
    ) -> Result<(Vec<RecordBatch>, Arc<dyn ExecutionPlan>)> {
        let plan = self.plan(sql).await?;
        let batches = collect(Arc::clone(&plan), self.ctx.task_ctx()).await?;
        Ok((batches, plan))
    }

    async fn count(&self, sql: &str) -> usize {
        match self.run(sql).await {
            Ok((batches, _)) => sorted_rows(&batches)[0].parse().unwrap(),
            Err(error) => panic!("[{}] {sql}: {error}", self.mode.name),
        }
    }
}

/// The rows of a query, and the plan that was executed.
pub(super) struct Answer {
    /// The query and how it was asked.
    pub(super) name: String,
    pub(super) batches: Vec<RecordBatch>,
    pub(super) plan: Arc<dyn ExecutionPlan>,
}

impl Answer {
    /// Checks that it has these rows, in any order.
    pub(super) fn check_rows(&self, expected: &[&str]) {
        assert_eq!(sorted_rows(&self.batches), expected, "{}", self.name);
    }

    /// The sum of a metric over all scans.
    pub(super) fn metric(&self, name: &str) -> usize {
        scan_metric(&self.plan, name)
    }

    /// Checks how many files were read.
    fn check_files(&self, expected: usize) {
        let files = scan_metric(&self.plan, "files_scanned");
        assert_eq!(files, expected, "files of {}", self.name);
    }
}

/// A session for each mode.
pub(super) struct Sessions {
    sessions: Vec<(Session, Result<(), String>)>,
    requests: RequestCountingStore,
}

impl Sessions {
    pub(super) fn new(
        sessions: Vec<(Session, Result<(), String>)>,
        requests: RequestCountingStore,
    ) -> Self {
        Self { sessions, requests }
    }

    /// The sessions, all of whose tables could be declared.
    pub(super) fn usable(&self) -> impl Iterator<Item = &Session> {
        self.sessions
            .iter()
            .map(|(session, declared)| match declared {
                Ok(()) => session,
                Err(error) => panic!("[{}] {error}", session.mode.name),
            })
    }

    /// The session of the first mode, in which everything is as it is by default unless a case has
    /// chosen its modes.
    pub(super) fn default(&self) -> &Session {
        self.usable().next().unwrap()
    }

    /// Checks that the query has these rows, in any order.
    pub(super) async fn rows(&self, sql: &str, expected: &[&str]) {
        let mut expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        expected.sort();
        self.check(self.usable(), sql, &expected, sorted_rows, None)
            .await;
    }

    /// The same in the modes in which filters choose partitions.
    pub(super) async fn rows_where_pruned(&self, sql: &str, expected: &[&str]) {
        self.rows_in(|mode| mode.prunes, sql, expected).await;
    }

    /// The same in some of the modes.
    pub(super) async fn rows_in(
        &self,
        is_wanted: impl Fn(&Mode) -> bool,
        sql: &str,
        expected: &[&str],
    ) {
        let expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        let sessions = self.usable().filter(|session| is_wanted(session.mode));
        self.check(sessions, sql, &expected, sorted_rows, None)
            .await;
    }

    /// Checks that the query has these rows, in this order.
    pub(super) async fn ordered(&self, sql: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        self.check(self.usable(), sql, &expected, ordered_rows, None)
            .await;
    }

    /// Checks that the query has these rows, and reads so many files where pruning is on.
    pub(super) async fn files(&self, sql: &str, expected: &[&str], files: usize) {
        let mut expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        expected.sort();
        self.check(self.usable(), sql, &expected, sorted_rows, Some(files))
            .await;
    }

    async fn check(
        &self,
        sessions: impl Iterator<Item = &Session>,
        sql: &str,
        expected: &[String],
        rows: fn(&[RecordBatch]) -> Vec<String>,
        files: Option<usize>,
    ) {
        for session in sessions.filter(|session| session.mode.concerns(sql)) {
            for answer in session.ask(sql).await {
                assert_eq!(rows(&answer.batches), expected, "{}", answer.name);
                if let Some(files) = files.filter(|_| session.mode.prunes) {
                    answer.check_files(files);
                }
            }
        }
    }

    /// Checks how many rows each filter on `table` leaves, whose rows have an `id`, and how many files
    /// are read where pruning is on.
    pub(super) async fn prunes(&self, table: &str, filters: &[(&str, usize, usize)]) {
        for session in self.usable() {
            for (filter, rows, files) in filters {
                let sql = format!("SELECT id FROM {table} WHERE {filter}");
                for answer in session.ask(&sql).await {
                    let found = sorted_rows(&answer.batches).len();
                    assert_eq!(found, *rows, "{}", answer.name);
                    if session.mode.prunes {
                        answer.check_files(*files);
                    }
                }
            }
        }
    }

    /// Checks that the query fails in each mode with an error that mentions all `texts`. Returns the
    /// errors.
    pub(super) async fn fails(&self, sql: &str, texts: &[&str]) -> Vec<String> {
        self.fails_in(|_| true, sql, texts).await
    }

    /// The same in the modes in which everything is read.
    pub(super) async fn fails_where_not_pruned(&self, sql: &str, texts: &[&str]) {
        self.fails_in(|mode| !mode.prunes, sql, texts).await;
    }

    /// The same in some of the modes.
    pub(super) async fn fails_in(
        &self,
        is_wanted: impl Fn(&Mode) -> bool,
        sql: &str,
        texts: &[&str],
    ) -> Vec<String> {
        let mut errors = vec![];
        let sessions = self.sessions.iter();
        for (session, declared) in sessions.filter(|(session, _)| is_wanted(session.mode)) {
            let name = session.mode.name;
            session.forget_listings();
            let error = match declared {
                Err(error) => error.clone(),
                Ok(()) => match session.run(sql).await {
                    Ok((batches, _)) => panic!("[{name}] {sql} has {:?}", sorted_rows(&batches)),
                    Err(error) => error.strip_backtrace(),
                },
            };
            for text in texts {
                assert!(
                    error.contains(text),
                    "[{name}] {sql}: '{text}' is missing in: {error}"
                );
            }
            errors.push(error);
        }
        errors
    }

    /// The LIST requests of a query in the default mode, sorted.
    pub(super) async fn listings(&self, sql: &str) -> Vec<String> {
        let mut requests = self.requests(sql).await;
        requests.retain(|request| request.starts_with("LIST"));
        requests
    }

    /// The requests of a query in the default mode, sorted.
    pub(super) async fn requests(&self, sql: &str) -> Vec<String> {
        let session = self.default();
        self.requests.clear();
        session.run(sql).await.unwrap();
        let mut requests: Vec<_> = self.requests.log().lines().map(str::to_owned).collect();
        requests.sort();
        requests
    }

    /// `rows(p) + rows(NOT p) + rows(p IS NULL)` are all rows, for comparisons with two values of
    /// each partition column, and `count(*)` is the number of rows.
    pub(super) async fn check_laws(&self, table: &str) {
        let checked = self.usable().filter(|session| session.mode.asks_twice);
        for session in checked {
            let name = session.mode.name;
            let (batches, _) = match session.run(&format!("SELECT * FROM {table}")).await {
                Ok(answer) => answer,
                Err(error) => panic!("[{name}] SELECT * FROM {table}: {error}"),
            };
            let all = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            let count = format!("SELECT count(*) FROM {table}");
            assert_eq!(session.count(&count).await, all, "[{name}] {count}");

            for predicate in session.predicates(table).await {
                let count = async |filter: String| {
                    let sql = format!("SELECT count(*) FROM {table} WHERE {filter}");
                    session.count(&sql).await
                };
                let yes = count(predicate.clone()).await;
                let no = count(format!("NOT ({predicate})")).await;
                let unknown = count(format!("({predicate}) IS NULL")).await;
                assert_eq!(yes + no + unknown, all, "[{name}] {table}: {predicate}");
                let sql = format!("SELECT count(*) FILTER (WHERE {predicate}) FROM {table}");
                assert_eq!(session.count(&sql).await, yes, "[{name}] {sql}");
            }
        }
    }
}

impl Session {
    /// Comparisons of each partition column with the first and the last of its values as texts.
    async fn predicates(&self, table: &str) -> Vec<String> {
        let provider = self.ctx.table_provider(table).await.unwrap();
        let mut predicates = vec![];
        for field in catalog_of(&provider).spec().fields() {
            let column = format!("\"{}\"", field.name());
            let sql = format!(
                "SELECT DISTINCT arrow_cast({column}, 'Utf8') FROM {table} WHERE {column} IS NOT NULL"
            );
            let (batches, _) = self.run(&sql).await.unwrap();
            let texts = sorted_rows(&batches);
            let typed = |text: &str| {
                let text = text.replace('\'', "''");
                match field.data_type() {
                    DataType::Dictionary(..) => format!("'{text}'"),
                    data_type => format!("arrow_cast('{text}', '{data_type}')"),
                }
            };
            if let [first, .., last] | [first @ last] = texts.as_slice() {
                predicates.push(format!("{column} = {}", typed(first)));
                predicates.push(format!("{column} < {}", typed(last)));
            }
        }
        predicates
    }
}
