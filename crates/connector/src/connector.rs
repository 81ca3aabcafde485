//! The trait that a kind of table implements, and what it is told about a statement.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::CreateExternalTable;

use crate::{ConnectorOptions, ConnectorRegistry, OptionDescription};

/// Makes tables from `CREATE EXTERNAL TABLE ... OPTIONS ('connector' '<identifier>')`.
///
/// [`ConnectorTableFactory`](crate::ConnectorTableFactory) is the caller: it refuses unknown
/// options before [`Self::create_table`], and options that were given but never read after it. A
/// connector reads all of its options, also where the rest of the statement makes one pointless, or
/// such a statement fails.
#[async_trait]
pub trait Connector: Debug + Send + Sync {
    /// The value of the option `connector` that selects this connector.
    fn identifier(&self) -> &str;

    /// The connector's own options. All others belong to the file format.
    fn options(&self) -> Vec<OptionDescription>;

    /// Makes the table of the statement, refusing the clauses that it would have to ignore.
    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>>;
}

/// A `CREATE EXTERNAL TABLE` statement and its surroundings.
#[derive(Clone, Copy)]
pub struct ConnectorContext<'a> {
    session: &'a dyn Session,
    command: &'a CreateExternalTable,
    options: &'a ConnectorOptions,
    registry: &'a Arc<ConnectorRegistry>,
}

impl<'a> ConnectorContext<'a> {
    /// Puts a context together.
    pub fn new(
        session: &'a dyn Session,
        command: &'a CreateExternalTable,
        options: &'a ConnectorOptions,
        registry: &'a Arc<ConnectorRegistry>,
    ) -> Self {
        Self {
            session,
            command,
            options,
            registry,
        }
    }

    /// The name of the new table.
    pub fn table(&self) -> &'a TableReference {
        &self.command.name
    }

    /// The session that runs the statement.
    pub fn session(&self) -> &'a dyn Session {
        self.session
    }

    /// The statement, with its options as they were written.
    pub fn command(&self) -> &'a CreateExternalTable {
        self.command
    }

    /// The options of the statement.
    pub fn options(&self) -> &'a ConnectorOptions {
        self.options
    }

    /// The other connectors of the session, for connectors that build upon them.
    pub fn registry(&self) -> &'a Arc<ConnectorRegistry> {
        self.registry
    }
}

impl Debug for ConnectorContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectorContext")
            .field("session", &self.session.session_id())
            .field("table", &self.table())
            .field("options", &self.options)
            .field("registry", &self.registry)
            .finish()
    }
}
