//! [`SqliteCatalog`]: the file, and the catalog of a session that is kept in it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::memory::{MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{
    Result, TableReference, exec_datafusion_err, exec_err, plan_datafusion_err, plan_err,
};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion_partitioned_connector::{
    ConnectorRegistry, SessionPlanExecutor, TableDefinitions, hide_credentials,
};

use crate::database::Database;
use crate::definitions::{self, Definition, Kind};
use crate::execute::SqlitePlanExecutor;
use crate::schema::SqliteSchema;
use crate::settings::Settings;

/// Keeps definitions of tables and registered partitions in an SQLite file. See [`crate`].
#[derive(Debug, Clone)]
pub struct SqliteCatalog {
    database: Arc<Database>,
    enrichment: HashMap<TableReference, HashMap<String, String>>,
}

/// The enrichment options of tables, by schema and name.
type Enrichment = HashMap<(String, String), HashMap<String, String>>;

impl SqliteCatalog {
    /// Opens a file, which is made when it is not there.
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, is of another program, or was made by a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self {
            database: Arc::new(Database::open(path.as_ref())?),
            enrichment: HashMap::new(),
        })
    }

    /// Gives a table of the file options that belong to this process rather than to the table, such as credentials
    /// and limits (Flink's enrichment options). Those that are forwardable take the place of what the table's
    /// definition says; the connector gets all of them as `ConnectorContext::enrichment_options`. They are not
    /// stored, and apply to tables that a session takes from the file, not to those that it makes itself.
    ///
    /// ```
    /// # use std::collections::HashMap;
    /// use datafusion_partitioned_catalog_sql::SqliteCatalog;
    ///
    /// # fn main() -> datafusion::error::Result<()> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("tables.db");
    /// let limits = HashMap::from([("partition.max".to_owned(), "1000".to_owned())]);
    /// let catalog = SqliteCatalog::open(&path)?.with_enrichment_options("sales", limits);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_enrichment_options(
        mut self,
        table: impl Into<TableReference>,
        options: HashMap<String, String>,
    ) -> Self {
        self.enrichment.insert(table.into(), options);
        self
    }

    /// Puts this catalog in the place of the default catalog of a session. The tables that are there already stay, in
    /// memory, in front of those of the same name in the file.
    ///
    /// Extend the session by connectors first: one that is not there cannot make its tables.
    ///
    /// # Errors
    /// When the file cannot be written: the default schema has to be in it. When a table with enrichment options is
    /// one of another catalog.
    pub fn attach(&self, context: &SessionContext) -> Result<()> {
        let state = context.state();
        let options = &state.config_options().catalog;
        let (catalog, schema) = (&options.default_catalog, &options.default_schema);
        let mut enrichment = Enrichment::new();
        for (table, options) in &self.enrichment {
            let resolved = table.clone().resolve(catalog, schema);
            if *resolved.catalog != **catalog {
                return plan_err!(
                    "the table '{table}' cannot have enrichment options: the catalog file is kept as '{catalog}'"
                );
            }
            let key = (resolved.schema.to_string(), resolved.table.to_string());
            enrichment.entry(key).or_default().extend(options.clone());
        }
        let has_schema = self
            .database
            .read(|transaction| definitions::has_schema(transaction, schema))?;
        if !has_schema {
            self.database
                .write(|transaction| definitions::add_schema(transaction, schema))?;
        }
        let in_memory = context.catalog(catalog);
        let provider = SqliteCatalogProvider {
            database: Arc::clone(&self.database),
            session: Arc::new(SessionParts::of(context, enrichment)),
            in_memory: in_memory.unwrap_or_else(|| Arc::new(MemoryCatalogProvider::new())),
            schemas: Mutex::default(),
        };
        context.register_catalog(catalog.clone(), Arc::new(provider));
        let executor = SessionPlanExecutor(Arc::new(SqlitePlanExecutor));
        let state = context.state_ref();
        state.write().config_mut().set_extension(Arc::new(executor));
        Ok(())
    }
}

/// What the schemas of a session need to know of it. It owns them, so that they must not own it.
pub(crate) struct SessionParts {
    state: Box<dyn Fn() -> Option<SessionState> + Send + Sync>,
    definitions: Option<Arc<TableDefinitions>>,
    enrichment: Enrichment,
}

impl SessionParts {
    fn of(context: &SessionContext, enrichment: Enrichment) -> Self {
        let state = context.state_weak_ref();
        Self {
            // Tables are registered while the session holds the lock for reading.
            state: Box::new(move || Some(state.upgrade()?.read_recursive().clone())),
            definitions: context.state().config().get_extension(),
            enrichment,
        }
    }

    /// The options that the table `name` of a schema gets beside those in the file.
    pub(crate) fn enrichment_of(&self, schema: &str, name: &str) -> HashMap<String, String> {
        let key = (schema.to_owned(), name.to_owned());
        self.enrichment.get(&key).cloned().unwrap_or_default()
    }

    fn current(&self) -> Result<SessionState> {
        (self.state)().ok_or_else(|| {
            exec_datafusion_err!(
                "the session that the catalog file was attached to has ended; attach it to this one"
            )
        })
    }

    /// The session in which a definition is turned into a table again.
    pub(crate) fn state(&self, definition: &Definition) -> Result<SessionState> {
        let mut state = self.current()?;
        let options = state.config_mut().options_mut();
        definition.settings.apply(options)?;
        Ok(state)
    }

