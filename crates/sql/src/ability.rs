//! What statements may do with a table: a rule of the analyzer.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::{DefaultTableSource, TableType};
use datafusion::logical_expr::{DmlStatement, LogicalPlan, TableSource};
use datafusion::optimizer::AnalyzerRule;
use datafusion_partitioned_connector::{
    ConnectorAbility, ConnectorRegistry, TableDefinitions, quoted_list,
};

/// Refuses to read tables of a connector that is a sink only, and to write to those of a source (Flink's
/// messages).
#[derive(Debug)]
pub struct CheckAbility {
    definitions: Arc<TableDefinitions>,
    registry: Arc<ConnectorRegistry>,
}

impl CheckAbility {
    /// The name of the rule.
    pub const NAME: &'static str = "check_connector_ability";

    /// A rule for the tables that connectors of `registry` made.
    pub fn new(definitions: Arc<TableDefinitions>, registry: Arc<ConnectorRegistry>) -> Self {
        Self {
            definitions,
            registry,
        }
    }

    fn check(
        &self,
        source: &Arc<dyn TableSource>,
        wanted: ConnectorAbility,
        table: &dyn std::fmt::Display,
    ) -> Result<()> {
        if source.table_type() != TableType::Base {
            return Ok(());
        }
        let Some(source) = source.downcast_ref::<DefaultTableSource>() else {
            return Ok(());
        };
        let Some(definition) = self.definitions.of(&source.table_provider) else {
            return Ok(());
        };
        let ability = definition.ability();
        if ability.includes(wanted) {
            return Ok(());
        }
        let able = self
            .registry
            .identifiers()
            .into_iter()
            .filter(|identifier| {
                let connector = self.registry.find(identifier);
                connector.is_ok_and(|connector| connector.ability().includes(wanted))
            });
        let able: Vec<String> = able.collect();
        plan_err!(
            "table '{table}': the connector '{}' can only be used as a {ability}, not as a {wanted}; \
             connectors that can: {}",
            definition.connector(),
            quoted_list(able.iter().map(String::as_str))
        )
    }
}

impl AnalyzerRule for CheckAbility {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::TableScan(scan) => {
                    self.check(&scan.source, ConnectorAbility::Source, &scan.table_name)?;
                }
                LogicalPlan::Dml(DmlStatement {
                    table_name, target, ..
                }) => self.check(target, ConnectorAbility::Sink, table_name)?,
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        Self::NAME
    }
}
