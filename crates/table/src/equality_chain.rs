//! [`EqualityChainPlanner`]: long chains of equalities as lists.
//!
//! ```text
//!   p = 1 OR p = 2 OR .. OR p = 5000     becomes     p = 1 OR p IN (2, .., 5000)
//! ```
//!
//! Programs write such filters. DataFusion makes the same list of them when it optimizes, but before
//! that its time is quadratic in the length of the chain, and its stack as deep as the chain is long:
//! 5,000 terms overflow a stack of 2 MiB in a build without optimizations.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Shorter chains stay as they are, since the name of an output column is the text of its expression.
const LONG: usize = 32;

/// Turns chains `c = 1 OR c = 2 OR ..` of more than 32 terms into `c IN (1, 2, ..)` while SQL becomes
/// a plan, where all terms compare one column with literals of one type. These mean the same, and the
/// types of both are coerced in the same way.
#[derive(Debug)]
pub struct EqualityChainPlanner;

impl ExprPlanner for EqualityChainPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::Or {
            return Ok(PlannerResult::Original(expr));
        }
        let Some(terms) = Terms::of(&expr.right) else {
            return Ok(PlannerResult::Original(expr));
        };
        let is_extended = last_term(&expr.left).is_some_and(|last| terms.has_list(last));
        if !is_extended && !terms.ends(&expr.left) {
            return Ok(PlannerResult::Original(expr));
        }
        let RawBinaryExpr { left, right, .. } = expr;
        Ok(PlannerResult::Planned(match is_extended {
            true => extended(left, right),
            false => listed(left, right),
        }))
    }
}

/// The terms that go into one list.
struct Terms<'a> {
    column: &'a Column,
    data_type: DataType,
}

impl<'a> Terms<'a> {
    /// Those like `expr`, if it is one.
    fn of(expr: &'a Expr) -> Option<Self> {
        let (column, value) = equality(expr)?;
        let data_type = value.data_type();
        Some(Self { column, data_type })
    }

    fn contain(&self, expr: &Expr) -> bool {
        equality(expr).is_some_and(|(column, value)| {
            column == self.column && value.data_type() == self.data_type
        })
    }

    /// Whether `expr` is a list that this planner has made of such terms.
    fn has_list(&self, expr: &Expr) -> bool {
        let Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) = expr
        else {
            return false;
        };
        let is_of_type = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.data_type() == self.data_type);
        matches!(expr.as_ref(), Expr::Column(column) if column == self.column)
            && list.len() > LONG
            // The others have been compared with this one.
            && list.last().is_some_and(is_of_type)
            && list.first().is_some_and(is_of_type)
    }

    /// Whether the last alternatives of `expr` are many such terms.
    fn ends(&self, expr: &Expr) -> bool {
        let mut rest = expr;
        for _ in 0..LONG {
            let Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Or,
                right,
            }) = rest
            else {
                return false;
            };
            if !self.contain(right) {
                return false;
            }
            rest = left;
        }
        true
    }
}

/// The two sides of `column = literal`, which may be the other way round.
fn equality(expr: &Expr) -> Option<(&Column, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = expr
    else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _))
        | (Expr::Literal(value, _), Expr::Column(column)) => Some((column, value)),
        _ => None,
    }
}

/// The last alternative of `expr`, when there are several, or `expr` itself.
fn last_term(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::Or,
            right,
            ..
        }) => Some(right),
        Expr::InList(_) => Some(expr),
        _ => None,
    }
}

/// `chain` with the literal of `term` added to the list at its end.
fn extended(mut chain: Expr, term: Expr) -> Expr {
    let last = match &mut chain {
        Expr::BinaryExpr(BinaryExpr { right, .. }) => right.as_mut(),
        list => list,
    };
    if let Expr::InList(InList { list, .. }) = last
        && let Some((_, value)) = sides(term)
    {
        list.push(value);
    }
    chain
}

/// `chain` with its last terms and `term` as a list.
fn listed(chain: Expr, term: Expr) -> Expr {
    let mut rest = chain;
    let mut terms = vec![term];
    while terms.len() <= LONG
        && let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = rest
    {
        terms.push(*right);
        rest = *left;
    }
    let mut column = None;
    let mut list = vec![];
    for (of, value) in terms.into_iter().rev().filter_map(sides) {
        column.get_or_insert(of);
        list.push(value);
    }
    match column {
        Some(column) => rest.or(column.in_list(list, false)),
        None => rest,
    }
}

/// Column and literal of an equality.
fn sides(equality: Expr) -> Option<(Expr, Expr)> {
    match equality {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => match *left {
            Expr::Literal(..) => Some((*right, *left)),
            _ => Some((*left, *right)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    /// What the SQL planner makes of `terms`, connected by OR.
    fn planned(terms: impl IntoIterator<Item = Expr>) -> Expr {
        let planned = terms.into_iter().reduce(|left, right| {
            let raw = RawBinaryExpr {
                op: BinaryOperator::Or,
                left,
                right,
            };
            match EqualityChainPlanner.plan_binary_op(raw, &DFSchema::empty()) {
                Ok(PlannerResult::Planned(expr)) => expr,
                Ok(PlannerResult::Original(raw)) => raw.left.or(raw.right),
                Err(error) => panic!("{error}"),
            }
        });
        planned.unwrap()
    }

    fn terms(values: std::ops::Range<i64>) -> impl Iterator<Item = Expr> {
        values.map(|value| match value % 2 {
            0 => col("p").eq(lit(value)),
            _ => lit(value).eq(col("p")),
        })
    }

    #[test]
    fn a_long_chain_becomes_a_list() {
        let list =
            |values: std::ops::Range<i64>| col("p").in_list(values.map(lit).collect(), false);
        let first = col("p").eq(lit(0_i64));
        assert_eq!(planned(terms(0..5000)), first.or(list(1..5000)));
        // What stands in front stays.
        let front = col("q").gt(lit(1));
        let chain = std::iter::once(front.clone()).chain(terms(0..5000));
        assert_eq!(planned(chain), front.or(list(0..5000)));
    }

    #[test]
    fn other_chains_stay() {
        let plain = |terms: Vec<Expr>| terms.into_iter().reduce(Expr::or).unwrap();
        let short: Vec<_> = terms(0..33).collect();
        assert_eq!(planned(short.clone()), plain(short));
        let types = terms(0..20)
            .chain([col("p").eq(lit("x"))])
            .chain(terms(20..40));
        let types: Vec<_> = types.collect();
        assert_eq!(planned(types.clone()), plain(types));
        let columns = (0..50).map(|n| col(if n % 2 == 0 { "p" } else { "q" }).eq(lit(n)));
        let columns: Vec<_> = columns.collect();
        assert_eq!(planned(columns.clone()), plain(columns));
    }

    #[test]
    fn a_term_of_another_kind_ends_a_list() {
        let expr = planned(terms(0..50).chain([col("p").eq(lit("x")), col("p").eq(lit(7_i64))]));
        let list = col("p").in_list((1..50_i64).map(lit).collect(), false);
        let expected = col("p")
            .eq(lit(0_i64))
            .or(list)
            .or(col("p").eq(lit("x")))
            .or(col("p").eq(lit(7_i64)));
        assert_eq!(expr, expected);
    }
}
