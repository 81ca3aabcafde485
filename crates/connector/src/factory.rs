//! How a statement becomes a table, and the table factory that tells statements for a connector from
//! DataFusion's own.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{
    DataFusionError, Result, TableReference, config_datafusion_err, plan_datafusion_err,
};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use datafusion_partitioned_core::{PartitionedOptions, did_you_mean, quoted_list};
use futures::FutureExt;

use crate::format::FormatOptions;
use crate::options::normalize_key;
use crate::{
    Connector, ConnectorContext, ConnectorOption, ConnectorOptions, ConnectorRegistry,
    OptionDescription, SessionStoreOpener, TableDefinition, TableDefinitions,
};

/// The option that selects a connector.
pub const CONNECTOR: ConnectorOption<Option<String>> = ConnectorOption::new(
    "connector",
    "Identifier of the connector that makes the table",
);

/// Makes tables with the connector that a statement names, and all others with the factory it
/// wraps.
///
/// A statement with partition columns that names no connector gets the one in the session option
/// `partitioned.default_connector`, which is empty at first.
#[derive(Debug)]
pub struct ConnectorTableFactory {
    inner: Arc<dyn TableProviderFactory>,
    registry: Arc<ConnectorRegistry>,
}

impl ConnectorTableFactory {
    /// Puts the connectors of `registry` in front of `inner`.
    pub fn new(inner: Arc<dyn TableProviderFactory>, registry: Arc<ConnectorRegistry>) -> Self {
        Self { inner, registry }
    }

    /// What is wrong with a statement that failed as one of DataFusion's, and has an option of a connector.
    fn forgotten_connector(&self, command: &CreateExternalTable) -> Option<DataFusionError> {
        let table = &command.name;
        let mut keys: Vec<String> = command.options.keys().map(|k| normalize_key(k)).collect();
        keys.sort_unstable();
        keys.iter().find_map(|key| {
            let similar = did_you_mean(key, [CONNECTOR.key()]);
            if !similar.is_empty() {
                return Some(config_datafusion_err!(
                    "table '{table}': unknown option '{key}'{similar}"
                ));
            }
            let connector = self.registry.with_option(key)?;
            Some(config_datafusion_err!(
                "table '{table}': '{key}' is an option of the connector '{connector}', which the \
                 statement does not name; add the option 'connector' '{connector}'"
            ))
        })
    }
}

#[async_trait]
impl TableProviderFactory for ConnectorTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        match connector_of(session, command)? {
            Some(_) => create_table(session, command, &self.registry).await,
            None => {
                let table = self.inner.create(session, command).await;
                table.map_err(|error| self.forgotten_connector(command).unwrap_or(error))
            }
        }
    }
}

/// Puts a [`ConnectorTableFactory`] in front of every factory of a session.
///
/// Doing so twice with one registry changes nothing: what passes the outer factory, passes the
/// inner one.
pub fn wrap_table_factories(
    factories: &mut HashMap<String, Arc<dyn TableProviderFactory>>,
    registry: &Arc<ConnectorRegistry>,
) {
    for factory in factories.values_mut() {
        let inner = Arc::clone(factory);
        *factory = Arc::new(ConnectorTableFactory::new(inner, Arc::clone(registry)));
    }
}

/// The connector that makes the table of a statement; `None` if that is left to DataFusion.
///
/// # Errors
/// When the statement names two.
pub fn connector_of(
    session: &dyn Session,
    command: &CreateExternalTable,
) -> Result<Option<String>> {
    let mut named: Vec<&String> = command
        .options
        .iter()
        .filter(|(key, _)| normalize_key(key) == CONNECTOR.key())
        .map(|(_, value)| value)
        .collect();
    named.sort_unstable();
    named.dedup();
    match named[..] {
        [] => Ok(default_connector(session, command)),
        [connector] => Ok(Some(connector.clone())),
        _ => Err(plan_datafusion_err!(
            "table '{}': option 'connector' has two values, '{}' and '{}'; remove one",
            command.name,
            named[0],
            named[1]
        )),
    }
}

