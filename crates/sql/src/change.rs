//! A change of partitions as a plan: the logical node, the operator that makes the change, and the
//! planner between them.

use std::cmp::Ordering;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::stream;

/// What a statement changes about the partitions of a table.
#[async_trait]
pub(crate) trait Change: Debug + Send + Sync {
    /// The statement, for `EXPLAIN`.
    fn describe(&self) -> String;

    /// Makes the change, and says what it was.
    async fn make(&self, state: &SessionState) -> Result<Vec<ChangedPartition>>;
}

/// A row of the result.
#[derive(Debug)]
pub(crate) struct ChangedPartition {
    /// Such as `added`.
    pub(crate) change: &'static str,
    /// Such as `day=2024-06-01/hour=7`; `None` for all of the table.
    pub(crate) partition: Option<String>,
    /// Where its files are, as a URL.
    pub(crate) location: String,
}

/// The columns of the result: `change`, `partition`, `location`.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("change", DataType::Utf8, false),
        Field::new("partition", DataType::Utf8, true),
        Field::new("location", DataType::Utf8, false),
    ]))
});

fn rows(changed: &[ChangedPartition]) -> Result<RecordBatch> {
    let changes = changed.iter().map(|row| row.change);
    let partitions = changed.iter().map(|row| row.partition.as_deref());
    let locations = changed.iter().map(|row| row.location.as_str());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(changes)),
        Arc::new(partitions.collect::<StringArray>()),
        Arc::new(StringArray::from_iter_values(locations)),
    ];
    Ok(RecordBatch::try_new(Arc::clone(&SCHEMA), columns)?)
}

/// The plan that makes a change when it is executed, once.
pub(crate) fn plan_of(change: Arc<dyn Change>, state: SessionState) -> Result<LogicalPlan> {
    let schema = DFSchema::try_from(SCHEMA.as_ref().clone())?;
    let node = ChangeNode {
        change,
        state: Arc::new(state),
        schema: Arc::new(schema),
    };
    Ok(LogicalPlan::Extension(Extension {
        node: Arc::new(node),
    }))
}

/// The logical node of a change.
#[derive(Clone)]
struct ChangeNode {
    change: Arc<dyn Change>,
    state: Arc<SessionState>,
    schema: DFSchemaRef,
}

impl Debug for ChangeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChangeNode").field(&self.change).finish()
    }
}

impl PartialEq for ChangeNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.change, &other.change)
    }
}

impl Eq for ChangeNode {}

impl PartialOrd for ChangeNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for ChangeNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.change).cast::<()>().hash(state);
    }
}

impl UserDefinedLogicalNodeCore for ChangeNode {
    fn name(&self) -> &str {
        "ChangePartitions"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangePartitions: {}", self.change.describe())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

/// A planner for plans that have a change at their root, or below `EXPLAIN`.
pub(crate) fn physical_planner() -> DefaultPhysicalPlanner {
    DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ChangePlanner)])
}

#[derive(Debug)]
struct ChangePlanner;

#[async_trait]
impl ExtensionPlanner for ChangePlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        _physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any().downcast_ref::<ChangeNode>();
        Ok(node.map(|node| Arc::new(ChangeExec::new(node)) as _))
    }
}

/// Makes a change when it is first polled.
#[derive(Debug)]
struct ChangeExec {
    node: ChangeNode,
    properties: Arc<PlanProperties>,
}

impl ChangeExec {
    fn new(node: &ChangeNode) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&SCHEMA)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            node: node.clone(),
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ChangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangePartitionsExec: {}", self.node.change.describe())
    }
}

impl ExecutionPlan for ChangeExec {
    fn name(&self) -> &str {
        "ChangePartitionsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("ChangePartitionsExec has no inputs"),
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ChangePartitionsExec has no output {partition}");
        }
        let ChangeNode { change, state, .. } = self.node.clone();
        let rows = stream::once(async move { rows(&change.make(&state).await?) });
        let schema = Arc::clone(&SCHEMA);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            Box::pin(rows),
        )))
    }
}
