//! [`TableDefinition`]: what a table was made of, and [`TableDefinitions`]: those of a session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, TableReference, config_err};
use datafusion::logical_expr::CreateExternalTable;

use crate::options::normalize_key;
use crate::secret::{
    HIDDEN, environment_variable, hide_credentials, hide_in_error, is_sensitive_key, resolve_secret,
};
use crate::{Connector, ConnectorAbility};

/// The statement that made a table, resolved: with absolute paths, the connector by name, and the
/// knowledge of which options are secret (Flink: `ResolvedCatalogTable`).
#[derive(Clone)]
pub struct TableDefinition {
    command: CreateExternalTable,
    connector: String,
    ability: ConnectorAbility,
    secret_keys: BTreeSet<String>,
    enrichment_options: HashMap<String, String>,
}

impl TableDefinition {
    pub(crate) fn new(
        mut command: CreateExternalTable,
        connector: &dyn Connector,
        enrichment_options: HashMap<String, String>,
    ) -> Self {
        for location in &mut command.locations {
            *location = absolute(location);
        }
        let own = connector.options();
        let secret_keys = command.options.keys().map(|key| normalize_key(key));
        let secret_keys = secret_keys.filter(|key| {
            let is_declared = own
                .iter()
                .any(|option| option.is_secret() && option.has_key(key));
            is_declared || is_sensitive_key(key)
        });
        let secret_keys = secret_keys.collect();
        let mut definition = Self {
            command,
            connector: connector.identifier().to_owned(),
            ability: connector.ability(),
            secret_keys,
            enrichment_options,
        };
        // What `information_schema.views` shows.
        definition.command.definition = definition.to_sql().ok();
        definition
    }

    /// The statement, with secrets in clear.
    pub fn command(&self) -> &CreateExternalTable {
        &self.command
    }

    /// The identifier of the connector.
    pub fn connector(&self) -> &str {
        &self.connector
    }

    /// What statements may do with the table.
    pub fn ability(&self) -> ConnectorAbility {
        self.ability
    }

    /// Options that were not in the statement; see
    /// [`ConnectorContext::enrichment_options`](crate::ConnectorContext::enrichment_options).
    pub fn enrichment_options(&self) -> &HashMap<String, String> {
        &self.enrichment_options
    }

    /// A `CREATE` statement that makes the table again. Secrets are `******`, unless they refer to the
    /// environment, `${env:NAME}`.
    ///
    /// # Errors
    /// When a column has a type that SQL cannot name.
    pub fn to_sql(&self) -> Result<String> {
        let options = self.options(|_, value| match environment_variable(value) {
            Some(_) => Ok(value.to_owned()),
            None => Ok(HIDDEN.to_owned()),
        })?;
        crate::definition_sql::create_statement(&self.command, &options)
    }

    /// The same statement in a form that makes exactly this table, to be kept outside the session.
    ///
    /// # Errors
    /// When it holds a secret in clear, and as [`Self::to_sql`].
    pub fn to_lasting_sql(&self) -> Result<String> {
        let table = &self.command.name;
        let options = self.options(|key, value| match environment_variable(value) {
            Some(_) => Ok(value.to_owned()),
            None => config_err!(
                "table '{table}': option '{key}' is a secret, which is not stored; put it into an \
                 environment variable and give its name, as in '{key}' '${{env:NAME}}'"
            ),
        })?;
        let texts = self.command.locations.iter().chain(options.values());
        for text in texts {
            if hide_credentials(text) != text.as_str() {
                return config_err!(
                    "table '{table}': the URL '{}' holds credentials, which are not stored; leave \
                     them out",
                    hide_credentials(text)
                );
            }
        }
        crate::definition_sql::create_statement(&self.command, &options)
    }

    /// The text without the values of secret options and without credentials.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let secrets = self.command.options.iter();
        let secrets = secrets.filter(|(key, _)| self.secret_keys.contains(&normalize_key(key)));
        let mut shown = hide_credentials(text).into_owned();
        for (_, secret) in secrets {
            let resolved = resolve_secret(secret);
            for secret in [secret.as_str(), resolved.as_deref().unwrap_or_default()] {
                if !secret.is_empty() && environment_variable(secret).is_none() {
                    shown = shown.replace(secret, HIDDEN);
                }
            }
        }
        shown
    }

    /// The error, or one that says the same without secrets: a connector may not be careful.
    pub(crate) fn hide_secrets(&self, error: DataFusionError) -> DataFusionError {
        hide_in_error(error, |text| self.hide_in(text))
    }

    /// The options by their normalised keys, with secret values as `show` gives them.
    fn options(
        &self,
        show: impl Fn(&str, &str) -> Result<String>,
    ) -> Result<BTreeMap<String, String>> {
        let given = self.command.options.iter().map(|(key, value)| {
            let key = normalize_key(key);
            let value = match self.secret_keys.contains(&key) {
                true => show(&key, value)?,
                false => value.clone(),
            };
            Ok((key, value))
        });
        let mut options = given.collect::<Result<BTreeMap<_, _>>>()?;
        options.insert("connector".to_owned(), self.connector.clone());
        Ok(options)
    }
}

