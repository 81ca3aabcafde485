//! What several modules share: small lakes, sessions and queries.

mod given;
mod source;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::core::PartitionScan;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{
    FileKind, Lake, RequestCountingStore, ordered_rows, sorted_rows,
};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed};

/// The name of a directory whose value is NULL.
pub(crate) use datafusion_partitioned::core::DEFAULT_PARTITION_NAME as NULL;
pub(crate) use given::partition;
pub(crate) use source::{FAILED, Step, source};

/// A lake in memory that counts requests, and a session that knows it.
pub(crate) struct Fixture {
    pub(crate) lake: Lake,
    pub(crate) requests: RequestCountingStore,
    pub(crate) ctx: SessionContext,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_streams(2)
    }

    /// A fixture whose scans have so many output partitions.
    pub(crate) fn with_streams(streams: usize) -> Self {
        Self::with_config(SessionConfig::new().with_target_partitions(streams))
    }

    pub(crate) fn with_config(config: SessionConfig) -> Self {
        Self::with_runtime(config, RuntimeEnvBuilder::new())
    }

    pub(crate) fn with_runtime(config: SessionConfig, runtime: RuntimeEnvBuilder) -> Self {
        let lake = Lake::in_memory().unwrap();
        let requests = RequestCountingStore::new(Arc::clone(lake.store()));
        let lake = lake.with_store(Arc::new(requests.clone()));
        let runtime = runtime.build_arc().unwrap();
        let ctx = SessionContext::new_with_config_rt(config, runtime).with_partitioned();
        lake.register(&ctx);
        Self {
            lake,
            requests,
            ctx,
        }
    }

    /// Writes a CSV file with the single column `id`.
    pub(crate) async fn put_ids(&self, key: &str, ids: &[i64]) {
        let rows: String = ids.iter().map(|id| format!("{id}\n")).collect();
        self.lake
            .put_text(key, &format!("id\n{rows}"))
            .await
            .unwrap();
    }

    /// Writes the rows of a query as a file.
    pub(crate) async fn put_query(&self, key: &str, kind: FileKind, sql: &str) {
        let batches = self.run(sql).await.unwrap();
        let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
        self.lake.put(key, kind, &batch).await.unwrap();
    }

    /// Declares the table `t` of files below `t/`: `columns` include the partition columns, of which
    /// `partitioned_by` has the names; `options` follow the connector.
    pub(crate) async fn declare(
        &self,
        columns: &str,
        stored_as: impl Display,
        partitioned_by: &str,
        options: &str,
    ) -> Result<()> {
        let comma = if options.is_empty() { "" } else { "," };
        let columns = match columns {
            "" => String::new(),
            columns => format!("({columns})"),
        };
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS {stored_as} \
             PARTITIONED BY ({partitioned_by}) LOCATION '{}' \
             OPTIONS ('connector' 'filesystem'{comma} {options})",
            self.lake.location("t/")
        );
        self.run(&sql).await?;
        self.requests.clear();
        Ok(())
    }

    /// Declares the table `name` of CSV files at `name/` with the column `id` and the partition
    /// columns `columns`, such as `"p INT, q TEXT"`.
    pub(crate) async fn create(&self, name: &str, columns: &str) {
        let names: Vec<_> = columns
            .split(',')
            .filter_map(|c| c.split_whitespace().next())
            .collect();
        let sql = format!(
            "CREATE EXTERNAL TABLE {name} (id BIGINT, {columns}) STORED AS CSV \
             PARTITIONED BY ({}) LOCATION '{}' OPTIONS ('connector' 'filesystem')",
            names.join(", "),
            self.lake.location(&format!("{name}/"))
        );
        self.run(&sql).await.unwrap();
        self.requests.clear();
    }

    pub(crate) async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
        self.ctx.sql(sql).await?.create_physical_plan().await
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.ctx.partitioned_sql(sql).await?.collect().await
    }

    /// The rows of a query, one text for each, sorted.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        sorted_rows(&self.run(sql).await.unwrap())
    }

    /// The rows of a query, one text for each, in the order in which they come.
    pub(crate) async fn ordered_rows(&self, sql: &str) -> Vec<String> {
        ordered_rows(&self.run(sql).await.unwrap())
    }

    /// Sets a session option.
    pub(crate) async fn set(&self, key: &str, value: impl Display) {
        self.run(&format!("SET {key} = '{value}'")).await.unwrap();
    }

    /// The plan of a query, as `EXPLAIN` shows it.
    pub(crate) async fn explain(&self, sql: &str) -> String {
        let plan = self.plan(sql).await.unwrap();
        displayable(plan.as_ref()).indent(false).to_string()
    }

    /// Checks that a statement fails with an error that mentions all `texts`. Returns the error.
    pub(crate) async fn fails(&self, sql: &str, texts: &[&str]) -> String {
        let error = self.error(sql).await;
        assert_mentions(&error, texts);
        error
    }

    pub(crate) async fn error(&self, sql: &str) -> String {
        match self.run(sql).await {
            Ok(rows) => panic!("{sql} returned {:?}", sorted_rows(&rows)),
            Err(error) => error.to_string(),
        }
    }

    /// The rows and the executed plan, for its metrics.
    pub(crate) async fn analyze(&self, sql: &str) -> (Vec<String>, Arc<dyn ExecutionPlan>) {
        let plan = self.plan(sql).await.unwrap();
        let rows = collect(Arc::clone(&plan), self.ctx.task_ctx())
            .await
            .unwrap();
        (sorted_rows(&rows), plan)
    }

    /// The requests since the last call, sorted, since concurrent ones have no order.
    pub(crate) fn take_requests(&self) -> String {
        let log = self.requests.log();
        self.requests.clear();
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }
}

