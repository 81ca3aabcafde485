//! [`Case`]: files, tables over them, and a session for each mode.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use datafusion_partitioned_test_utils::{Fault, FaultyStore, FileKind, Lake, RequestCountingStore};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::modes::{self, Mode};
use super::sessions::{Session, Sessions};
use super::table::{Table, register, replace_by_catalog};

/// Files, and tables over them.
pub(super) struct Case {
    lake: Lake,
    requests: RequestCountingStore,
    files: Vec<(String, Content)>,
    tables: Vec<Table>,
    statements: Vec<String>,
    modes: Vec<&'static Mode>,
}

enum Content {
    Parquet(RecordBatch),
    Bytes(Vec<u8>),
    /// A query, whose rows DataFusion writes below the key, and the partition columns.
    Copied(String, &'static str),
}

impl Case {
    /// A case in a store in memory.
    pub(super) fn new() -> Self {
        Self::over(Lake::in_memory().unwrap())
    }

    /// A case in a store that has its files already.
    pub(super) fn in_store(url: &str, store: Arc<dyn ObjectStore>) -> Self {
        Self::over(Lake::new(url, store).unwrap())
    }

    /// A case in a store in memory whose listings return everything in the reverse order.
    pub(super) fn listed_backwards() -> Self {
        let store = FaultyStore::new(Arc::new(InMemory::new()));
        store.inject(Fault::backwards(|request| request.kind.is_list()));
        Self::in_store("memory://lake/", Arc::new(store))
    }

    fn over(lake: Lake) -> Self {
        let requests = RequestCountingStore::new(Arc::clone(lake.store()));
        Self {
            lake: lake.with_store(Arc::new(requests.clone())),
            requests,
            files: vec![],
            tables: vec![],
            statements: vec![],
            modes: modes::ALL.iter().collect(),
        }
    }

    /// Adds a Parquet file.
    pub(super) fn parquet(mut self, key: &str, rows: RecordBatch) -> Self {
        self.files.push((key.to_owned(), Content::Parquet(rows)));
        self
    }

    /// Adds a Parquet file with the column `id` alone.
    pub(super) fn ids(self, key: &str, ids: &[i64]) -> Self {
        self.parquet(key, rows!(("id", Int64, ids.to_vec())))
    }

    /// Adds a file as it is.
    pub(super) fn bytes(mut self, key: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files
            .push((key.to_owned(), Content::Bytes(bytes.into())));
        self
    }

    /// Adds the rows of a query below a directory, as DataFusion itself writes them.
    pub(super) fn copied(mut self, key: &str, query: &str, partitioned_by: &'static str) -> Self {
        let content = Content::Copied(query.to_owned(), partitioned_by);
        self.files.push((key.to_owned(), content));
        self
    }

    pub(super) fn table(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// A statement that each session runs after the tables have been declared.
    pub(super) fn statement(mut self, sql: impl Into<String>) -> Self {
        self.statements.push(sql.into());
        self
    }

    /// Only some of the modes, for trees that take long to read as a whole.
    pub(super) fn modes(mut self, modes: &'static [Mode]) -> Self {
        self.modes = modes.iter().collect();
        self
    }

    /// And these modes.
    pub(super) fn also(mut self, modes: &'static [Mode]) -> Self {
        self.modes.extend(modes);
        self
    }

    /// Writes the files, declares the tables in a session for each mode, and checks the laws.
    pub(super) async fn open(self) -> Sessions {
        let tables: Vec<_> = self.tables.iter().map(|table| table.name).collect();
        let sessions = self.open_broken().await;
        for table in tables {
            sessions.check_laws(table).await;
        }
        sessions
    }

    /// The same for tables that cannot be read as a whole.
    pub(super) async fn open_broken(self) -> Sessions {
        self.write_files().await;
        let mut sessions = vec![];
        for mode in &self.modes {
            let session = Session::new(mode);
            self.lake.register(&session.ctx);
            // A table that cannot be declared here fails as a query of it would.
            let declared = self.declare(&session).await;
            let declared = declared.map_err(|error| error.strip_backtrace());
            sessions.push((session, declared));
        }
        self.requests.clear();
        Sessions::new(sessions, self.requests)
    }

    /// The error of declaring the tables.
    pub(super) async fn declaration_error(self) -> String {
        self.write_files().await;
        let session = Session::new(self.modes[0]);
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
                Content::Copied(query, partitioned_by) => {
                    let ctx = SessionContext::new();
                    self.lake.register(&ctx);
                    let sql = format!(
                        "COPY ({query}) TO '{}' STORED AS PARQUET PARTITIONED BY ({partitioned_by})",
                        self.lake.location(key)
                    );
                    ctx.sql(&sql).await.unwrap().collect().await.unwrap();
                }
            }
        }
    }

    async fn declare(&self, session: &Session) -> Result<()> {
        for table in &self.tables {
            let location = table.location(&self.lake);
            session.ctx.sql(&table.sql(&location)).await?;
            if table.is_registered() {
                register(&session.ctx, table).await?;
            } else if session.mode.catalog_backed {
                replace_by_catalog(&session.ctx, table, &location).await?;
            }
        }
        for statement in &self.statements {
            session.ctx.sql(statement).await?.collect().await?;
        }
        Ok(())
    }
}
