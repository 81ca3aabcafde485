//! How a statement is run.

use std::sync::Arc;

use datafusion::catalog::MemTable;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{DdlStatement, ExplainOption, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion_partitioned_connector::{CONNECTOR, TableDefinitions, connector_of, execute_plan};

use crate::advice::with_advice;
use crate::copy::copies_into_tables;
use crate::create::create_and_register;
use crate::create_as::create_as;
use crate::hint::refuse_hinted_queries;
use crate::hinted::with_hinted_tables;
use crate::insert::{insert, take_partition_clause};
use crate::parser::parse_statements;
use crate::plan::{ChangeQueryPlanner, plan};
use crate::show::show_create_table;
use crate::statement::{
    DataFusionStatement, PartitionStatement, PartitionStatementKind, Statement,
};
use crate::target::{Target, provider_of};

/// Runs one statement: those about partitions, `CREATE TABLE .. WITH ('connector' = ..)`, queries with
/// hints, and everything that [`SessionContext::sql`] runs.
///
/// As there, statements that change something do so at once, and queries when the frame is executed.
/// Errors hold no secrets of the statement.
///
/// # Errors
/// When the text is not one statement, and when that fails.
pub async fn sql(context: &SessionContext, sql: &str) -> Result<DataFrame> {
    let config = context.copied_config();
    let mut statements = parse_statements(sql, &config.options().sql_parser);
    match statements.pop() {
        Some(last) if statements.is_empty() => {
            let hide = last.hide_secrets();
            let frame = execute(context, last.statement?).await;
            frame.map_err(hide)
        }
        Some(last) => {
            last.statement?;
            plan_err!(
                "there are {} statements, where one is expected; run them one by one",
                statements.len() + 1
            )
        }
        None => plan_err!("there is no statement"),
    }
}

/// Runs a parsed statement; see [`sql`]. Errors can hold secrets, which
/// [`ParsedStatement::hide_secrets`](crate::ParsedStatement::hide_secrets) takes out.
///
/// # Errors
/// When it fails.
pub async fn execute(context: &SessionContext, statement: Statement) -> Result<DataFrame> {
    match statement {
        Statement::DataFusion(statement) => {
            let advice = statement.advice;
            let frame = execute_datafusion(context, *statement).await;
            frame.map_err(|error| with_advice(error, advice))
        }
        Statement::Partition(statement) => match frame(context, *statement).await? {
            Frame::Query(frame) => Ok(frame),
            // A change is made once, however often its result is looked at.
            Frame::Change(frame) => {
                let schema = Arc::clone(frame.schema().inner());
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a change that has begun goes on to its end when nobody waits for it any more"
                )]
                let change = tokio::spawn(frame.collect()).await;
                let rows = change
                    .map_err(|error| exec_datafusion_err!("the change failed: {error}"))??;
                context.read_table(Arc::new(MemTable::try_new(schema, vec![rows])?))
            }
        },
        Statement::Explain(options, statement) => {
            let (Frame::Query(frame) | Frame::Change(frame)) = frame(context, *statement).await?;
            let (state, plan) = frame.into_parts();
            let plan = LogicalPlanBuilder::from(plan)
                .explain_option_format(explain_option(options))?
                .build()?;
            Ok(DataFrame::new(state, plan))
        }
    }
}

async fn execute_datafusion(
    context: &SessionContext,
    statement: DataFusionStatement,
) -> Result<DataFrame> {
    let mut state = context.state();
    if !statement.hints.is_empty() {
        refuse_hinted_queries(&statement.statement, &statement.hints)?;
        state = with_hinted_tables(&state, &statement.hints).await?;
    }
    check_options(&statement.statement)?;
    let mut parsed = statement.statement;
    if let Some(query) = statement.query {
        return create_as(context, &state, parsed, query).await;
    }
    let fixed = take_partition_clause(&state, &mut parsed).await?;
    let plan = state.statement_to_plan(parsed).await?;
    let (plan, _new_directory) = copies_into_tables(&state, plan).await?;
    if let Some(written) = insert(context, &state, &plan, &fixed).await? {
        return Ok(written);
    }
    if !statement.hints.is_empty() && matches!(plan, LogicalPlan::Ddl(_)) {
        return plan_err!(
            "the hint OPTIONS (..) is for queries; what they make cannot keep it, so leave it out"
        );
    }
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) = &plan
        && connector_of(&state, command)?.is_some()
    {
        create_and_register(&state, command).await?;
        let nothing = LogicalPlanBuilder::empty(false).build()?;
        return Ok(DataFrame::new(state, nothing));
    }
    execute_plan(context, plan).await
}

/// Refuses an option that is there twice, of which DataFusion would take the last one.
fn check_options(statement: &parser::Statement) -> Result<()> {
    let parser::Statement::CreateExternalTable(create) = statement else {
        return Ok(());
    };
    let keys = create.options.iter().map(|(key, _)| key.to_lowercase());
    let mut keys: Vec<String> = keys.collect();
    if !keys.iter().any(|key| key == CONNECTOR.key()) {
        // DataFusion takes the last one.
        return Ok(());
    }
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => plan_err!(
            "table '{}': option '{}' is given twice; remove one",
            create.name,
            pair[0]
        ),
    }
}

fn explain_option(options: ExplainStatementOptions) -> ExplainOption {
    let defaults = ExplainOption::default();
    ExplainOption {
        verbose: options.verbose,
        analyze: options.analyze,
        format: options.format.unwrap_or(defaults.format),
        show_statistics: options.show_statistics,
        analyze_level: options.analyze_level,
        analyze_categories: options.analyze_categories,
    }
}

enum Frame {
    /// Is executed when its rows are wanted.
    Query(DataFrame),
    /// Is executed at once.
    Change(DataFrame),
}

/// The plan of a statement, in a session that can execute it.
async fn frame(context: &SessionContext, statement: PartitionStatement) -> Result<Frame> {
    let state = context.state();
    if matches!(statement.kind, PartitionStatementKind::ShowCreateTable) {
        let normalize = state.config_options().sql_parser.enable_ident_normalization;
        let name = statement.table.clone();
        let name = object_name_to_table_reference(name, normalize)?;
        let provider = provider_of(&state, &name).await?;
        return match TableDefinitions::in_session(&state, &provider) {
            Some(definition) => {
                let plan = show_create_table(&state, &name, &definition)?;
                Ok(Frame::Query(DataFrame::new(state, plan)))
            }
            None => datafusion_frame(context, &statement).await,
        };
    }
    let Some(target) = Target::find(&state, statement.table.clone()).await? else {
        if matches!(&statement.kind, PartitionStatementKind::Truncate { conditions } if conditions.is_empty())
        {
            return datafusion_frame(context, &statement).await;
        }
        return plan_err!(
            "table '{}' is not a partitioned table of a connector, so that it has no partitions",
            statement.table
        );
    };
    let plan = plan(&state, target, &statement)?;
    if !matches!(plan, LogicalPlan::Extension(_)) {
        return Ok(Frame::Query(DataFrame::new(state, plan)));
    }
    let planner = ChangeQueryPlanner {
        inner: Arc::clone(state.query_planner()),
    };
    let state = SessionStateBuilder::new_from_existing(state)
        .with_query_planner(Arc::new(planner))
        .build();
    Ok(Frame::Change(DataFrame::new(state, plan)))
}

/// What DataFusion makes of a statement.
async fn datafusion_frame(
    context: &SessionContext,
    statement: &PartitionStatement,
) -> Result<Frame> {
    context.sql(&statement.to_string()).await.map(Frame::Query)
}
