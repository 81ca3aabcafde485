//! A statement that runs in a task of its own, so that the shell can do something else meanwhile:
//! print, show progress, and stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execution_plan::{Boundedness, ExecutionPlanProperties};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast;
use datafusion_partitioned::sql::{Statement, execute};
use futures::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// How long to wait for tasks that a query has started, once it has been given up. They end when
/// they are next polled; but the connections of object stores are tasks too, and stay.
const TASKS_END_WITHIN: Duration = Duration::from_secs(1);

/// A statement that is being planned or runs.
pub(crate) struct Query {
    tasks: JoinSet<()>,
    workers: Handle,
    tasks_before: usize,
    answer: oneshot::Receiver<Result<Answer>>,
    rows: Arc<AtomicU64>,
}

/// The result of a statement.
pub(crate) struct Answer {
    /// Its rows, which arrive while it runs.
    pub(crate) rows: SendableRecordBatchStream,
    /// What they are.
    pub(crate) kind: AnswerKind,
}

/// What the rows of a result are, as far as it matters to how they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// Rows of tables.
    Rows,
    /// Rows that have no end.
    Endless,
    /// A plan, with its text in the last column.
    Plan,
    /// A description of a table or of settings, all of which is of interest.
    Description,
}

enum Message {
    Batch(Result<RecordBatch>),
    End,
}

impl Query {
    /// Starts to plan and run a statement, in this runtime if `workers` names no other.
    pub(crate) fn start(
        context: &SessionContext,
        statement: Statement,
        workers: Option<Handle>,
    ) -> Self {
        let workers = workers.unwrap_or_else(Handle::current);
        let tasks_before = workers.metrics().num_alive_tasks();
        let context = context.clone();
        let (started, answer) = oneshot::channel();
        let rows = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&rows);
        let mut tasks = JoinSet::new();
        let work = async move {
            let (mut batches, kind) = match Box::pin(open(&context, statement)).await {
                Ok(opened) => opened,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let (sender, receiver) = mpsc::channel(1);
            let rows = receive(batches.schema(), receiver);
            if started.send(Ok(Answer { rows, kind })).is_err() {
                return;
            }
            while let Some(batch) = batches.next().await {
                let is_last = batch.is_err();
                if let Ok(batch) = &batch {
                    count.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                }
                if sender.send(Message::Batch(batch)).await.is_err() || is_last {
                    return;
                }
            }
            let _ = sender.send(Message::End).await;
        };
        tasks.spawn_on(work, &workers);
        Self {
            tasks,
            workers,
            tasks_before,
            answer,
            rows,
        }
    }

    /// Waits until the result begins.
    pub(crate) async fn answer(&mut self) -> Result<Answer> {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|_| Err(has_panicked()))
    }

    /// The number of rows that have arrived so far.
    pub(crate) fn rows(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rows)
    }

    /// Gives the query up, and waits until nothing of it runs any more.
    pub(crate) async fn cancel(mut self) {
        self.tasks.shutdown().await;
        let asked = Instant::now();
        let metrics = self.workers.metrics();
        while metrics.num_alive_tasks() > self.tasks_before && asked.elapsed() < TASKS_END_WITHIN {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn open(
    context: &SessionContext,
    statement: Statement,
) -> Result<(SendableRecordBatchStream, AnswerKind)> {
    let kind = kind(&statement);
    let frame = Box::pin(execute(context, statement)).await?;
    let task_context = Arc::new(frame.task_ctx());
    let plan: Arc<dyn ExecutionPlan> = frame.create_physical_plan().await?;
    let kind = match plan.boundedness() {
        Boundedness::Unbounded { .. } if kind == AnswerKind::Rows => AnswerKind::Endless,
        _ => kind,
    };
    Ok((execute_stream(plan, task_context)?, kind))
}

/// What the statement says about its rows.
fn kind(statement: &Statement) -> AnswerKind {
    let statement = match statement {
        Statement::DataFusion(statement) => &statement.statement,
        Statement::Partition(_) => return AnswerKind::Rows,
        Statement::Explain(..) => return AnswerKind::Plan,
    };
    match statement {
        parser::Statement::Explain(_) => AnswerKind::Plan,
        parser::Statement::Statement(statement) => match statement.as_ref() {
            ast::Statement::ShowVariable { .. } | ast::Statement::ExplainTable { .. } => {
                AnswerKind::Description
            }
            _ => AnswerKind::Rows,
        },
        _ => AnswerKind::Rows,
    }
}

fn receive(schema: SchemaRef, receiver: mpsc::Receiver<Message>) -> SendableRecordBatchStream {
    let batches = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Message::Batch(Ok(batch))) => Some((Ok(batch), Some(receiver))),
            Some(Message::Batch(error)) => Some((error, None)),
            Some(Message::End) => None,
            None => Some((Err(has_panicked()), None)),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

fn has_panicked() -> datafusion::common::DataFusionError {
    internal_datafusion_err!("the statement has panicked")
}
