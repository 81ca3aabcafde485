//! The plans of statements about partitions.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::PhysicalPlanner;

use crate::add::AddPartitions;
use crate::change::{Change, physical_planner, plan_of};
use crate::remove::{DropPartitions, TruncateTable};
use crate::repair::{RefreshTable, RepairTable};
use crate::show::show_partitions;
use crate::statement::{PartitionStatement, PartitionStatementKind};
use crate::target::Target;

/// The plan of a statement about the partitions of a table.
///
/// # Errors
/// When the table cannot do what it says.
pub(crate) fn plan(
    state: &SessionState,
    target: Target,
    statement: &PartitionStatement,
) -> Result<LogicalPlan> {
    let text = statement.to_string();
    let change: Arc<dyn Change> = match statement.kind.clone() {
        PartitionStatementKind::ShowPartitions { conditions } => {
            let condition = target.condition(state, conditions)?;
            return show_partitions(&target, condition);
        }
        PartitionStatementKind::ShowCreateTable => {
            return plan_err!("SHOW CREATE TABLE has no partitions");
        }
        PartitionStatementKind::Add {
            if_not_exists,
            partitions,
        } => Arc::new(AddPartitions::try_new(
            target,
            state,
            statement,
            if_not_exists,
            partitions,
        )?),
        PartitionStatementKind::Drop {
            if_exists,
            partitions,
            purge,
        } => {
            if !purge {
                target.registry("DROP PARTITION without PURGE")?;
            } else {
                target.store_url()?;
            }
            let predicates = partitions.into_iter().map(|conditions| {
                let texts = conditions.iter().map(|condition| condition.to_string());
                let text = texts.collect::<Vec<_>>().join(", ");
                let condition = target.condition(state, conditions)?;
                Ok((text, target.predicate(state, condition)?))
            });
            Arc::new(DropPartitions {
                predicates: predicates.collect::<Result<_>>()?,
                statement: text,
                if_exists,
                purge,
                target,
            })
        }
        PartitionStatementKind::Repair { add, drop } => {
            if target.catalog()?.committer().is_none() {
                target.registry("MSCK REPAIR TABLE")?;
            }
            Arc::new(RepairTable {
                target,
                statement: text,
                add,
                drop,
            })
        }
        PartitionStatementKind::Refresh { conditions } => {
            let condition = target.condition(state, conditions)?;
            let predicate = match condition {
                Some(condition) => Some(target.predicate(state, Some(condition))?),
                None => None,
            };
            Arc::new(RefreshTable {
                target,
                statement: text,
                predicate,
            })
        }
        PartitionStatementKind::Truncate { conditions } => {
            target.store_url()?;
            let condition = target.condition(state, conditions)?;
            let predicate = target.predicate(state, condition)?;
            Arc::new(TruncateTable {
                target,
                statement: text,
                predicate,
            })
        }
    };
    plan_of(change, state.clone())
}

/// Plans changes, and leaves everything else to the planner of the session.
#[derive(Debug)]
pub(crate) struct ChangeQueryPlanner {
    pub(crate) inner: Arc<dyn QueryPlanner + Send + Sync>,
}

#[async_trait]
impl QueryPlanner for ChangeQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let root = match plan {
            LogicalPlan::Explain(explain) => explain.plan.as_ref(),
            LogicalPlan::Analyze(analyze) => analyze.input.as_ref(),
            other => other,
        };
        match root {
            LogicalPlan::Extension(_) => {
                physical_planner().create_physical_plan(plan, session).await
            }
            _ => self.inner.create_physical_plan(plan, session).await,
        }
    }
}