    /// Fails when the view `name` would read itself, which is not the view that it replaces.
    pub(crate) fn refuse_self_reference(
        &self,
        view: &Definition,
        schema: &str,
        name: &str,
    ) -> Result<()> {
        let state = self.state(view)?;
        let options = state.config_options();
        let statement = state.sql_to_statement(&view.sql, &options.sql_parser.dialect)?;
        let statement = match statement {
            Statement::Statement(statement) => match *statement {
                // Its own name is none of those that it reads.
                ast::Statement::CreateView(view) => ast::Statement::Query(view.query),
                other => other,
            },
            _ => return Ok(()),
        };
        let statement = Statement::Statement(Box::new(statement));
        let catalog = &options.catalog;
        let is_itself = |reference: &TableReference| {
            let (catalog, default) = (&catalog.default_catalog, &catalog.default_schema);
            let reference = reference.clone().resolve(catalog, default);
            *reference.catalog == **catalog
                && *reference.schema == *schema
                && *reference.table == *name
        };
        let references = state.resolve_table_references(&statement)?;
        match references.iter().any(is_itself) {
            false => Ok(()),
            true => plan_err!(
                "the view '{name}' would refer to itself, since the catalog file keeps its text; give \
                 the new one another name"
            ),
        }
    }

    pub(crate) fn registry(&self) -> Result<Arc<ConnectorRegistry>> {
        let registry = self.current()?.config().get_extension();
        registry.ok_or_else(|| plan_datafusion_err!("this session has no connectors"))
    }

    /// What to store of a table; `None` when it is in memory only.
    ///
    /// # Errors
    /// When it should be stored and has a secret in clear.
    pub(crate) fn definition_of(
        &self,
        table: &Arc<dyn TableProvider>,
    ) -> Result<Option<Definition>> {
        if let Some(sql) = table
            .downcast_ref::<ViewTable>()
            .and_then(ViewTable::definition)
        {
            if hide_credentials(sql) != sql.as_str() {
                return plan_err!(
                    "the view has credentials in a URL, which a catalog file does not keep; remove them, or make the \
                     view with CREATE TEMPORARY VIEW"
                );
            }
            let settings = Settings::of(self.current()?.config_options());
            return Ok(Some(Definition {
                kind: Kind::View,
                sql: sql.clone(),
                settings,
            }));
        }
        let definition = self.definitions.as_ref().and_then(|all| all.of(table));
        let Some(definition) = definition.filter(|d| !d.command().temporary) else {
            return Ok(None);
        };
        Ok(Some(Definition {
            kind: Kind::Table,
            sql: definition.to_lasting_sql()?,
            settings: Settings::of(self.current()?.config_options()).with_generic_dialect(),
        }))
    }
}

impl SessionParts {
    /// Whether the statement that made the table `name` wants it in the place of another one.
    pub(crate) fn replaces(&self, name: &str, table: &Arc<dyn TableProvider>) -> bool {
        let definition = self.definitions.as_ref().and_then(|all| all.of(table));
        definition.is_some_and(|definition| {
            let command = definition.command();
            command.or_replace && command.name.table() == name
        })
    }
}

/// The catalog of one session.
struct SqliteCatalogProvider {
    database: Arc<Database>,
    session: Arc<SessionParts>,
    /// What the session had before, and schemas of other kinds.
    in_memory: Arc<dyn CatalogProvider>,
    /// Those that have been asked for.
    schemas: Mutex<HashMap<String, Arc<SqliteSchema>>>,
}

impl SqliteCatalogProvider {
    fn stored_schema(&self, name: &str) -> Arc<SqliteSchema> {
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = schemas.entry(name.to_owned()).or_insert_with(|| {
            let in_memory = self.in_memory.schema(name);
            let in_memory = in_memory.unwrap_or_else(|| Arc::new(MemorySchemaProvider::new()));
            let (database, session) = (Arc::clone(&self.database), Arc::clone(&self.session));
            Arc::new(SqliteSchema::new(name, database, session, in_memory))
        });
        Arc::clone(schema)
    }

    fn is_stored(&self, name: &str) -> Result<bool> {
        self.database
            .read(|transaction| definitions::has_schema(transaction, name))
    }
}

impl CatalogProvider for SqliteCatalogProvider {
    fn schema_names(&self) -> Vec<String> {
        let stored = self.database.read(definitions::schemas);
        let stored = stored.unwrap_or_else(|error| {
            log::error!("{error}");
            vec![]
        });
        let names = self.in_memory.schema_names().into_iter().chain(stored);
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match self.is_stored(name) {
            Ok(true) => Some(self.stored_schema(name)),
            Ok(false) => self.in_memory.schema(name),
            Err(error) => {
                // Whoever uses the schema gets the error.
                log::error!("{error}");
                Some(self.stored_schema(name))
            }
        }
    }

    /// Keeps the schemas of `CREATE SCHEMA` in the file.
    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if !schema.is::<MemorySchemaProvider>() || !schema.table_names().is_empty() {
            return self.in_memory.register_schema(name, schema);
        }
        self.database
            .write(|transaction| definitions::add_schema(transaction, name))?;
        Ok(None)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if !self.is_stored(name)? {
            return self.in_memory.deregister_schema(name, cascade);
        }
        let schema = self.stored_schema(name);
        let is_used = || exec_err!("Cannot drop schema '{name}' because other tables depend on it");
        if !cascade && schema.has_tables_in_memory() {
            return is_used();
        }
        self.database.write(|transaction| {
            // Another process may have added one.
            if !cascade && !definitions::names(transaction, name)?.is_empty() {
                is_used()?;
            }
            definitions::delete_schema(transaction, name)
        })?;
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        schemas.remove(name);
        if self.in_memory.schema(name).is_some() {
            self.in_memory.deregister_schema(name, true)?;
        }
        Ok(Some(schema))
    }
}

impl fmt::Debug for SqliteCatalogProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteCatalogProvider")
            .field(&self.database)
            .finish()
    }
}