/// Hides secrets.
impl fmt::Debug for TableDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableDefinition")
            .field("table", &self.command.name)
            .field("connector", &self.connector)
            .field("sql", &self.command.definition)
            .finish_non_exhaustive()
    }
}

/// A path of the local file system as seen from everywhere; a URL as it is.
fn absolute(location: &str) -> String {
    let is_url = url::Url::parse(location).is_ok();
    if location.is_empty() || is_url || Path::new(location).is_absolute() {
        return location.to_owned();
    }
    match std::path::absolute(location) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => location.to_owned(),
    }
}

/// The definitions of the tables that connectors made in a session: an extension of its configuration.
///
/// Tables are recognised as values, not by their names, so that it does not matter what happens to
/// these in which catalog.
#[derive(Default)]
pub struct TableDefinitions {
    /// By the address of the table, which is no other table's as long as there is the `Weak`.
    tables: Mutex<HashMap<usize, DefinedTable>>,
}

type DefinedTable = (Weak<dyn TableProvider>, Arc<TableDefinition>);

impl TableDefinitions {
    /// The definition of a table that a connector made in this session.
    pub fn of(&self, table: &Arc<dyn TableProvider>) -> Option<Arc<TableDefinition>> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, definition) = tables.get(&address(table))?;
        Some(Arc::clone(definition))
    }

    /// The same, with the definitions of `session`.
    pub fn in_session(
        session: &dyn Session,
        table: &Arc<dyn TableProvider>,
    ) -> Option<Arc<TableDefinition>> {
        let definitions = session.config().get_extension::<Self>()?;
        definitions.of(table)
    }

    pub(crate) fn insert(&self, table: &Arc<dyn TableProvider>, definition: Arc<TableDefinition>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, (known, _)| known.strong_count() > 0);
        tables.insert(address(table), (Arc::downgrade(table), definition));
    }
}

fn address(table: &Arc<dyn TableProvider>) -> usize {
    Arc::as_ptr(table).cast::<()>() as usize
}

