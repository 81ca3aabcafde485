//! The table factory that tells statements for a connector from DataFusion's own.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::logical_expr::CreateExternalTable;
use datafusion_partitioned_core::PartitionedOptions;

use crate::format::FormatOptions;
use crate::options::normalize_key;
use crate::{ConnectorContext, ConnectorOption, ConnectorOptions, ConnectorRegistry};

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
}

#[async_trait]
impl TableProviderFactory for ConnectorTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let default = default_connector(session, command);
        if default.is_none() && !names_connector(&command.options) {
            return self.inner.create(session, command).await;
        }
        let options = ConnectorOptions::try_new(command.name.clone(), &command.options)?;
        let Some(identifier) = options.get(&CONNECTOR)?.or(default) else {
            return self.inner.create(session, command).await;
        };
        let connector = self.registry.get(&identifier, &command.name)?;
        let format = FormatOptions::new(session, &command.file_type);
        options.check(&connector.options(), &format, &command.file_type)?;

        let context = ConnectorContext::new(session, command, &options, &self.registry);
        let table = connector.create_table(&context).await;
        let table = table.map_err(|error| with_table_name(error, &command.name))?;
        options.check_read(&identifier)?;
        Ok(table)
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

/// The error, with the name of the table in front when it is not in there: what a connector calls
/// may not know it.
fn with_table_name(error: DataFusionError, table: &TableReference) -> DataFusionError {
    let name = format!("table '{table}'");
    match error.to_string().contains(&name) {
        true => error,
        false => error.context(name),
    }
}

fn names_connector(options: &HashMap<String, String>) -> bool {
    options
        .keys()
        .any(|key| normalize_key(key) == CONNECTOR.key())
}

fn default_connector(session: &dyn Session, command: &CreateExternalTable) -> Option<String> {
    let options = session
        .config_options()
        .extensions
        .get::<PartitionedOptions>()?;
    let applies = !options.default_connector.is_empty() && !command.table_partition_cols.is_empty();
    applies.then(|| options.default_connector.clone())
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::{Connector, OptionDescription};

    const ROWS: ConnectorOption<usize> =
        ConnectorOption::new("rows", "Ignored unless it is given").with_default("0");

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
        registry.register(Arc::new(EmptyConnector));
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
                "unknown connector 'emty' for table 't' (did you mean 'empty'?)",
            ),
            (
                "'connector' 'empty', 'row' '1'",
                "unknown option 'row' for table 't' (did you mean 'rows'?)",
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
                .contains("option 'rows' has no effect on table 't'"),
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
            vec![ROWS.describe()]
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
        registry.register(Arc::new(EmptyConnector));
        registry.register(Arc::new(CarelessConnector));
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
