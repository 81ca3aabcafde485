//! The trait that a kind of table implements, and what it is told about a statement.

use std::collections::HashMap;
use std::fmt::{self, Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Result, TableReference, config_datafusion_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion_partitioned_core::{did_you_mean, quoted_list};

use crate::{ConnectorOptions, ConnectorRegistry, OptionDescription, TableDefinition};

/// Makes tables from `CREATE EXTERNAL TABLE ... OPTIONS ('connector' '<identifier>')`.
///
/// [`create_table`](crate::create_table) is the caller: before [`Self::create_table`] it refuses options
/// that are missing, unknown or unsuitable, all of them at once, and after it those that were given but
/// never read. A connector reads all of its options, also where the rest of the statement makes one
/// pointless, or such a statement fails.
#[async_trait]
pub trait Connector: Debug + Send + Sync {
    /// The value of the option `connector` that selects this connector, in lower case.
    fn identifier(&self) -> &str;

    /// The connector's own options. All others belong to the file format.
    fn options(&self) -> Vec<OptionDescription>;

    /// What statements may do with its tables. Others are refused when they are planned.
    fn ability(&self) -> ConnectorAbility {
        ConnectorAbility::SourceAndSink
    }

    /// Makes the table of the statement, refusing the clauses that it would have to ignore.
    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>>;
}

/// What statements may do with the tables of a connector (Flink: `DynamicTableSourceFactory`,
/// `DynamicTableSinkFactory`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectorAbility {
    /// Read them.
    Source,
    /// Write to them.
    Sink,
    /// Both.
    SourceAndSink,
}

impl ConnectorAbility {
    /// Whether a table with this ability can be used as one with `other`.
    pub fn includes(self, other: Self) -> bool {
        self == Self::SourceAndSink || self == other
    }
}

impl Display for ConnectorAbility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Sink => "sink",
            Self::SourceAndSink => "source and sink",
        })
    }
}

/// The definition of a new table and its surroundings (Flink: `DynamicTableFactory.Context`).
#[derive(Clone, Copy)]
pub struct ConnectorContext<'a> {
    session: &'a dyn Session,
    definition: &'a TableDefinition,
    options: &'a ConnectorOptions,
    registry: &'a Arc<ConnectorRegistry>,
}

impl<'a> ConnectorContext<'a> {
    pub(crate) fn new(
        session: &'a dyn Session,
        definition: &'a TableDefinition,
        options: &'a ConnectorOptions,
        registry: &'a Arc<ConnectorRegistry>,
    ) -> Self {
        Self {
            session,
            definition,
            options,
            registry,
        }
    }

    /// The name of the new table. For messages only: other tables may have the same name in other
    /// catalogs, and a table may get another one.
    pub fn table(&self) -> &'a TableReference {
        &self.command().name
    }

    /// The session that runs the statement: its configuration, its object stores, its catalogs.
    pub fn session(&self) -> &'a dyn Session {
        self.session
    }

    /// The table as it was defined, with its options as they were written.
    pub fn definition(&self) -> &'a TableDefinition {
        self.definition
    }

    /// The statement.
    pub fn command(&self) -> &'a CreateExternalTable {
        self.definition.command()
    }

    /// The options of the statement, with the enrichment options merged into them.
    pub fn options(&self) -> &'a ConnectorOptions {
        self.options
    }

    /// Options that were not in the statement: those that a query gives a table for itself, and those
    /// that a restored table gets from where it is restored. Only forwardable ones are merged into
    /// [`Self::options`] when a table is restored (Flink: `getEnrichmentOptions`).
    pub fn enrichment_options(&self) -> &'a HashMap<String, String> {
        self.definition.enrichment_options()
    }

    /// Whether the table ends with the session.
    pub fn is_temporary(&self) -> bool {
        self.command().temporary
    }

    /// The declared columns, partition columns among them. Without the columns that are inferred.
    pub fn physical_schema(&self) -> &'a SchemaRef {
        self.command().schema.inner()
    }

    /// Where the columns of the primary key are in [`Self::physical_schema`]; empty without one.
    pub fn primary_key_indexes(&self) -> &'a [usize] {
        let mut constraints = self.command().constraints.iter();
        let key = constraints.find_map(|constraint| match constraint {
            Constraint::PrimaryKey(columns) => Some(columns.as_slice()),
            Constraint::Unique(_) => None,
        });
        key.unwrap_or_default()
    }

    /// The other connectors of the session, for connectors that build upon them.
    pub fn registry(&self) -> &'a Arc<ConnectorRegistry> {
        self.registry
    }

    /// The format of the statement as the session knows it.
    ///
    /// # Errors
    /// When the session has no such format; lists those that it has.
    pub fn format_factory(&self, identifier: &str) -> Result<Arc<dyn FileFormatFactory>> {
        let formats = self.session.as_any().downcast_ref::<SessionState>();
        let find = |name: &str| formats.and_then(|state| state.get_file_format_factory(name));
        find(identifier).ok_or_else(|| {
            let known = FORMATS.iter().copied().filter(|name| find(name).is_some());
            let known: Vec<&str> = known.collect();
            config_datafusion_err!(
                "table '{}': unknown format '{identifier}'{}; expected one of: {}",
                self.table(),
                did_you_mean(identifier, known.iter().copied()),
                quoted_list(known)
            )
        })
    }
}

/// The formats that come with DataFusion, which does not list those of a session.
const FORMATS: [&str; 5] = ["ARROW", "AVRO", "CSV", "JSON", "PARQUET"];

impl Debug for ConnectorContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorContext")
            .field("session", &self.session.session_id())
            .field("definition", &self.definition)
            .field("registry", &self.registry)
            .finish()
    }
}
