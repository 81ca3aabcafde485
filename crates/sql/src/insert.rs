//! `INSERT INTO | OVERWRITE t [PARTITION (..)]` of partitioned tables.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, Insert, ObjectName, Query, SelectItem, SetExpr, TableFactor,
    TableObject, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_partitioned_connector::sql_dialect;
use datafusion_partitioned_core::{PartitionSpec, value_to_text};
use datafusion_partitioned_table::PartitionedSinkExec;

use crate::add::{column_name, evaluate};
use crate::target::Target;

/// The static values of `PARTITION (..)` by their column.
pub(crate) type StaticValues = Vec<(String, ScalarValue)>;

/// Turns `INSERT .. PARTITION (p = 'x', q) SELECT ..` into the `INSERT` with the columns of the files, then `q`, and
/// then `'x'` for `p`, as Hive and Spark read it. Returns the static values.
///
/// # Errors
/// When the clause is not one of partition columns, or the table has none.
pub(crate) async fn take_partition_clause(
    state: &SessionState,
    statement: &mut parser::Statement,
) -> Result<StaticValues> {
    let insert = match statement {
        parser::Statement::Statement(statement) => match statement.as_mut() {
            ast::Statement::Insert(insert) => insert,
            _ => return Ok(vec![]),
        },
        parser::Statement::Explain(explain) => {
            let is_partitioned = |statement: &parser::Statement| match statement {
                parser::Statement::Statement(statement) => {
                    matches!(statement.as_ref(), ast::Statement::Insert(insert) if insert.partitioned.is_some())
                }
                _ => false,
            };
            if explain.options.analyze && is_partitioned(&explain.statement) {
                return plan_err!(
                    "EXPLAIN ANALYZE runs a statement, and does not know PARTITION (..); name the partition columns in the \
                     query"
                );
            }
            return Box::pin(take_partition_clause(state, &mut explain.statement)).await;
        }
        _ => return Ok(vec![]),
    };
    let Some(clause) = insert.partitioned.take() else {
        return Ok(vec![]);
    };
    let TableObject::TableName(name) = &insert.table else {
        return plan_err!("PARTITION (..) stands behind the name of a table");
    };
    let Some(target) = Target::find(state, name.clone()).await? else {
        let normalize = state.config_options().sql_parser.enable_ident_normalization;
        let name = object_name_to_table_reference(name.clone(), normalize)?;
        return plan_err!(
            "table '{name}' is not a partitioned table of a connector; leave PARTITION (..) out"
        );
    };
    let spec = target.catalog()?.spec().clone();
    let columns = Clause::try_new(&target, state, &spec, clause)?;
    rewrite(state, &target, &spec, insert, &columns)?;
    Ok(columns.fixed)
}

/// What `PARTITION (..)` says.
struct Clause {
    fixed: StaticValues,
    /// The columns whose values come from the query.
    dynamic: Vec<String>,
}

impl Clause {
    fn try_new(
        target: &Target,
        state: &SessionState,
        spec: &PartitionSpec,
        clause: Vec<Expr>,
    ) -> Result<Self> {
        let mut fixed: StaticValues = vec![];
        let mut dynamic: Vec<String> = vec![];
        for item in clause {
            let (column, value) = match item {
                Expr::Identifier(column) => (column, None),
                Expr::BinaryOp {
                    left,
                    op: BinaryOperator::Eq,
                    right,
                } => match *left {
                    Expr::Identifier(column) => (column, Some(*right)),
                    other => return not_a_column(target, &other.to_string()),
                },
                other => {
                    return plan_err!(
                        "table '{}': '{other}' is neither a column nor a column with its value, as in PARTITION (year = \
                         2024, month)",
                        target.name
                    );
                }
            };
            let name = column_name(state, &column);
            let Some(field) = spec.fields().iter().find(|field| *field.name() == name) else {
                return not_a_column(target, &name);
            };
            if dynamic.contains(&name) || fixed.iter().any(|(fixed, _)| *fixed == name) {
                return plan_err!(
                    "table '{}': column '{name}' is twice in PARTITION (..)",
                    target.name
                );
            }
            match value {
                None => dynamic.push(name),
                Some(value) => {
                    let value = evaluate(state, field, value).map_err(|error| {
                        error.context(format!("table '{}': column '{name}'", target.name))
                    })?;
                    fixed.push((name, value));
                }
            }
        }
        Ok(Self { fixed, dynamic })
    }
}

fn not_a_column<T>(target: &Target, name: &str) -> Result<T> {
    plan_err!(
        "table '{}': '{name}' is no partition column; they are: {}",
        target.name,
        target.column_names()?
    )
}