fn default_connector(session: &dyn Session, command: &CreateExternalTable) -> Option<String> {
    let options = session
        .config_options()
        .extensions
        .get::<PartitionedOptions>()?;
    let applies = !options.default_connector.is_empty() && !command.table_partition_cols.is_empty();
    applies.then(|| options.default_connector.clone())
}

/// Makes the table of a statement with its connector, and remembers its [`TableDefinition`]. Does not
/// register it.
///
/// # Errors
/// When the statement names no connector, when its options are wrong, and when the connector fails or
/// panics.
pub async fn create_table(
    session: &dyn Session,
    command: &CreateExternalTable,
    registry: &Arc<ConnectorRegistry>,
) -> Result<Arc<dyn TableProvider>> {
    let NewTable { connector, command } = NewTable::try_new(session, command.clone(), registry)?;
    let definition = TableDefinition::new(command, connector.as_ref(), HashMap::new());
    create(session, connector.as_ref(), definition, registry).await
}

/// Makes a table again from [`TableDefinition::to_lasting_sql`], with those of the `enrichment` options
/// that are forwardable in the place of its own. Others are only for the connector to look at, as
/// [`ConnectorContext::enrichment_options`] (Flink: `getEnrichmentOptions`).
///
/// # Errors
/// As [`create_table`].
pub async fn restore_table(
    session: &SessionState,
    sql: &str,
    enrichment: HashMap<String, String>,
    registry: &Arc<ConnectorRegistry>,
) -> Result<Arc<dyn TableProvider>> {
    let statement = crate::create_statement::parse(sql, &session.config().options().sql_parser)?;
    let plan = session.statement_to_plan(statement).await?;
    let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) = plan else {
        return Err(plan_datafusion_err!(
            "a table is made by a CREATE statement"
        ));
    };
    let mut new = NewTable::try_new(session, *command, registry)?;
    let mut own = new.connector.options();
    own.extend(store_options(session));
    for (key, value) in &enrichment {
        let key = normalize_key(key);
        let is_forwardable = own
            .iter()
            .any(|option| option.is_forwardable() && option.has_key(&key));
        if is_forwardable {
            new.set_option(&key, value);
        }
    }
    let definition = TableDefinition::new(new.command, new.connector.as_ref(), enrichment);
    create(session, new.connector.as_ref(), definition, registry).await
}

/// Makes a table again with other options, for one query.
///
/// # Errors
/// As [`create_table`], and when `options` has another connector.
pub async fn create_table_with_options(
    session: &dyn Session,
    definition: &TableDefinition,
    options: HashMap<String, String>,
    registry: &Arc<ConnectorRegistry>,
) -> Result<Arc<dyn TableProvider>> {
    let mut new = NewTable::try_new(session, definition.command().clone(), registry)?;
    for (key, value) in &options {
        let key = normalize_key(key);
        if key == CONNECTOR.key() {
            return Err(plan_datafusion_err!(
                "table '{}': a query cannot give a table another connector; leave the option \
                 'connector' out",
                new.command.name
            ));
        }
        new.set_option(&key, value);
    }
    let definition = TableDefinition::new(new.command, new.connector.as_ref(), options);
    create(session, new.connector.as_ref(), definition, registry).await
}

struct NewTable {
    connector: Arc<dyn Connector>,
    command: CreateExternalTable,
}

impl NewTable {
    fn try_new(
        session: &dyn Session,
        command: CreateExternalTable,
        registry: &ConnectorRegistry,
    ) -> Result<Self> {
        let Some(identifier) = connector_of(session, &command)? else {
            return Err(plan_datafusion_err!(
                "table '{}': missing option 'connector'; expected one of: {}",
                command.name,
                quoted_list(registry.identifiers().iter().map(String::as_str))
            ));
        };
        let connector = registry.get(&identifier, &command.name)?;
        Ok(Self { connector, command })
    }

