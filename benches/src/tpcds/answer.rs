//! Answers that can be compared: ties broken, and floats equal up to rounding.
//!
//! `ORDER BY .. LIMIT 100` leaves open which of the rows with equal keys come in. So that every
//! setting has to return the same ones, all output columns are added to the keys; the rows that the
//! query asks for are among those that it allowed. Where DataFusion does not plan that, ties stay.
//! Sums of floats depend on the order of the rows, which no setting promises: they may differ by a
//! billionth.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Statement, Value,
};
use datafusion_partitioned_test_utils::compare_rows;

/// How much two floats may differ, as a part of the larger one.
const TOLERANCE: f64 = 1e-9;

/// The plan of a query, with all output columns as last sort keys if it has a limit.
pub(super) async fn plan_without_ties(ctx: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    let state = ctx.state();
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(sql, &dialect)?;
    let plan = state.statement_to_plan(statement.clone()).await?;
    if let AnyStatement::Statement(inner) = &mut statement
        && let Statement::Query(query) = inner.as_mut()
        && query.limit_clause.is_some()
    {
        break_ties(query, plan.schema().fields().len())?;
        // DataFusion does not take every output column of a grouped query as a sort key.
        return Ok(state.statement_to_plan(statement).await.unwrap_or(plan));
    }
    Ok(plan)
}

fn break_ties(query: &mut Query, columns: usize) -> Result<()> {
    let keys = (1..=columns).map(|column| OrderByExpr {
        expr: Expr::value(Value::Number(column.to_string(), false)),
        options: OrderByOptions {
            asc: None,
            nulls_first: None,
        },
        with_fill: None,
    });
    let order = query.order_by.get_or_insert_with(|| OrderBy {
        kind: OrderByKind::Expressions(Vec::new()),
        interpolate: None,
    });
    match &mut order.kind {
        OrderByKind::Expressions(expressions) => expressions.extend(keys),
        OrderByKind::All(_) => return plan_err!("expected sort keys instead of ORDER BY ALL"),
    }
    Ok(())
}

/// Checks that two answers have the same rows, in any order, floats up to rounding.
pub(super) fn compare_answers(actual: &[RecordBatch], expected: &[RecordBatch]) -> Result<()> {
    let difference = compare_rows(actual, expected);
    if difference.is_err() && rows(actual)? == rows(expected)? {
        return Ok(());
    }
    difference
}

/// A row as its texts, and the floats among its values.
#[derive(Debug, Clone)]
struct Row {
    texts: Vec<String>,
    floats: Vec<f64>,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        let close = |a: &f64, b: &f64| {
            let largest = a.abs().max(b.abs());
            a.total_cmp(b).is_eq() || (a - b).abs() <= TOLERANCE * largest
        };
        self.texts == other.texts
            && self.floats.len() == other.floats.len()
            && self
                .floats
                .iter()
                .zip(&other.floats)
                .all(|(a, b)| close(a, b))
    }
}

/// All rows, sorted by what is exact first, so that those that are equal up to rounding have the same
/// place unless they differ in nothing but floats.
fn rows(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        let mut added = vec![
            Row {
                texts: Vec::new(),
                floats: Vec::new(),
            };
            batch.num_rows()
        ];
        for column in batch.columns() {
            add_column(&mut added, column)?;
        }
        rows.append(&mut added);
    }
    rows.sort_by(|a, b| {
        let floats = a.floats.iter().zip(&b.floats);
        let floats = floats.map(|(a, b)| a.total_cmp(b));
        let texts = a.texts.cmp(&b.texts);
        texts.then(floats.fold(Ordering::Equal, Ordering::then))
    });
    Ok(rows)
}

fn add_column(rows: &mut [Row], column: &ArrayRef) -> Result<()> {
    let is_float = column.data_type().is_floating();
    let floats = match is_float {
        true => Some(cast(column, &DataType::Float64)?),
        false => None,
    };
    let options = FormatOptions::new().with_null("<null>");
    let texts = ArrayFormatter::try_new(column.as_ref(), &options)?;
    for (index, row) in rows.iter_mut().enumerate() {
        match &floats {
            Some(floats) if floats.is_valid(index) => {
                row.floats
                    .push(floats.as_primitive::<Float64Type>().value(index));
            }
            _ => row.texts.push(texts.value(index).to_string()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::collect;

    use super::*;

    #[tokio::test]
    async fn ties_at_a_limit_are_broken_by_all_columns() -> Result<()> {
        let ctx = SessionContext::new();
        let sql = "SELECT k, v FROM (VALUES (1, 'c'), (1, 'a'), (1, 'b'), (2, 'z')) t (k, v) \
                   ORDER BY k LIMIT 2;";
        let plan = plan_without_ties(&ctx, sql).await?;
        let frame = ctx.execute_logical_plan(plan).await?;
        let plan = frame.create_physical_plan().await?;
        let rows = collect(plan, ctx.task_ctx()).await?;
        assert_eq!(
            datafusion_partitioned_test_utils::ordered_rows(&rows),
            ["1 | a", "1 | b"]
        );
        Ok(())
    }

    #[tokio::test]
    async fn floats_are_equal_up_to_rounding() -> Result<()> {
        let one = answer("(1, 0.3), (2, NULL), (2, 1e300)").await?;
        let other = answer("(2, 1e300), (1, 0.1 + 0.2), (2, NULL)").await?;
        compare_answers(&one, &other)?;
        for different in [
            "(1, 0.3001), (2, NULL), (2, 1e300)",
            "(1, 0.3), (2, 0.0), (2, 1e300)",
            "(1, 0.3), (1, NULL), (2, 1e300)",
            "(1, 0.3), (2, 1e300)",
        ] {
            let other = answer(different).await?;
            assert!(compare_answers(&one, &other).is_err(), "{different}");
        }
        Ok(())
    }

    async fn answer(values: &str) -> Result<Vec<RecordBatch>> {
        let sql = format!("SELECT k, CAST(v AS DOUBLE) AS v FROM (VALUES {values}) t (k, v)");
        SessionContext::new().sql(&sql).await?.collect().await
    }
}
