//! Field cases: ways in which partitioned tables went wrong for somebody. `CONTRIBUTING.md` says
//! what their ids mean and how to add one.
//!
//! A [`Case`] is a tree of files and the tables over it. Opened, it has one session for each mode,
//! and every query is asked in all of them:
//!
//! ```text
//!   Case::new().ids("T/p=1/f.parquet", &[1]).table(Table::new("t", "id BIGINT, p INT", "p"))
//!       .open()                 a session for each mode, and the laws for each table
//!       .rows(sql, &["1 | 1"])  the same rows in each mode
//! ```
//!
//! Modes that could remember something ask twice: the second answer is that of warm caches.

/// A batch of rows: `rows!(("id", Int64, [1, 2]), ("name", Utf8, ["x", "y"]))`.
macro_rules! rows {
    ($(($name:expr, $type:ident, $($values:tt)+)),*) => {
        datafusion::arrow::array::RecordBatch::try_from_iter_with_nullable([$((
            $name,
            datafusion::arrow::array::create_array!($type, $($values)+)
                as datafusion::arrow::array::ArrayRef,
            true,
        )),*])
        .unwrap()
    };
}

mod agg;
mod col;
mod dec;
mod key_server;
mod lay;
mod modes;
mod nul;
mod prc;
mod pru;
mod typ;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::{
    ListingContext, MemoryCatalog, Partition, PartitionBatch, PartitionCatalog, PartitionPredicate,
};
use datafusion_partitioned::table::PartitionedTableProvider;
use datafusion_partitioned_test_utils::{
    FileKind, Lake, RequestCountingStore, ordered_rows, scan_metric, sorted_rows,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use modes::Mode;

/// Files, and tables over them.
struct Case {
    lake: Lake,
    requests: RequestCountingStore,
    files: Vec<(String, Content)>,
    tables: Vec<Table>,
    statements: Vec<String>,
    modes: &'static [Mode],
}

enum Content {
    Parquet(RecordBatch),
    Bytes(Vec<u8>),
}

impl Case {
    /// A case in a store in memory.
    fn new() -> Self {
        Self::over(Lake::in_memory().unwrap())
    }

    /// A case in a store that has its files already.
    fn in_store(url: &str, store: Arc<dyn ObjectStore>) -> Self {
        Self::over(Lake::new(url, store).unwrap())
    }

    fn over(lake: Lake) -> Self {
        let requests = RequestCountingStore::new(Arc::clone(lake.store()));
        Self {
            lake: lake.with_store(Arc::new(requests.clone())),
            requests,
            files: vec![],
            tables: vec![],
            statements: vec![],
            modes: modes::ALL,
        }
    }

    /// Adds a Parquet file.
    fn parquet(mut self, key: &str, rows: RecordBatch) -> Self {
        self.files.push((key.to_owned(), Content::Parquet(rows)));
        self
    }

    /// Adds a Parquet file with the column `id` alone.
    fn ids(self, key: &str, ids: &[i64]) -> Self {
        self.parquet(key, rows!(("id", Int64, ids.to_vec())))
    }

    /// Adds a file as it is.
    fn bytes(mut self, key: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files
            .push((key.to_owned(), Content::Bytes(bytes.into())));
        self
    }

    fn table(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// A statement that each session runs after the tables have been declared.
    fn statement(mut self, sql: impl Into<String>) -> Self {
        self.statements.push(sql.into());
        self
    }

    /// Only some of the modes, for trees that take long to read as a whole.
    fn modes(mut self, modes: &'static [Mode]) -> Self {
        self.modes = modes;
        self
    }

    /// Writes the files, declares the tables in a session for each mode, and checks the laws.
    async fn open(self) -> Sessions {
        let tables: Vec<_> = self.tables.iter().map(|table| table.name).collect();
        let sessions = self.open_broken().await;
        for table in tables {
            sessions.check_laws(table).await;
        }
        sessions
    }

    /// The same for tables that cannot be read as a whole.
    async fn open_broken(self) -> Sessions {
        self.write_files().await;
        let mut sessions = vec![];
        for mode in self.modes {
            let session = Session {
                mode,
                ctx: mode.session(),
            };
            self.lake.register(&session.ctx);
            // A table that cannot be declared here fails as a query of it would.
            let declared = self.declare(&session).await;
            let declared = declared.map_err(|error| error.strip_backtrace());
            sessions.push((session, declared));
        }
        self.requests.clear();
        Sessions {
            sessions,
            requests: self.requests,
        }
    }

    /// The error of declaring the tables.
    async fn declaration_error(self) -> String {
        self.write_files().await;
        let mode = &self.modes[0];
        let session = Session {
            mode,
            ctx: mode.session(),
        };
        self.lake.register(&session.ctx);
        let error = self.declare(&session).await.unwrap_err();
        error.strip_backtrace()
    }

    async fn write_files(&self) {
        for (key, content) in &self.files {
            match content {
                Content::Parquet(rows) => {
                    self.lake.put(key, FileKind::Parquet, rows).await.unwrap();
                }
                Content::Bytes(bytes) => {
                    let path = Path::parse(key).unwrap();
                    let bytes = bytes.clone().into();
                    self.lake.store().put(&path, bytes).await.unwrap();
                }
            }
        }
    }

    async fn declare(&self, session: &Session) -> Result<()> {
        for table in &self.tables {
            let location = table.location(&self.lake);
            session.ctx.sql(&table.sql(&location)).await?;
            if session.mode.catalog_backed {
                replace_by_catalog(&session.ctx, table, &location).await?;
            }
        }
        for statement in &self.statements {
            session.ctx.sql(statement).await?.collect().await?;
        }
        Ok(())
    }
}

/// A declaration: `CREATE EXTERNAL TABLE name (columns) PARTITIONED BY (partitioned_by) ..`.
struct Table {
    name: &'static str,
    columns: String,
    partitioned_by: String,
    format: &'static str,
    locations: Vec<String>,
    options: String,
}

impl Table {
    /// A table of Parquet files at `T/`. Without `columns` they are left to the files.
    fn new(name: &'static str, columns: &str, partitioned_by: &str) -> Self {
        Self {
            name,
            columns: columns.to_owned(),
            partitioned_by: partitioned_by.to_owned(),
            format: "PARQUET",
            locations: vec!["T/".to_owned()],
            options: String::new(),
        }
    }

    fn stored_as(mut self, format: &'static str) -> Self {
        self.format = format;
        self
    }

    /// Keys of the lake, or absolute locations.
    fn at(mut self, locations: &[&str]) -> Self {
        self.locations = locations.iter().map(|l| (*l).to_owned()).collect();
        self
    }

    fn option(mut self, key: &str, value: &str) -> Self {
        self.options.push_str(&format!(", '{key}' '{value}'"));
        self
    }

    fn location(&self, lake: &Lake) -> Vec<String> {
        let locations = self.locations.iter();
        locations
            .map(
                |location| match location.starts_with('/') || location.contains("://") {
                    true => location.clone(),
                    false => lake.location(location),
                },
            )
            .collect()
    }

    fn sql(&self, locations: &[String]) -> String {
        let columns = match self.columns.as_str() {
            "" => String::new(),
            columns => format!("({columns})"),
        };
        let location = match locations {
            [one] => format!("'{one}'"),
            several => format!("('{}')", several.join("', '")),
        };
        format!(
            "CREATE EXTERNAL TABLE {} {columns} STORED AS {} PARTITIONED BY ({}) \
             LOCATION {location} OPTIONS ('connector' 'filesystem'{})",
            self.name, self.format, self.partitioned_by, self.options
        )
    }
}

/// Puts a table with the same partitions, from a catalog that knows their locations alone, in the
/// place of one that finds them in directories.
async fn replace_by_catalog(
    ctx: &SessionContext,
    table: &Table,
    locations: &[String],
) -> Result<()> {
    let provider = ctx.table_provider(table.name).await?;
    let spec = catalog_of(&provider).spec().clone();
    // One partition can be in several batches, each with some of its files.
    let mut partitions = BTreeMap::new();
    for batch in list_all(ctx, &provider).await? {
        for (row, source) in batch.sources().iter().enumerate() {
            let location = source.location.clone();
            partitions.insert(location, batch.partition_values(row)?);
        }
    }
    let partitions: Vec<_> = partitions
        .into_iter()
        .map(|(location, values)| Partition::new(values, location))
        .collect();
    let catalog = MemoryCatalog::try_new(spec.clone(), &partitions)?;

    let state = ctx.state();
    let format = state.get_file_format_factory(&table.format.to_lowercase());
    let format = format.unwrap().create(&state, &Default::default())?;
    let schema = provider.schema();
    let fields = schema.fields().iter().cloned();
    let is_of_files = |name: &str| !spec.column_names().any(|column| column == name);
    let file_schema = Schema::new(
        fields
            .filter(|field| is_of_files(field.name()))
            .collect::<Vec<_>>(),
    );
    let url = ListingTableUrl::parse(&locations[0])?.object_store();
    let replacement =
        PartitionedTableProvider::try_new(Arc::new(catalog), format, url, Arc::new(file_schema))?;
    ctx.deregister_table(table.name)?;
    ctx.register_table(table.name, Arc::new(replacement))?;
    Ok(())
}

fn catalog_of(table: &Arc<dyn TableProvider>) -> &Arc<dyn PartitionCatalog> {
    let table = table.downcast_ref::<PartitionedTableProvider>().unwrap();
    table.catalog()
}

async fn list_all(
    ctx: &SessionContext,
    table: &Arc<dyn TableProvider>,
) -> Result<Vec<PartitionBatch>> {
    let listing = ListingContext::for_planning(&ctx.state());
    let catalog = catalog_of(table);
    let all = PartitionPredicate::all(catalog.spec());
    catalog.list(all, listing).try_collect().await
}

struct Session {
    mode: &'static Mode,
    ctx: SessionContext,
}

impl Session {
    async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
        self.ctx.sql(sql).await?.create_physical_plan().await
    }

    async fn run(&self, sql: &str) -> Result<(Vec<RecordBatch>, Arc<dyn ExecutionPlan>)> {
        let plan = self.plan(sql).await?;
        let batches = collect(Arc::clone(&plan), self.ctx.task_ctx()).await?;
        Ok((batches, plan))
    }

    async fn count(&self, sql: &str) -> usize {
        let name = self.mode.name;
        let (batches, _) = match self.run(sql).await {
            Ok(answer) => answer,
            Err(error) => panic!("[{name}] {sql}: {error}"),
        };
        sorted_rows(&batches)[0].parse().unwrap()
    }
}

/// A session for each mode.
struct Sessions {
    sessions: Vec<(Session, Result<(), String>)>,
    requests: RequestCountingStore,
}

impl Sessions {
    /// The sessions, all of whose tables could be declared.
    fn usable(&self) -> impl Iterator<Item = &Session> {
        self.sessions
            .iter()
            .map(|(session, declared)| match declared {
                Ok(()) => session,
                Err(error) => panic!("[{}] {error}", session.mode.name),
            })
    }

    /// The session in which everything is as it is by default.
    fn default(&self) -> &Session {
        self.usable().next().unwrap()
    }

    /// Checks that the query has these rows, in any order.
    async fn rows(&self, sql: &str, expected: &[&str]) {
        let mut expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        expected.sort();
        self.check(self.usable(), sql, &expected, sorted_rows, None)
            .await;
    }

    /// The same in the modes in which filters choose partitions.
    async fn rows_where_pruned(&self, sql: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        let sessions = self.usable().filter(|session| session.mode.prunes);
        self.check(sessions, sql, &expected, sorted_rows, None)
            .await;
    }

    /// Checks that the query has these rows, in this order.
    async fn ordered(&self, sql: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(|row| (*row).to_owned()).collect();
        self.check(self.usable(), sql, &expected, ordered_rows, None)
            .await;
    }

    /// Checks that the query has these rows, and reads so many files where pruning is on.
    async fn files(&self, sql: &str, expected: &[&str], files: usize) {
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
            let name = session.mode.name;
            let runs = if session.mode.asks_twice { 2 } else { 1 };
            for run in 1..=runs {
                let (batches, plan) = match session.run(sql).await {
                    Ok(answer) => answer,
                    Err(error) => panic!("[{name}, run {run}] {sql}: {error}"),
                };
                assert_eq!(rows(&batches), expected, "[{name}, run {run}] {sql}");
                if let Some(files) = files.filter(|_| session.mode.prunes) {
                    let scanned = scan_metric(&plan, "files_scanned");
                    assert_eq!(scanned, files, "files of [{name}, run {run}] {sql}");
                }
            }
        }
    }

    /// Checks how many rows and files each filter on `table` leaves, whose rows have an `id`.
    ///
    /// All filters are also asked without pruning, in one query that reads everything.
    async fn prunes(&self, table: &str, filters: &[(&str, usize, usize)]) {
        for session in self.usable().filter(|session| session.mode.prunes) {
            let name = session.mode.name;
            for (filter, rows, files) in filters {
                let sql = format!("SELECT id FROM {table} WHERE {filter}");
                let (batches, plan) = match session.run(&sql).await {
                    Ok(answer) => answer,
                    Err(error) => panic!("[{name}] {sql}: {error}"),
                };
                assert_eq!(sorted_rows(&batches).len(), *rows, "[{name}] {sql}");
                let scanned = scan_metric(&plan, "files_scanned");
                assert_eq!(scanned, *files, "files of [{name}] {sql}");
            }
        }
        let counts: Vec<_> = filters
            .iter()
            .map(|(filter, ..)| format!("count(*) FILTER (WHERE {filter})"))
            .collect();
        let expected: Vec<_> = filters
            .iter()
            .map(|(_, rows, _)| rows.to_string())
            .collect();
        let sql = format!("SELECT {} FROM {table}", counts.join(", "));
        let (batches, _) = self.default().run(&sql).await.unwrap();
        assert_eq!(sorted_rows(&batches), [expected.join(" | ")], "{sql}");
    }

    /// Checks that the query fails in each mode with an error that mentions all `texts`.
    async fn fails(&self, sql: &str, texts: &[&str]) {
        for (session, declared) in &self.sessions {
            let name = session.mode.name;
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
        }
    }

    /// How many files of a table its catalog finds.
    async fn listed_files(&self, table: &str) -> usize {
        let ctx = &self.default().ctx;
        let table = ctx.table_provider(table).await.unwrap();
        let batches = list_all(ctx, &table).await.unwrap();
        let sources = batches.iter().flat_map(PartitionBatch::sources);
        sources
            .filter_map(|source| source.objects.as_ref())
            .map(Vec::len)
            .sum()
    }

    /// The requests of a query in the default mode, sorted.
    async fn requests(&self, sql: &str) -> Vec<String> {
        let session = self.default();
        self.requests.clear();
        session.run(sql).await.unwrap();
        let mut requests: Vec<_> = self.requests.log().lines().map(str::to_owned).collect();
        requests.sort();
        requests
    }

    /// `rows(p) + rows(NOT p) + rows(p IS NULL)` are all rows, for comparisons with two values of
    /// each partition column, and `count(*)` is the number of rows.
    async fn check_laws(&self, table: &str) {
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
