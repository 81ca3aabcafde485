//! [`Database`]: the file, its version, and its transactions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, config_err, exec_datafusion_err, exec_err};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

/// `dfpc` in ASCII: tells the file from those of other programs.
const APPLICATION_ID: i64 = 0x6466_7063;

/// The version of the tables below. A program that changes them raises it.
const SCHEMA_VERSION: i64 = 1;

/// An id is never used twice, so that it stands for one definition for ever.
const SCHEMA: &str = "
    CREATE TABLE schemas (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE tables (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        schema TEXT NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('table', 'view')),
        sql TEXT NOT NULL,
        settings TEXT NOT NULL,
        created TEXT NOT NULL DEFAULT (datetime('now')),
        partitions_version INTEGER NOT NULL DEFAULT 0,
        UNIQUE (schema, name)
    ) STRICT;
    CREATE TABLE partitions (
        table_id INTEGER NOT NULL REFERENCES tables (id) ON DELETE CASCADE,
        partition_values TEXT NOT NULL,
        location TEXT NOT NULL,
        row_count INTEGER,
        PRIMARY KEY (table_id, partition_values)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX partition_locations ON partitions (table_id, location);
";

/// How long a statement waits for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// An SQLite file with the tables of this crate.
pub(crate) struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// What can go wrong inside of a transaction.
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    Other(DataFusionError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Other(error)
    }
}

impl Database {
    /// Opens the file, which is made when it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connect = |path: &Path| -> Result<Connection, rusqlite::Error> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok(connection)
        };
        if path.as_os_str().is_empty() || path == Path::new(":memory:") {
            return config_err!(
                "a catalog file has a name; '{}' would not last",
                path.display()
            );
        }
        // An absolute path is never a URI, which SQLite would take for other things than the name of a file.
        let path = &std::path::absolute(path)?;
        let connection = connect(path).map_err(|error| describe(path, error.into()))?;
        let database = Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
        };
        database.prepare()?;
        Ok(database)
    }

    /// Checks that the file is one of ours, and makes the tables in a new one.
    fn prepare(&self) -> Result<()> {
        let is_new = self.read(|transaction| self.check(transaction))?;
        self.use_write_ahead_log()?;
        if !is_new {
            return Ok(());
        }
        self.write(|transaction| {
            // Another process may have been first.
            if self.check(transaction)? {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            Ok(())
        })
    }

    /// Whether the file is new.
    fn check(&self, transaction: &Transaction<'_>) -> Result<bool, Failure> {
        let pragma = |name: &str| -> Result<i64, rusqlite::Error> {
            transaction.pragma_query_value(None, name, |row| row.get(0))
        };
        let path = self.path.display();
        let (application, version) = (pragma("application_id")?, pragma("user_version")?);
        if application != APPLICATION_ID {
            let sql = "SELECT count(*) FROM sqlite_master";
            let tables: i64 = transaction.query_row(sql, [], |row| row.get(0))?;
            if application != 0 || version != 0 || tables != 0 {
                exec_err!("the file '{path}' is a database of another program; give another file")?;
            }
            return Ok(true);
        }
        if version > SCHEMA_VERSION {
            exec_err!(
                "the catalog file '{path}' has version {version}, but this program knows those up to \
                 {SCHEMA_VERSION}; use a newer program or another file"
            )?;
        }
        Ok(false)
    }

    /// Readers and a writer do not wait for each other then, and a change is one write.
    fn use_write_ahead_log(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let connection = self.connection();
            let set = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| {
                row.get::<_, String>(0)
            });
            let set = set.and_then(|_| connection.pragma_update(None, "synchronous", "full"));
            drop(connection);
            match set {
                Ok(()) => return Ok(()),
                // SQLite does not wait here by itself.
                Err(error) if is_busy(&error) && started.elapsed() < BUSY_TIMEOUT => {
                    thread::sleep(Duration::from_millis(10));
                }
                // What can only be read stays as it is.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
                    return Ok(());
                }
                Err(error) => return Err(describe(&self.path, error.into())),
            }
        }
    }

    fn connection(&self) -> std::sync::MutexGuard<'_, Connection> {
        // A transaction that panics is rolled back when it is dropped.
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one state of the file.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        self.transaction(TransactionBehavior::Deferred, read)
    }

    /// Makes a change, all of it or, when it fails, nothing.
    pub(crate) fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        if !self.path.exists() {
            return exec_err!(
                "the catalog file '{}' has been removed, so that a change would be lost; put it back, or start again \
                 with another file",
                self.path.display()
            );
        }
        self.transaction(TransactionBehavior::Immediate, change)
    }

    fn transaction<T>(
        &self,
        behavior: TransactionBehavior,
        run: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        let mut connection = self.connection();
        let run = || {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let value = run(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        run().map_err(|failure| describe(&self.path, failure))
    }

    /// [`Self::read`] for async functions.
    pub(crate) async fn read_async<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let database = Arc::clone(self);
        in_background(move || database.read(read)).await
    }

    /// [`Self::write`] for async functions. Goes on to its end when the future is dropped.
    pub(crate) async fn write_async<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let database = Arc::clone(self);
        in_background(move || database.write(change)).await
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let task = SpawnedTask::spawn_blocking(work).join().await;
    task.map_err(|error| exec_datafusion_err!("the catalog file could not be used: {error}"))?
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// The error with the file and, where there is one, the way out.
fn describe(path: &Path, failure: Failure) -> DataFusionError {
    let error = match failure {
        Failure::Other(error) => return error,
        Failure::Sqlite(error) => error,
    };
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => exec_datafusion_err!(
            "the catalog file '{path}' has been locked by another process for {} s; try again later",
            BUSY_TIMEOUT.as_secs()
        ),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => exec_datafusion_err!(
            "the file '{path}' is damaged or no catalog file ({error}); restore it or give another file"
        ),
        Some(ErrorCode::ReadOnly) => exec_datafusion_err!(
            "the catalog file '{path}' cannot be written ({error}); change its permissions and those \
             of its directory"
        ),
        Some(ErrorCode::CannotOpen) => exec_datafusion_err!(
            "the catalog file '{path}' cannot be opened ({error}); its directory must be there, and \
             writable"
        ),
        _ => exec_datafusion_err!("the catalog file '{path}' cannot be used: {error}"),
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.path).finish()
    }
}