/// What `work` returns. Panics when it takes longer: then it waits for what never happens.
pub(crate) async fn within<T>(limit: Duration, name: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => panic!("no answer within {limit:?}: {name}"),
    }
}

#[track_caller]
pub(crate) fn assert_mentions(error: &str, texts: &[&str]) {
    for text in texts {
        assert!(error.contains(text), "'{text}' is missing in: {error}");
    }
}

/// Whether a partitioned scan is on the build side of the hash join of a plan.
pub(crate) fn is_build_side(plan: &Arc<dyn ExecutionPlan>) -> bool {
    fn is_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
        let scan = plan.downcast_ref::<DataSourceExec>();
        scan.is_some_and(|scan| scan.data_source().is::<PartitionScan>())
    }
    let join = find(plan, &|plan| plan.is::<HashJoinExec>()).unwrap();
    let sides = join.children();
    let build = find(sides[0], &is_scan).is_some();
    // It is on one of both.
    assert_ne!(build, find(sides[1], &is_scan).is_some());
    build
}

/// The first node of a plan that is `wanted`, from the top.
fn find(
    plan: &Arc<dyn ExecutionPlan>,
    wanted: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
) -> Option<Arc<dyn ExecutionPlan>> {
    if wanted(plan) {
        return Some(Arc::clone(plan));
    }
    let children = plan.children();
    children.into_iter().find_map(|child| find(child, wanted))
}

/// A property test with a fixed seed and `cases` cases. `PROPTEST_RNG_SEED` and `PROPTEST_CASES`
/// choose others.
pub(crate) fn property_config(cases: u32) -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0);
    }
    config
}

/// Some files of random partitions: their `p` and `q`, NULL now and then, and how many rows they have.
pub(crate) fn random_files() -> impl Strategy<Value = Vec<(Option<i64>, Option<i64>, usize)>> {
    let value = || proptest::option::weighted(0.8, 0..4_i64);
    proptest::collection::vec((value(), value(), 0..4_usize), 0..12)
}

/// The table `t` of such files, in a session with so many output partitions, whose work is shared or
/// not.
pub(crate) async fn random_table(
    files: &[(Option<i64>, Option<i64>, usize)],
    streams: usize,
    work_stealing: bool,
) -> Fixture {
    let fixture = Fixture::with_streams(streams);
    let name = |value: &Option<i64>| match value {
        Some(value) => value.to_string(),
        None => NULL.to_owned(),
    };
    for (file, (p, q, rows)) in files.iter().enumerate() {
        let key = format!("t/p={}/q={}/{file}.csv", name(p), name(q));
        let ids: Vec<i64> = (0..*rows as i64).collect();
        fixture.put_ids(&key, &ids).await;
    }
    fixture.create("t", "p INT, q INT").await;
    fixture
        .set(
            "datafusion.execution.enable_file_stream_work_stealing",
            work_stealing,
        )
        .await;
    fixture
}

/// Sessions in which the same rows must come out: with one and many output partitions, with small and
/// large batches, with and without filters in the Parquet reader, with files split and whole.
pub(crate) fn modes() -> Vec<SessionConfig> {
    let mode = |partitions, batch_size, pushdown, min_size| {
        let mut config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(batch_size);
        config.options_mut().execution.parquet.pushdown_filters = pushdown;
        config.options_mut().optimizer.repartition_file_min_size = min_size;
        config
    };
    vec![
        mode(1, 8192, false, 10_000_000),
        mode(16, 1, true, 1),
        mode(3, 8192, true, 10_000_000),
    ]
}

/// A directory on disk with a CSV file of the column `id` in each of `partitions`.
pub(crate) fn csv_tree(partitions: &[(&str, &[i64])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (partition, ids) in partitions {
        let directory = dir.path().join(partition);
        std::fs::create_dir_all(&directory).unwrap();
        let rows: String = ids.iter().map(|id| format!("{id}\n")).collect();
        std::fs::write(directory.join("f.csv"), format!("id\n{rows}")).unwrap();
    }
    dir
}
