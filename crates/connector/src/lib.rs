//! Connectors: who makes the table of `CREATE EXTERNAL TABLE ... OPTIONS ('connector' '...')`.
//!
//! | type | role |
//! |---|---|
//! | [`Connector`] | makes a table from a statement, implemented once for each kind of source |
//! | [`ConnectorOption`], [`OptionDescription`] | what a connector declares about its options |
//! | [`OptionValue`] | the types of their values, secrets among them |
//! | [`ConnectorOptions`] | the options of one statement, normalised, typed and checked |
//! | [`ConnectorContext`] | everything a connector is told about the statement |
//! | [`ConnectorRegistry`] | the connectors of a session by identifier |
//! | [`ConnectorTableFactory`] | a table factory in front of the one that was there before |
//! | [`StoreOpener`] | options that are about the object stores of locations |
//! | [`PlanExecutor`] | statements that a catalog executes in its own way |
//! | [`TableDefinition`], [`TableDefinitions`] | the statements that made the tables of a session |
//!
//! A statement goes one of two ways:
//!
//! ```text
//! CREATE EXTERNAL TABLE
//!   -> ConnectorTableFactory
//!        |-- 'connector' is given, or the table is partitioned and there is a default
//!        |      -> create_table -> ConnectorRegistry::get -> Connector::create_table
//!        `-- else
//!               -> the wrapped factory, with the statement as it was written
//! ```
//!
//! A connector is written like this:
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use datafusion::catalog::TableProvider;
//! use datafusion::datasource::MemTable;
//! use datafusion::error::Result;
//! use datafusion::prelude::SessionContext;
//! use datafusion_partitioned_connector::{
//!     Connector, ConnectorContext, ConnectorOption, ConnectorRegistry, OptionDescription,
//!     wrap_table_factories,
//! };
//!
//! const PARTITIONS: ConnectorOption<usize> =
//!     ConnectorOption::new("partitions", "Number of empty partitions").with_default("1");
//!
//! #[derive(Debug)]
//! struct EmptyConnector;
//!
//! #[async_trait]
//! impl Connector for EmptyConnector {
//!     fn identifier(&self) -> &str {
//!         "empty"
//!     }
//!
//!     fn options(&self) -> Vec<OptionDescription> {
//!         vec![PARTITIONS.describe()]
//!     }
//!
//!     async fn create_table(
//!         &self,
//!         context: &ConnectorContext<'_>,
//!     ) -> Result<Arc<dyn TableProvider>> {
//!         let partitions = context.options().get(&PARTITIONS)?;
//!         let schema = Arc::clone(context.command().schema.inner());
//!         Ok(Arc::new(MemTable::try_new(schema, vec![vec![]; partitions])?))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let registry = Arc::new(ConnectorRegistry::new());
//! registry.register(Arc::new(EmptyConnector))?;
//!
//! let context = SessionContext::new();
//! wrap_table_factories(context.state_ref().write().table_factories_mut(), &registry);
//! context
//!     .sql("CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION '/none' \
//!           OPTIONS ('connector' 'empty', 'partitions' '4')")
//!     .await?;
//! assert_eq!(context.table("t").await?.count().await?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Without the option `connector`, and with an empty session option
//! `partitioned.default_connector`, nothing about DataFusion's own tables changes.

mod connector;
mod create_statement;
mod definition;
mod definition_sql;
mod factory;
mod format;
mod option;
mod options;
mod plan_executor;
mod reference;
mod registry;
mod secret;
mod store;
mod value;

pub use connector::{Connector, ConnectorAbility, ConnectorContext};
pub use create_statement::{
    is_create_table_with_connector, parse_create_table, parse_option_list, sql_dialect,
};
pub use datafusion_partitioned_core::{did_you_mean, quoted_list};
pub use definition::{TableDefinition, TableDefinitions};
pub use factory::{
    CONNECTOR, ConnectorTableFactory, connector_of, create_table, create_table_with_options,
    restore_table, wrap_table_factories,
};
pub use option::{ConnectorOption, OptionDescription};
pub use options::ConnectorOptions;
pub use plan_executor::{PlanExecutor, SessionPlanExecutor, execute_plan};
pub use reference::option_table;
pub use registry::ConnectorRegistry;
pub use secrecy;
pub use secret::{HIDDEN, hide_credentials, hide_in_error, is_sensitive_key, names_secret};
pub use store::{SessionStoreOpener, StoreOpener};
pub use value::{OptionValue, parse_choice};
