//! Statements that write while requests fail: each request of each statement in turn. Afterwards readers see all of a
//! statement or nothing of it, and the next statement finds a table that it can write to.
//!
//! | fault | what it is |
//! |---|---|
//! | [`Kind::Fails`] | the request has no effect |
//! | [`Kind::LosesItsAnswer`] | the request has its effect, but fails |
//! | [`Kind::EndsHalfway`] | a rename has copied and not deleted; a listing has some of its objects |
//! | [`Kind::IsTheLast`] | all further requests fail too: the writer has lost its store |
//! | [`Kind::IsCancelled`] | the statement is dropped while it waits for the request |

mod at_once;
mod s3;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::common::{Result, exec_err};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{
    Fault, FaultyStore, Gate, Lake, Request, RequestKind, sorted_rows,
};
use futures::TryStreamExt;
use object_store::memory::InMemory;

/// The rows of [`Table::new`], `id` and `p`.
const OLD: &[(i64, i64)] = &[(1, 0), (2, 0), (3, 1), (4, 2), (5, 3)];

/// A statement, and what it makes of [`OLD`].
struct Statement {
    name: &'static str,
    /// Of the table.
    options: &'static str,
    sql: &'static str,
    /// The rows of the partitions that it replaces are gone.
    replaces: fn(i64) -> bool,
    adds: &'static [(i64, i64)],
}

const REGISTERED: &str = ", 'partition.catalog' 'registered'";

const APPEND: Statement = Statement {
    name: "append",
    options: "",
    sql: "INSERT INTO t VALUES (10, 0), (11, 1), (12, 7)",
    replaces: |_| false,
    adds: &[(10, 0), (11, 1), (12, 7)],
};

const DYNAMIC: Statement = Statement {
    name: "dynamic overwrite",
    options: "",
    sql: "INSERT OVERWRITE t VALUES (10, 0), (11, 1), (12, 1)",
    replaces: |p| p < 2,
    adds: &[(10, 0), (11, 1), (12, 1)],
};

const STATIC: Statement = Statement {
    name: "static overwrite",
    options: ", 'sink.overwrite-mode' 'static'",
    sql: "INSERT OVERWRITE t VALUES (10, 0), (11, 8)",
    replaces: |_| true,
    adds: &[(10, 0), (11, 8)],
};

/// Of partitions that are registered before.
const REGISTERED_APPEND: Statement = Statement {
    name: "append to registered partitions",
    options: REGISTERED,
    sql: "INSERT INTO t VALUES (10, 0), (11, 1), (12, 3)",
    replaces: |_| false,
    adds: &[(10, 0), (11, 1), (12, 3)],
};

const REGISTERED_OVERWRITE: Statement = Statement {
    name: "overwrite of registered partitions",
    options: REGISTERED,
    ..DYNAMIC
};

impl Statement {
    fn is_registered(&self) -> bool {
        self.options == REGISTERED
    }

    fn rows_before(&self) -> Vec<String> {
        rows(OLD.iter().copied())
    }

    fn rows_after(&self) -> Vec<String> {
        let kept = OLD.iter().filter(|(_, p)| !(self.replaces)(*p));
        rows(kept.chain(self.adds).copied())
    }
}