    /// Sets an option in the place of what the statement says under any of its keys.
    fn set_option(&mut self, key: &str, value: &str) {
        let own = self.connector.options();
        let option = own.iter().find(|option| option.has_key(key));
        let is_same = |given: &String| {
            let given = normalize_key(given);
            given == key || option.is_some_and(|option| option.is_same(key, &given))
        };
        self.command.options.retain(|given, _| !is_same(given));
        self.command
            .options
            .insert(key.to_owned(), value.to_owned());
    }
}

/// The options of a session's tables that are about the stores of their locations.
fn store_options(session: &dyn Session) -> Vec<OptionDescription> {
    let opener = session.config().get_extension::<SessionStoreOpener>();
    opener.map_or(vec![], |opener| opener.0.options())
}

async fn create(
    session: &dyn Session,
    connector: &dyn Connector,
    definition: TableDefinition,
    registry: &Arc<ConnectorRegistry>,
) -> Result<Arc<dyn TableProvider>> {
    let command = definition.command();
    let opener = session.config().get_extension::<SessionStoreOpener>();
    let of_store = store_options(session);
    let options = ConnectorOptions::try_new(command)?.with_store_options(&of_store);
    options.get(&CONNECTOR)?;
    let format = FormatOptions::new(session, &command.file_type);
    let mut known = connector.options();
    known.extend(of_store);
    options.check(definition.connector(), &known, &format)?;
    if let Some(opener) = opener {
        let runtime = session.runtime_env();
        opener.0.open(&command.locations, &options, runtime)?;
    }

    let context = ConnectorContext::new(session, &definition, &options, registry);
    let table = AssertUnwindSafe(connector.create_table(&context)).catch_unwind();
    let table = match table.await {
        Ok(table) => {
            table.map_err(|error| with_table_name(definition.hide_secrets(error), &command.name))?
        }
        Err(panic) => {
            return Err(plan_datafusion_err!(
                "table '{}': the connector '{}' panicked: {}",
                command.name,
                definition.connector(),
                definition.hide_in(panic_message(panic.as_ref()))
            ));
        }
    };
    options.check_read(definition.connector())?;
    if let Some(definitions) = session.config().get_extension::<TableDefinitions>() {
        definitions.insert(&table, Arc::new(definition));
    }
    Ok(table)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// The error, with the name of the table in front when it is not in there: what a connector calls
/// may not know it.
fn with_table_name(error: DataFusionError, table: &TableReference) -> DataFusionError {
    let name = format!("table '{table}'");
    match error.to_string().contains(&name) {
        true => error,
        false => error.context(name),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::Connector;

    const ROWS: ConnectorOption<usize> =
        ConnectorOption::new("rows", "Ignored unless it is given").with_default("0");

    const MOST: ConnectorOption<Option<usize>> = ConnectorOption::new("rows.most", "Ignored too");

    #[tokio::test]
    async fn statement_that_names_a_connector_reaches_it() {
        let context = session("");
        create(
            &context,
            "",
            "'connector' 'empty', 'rows' '1', 'has_header' 'true'",
        )
        .await
        .unwrap();
        assert!(is_empty_table(&context).await);
    }

    #[tokio::test]
    async fn statement_without_a_connector_stays_with_datafusion() {
        let context = session("");
        create(&context, "PARTITIONED BY (p)", "'has_header' 'true'")
            .await
            .unwrap();
        assert!(!is_empty_table(&context).await);
    }

    #[tokio::test]
    async fn statement_that_forgets_its_connector_is_told_so() {
        let context = session("");
        for (option, message) in [
            (
                "rows.most",
                "table 't': 'rows.most' is an option of the connector 'careless', which the statement \
                 does not name; add the option 'connector' 'careless'",
            ),
            (
                "conector",
                "table 't': unknown option 'conector' (did you mean 'connector'?)",
            ),
        ] {
            let error = create(&context, "", &format!("'{option}' '1'")).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[tokio::test]
    async fn default_connector_takes_partitioned_tables_only() {
        let context = session("empty");
        create(&context, "PARTITIONED BY (p)", "'has_header' 'true'")
            .await
            .unwrap();
        assert!(is_empty_table(&context).await);

        let context = session("empty");
        create(&context, "", "'has_header' 'true'").await.unwrap();
        assert!(!is_empty_table(&context).await);
    }

    #[tokio::test]
    async fn wrapping_twice_changes_nothing() {
        let context = session("");
        let registry = Arc::new(ConnectorRegistry::new());
        registry.register(Arc::new(EmptyConnector)).unwrap();
        wrap_table_factories(context.state_ref().write().table_factories_mut(), &registry);
        create(&context, "", "'connector' 'empty', 'has_header' 'true'")
            .await
            .unwrap();
        assert!(is_empty_table(&context).await);
    }

    #[tokio::test]
    async fn mistakes_are_reported_before_the_table_exists() {
        let context = session("");
        for (options, message) in [
            (
                "'connector' 'emty'",
                "table 't': unknown connector 'emty' (did you mean 'empty'?)",
            ),
            (
                "'connector' 'empty', 'row' '1'",
                "table 't': unknown option 'row' (did you mean 'rows'?)",
            ),
            (
                "'connector' 'empty', 'rows' 'x', 'has_header' 'true'",
                "invalid value 'x' for option 'rows'",
            ),
        ] {
            let error = create(&context, "", options).await.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(!context.table_exist("t").unwrap());
        }
    }

    #[tokio::test]
    async fn options_that_the_connector_never_read_are_refused() {
        let context = session("");
        let error = create(&context, "", "'connector' 'careless', 'rows' '1'")
            .await
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("table 't': option 'rows' has no effect"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_table_once() {
        for message in ["no such directory", "table 's.t' has no such directory"] {
            let error = DataFusionError::Plan(message.to_owned());
            let error = with_table_name(error, &"s.t".into()).to_string();
            assert!(error.contains(message), "{error}");
            assert_eq!(error.matches("table 's.t'").count(), 1, "{error}");
        }
    }

    #[derive(Debug)]
    struct EmptyConnector;

    #[async_trait]
    impl Connector for EmptyConnector {
        fn identifier(&self) -> &str {
            "empty"
        }

        fn options(&self) -> Vec<OptionDescription> {
            vec![ROWS.describe()]
        }

        async fn create_table(
            &self,
            context: &ConnectorContext<'_>,
        ) -> Result<Arc<dyn TableProvider>> {
            context.options().get(&ROWS)?;
            context.options().format_options(&self.options());
            Ok(Arc::new(EmptyTable::new(Arc::clone(
                context.command().schema.inner(),
            ))))
        }
    }

    #[derive(Debug)]
    struct CarelessConnector;

    #[async_trait]
    impl Connector for CarelessConnector {
        fn identifier(&self) -> &str {
            "careless"
        }

        fn options(&self) -> Vec<OptionDescription> {
            vec![ROWS.describe(), MOST.describe()]
        }

        async fn create_table(
            &self,
            context: &ConnectorContext<'_>,
        ) -> Result<Arc<dyn TableProvider>> {
            Ok(Arc::new(EmptyTable::new(Arc::clone(
                context.command().schema.inner(),
            ))))
        }
    }

    fn session(default_connector: &str) -> SessionContext {
        let options = PartitionedOptions {
            default_connector: default_connector.to_owned(),
            ..Default::default()
        };
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_option_extension(options));
        let registry = Arc::new(ConnectorRegistry::new());
        registry.register(Arc::new(EmptyConnector)).unwrap();
        registry.register(Arc::new(CarelessConnector)).unwrap();
        wrap_table_factories(context.state_ref().write().table_factories_mut(), &registry);
        context
    }

    async fn create(context: &SessionContext, partitioned_by: &str, options: &str) -> Result<()> {
        let statement = format!(
            "CREATE EXTERNAL TABLE t (a INT, p INT) STORED AS CSV {partitioned_by} \
             LOCATION '/does/not/exist/' OPTIONS ({options})"
        );
        context.sql(&statement).await.map(drop)
    }

    async fn is_empty_table(context: &SessionContext) -> bool {
        let table = context.table_provider("t").await.unwrap();
        table.downcast_ref::<EmptyTable>().is_some()
    }
}
