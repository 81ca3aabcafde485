//! The session as a query with hints sees it: with tables that have options of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion_partitioned_connector::{TableDefinitions, create_table_with_options};

use crate::create::registry;
use crate::hint::TableHint;
use crate::target::{provider_of, resolved};

/// A session that knows the tables of `hints`, too.
///
/// # Errors
/// When one of the tables was not made by a connector, or cannot be made with these options.
pub(crate) async fn with_hinted_tables(
    state: &SessionState,
    hints: &[TableHint],
) -> Result<SessionState> {
    let mut tables = HintedTables::new();
    for hint in hints {
        let normalize = state.config_options().sql_parser.enable_ident_normalization;
        let name = object_name_to_table_reference(hint.table.clone(), normalize)?;
        let table = provider_of(state, &name).await?;
        let Some(definition) = TableDefinitions::in_session(state, &table) else {
            return plan_err!(
                "table '{name}' was not made by a connector, so that a query cannot give it options; \
                 remove OPTIONS (..)"
            );
        };
        let options = hint.options.clone();
        let table =
            create_table_with_options(state, &definition, options, &registry(state)?).await?;
        let place = resolved(state, &name);
        let schema = (place.catalog.to_string(), place.schema.to_string());
        let tables = tables.entry(schema).or_default();
        tables.insert(hint.name.clone(), table);
    }
    let catalogs = HintedCatalogs {
        inner: Arc::clone(state.catalog_list()),
        tables: Arc::new(tables),
    };
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    Ok(builder.with_catalog_list(Arc::new(catalogs)).build())
}

/// Tables by catalog and schema, and by name.
type HintedTables = HashMap<(String, String), HashMap<String, Arc<dyn TableProvider>>>;

#[derive(Debug)]
struct HintedCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    tables: Arc<HintedTables>,
}

impl CatalogProviderList for HintedCatalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = self.inner.catalog(name)?;
        if !self.tables.keys().any(|(catalog, _)| catalog == name) {
            return Some(inner);
        }
        Some(Arc::new(HintedCatalog {
            name: name.to_owned(),
            inner,
            tables: Arc::clone(&self.tables),
        }))
    }
}

#[derive(Debug)]
struct HintedCatalog {
    name: String,
    inner: Arc<dyn CatalogProvider>,
    tables: Arc<HintedTables>,
}

impl CatalogProvider for HintedCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        let key = (self.name.clone(), name.to_owned());
        match self.tables.get(&key) {
            Some(tables) => Some(Arc::new(HintedSchema {
                inner,
                tables: tables.clone(),
            })),
            None => Some(inner),
        }
    }
}

struct HintedSchema {
    inner: Arc<dyn SchemaProvider>,
    tables: HashMap<String, Arc<dyn TableProvider>>,
}

impl fmt::Debug for HintedSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HintedSchema").field(&self.inner).finish()
    }
}

#[async_trait]
impl SchemaProvider for HintedSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.tables.get(name) {
            Some(table) => Ok(Some(Arc::clone(table))),
            None => self.inner.table(name).await,
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name) || self.inner.table_exist(name)
    }
}
