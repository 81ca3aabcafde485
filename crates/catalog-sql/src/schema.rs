//! [`SqliteSchema`]: the tables of one schema.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::logical_expr::{LogicalPlanBuilder, TableType};
use datafusion_partitioned_catalog::RegisteredCatalog;
use datafusion_partitioned_connector::restore_table;
use datafusion_partitioned_core::PartitionCatalog;
use datafusion_partitioned_table::{PartitionedSourceProvider, PartitionedTableProvider};
use rusqlite::Transaction;

use crate::catalog::SessionParts;
use crate::database::{Database, Failure};
use crate::definitions::{self, Definition, Kind, Stored};
use crate::partitions::SqlitePartitionStore;
use crate::view::make_view;

tokio::task_local! {
    /// The tables and views that are being made, each because of the one before: their ids and names.
    static MAKING: Vec<(i64, String)>;
}

/// The tables of a schema in the file, and those that are in memory only, which come first.
pub struct SqliteSchema {
    name: String,
    database: Arc<Database>,
    session: Arc<SessionParts>,
    in_memory: Arc<dyn SchemaProvider>,
    /// The tables that have been made, by name, each with the id of its definition.
    made: Mutex<MadeTables>,
}

type MadeTables = HashMap<String, (i64, Arc<dyn TableProvider>)>;