/// Rows as [`Table::rows`] has them.
fn rows(rows: impl IntoIterator<Item = (i64, i64)>) -> Vec<String> {
    let rows = rows.into_iter().map(|(id, p)| format!("{id} | {p}"));
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

fn and(rows: &[String], row: &str) -> Vec<String> {
    let mut rows = rows.to_vec();
    rows.push(row.to_owned());
    rows.sort();
    rows
}

/// A table with the rows [`OLD`], and a session whose requests to it can fail.
struct Table {
    /// The store without faults.
    lake: Lake,
    /// The directory of the table, with a slash at its end.
    directory: String,
    options: &'static str,
    faulty: FaultyStore,
    writer: SessionContext,
}

impl Table {
    async fn new(lake: Lake, directory: &str, options: &'static str) -> Self {
        let faulty = FaultyStore::new(Arc::clone(lake.store()));
        let writer = session(&lake.clone().with_store(Arc::new(faulty.clone())));
        let table = Self {
            lake,
            directory: directory.to_owned(),
            options,
            faulty,
            writer,
        };
        table.declare(&table.writer).await;
        let values: Vec<_> = OLD.iter().map(|row| format!("{row:?}")).collect();
        let insert = format!("INSERT INTO t VALUES {}", values.join(", "));
        table.write(&insert).await.unwrap();
        table
    }

    async fn declare(&self, context: &SessionContext) {
        let create = format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) LOCATION '{}' \
             OPTIONS ('connector' 'filesystem', 'has_header' 'true'{})",
            self.lake.location(&self.directory),
            self.options
        );
        context.partitioned_sql(&create).await.unwrap();
    }

    /// Runs a statement in the session whose requests can fail.
    async fn write(&self, sql: &str) -> Result<()> {
        run(&self.writer, sql).await.map(drop)
    }

    /// A session that shares nothing with others: which partitions are registered only that of the writer knows.
    async fn fresh(&self) -> SessionContext {
        if self.options == REGISTERED {
            return self.writer.clone();
        }
        let context = session(&self.lake);
        self.declare(&context).await;
        context
    }

    /// All rows, as a new session finds them.
    async fn rows(&self) -> Result<Vec<String>> {
        run(&self.fresh().await, "SELECT id, p FROM t").await
    }

    /// Waits for a commit that goes on when nobody waits for its statement any more.
    async fn commits_end(&self) {
        for _ in 0..1000 {
            let left = self.leftovers().await;
            if !left.iter().any(|key| key.contains("/_commits/")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What writing has left: hidden files, records of commits, locks.
    async fn leftovers(&self) -> Vec<String> {
        let prefix = self.directory.trim_end_matches('/');
        let url = self.lake.location(prefix);
        let url = datafusion::datasource::listing::ListingTableUrl::parse(url).unwrap();
        let objects = self.lake.store().list(Some(url.prefix()));
        let objects: Vec<_> = objects.try_collect().await.unwrap();
        let keys = objects.iter().map(|object| object.location.to_string());
        // What tells readers of the last statement that has replaced files stays.
        let keys = keys.filter(|key| !key.ends_with(".overwritten"));
        keys.filter(|key| key.ends_with(".pending") || key.contains("/_commits/"))
            .collect()
    }
}

fn session(lake: &Lake) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let context = SessionContext::new_with_config(config).with_partitioned();
    lake.register(&context);
    context
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = context.partitioned_sql(sql).await?.collect().await?;
    Ok(sorted_rows(&batches))
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fails,
    LosesItsAnswer,
    EndsHalfway,
    IsTheLast,
    IsCancelled,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Fails,
        Self::LosesItsAnswer,
        Self::EndsHalfway,
        Self::IsTheLast,
        Self::IsCancelled,
    ];

    /// Whether it is another fault than [`Self::Fails`].
    fn is_of_its_own(self, request: &Request) -> bool {
        let kind = request.kind;
        match self {
            Self::Fails | Self::IsTheLast | Self::IsCancelled => true,
            Self::LosesItsAnswer => {
                !kind.is_list() && !matches!(kind, RequestKind::Get | RequestKind::Head)
            }
            Self::EndsHalfway => kind.is_list() || kind == RequestKind::Rename,
        }
    }

    /// The fault of the request with this number, counted from 1, which says what it has hit.
    fn fault(self, number: usize, hit: &Arc<Mutex<Vec<Request>>>, gate: &Gate) -> Fault {
        let (sent, hit) = (AtomicUsize::new(0), Arc::clone(hit));
        let wanted = move |request: &Request| {
            let sent = sent.fetch_add(1, Ordering::Relaxed) + 1;
            let is_hit = sent == number || (self == Self::IsTheLast && sent > number);
            if is_hit {
                hit.lock().unwrap().push(request.clone());
            }
            is_hit
        };
        match self {
            Self::Fails | Self::IsTheLast => Fault::fail(wanted),
            Self::LosesItsAnswer => Fault::lose_answer(wanted),
            Self::EndsHalfway => Fault::fail_halfway(wanted),
            Self::IsCancelled => Fault::hold(gate, wanted),
        }
    }
}

/// Where an attempt was made, for messages.
struct Attempt<'a> {
    statement: &'a Statement,
    kind: Kind,
    hit: &'a [Request],
    result: &'a Result<()>,
}

