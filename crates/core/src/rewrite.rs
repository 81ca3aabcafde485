//! Rewrites the columns of a physical expression.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};

/// `expr` with each column replaced by `replacement(index)`.
///
/// `None` when some column has no replacement, and for expressions that give other values when
/// they are evaluated elsewhere or at another time: volatile functions and DataFusion's dynamic
/// filters.
pub fn rewrite_columns(
    expr: &Arc<dyn PhysicalExpr>,
    replacement: &dyn Fn(usize) -> Option<Arc<dyn PhysicalExpr>>,
) -> Option<Arc<dyn PhysicalExpr>> {
    let mut complete = true;
    let rewritten = Arc::clone(expr).transform_up(|expr| {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Ok(match replacement(column.index()) {
                Some(replacement) => Transformed::yes(replacement),
                None => {
                    complete = false;
                    Transformed::no(expr)
                }
            });
        }
        complete &= !expr.is::<DynamicFilterPhysicalExpr>() && !expr.is_volatile_node();
        Ok(Transformed::no(expr))
    });
    rewritten
        .ok()
        .filter(|_| complete)
        .map(|rewritten| rewritten.data)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, lit};

    use super::*;

    #[test]
    fn every_column_needs_a_replacement() {
        let column = |name, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
        let sum = |left, right| {
            Arc::new(BinaryExpr::new(left, Operator::Plus, right)) as Arc<dyn PhysicalExpr>
        };
        let expr = sum(column("a", 0), sum(column("b", 1), lit(1)));
        let moved = rewrite_columns(&expr, &|index| Some(column("c", index + 5))).unwrap();
        assert_eq!(moved.to_string(), "c@5 + c@6 + 1");
        assert!(rewrite_columns(&expr, &|index| (index == 0).then(|| column("a", 0))).is_none());
    }
}
