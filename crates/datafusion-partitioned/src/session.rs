//! [`PartitionedSessionExt`]: puts everything into a session.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl, TableProviderFactory};
use datafusion::common::Result;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_partitioned_catalog::ListingCache;
use datafusion_partitioned_connector::{ConnectorRegistry, TableDefinitions, wrap_table_factories};
use datafusion_partitioned_core::{PartitionReports, PartitionedOptions};
use datafusion_partitioned_dynamic_filter::{
    DeclineUnsafeFilters, InsertDynamicPartitionFilter, PushSubqueryFilter,
};
use datafusion_partitioned_sql::{
    CheckAbility, PartitionsFunction, Replacing, TableOptionsFunction,
};
use datafusion_partitioned_table::{
    EqualityChainPlanner, FilesystemConnector, KeepSmallScansTogether, MetadataAnswers,
};

use crate::partition_report::PartitionReport;

/// Extends a session by partitioned tables.
///
/// ```
/// use datafusion::execution::session_state::SessionStateBuilder;
/// use datafusion::prelude::*;
/// use datafusion_partitioned::prelude::*;
///
/// let context = SessionContext::new().with_partitioned();
///
/// let state = SessionStateBuilder::new().with_default_features().with_partitioned().build();
/// let context = SessionContext::new_with_state(state);
/// ```
pub trait PartitionedSessionExt: Sized {
    /// Adds the connector `filesystem`, the session options `partitioned.*`, a listing cache, the
    /// optimizer rules for filters that are known at run time and for aggregates over partition
    /// columns, and a planner for long chains of equalities. What the session has already stays as
    /// it is; a session that
    /// has been extended before is not changed.
    ///
    /// A `SessionStateBuilder` needs its defaults first: `with_default_features` replaces the table
    /// factories that this puts in place.
    fn with_partitioned(self) -> Self;

    /// Like [`Self::with_partitioned`], with exactly the connectors of `registry`. They replace those
    /// that the session may have already.
    fn with_partitioned_connectors(self, registry: &Arc<ConnectorRegistry>) -> Self;
}

/// What a session that was extended by [`PartitionedSessionExt`] offers.
///
/// ```
/// # use datafusion::datasource::listing::ListingTableUrl;
/// # use datafusion::prelude::*;
/// use datafusion_partitioned::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = SessionContext::new().with_partitioned();
/// context.sql("SET partitioned.list_cache.ttl = '10m'").await?;
/// // Some queries later, and after files were added to one day:
/// if let Some(listings) = context.listing_cache() {
///     listings.invalidate(&ListingTableUrl::parse("s3://lake/sales/day=2024-06-01/")?);
/// }
/// # Ok(())
/// # }
/// ```
pub trait PartitionedSession {
    /// The listings that queries of this session remember and use when
    /// `partitioned.list_cache.ttl` is above zero. `None` in a session that was not extended.
    fn listing_cache(&self) -> Option<Arc<ListingCache>>;

    /// Runs one statement: SQL about partitions, such as `SHOW PARTITIONS t` or `ALTER TABLE t ADD
    /// PARTITION (day = '2024-06-01')`, `CREATE TABLE .. WITH ('connector' = ..)`, queries with
    /// `/*+ OPTIONS(..) */`, and everything that [`SessionContext::sql`] runs, which means the same here.
    /// Errors hold no secrets of the statement, and a `CREATE OR REPLACE EXTERNAL TABLE` that fails keeps
    /// the old table.
    ///
    /// # Errors
    /// When the text is not one statement, and when that fails.
    fn partitioned_sql(&self, sql: &str) -> impl Future<Output = Result<DataFrame>> + Send;

    /// What the partitioned scans of the session's last query have done: also the table function
    /// `partition_report()`. `None` in a session that was not extended.
    fn partition_reports(&self) -> Option<Arc<PartitionReports>>;
}

impl PartitionedSession for SessionContext {
    fn listing_cache(&self) -> Option<Arc<ListingCache>> {
        self.state_ref().read().config().get_extension()
    }

    fn partitioned_sql(&self, sql: &str) -> impl Future<Output = Result<DataFrame>> + Send {
        datafusion_partitioned_sql::sql(self, sql)
    }

    fn partition_reports(&self) -> Option<Arc<PartitionReports>> {
        self.state_ref().read().config().get_extension()
    }
}

impl PartitionedSessionExt for SessionStateBuilder {
    fn with_partitioned(mut self) -> Self {
        if has_rule(&self.physical_optimizers().get_or_insert_default().rules) {
            return self;
        }
        let registry = ConnectorRegistry::new();
        registry.replace(Arc::new(FilesystemConnector));
        self.with_partitioned_connectors(&Arc::new(registry))
    }

