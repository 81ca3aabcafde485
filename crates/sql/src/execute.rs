//! How a statement is run.

use std::sync::Arc;

use datafusion::common::format::ExplainStatementOptions;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{DdlStatement, ExplainOption, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion_partitioned_connector::{TableDefinitions, connector_of, execute_plan};

use crate::advice::with_advice;
use crate::create::create;
use crate::hinted::with_hinted_tables;
use crate::parser::parse_statements;
use crate::plan::{ChangeQueryPlanner, plan};
use crate::redact::Secrets;
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
    let secrets = Secrets::of(sql);
    let config = context.copied_config();
    let mut statements = parse_statements(sql, &config.options().sql_parser);
    let frame = async {
        match statements.pop() {
            Some(last) if statements.is_empty() => execute(context, last.statement?).await,
            Some(last) => {
                last.statement?;
                plan_err!(
                    "there are {} statements, where one is expected; run them one by one",
                    statements.len() + 1
                )
            }
            None => plan_err!("there is no statement"),
        }
    };
    frame.await.map_err(|error| secrets.hide(error))
}

/// Runs a parsed statement; see [`sql`].
///
/// # Errors
/// When it fails.
pub async fn execute(context: &SessionContext, statement: Statement) -> Result<DataFrame> {
    match statement {
        Statement::DataFusion(statement) => {
            let advice = statement.advice;
            let frame = execute_datafusion(context, *statement).await;
            frame.map_err(|error| match error.find_root() {
                // Of what it does not know by this name.
                DataFusionError::Plan(_) => with_advice(error, advice),
                _ => error,
            })
        }
        Statement::Partition(statement) => {
            let is_query = is_query(&statement.kind);
            let frame = frame(context, *statement).await?;
            match is_query {
                true => Ok(frame),
                // A change is made once, however often its result is looked at.
                false => frame.cache().await,
            }
        }
        Statement::Explain(options, statement) => {
            let frame = frame(context, *statement).await?;
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
        state = with_hinted_tables(&state, &statement.hints).await?;
    }
    check_options(&statement.statement)?;
    let plan = state.statement_to_plan(statement.statement).await?;
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) = &plan
        && connector_of(&state, command)?.is_some()
    {
        create(&state, command).await?;
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

fn is_query(kind: &PartitionStatementKind) -> bool {
    matches!(
        kind,
        PartitionStatementKind::ShowPartitions { .. } | PartitionStatementKind::ShowCreateTable
    )
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

/// The plan of a statement, in a session that can execute it.
async fn frame(context: &SessionContext, statement: PartitionStatement) -> Result<DataFrame> {
    let state = context.state();
    if matches!(statement.kind, PartitionStatementKind::ShowCreateTable) {
        let normalize = state.config_options().sql_parser.enable_ident_normalization;
        let name = statement.table.clone();
        let name = object_name_to_table_reference(name, normalize)?;
        let provider = provider_of(&state, &name).await?;
        return match TableDefinitions::in_session(&state, &provider) {
            Some(definition) => {
                let plan = show_create_table(&state, &name, &definition)?;
                Ok(DataFrame::new(state, plan))
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
    let planner = ChangeQueryPlanner {
        inner: Arc::clone(state.query_planner()),
    };
    let state = SessionStateBuilder::new_from_existing(state)
        .with_query_planner(Arc::new(planner))
        .build();
    Ok(DataFrame::new(state, plan))
}

/// What DataFusion makes of a statement.
async fn datafusion_frame(
    context: &SessionContext,
    statement: &PartitionStatement,
) -> Result<DataFrame> {
    context.sql(&statement.to_string()).await
}