impl SqliteSchema {
    pub(crate) fn new(
        name: &str,
        database: Arc<Database>,
        session: Arc<SessionParts>,
        in_memory: Arc<dyn SchemaProvider>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            database,
            session,
            in_memory,
            made: Mutex::default(),
        }
    }

    /// Puts `table` in the place of the table or view `name`, with its partitions, in one transaction: nobody finds
    /// neither of them. When there is none yet, it is added. What is not kept in the file is in memory then.
    ///
    /// # Errors
    /// When the definition cannot be stored; then everything is as it was.
    pub fn replace_table(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        let Some(definition) = self.session.definition_of(&table)? else {
            self.refuse_to_lose_table(name)?;
            // Nothing to store: only what is there is taken out.
            let before = self.in_memory.deregister_table(name)?;
            if let Err(error) = self.delete(name) {
                if let Some(before) = before {
                    self.in_memory.register_table(name.to_owned(), before)?;
                }
                return Err(error);
            }
            self.in_memory.register_table(name.to_owned(), table)?;
            return Ok(());
        };
        if definition.kind == Kind::View {
            if self.is_stored_table(name)? {
                return exec_err!(
                    "'{name}' is a table, which a view does not replace; DROP TABLE {name} first"
                );
            }
            self.session
                .refuse_self_reference(&definition, &self.name, name)?;
        }
        let id = self.database.write(|transaction| {
            if let Some(before) = definitions::find(transaction, &self.name, name)? {
                definitions::delete(transaction, before.id)?;
            }
            self.insert(transaction, name, &definition, &table)
        })?;
        self.in_memory.deregister_table(name)?;
        match definition.kind {
            Kind::Table => self.remember(name, id, table),
            // Planned anew for each query, since what it reads can change.
            Kind::View => drop(self.made().remove(name)),
        }
        Ok(())
    }

    fn is_stored_table(&self, name: &str) -> Result<bool> {
        let stored = self.find(name)?;
        Ok(stored.is_some_and(|stored| stored.definition.kind == Kind::Table))
    }

    /// Fails when `name` is a table of the file, which a table in memory would replace: nobody else would have either.
    pub(crate) fn refuse_to_lose_table(&self, name: &str) -> Result<()> {
        match self.is_stored_table(name)? {
            false => Ok(()),
            true => exec_err!(
                "the table '{name}' is kept in the catalog file, and what would replace it is not: it is in memory, \
                 temporary, or has no connector; DROP TABLE {name} first"
            ),
        }
    }

    /// Removes the table or view `name` without making it first, so that this works where its files or its
    /// connector are gone. Returns whether it was there with this type.
    ///
    /// # Errors
    /// When the change cannot be stored.
    pub fn drop_table(&self, name: &str, table_type: TableType) -> Result<bool> {
        let kind = self.database.write(|transaction| {
            let stored = definitions::find(transaction, &self.name, name)?;
            let stored = stored.filter(|s| s.definition.kind.table_type() == table_type);
            if let Some(stored) = &stored {
                definitions::delete(transaction, stored.id)?;
            }
            Ok(stored)
        })?;
        self.made().remove(name);
        Ok(kind.is_some())
    }

    /// Whether `name` is a table in memory, which the file knows nothing about.
    pub(crate) fn is_in_memory(&self, name: &str) -> bool {
        self.in_memory.table_exist(name)
    }

    pub(crate) fn has_tables_in_memory(&self) -> bool {
        !self.in_memory.table_names().is_empty()
    }

    fn made(&self) -> MutexGuard<'_, MadeTables> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, name: &str, id: i64, table: Arc<dyn TableProvider>) {
        self.made().insert(name.to_owned(), (id, table));
    }

    fn find(&self, name: &str) -> Result<Option<Stored>> {
        self.database
            .read(|transaction| definitions::find(transaction, &self.name, name))
    }

    /// Stores a definition, and lets the partitions of the table be kept in the file.
    fn insert(
        &self,
        transaction: &Transaction<'_>,
        name: &str,
        definition: &Definition,
        table: &Arc<dyn TableProvider>,
    ) -> Result<i64, Failure> {
        // The schema may have been dropped by another process.
        definitions::add_schema(transaction, &self.name)?;
        let id = definitions::insert(transaction, &self.name, name, definition)?;
        self.keep_partitions(name, id, table)?;
        Ok(id)
    }

    fn keep_partitions(&self, name: &str, id: i64, table: &Arc<dyn TableProvider>) -> Result<()> {
        let Some(catalog) = registered_catalog(table) else {
            return Ok(());
        };
        let spec = catalog.spec().clone();
        let database = Arc::clone(&self.database);
        let store = SqlitePartitionStore::new(database, id, name, spec);
        let attached = catalog.attach(Arc::new(store));
        attached.map_err(|error| error.context(format!("table '{name}'")))
    }

    /// Removes a table or view of the file.
    fn delete(&self, name: &str) -> Result<Option<Stored>> {
        let stored = self.database.write(|transaction| {
            let stored = definitions::find(transaction, &self.name, name)?;
            if let Some(stored) = &stored {
                definitions::delete(transaction, stored.id)?;
            }
            Ok(stored)
        })?;
        Ok(stored)
    }

    /// Makes a table or view of its definition. `None` for a table that is being made: to plan its statement,
    /// DataFusion looks for a table of this name.
    async fn make(&self, name: &str, stored: &Stored) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut making = MAKING.try_with(Vec::clone).unwrap_or_default();
        if making.iter().any(|(id, _)| *id == stored.id) {
            let names: Vec<&str> = making.iter().map(|(_, name)| name.as_str()).collect();
            return match stored.definition.kind {
                Kind::Table => Ok(None),
                Kind::View => plan_err!(
                    "the view '{name}' refers to itself: {} -> {name}; replace one of them",
                    names.join(" -> ")
                ),
            };
        }
        making.push((stored.id, name.to_owned()));
        let state = self.session.state(&stored.definition)?;
        let sql = &stored.definition.sql;
        match stored.definition.kind {
            Kind::View => MAKING
                .scope(making, Box::pin(make_view(&state, sql)))
                .await
                .map(Some),
            Kind::Table => {
                let registry = self.session.registry()?;
                let enrichment = self.session.enrichment_of(&self.name, name);
                let table = restore_table(&state, sql, enrichment, &registry);
                let table = MAKING.scope(making, Box::pin(table)).await?;
                self.keep_partitions(name, stored.id, &table)?;
                self.remember(name, stored.id, Arc::clone(&table));
                Ok(Some(table))
            }
        }
    }
}