/// Names all columns of the statement, and adds the static values to its query.
fn rewrite(
    state: &SessionState,
    target: &Target,
    spec: &PartitionSpec,
    insert: &mut Insert,
    clause: &Clause,
) -> Result<()> {
    let quoted = |name: &str| Ident::with_quote('"', name);
    let mut columns = std::mem::take(&mut insert.columns);
    let after = std::mem::take(&mut insert.after_columns);
    columns.extend(
        after
            .into_iter()
            .map(|column| ObjectName::from(vec![column])),
    );
    if columns.is_empty() {
        let schema = target.provider.schema();
        let is_partition_column = |name: &str| spec.column_names().any(|column| column == name);
        let of_files = schema.fields().iter().map(|field| field.name().as_str());
        let of_files = of_files.filter(|name| !is_partition_column(name));
        columns.extend(of_files.map(|name| ObjectName::from(vec![quoted(name)])));
        let all_columns = clause.fixed.len() + clause.dynamic.len();
        if all_columns < spec.len() {
            return plan_err!(
                "table '{}': PARTITION (..) leaves out a partition column; they are: {}. One without a value takes it \
                 from the end of the query",
                target.name,
                target.column_names()?
            );
        }
    }
    for name in &clause.dynamic {
        let has = |column: &ObjectName| {
            let last = column.0.last().and_then(|part| part.as_ident());
            last.is_some_and(|column| column_name(state, column) == *name)
        };
        if !columns.iter().any(has) {
            columns.push(ObjectName::from(vec![quoted(name)]));
        }
    }
    let Some(source) = insert.source.take() else {
        return plan_err!("table '{}': INSERT needs VALUES or a query", target.name);
    };
    insert.columns = columns;
    let mut values = vec![];
    for (name, value) in &clause.fixed {
        insert.columns.push(ObjectName::from(vec![quoted(name)]));
        let value = value_to_text(value)?.map_or(Value::Null, Value::SingleQuotedString);
        values.push(Expr::Value(value.into()));
    }
    insert.source = Some(match values.is_empty() {
        true => source,
        false => Box::new(with_values(state, *source, &values)?),
    });
    Ok(())
}

/// `SELECT *, 'x' FROM (query)`, or the rows of `VALUES`, each with the values behind it.
fn with_values(state: &SessionState, mut query: Query, values: &[Expr]) -> Result<Query> {
    if let SetExpr::Values(rows) = query.body.as_mut() {
        for row in &mut rows.rows {
            row.content.extend(values.iter().cloned());
        }
        return Ok(query);
    }
    let values = values.iter().enumerate().map(|(index, value)| {
        // A name that no column of the query has.
        SelectItem::ExprWithAlias {
            expr: value.clone(),
            alias: Ident::with_quote('"', format!("PARTITION {}", index + 1)),
        }
    });
    // In the query itself, so that its ORDER BY stays.
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection.extend(values);
        return Ok(query);
    }
    let dialect = sql_dialect(&state.config_options().sql_parser)?;
    let mut parser =
        Parser::new(dialect.as_ref()).try_with_sql("SELECT * FROM (SELECT 1) AS query")?;
    let mut around = *parser.parse_query()?;
    if let SetExpr::Select(select) = around.body.as_mut() {
        select.projection.extend(values);
        for table in &mut select.from {
            if let TableFactor::Derived { subquery, .. } = &mut table.relation {
                **subquery = query.clone();
            }
        }
    }
    Ok(around)
}

/// Runs the plan of an `INSERT` into a partitioned table. Its result is a row for each partition: `partition`,
/// `location`, `rows`, `files`, `bytes`. `None` for other plans.
///
/// # Errors
/// Those of the statement.
pub(crate) async fn insert(
    context: &SessionContext,
    state: &SessionState,
    plan: &LogicalPlan,
    fixed: &StaticValues,
) -> Result<Option<DataFrame>> {
    let LogicalPlan::Dml(DmlStatement {
        op: WriteOp::Insert(_),
        ..
    }) = plan
    else {
        return Ok(None);
    };
    let plan = state.create_physical_plan(plan).await?;
    let Some(sink) = PartitionedSinkExec::of(&plan) else {
        return Ok(None);
    };
    let sink: Arc<dyn ExecutionPlan> = Arc::new(sink.with_static_values(fixed)?);
    let rows = collect(Arc::clone(&sink), state.task_ctx()).await?;
    Ok(Some(context.read_batches(rows)?))
}