impl fmt::Debug for TableDefinitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<&TableReference> = tables.values().map(|(_, d)| &d.command.name).collect();
        f.debug_tuple("TableDefinitions").field(&names).finish()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::{
        ConnectorContext, ConnectorOption, ConnectorRegistry, OptionDescription, restore_table,
        wrap_table_factories,
    };

    const LIMIT: ConnectorOption<Option<usize>> = ConnectorOption::new("limit", "").forwardable();
    const OWNER: ConnectorOption<Option<String>> = ConnectorOption::new("owner", "");
    const KEY: ConnectorOption<Option<secrecy::SecretString>> = ConnectorOption::new("key", "");

    #[derive(Debug)]
    struct EmptyConnector;

    #[async_trait]
    impl Connector for EmptyConnector {
        fn identifier(&self) -> &str {
            "empty"
        }

        fn options(&self) -> Vec<OptionDescription> {
            vec![LIMIT.describe(), OWNER.describe(), KEY.describe()]
        }

        async fn create_table(
            &self,
            context: &ConnectorContext<'_>,
        ) -> Result<Arc<dyn TableProvider>> {
            context.options().get(&LIMIT)?;
            context.options().get(&OWNER)?;
            context.options().get(&KEY)?;
            context.options().format_options(&self.options());
            let schema = Arc::clone(context.physical_schema());
            Ok(Arc::new(EmptyTable::new(schema)))
        }
    }

    struct Session {
        context: SessionContext,
        registry: Arc<ConnectorRegistry>,
    }

    impl Session {
        fn new() -> Self {
            let config = SessionConfig::new().with_extension(Arc::new(TableDefinitions::default()));
            let context = SessionContext::new_with_config(config);
            let registry = Arc::new(ConnectorRegistry::new());
            registry.register(Arc::new(EmptyConnector)).unwrap();
            let state = context.state_ref();
            wrap_table_factories(state.write().table_factories_mut(), &registry);
            Self { context, registry }
        }

        async fn definition(&self, sql: &str) -> Arc<TableDefinition> {
            self.restored(sql, &[]).await.unwrap()
        }

        async fn restored(
            &self,
            sql: &str,
            enrichment: &[(&str, &str)],
        ) -> Result<Arc<TableDefinition>> {
            let enrichment = enrichment
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let state = self.context.state();
            let table = restore_table(&state, sql, enrichment.collect(), &self.registry).await?;
            Ok(TableDefinitions::in_session(&state, &table).unwrap())
        }
    }

    #[tokio::test]
    async fn statements_make_the_same_table_again() {
        let session = Session::new();
        for sql in [
            "CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION '/x' OPTIONS ('connector' 'empty')",
            r#"CREATE EXTERNAL TABLE "Odd ""s".t (
                "A b" BIGINT NOT NULL DEFAULT 1 + 2, b VARCHAR DEFAULT 'it''s', "key" DATE, x BOOLEAN,
                PRIMARY KEY ("A b", b), UNIQUE (x))
               STORED AS PARQUET PARTITIONED BY (X, "key") LOCATION ('s3://b/1/', '/it''s/')
               OPTIONS ('connector' 'empty', 'Owner' 'tr''ue', 'limit' '3',
                        'compression::Name' 'snappy', 'key' '${env:CARGO_PKG_NAME}')"#,
            "CREATE TABLE t (a TINYINT, b SMALLINT, c INT, d BIGINT, e TINYINT UNSIGNED,
               f SMALLINT UNSIGNED, g INT UNSIGNED, h BIGINT UNSIGNED, i REAL, j DOUBLE, k VARCHAR,
               l BYTEA, m DATE, n TIME, o TIMESTAMP(0), p TIMESTAMP(3), q TIMESTAMP,
               r TIMESTAMP WITH TIME ZONE, s DECIMAL(38, 10), t DECIMAL(76, 2), u INT[],
               v STRUCT<a INT, b VARCHAR[]>, w INTERVAL, x TIMESTAMP(6), y BOOLEAN)
             PARTITIONED BY (a) WITH ('connector' = 'empty')",
            "CREATE TEMPORARY TABLE t WITH ('connector' = 'empty', 'format' = 'csv', 'path' = 'here')",
        ] {
            let first = session.definition(sql).await;
            let lasting = first.to_lasting_sql().unwrap();
            assert_eq!(lasting, first.to_sql().unwrap());
            let second = session.definition(&lasting).await;
            assert_eq!(second.to_lasting_sql().unwrap(), lasting);
            let (first, second) = (first.command(), second.command());
            assert_eq!(first.schema, second.schema, "{lasting}");
            assert_eq!(first.name, second.name);
            assert_eq!(first.locations, second.locations);
            assert_eq!(first.file_type, second.file_type);
            assert_eq!(first.constraints, second.constraints);
            assert_eq!(first.column_defaults, second.column_defaults);
            assert_eq!(first.table_partition_cols, second.table_partition_cols);
            assert_eq!(first.temporary, second.temporary);
        }
    }

    #[tokio::test]
    async fn secrets_are_hidden_and_not_lasting() {
        let session = Session::new();
        for option in ["key", "csv.password"] {
            let sql = format!(
                "CREATE TABLE t WITH ('connector' = 'empty', '{option}' = 'K-AAAA', 'format' = 'csv')"
            );
            let result = session.restored(&sql, &[]).await;
            let shown = match &result {
                Ok(definition) => {
                    let error = definition.to_lasting_sql().unwrap_err();
                    assert!(error.to_string().contains("'${env:NAME}'"), "{error}");
                    format!("{definition:?} {} {error}", definition.to_sql().unwrap())
                }
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains("K-AAAA"), "{shown}");
        }
        let sql = "CREATE TABLE t WITH ('connector' = 'empty', 'path' = 's3://me:K-AAAA@lake/t')";
        let definition = session.definition(sql).await;
        let shown = definition.to_sql().unwrap();
        assert!(shown.contains("'s3://******@lake/t'"), "{shown}");
        let error = definition.to_lasting_sql().unwrap_err().to_string();
        assert!(
            error.contains("'s3://******@lake/t' holds credentials"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn forwardable_options_enrich_a_restored_table() {
        let session = Session::new();
        let sql = "CREATE TABLE t WITH ('connector' = 'empty', 'limit' = '1', 'owner' = 'me')";
        let enrichment = [("Limit", "2"), ("owner", "you")];
        let definition = session.restored(sql, &enrichment).await.unwrap();
        let sql = definition.to_sql().unwrap();
        assert!(
            sql.contains("'limit' = '2'") && sql.contains("'owner' = 'me'"),
            "{sql}"
        );
        assert_eq!(definition.enrichment_options().len(), 2);
    }

    #[tokio::test]
    async fn what_only_flink_has_is_refused_by_name() {
        let session = Session::new();
        for (columns, message) in [
            ("a INT, b AS a + 1", "table 't': 'b' is a computed column"),
            (
                "a INT, m BIGINT METADATA FROM 'x'",
                "table 't': 'm' is a METADATA column",
            ),
            (
                "a INT, WATERMARK FOR a AS a",
                "table 't': WATERMARK is for streams",
            ),
        ] {
            let sql = format!("CREATE TABLE t ({columns}) WITH ('connector' = 'empty')");
            let error = session.restored(&sql, &[]).await.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[tokio::test]
    async fn a_definition_ends_with_its_table() {
        let definitions = TableDefinitions::default();
        let session = Session::new();
        let sql = "CREATE TABLE t WITH ('connector' = 'empty')";
        let definition = session.definition(sql).await;
        let schema = Arc::clone(definition.command().schema.inner());
        let table: Arc<dyn TableProvider> = Arc::new(EmptyTable::new(schema));
        assert!(definitions.of(&table).is_none());
        definitions.insert(&table, Arc::clone(&definition));
        assert!(definitions.of(&table).is_some());
        let weak = Arc::downgrade(&table);
        drop(table);
        assert!(weak.upgrade().is_none());
        let names = definitions.tables.lock().unwrap().len();
        assert_eq!(names, 1);
    }
}