impl fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, kind) = (self.statement.name, self.kind);
        let hit = self.hit.first().map(ToString::to_string);
        write!(f, "{name}, {kind:?}: {}: ", hit.unwrap_or_default())?;
        match self.result {
            Ok(()) => f.write_str("no error"),
            Err(error) => f.write_str(&error.strip_backtrace()),
        }
    }
}

/// Runs a statement once for each of its requests and each kind of fault, each time on a table of its own. Returns the
/// number of attempts, and the kinds of requests that were hit.
async fn fail_each_request(
    statement: &Statement,
    kinds: &[Kind],
    new_table: impl AsyncFn() -> Table,
) -> (usize, BTreeSet<RequestKind>) {
    let table = new_table().await;
    let sent = Arc::new(Mutex::new(vec![]));
    let log = Arc::clone(&sent);
    table.faulty.inject(Fault::fail(move |request| {
        log.lock().unwrap().push(request.clone());
        false
    }));
    table.write(statement.sql).await.unwrap();
    table.faulty.heal();
    assert_eq!(table.rows().await.unwrap(), statement.rows_after());
    let sent = std::mem::take(&mut *sent.lock().unwrap());

    let (mut attempts, mut hit_kinds, mut wrong) = (0, BTreeSet::new(), vec![]);
    for kind in kinds {
        for number in 1..=sent.len() {
            if !kind.is_of_its_own(&sent[number - 1]) {
                continue;
            }
            let table = new_table().await;
            let hit = Arc::new(Mutex::new(vec![]));
            let gate = Gate::new();
            table.faulty.inject(kind.fault(number, &hit, &gate));
            let result = tokio::select! {
                result = table.write(statement.sql) => result,
                () = gate.wait_for_held(|held| held > 0) => exec_err!("cancelled"),
            };
            if kind == &Kind::IsCancelled {
                // Its tasks end, and what it has written is deleted.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            gate.open();
            table.faulty.heal();
            if kind == &Kind::IsCancelled {
                table.commits_end().await;
            }
            let hit = std::mem::take(&mut *hit.lock().unwrap());
            hit_kinds.extend(hit.iter().take(1).map(|request| request.kind));
            let attempt = Attempt {
                statement,
                kind: *kind,
                hit: &hit,
                result: &result,
            };
            wrong.extend(check(&table, &attempt).await.err());
            attempts += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {attempts} attempts:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    (attempts, hit_kinds)
}

/// Whether readers and the next writer find what they should behind an attempt.
async fn check(table: &Table, attempt: &Attempt<'_>) -> std::result::Result<(), String> {
    let Attempt {
        statement, result, ..
    } = attempt;
    let (old, new) = (statement.rows_before(), statement.rows_after());
    let error = result.as_ref().err().map(|error| error.strip_backtrace());
    let found = table.rows().await;
    let found = found.map_err(|error| format!("{attempt}\n  a reader: {error}"))?;
    // Readers of registered partitions do not look for commits.
    let is_certain = !statement.is_registered();
    if is_certain && found != old && found != new {
        return Err(format!("{attempt}\n  readers see {found:?}"));
    }
    let next = run(&table.fresh().await, "INSERT INTO t VALUES (99, 0)").await;
    next.map_err(|error| format!("{attempt}\n  the next statement: {error}"))?;
    let next = table.rows().await;
    let next = next.map_err(|error| format!("{attempt}\n  a reader: {error}"))?;
    let is_new = next == and(&new, "99 | 0");
    if !is_new && next != and(&old, "99 | 0") {
        return Err(format!("{attempt}\n  behind the next statement: {next:?}"));
    }
    if is_certain && next != and(&found, "99 | 0") {
        return Err(format!(
            "{attempt}\n  readers saw {found:?}, and then {next:?}"
        ));
    }
    // What a statement says of itself.
    match &error {
        None if !is_new => return Err(format!("{attempt}\n  there is nothing of it: {found:?}")),
        Some(error)
            if is_new && attempt.kind != Kind::IsCancelled && !error.contains("committed") =>
        {
            return Err(format!("{attempt}\n  it does not say that it is committed"));
        }
        Some(error) if !is_new && error.contains("is committed, but") => {
            return Err(format!("{attempt}\n  it is not committed"));
        }
        _ => {}
    }
    // Who cannot delete leaves what it has. What is cancelled deletes what it has behind that.
    let could_not_delete = |key: &String| {
        let hit = attempt.hit.iter().any(|request| {
            let is_deletion = matches!(request.kind, RequestKind::Delete | RequestKind::Get);
            is_deletion && request.path.as_ref() == key
        });
        attempt.kind == Kind::IsTheLast || hit
    };
    let mut left = table.leftovers().await;
    left.retain(|key| key.ends_with(".json") || !could_not_delete(key));
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("{attempt}\n  it has left {left:?}")),
    }
}

/// The kinds of requests that all statements have.
fn assert_kinds(hit: &BTreeSet<RequestKind>) {
    use RequestKind::{Delete, List, Put, Rename};
    for kind in [List, Put, Rename, Delete] {
        assert!(hit.contains(&kind), "{kind} is not in {hit:?}");
    }
}

async fn fail_each_request_in_memory(statement: &Statement) {
    let (attempts, hit) = fail_each_request(statement, &Kind::ALL, async || {
        let lake = Lake::new("memory://lake/", Arc::new(InMemory::new())).unwrap();
        Table::new(lake, "t/", statement.options).await
    })
    .await;
    assert!(attempts > 30, "{attempts}");
    assert_kinds(&hit);
}

#[tokio::test]
async fn an_append_is_whole_whichever_request_fails() {
    fail_each_request_in_memory(&APPEND).await;
}

#[tokio::test]
async fn a_dynamic_overwrite_is_whole_whichever_request_fails() {
    fail_each_request_in_memory(&DYNAMIC).await;
}

#[tokio::test]
async fn a_static_overwrite_is_whole_whichever_request_fails() {
    fail_each_request_in_memory(&STATIC).await;
}

#[tokio::test]
async fn an_append_to_registered_partitions_is_whole_whichever_request_fails() {
    fail_each_request_in_memory(&REGISTERED_APPEND).await;
}

#[tokio::test]
async fn an_overwrite_of_registered_partitions_is_whole_whichever_request_fails() {
    fail_each_request_in_memory(&REGISTERED_OVERWRITE).await;
}

/// Partitions that the statement registers.
#[tokio::test]
async fn an_append_to_new_registered_partitions_is_whole_whichever_request_fails() {
    fail_each_request_in_memory(&Statement {
        name: "append to new registered partitions",
        options: REGISTERED,
        ..APPEND
    })
    .await;
}

/// On a local file system a rename is one step.
#[tokio::test]
async fn statements_are_whole_on_a_local_file_system() {
    let kinds = [Kind::Fails, Kind::LosesItsAnswer];
    for statement in [&APPEND, &DYNAMIC, &STATIC] {
        let directory = tempfile::tempdir().unwrap();
        let tables = AtomicUsize::new(0);
        let (attempts, hit) = fail_each_request(statement, &kinds, async || {
            let name = format!("t{}/", tables.fetch_add(1, Ordering::Relaxed));
            std::fs::create_dir(directory.path().join(&name)).unwrap();
            let lake = Lake::local(directory.path()).unwrap();
            Table::new(lake, &name, statement.options).await
        })
        .await;
        assert!(attempts > 15, "{attempts}");
        assert_kinds(&hit);
    }
}

/// Files that are written in parts: each part, and the end of the upload.
#[tokio::test]
async fn an_upload_in_parts_is_whole_whichever_part_fails() {
    let statement = &Statement {
        name: "append in parts",
        sql: "INSERT INTO t SELECT value + 10, value + 40 FROM range(0, 2)",
        adds: &[(10, 40), (11, 41)],
        ..APPEND
    };
    let (attempts, hit) = fail_each_request(statement, &Kind::ALL, async || {
        let lake = Lake::new("memory://lake/", Arc::new(InMemory::new())).unwrap();
        let table = Table::new(lake, "t/", statement.options).await;
        let small = "SET datafusion.execution.objectstore_writer_buffer_size = 4";
        run(&table.writer, small).await.unwrap();
        table
    })
    .await;
    assert!(attempts > 30, "{attempts}");
    assert_kinds(&hit);
}
