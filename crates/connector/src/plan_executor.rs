//! [`PlanExecutor`]: statements that a catalog executes in its own way.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};

/// Executes plans in the place of [`SessionContext::execute_logical_plan`], for a catalog that makes one change of
/// what DataFusion does in several steps, such as `CREATE OR REPLACE VIEW`.
#[async_trait]
pub trait PlanExecutor: Debug + Send + Sync {
    /// Executes a plan, of whatever kind.
    ///
    /// # Errors
    /// Those of the plan.
    async fn execute(&self, context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame>;
}

/// The [`PlanExecutor`] of a session: an extension of its configuration.
#[derive(Debug, Clone)]
pub struct SessionPlanExecutor(pub Arc<dyn PlanExecutor>);

/// Executes a plan as the session does it.
///
/// # Errors
/// Those of the plan.
pub async fn execute_plan(context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let config = context.copied_config();
    match config.get_extension::<SessionPlanExecutor>() {
        Some(executor) => executor.0.execute(context, plan).await,
        None => context.execute_logical_plan(plan).await,
    }
}