    fn with_partitioned_connectors(mut self, registry: &Arc<ConnectorRegistry>) -> Self {
        let config = self.config().get_or_insert_default();
        add_options(config);
        config.set_extension(Arc::clone(registry));

        let definitions = config.get_extension::<TableDefinitions>();
        let functions = self.table_functions().get_or_insert_with(HashMap::new);
        add_function(functions, PartitionReport::NAME, PartitionReport);
        add_function(functions, PartitionsFunction::NAME, PartitionsFunction);
        add_function(functions, TableOptionsFunction::NAME, TableOptionsFunction);

        let factories = self
            .table_factories()
            .get_or_insert_with(SessionStateDefaults::default_table_factories);
        add_other_names(factories);
        wrap_table_factories(factories, registry);

        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        if !has_rule(rules) {
            insert_rules(rules);
            if let Some(definitions) = definitions {
                let rule = CheckAbility::new(definitions, Arc::clone(registry));
                let analyzer = self.analyzer().get_or_insert_default();
                analyzer.rules.push(Arc::new(rule));
            }
            let planners = self.expr_planners();
            planners
                .get_or_insert_with(SessionStateDefaults::default_expr_planners)
                .push(Arc::new(EqualityChainPlanner));
        }
        self
    }
}

impl PartitionedSessionExt for SessionContext {
    fn with_partitioned(self) -> Self {
        let builder = SessionStateBuilder::new_from_existing(self.state());
        Self::new_with_state(builder.with_partitioned().build())
    }

    fn with_partitioned_connectors(self, registry: &Arc<ConnectorRegistry>) -> Self {
        let builder = SessionStateBuilder::new_from_existing(self.state());
        Self::new_with_state(builder.with_partitioned_connectors(registry).build())
    }
}

fn add_function(
    functions: &mut HashMap<String, Arc<TableFunction>>,
    name: &str,
    function: impl TableFunctionImpl + 'static,
) {
    functions
        .entry(name.to_owned())
        .or_insert_with(|| Arc::new(TableFunction::new(name.to_owned(), Arc::new(function))));
}

/// DataFusion reads tab separated values as CSV, and one JSON object on each line as JSON, but does not know
/// them by name.
fn add_other_names(factories: &mut HashMap<String, Arc<dyn TableProviderFactory>>) {
    for (name, other) in [("CSV", "TSV"), ("JSON", "NDJSON")] {
        if let Some(factory) = factories.get(name).map(Arc::clone) {
            factories.entry(other.to_owned()).or_insert(factory);
        }
    }
}

type Rules = [Arc<dyn PhysicalOptimizerRule + Send + Sync>];

/// Adds the session options, the listing cache, the definitions of tables and the reports of scans.
fn add_options(config: &mut SessionConfig) {
    if config.get_extension::<ListingCache>().is_none() {
        config.set_extension(Arc::new(ListingCache::default()));
    }
    if config.get_extension::<TableDefinitions>().is_none() {
        config.set_extension(Arc::new(TableDefinitions::default()));
    }
    if config.get_extension::<Replacing>().is_none() {
        config.set_extension(Arc::new(Replacing::default()));
    }
    if config.get_extension::<PartitionReports>().is_none() {
        config.set_extension(Arc::new(PartitionReports::default()));
    }
    let extensions = &mut config.options_mut().extensions;
    if extensions.get::<PartitionedOptions>().is_none() {
        extensions.insert(PartitionedOptions::default());
    }
}

/// Puts the rules for filters before the last pushdown of filters, so that DataFusion's own dynamic
/// filters pass the nodes that they add, and the scan can decline those that are superfluous or wrong.
/// That for aggregates comes before anything relies on the order of a scan, and that for small scans
/// directly behind the rule whose repartitions it takes out.
fn insert_rules(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
    let position = rules
        .iter()
        .rposition(|other| other.name().starts_with("FilterPushdown"))
        .unwrap_or(rules.len());
    rules.insert(position, Arc::new(InsertDynamicPartitionFilter));
    rules.insert(position, Arc::new(PushSubqueryFilter));
    rules.insert(position, Arc::new(DeclineUnsafeFilters));
    let ensure_requirements = rules
        .iter()
        .position(|other| other.name() == "EnsureRequirements");
    if let Some(position) = ensure_requirements {
        rules.insert(position + 1, Arc::new(KeepSmallScansTogether));
    }
    rules.insert(ensure_requirements.unwrap_or(0), Arc::new(MetadataAnswers));
}

fn has_rule(rules: &Rules) -> bool {
    rules
        .iter()
        .any(|rule| rule.name() == InsertDynamicPartitionFilter.name())
}