/// The partitions of a table that has registered ones.
fn registered_catalog(table: &Arc<dyn TableProvider>) -> Option<RegisteredCatalog> {
    let of_files = table.downcast_ref::<PartitionedTableProvider>();
    let of_others = table.downcast_ref::<PartitionedSourceProvider>();
    let catalog = of_files.map(PartitionedTableProvider::catalog);
    let catalog = catalog.or_else(|| of_others.map(PartitionedSourceProvider::catalog))?;
    RegisteredCatalog::of(catalog.as_ref())
}

#[async_trait]
impl SchemaProvider for SqliteSchema {
    fn table_names(&self) -> Vec<String> {
        let stored = self.database.read(|t| definitions::names(t, &self.name));
        let stored = stored.unwrap_or_else(|error| {
            log::error!("{error}");
            vec![]
        });
        let names = self.in_memory.table_names().into_iter().chain(stored);
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(table) = self.in_memory.table(name).await? {
            return Ok(Some(table));
        }
        let (schema, wanted) = (self.name.clone(), name.to_owned());
        let find =
            move |transaction: &Transaction<'_>| definitions::find(transaction, &schema, &wanted);
        let Some(stored) = self.database.read_async(find).await? else {
            self.made().remove(name);
            return Ok(None);
        };
        let made = self.made().get(name).cloned();
        if let Some((_, table)) = made.filter(|(id, _)| *id == stored.id) {
            return Ok(Some(table));
        }
        let made = self.make(name, &stored).await;
        let made = made.map_err(|error| {
            let path = self.database.path().display();
            error.context(format!(
                "cannot make '{name}' from the catalog file '{path}'"
            ))
        })?;
        Ok(made)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if let Some(table_type) = self.in_memory.table_type(name).await? {
            return Ok(Some(table_type));
        }
        let stored = self.find(name)?;
        Ok(stored.map(|stored| stored.definition.kind.table_type()))
    }

    /// A table that a `CREATE OR REPLACE` made takes the place of another one.
    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.session.replaces(&name, &table) {
            self.replace_table(&name, table)?;
            return Ok(None);
        }
        if self.is_in_memory(&name) {
            return exec_err!("The table {name} already exists");
        }
        let Some(definition) = self.session.definition_of(&table)? else {
            if self.find(&name)?.is_some() {
                return exec_err!("The table {name} already exists");
            }
            return self.in_memory.register_table(name, table);
        };
        let id = self.database.write(|transaction| {
            if definitions::find(transaction, &self.name, &name)?.is_some() {
                exec_err!("The table {name} already exists")?;
            }
            self.insert(transaction, &name, &definition, &table)
        })?;
        if definition.kind == Kind::Table {
            self.remember(&name, id, table);
        }
        Ok(None)
    }

    /// Returns the table that was removed, or an empty one of its type when it had not been made here.
    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.in_memory.deregister_table(name)? {
            return Ok(Some(table));
        }
        let Some(stored) = self.delete(name)? else {
            return Ok(None);
        };
        if let Some((_, made)) = self.made().remove(name) {
            return Ok(Some(made));
        }
        Ok(Some(match stored.definition.kind {
            Kind::Table => Arc::new(EmptyTable::new(Arc::new(Schema::empty()))),
            Kind::View => {
                let nothing = LogicalPlanBuilder::empty(false).build()?;
                Arc::new(ViewTable::new(nothing, Some(stored.definition.sql)))
            }
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        let in_file = || match self.find(name) {
            Ok(stored) => stored.is_some(),
            Err(error) => {
                log::error!("{error}");
                false
            }
        };
        self.is_in_memory(name) || in_file()
    }
}

impl fmt::Debug for SqliteSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSchema")
            .field("name", &self.name)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
