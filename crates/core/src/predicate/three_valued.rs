//! Evaluates a boolean expression over partitions of which only some columns are known.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, NotExpr};
use datafusion::physical_expr::utils::collect_columns;

/// For each row whether `expr` can still turn out true. Columns of `expr` that `batch` does not
/// have may hold anything.
pub(super) fn may_be_true(
    expr: &Arc<dyn PhysicalExpr>,
    batch: &RecordBatch,
) -> Result<BooleanArray> {
    let outcome = if is_known(expr, batch) {
        Outcome::known(expr, batch)?
    } else {
        Outcome::partial(expr, batch)
    };
    Ok(BooleanArray::new(outcome.may_be_true, None))
}

/// What an expression can evaluate to, for each row. A row with neither is NULL for certain.
struct Outcome {
    may_be_true: BooleanBuffer,
    may_be_false: BooleanBuffer,
}

impl Outcome {
    fn unknown(rows: usize) -> Self {
        Self {
            may_be_true: BooleanBuffer::new_set(rows),
            may_be_false: BooleanBuffer::new_set(rows),
        }
    }

    fn known(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<Self> {
        let array = expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let array = as_boolean_array(&array)?;
        let (values, nulls) = (array.values(), array.nulls());
        Ok(match nulls {
            None => Self {
                may_be_true: values.clone(),
                may_be_false: !values,
            },
            Some(nulls) => Self {
                may_be_true: values & nulls.inner(),
                may_be_false: &!values & nulls.inner(),
            },
        })
    }

    /// Combines the outcomes of the operands of AND, OR and NOT. Anything else that needs a
    /// column which is not there is unknown; so is a part that cannot be evaluated, since the
    /// whole expression decides once all of its columns are known.
    fn partial(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Self {
        if is_known(expr, batch) {
            return Self::known(expr, batch).unwrap_or_else(|_| Self::unknown(batch.num_rows()));
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            let operands = || {
                (
                    Self::partial(binary.left(), batch),
                    Self::partial(binary.right(), batch),
                )
            };
            match binary.op() {
                Operator::And => {
                    let (left, right) = operands();
                    return Self {
                        may_be_true: &left.may_be_true & &right.may_be_true,
                        may_be_false: &left.may_be_false | &right.may_be_false,
                    };
                }
                Operator::Or => {
                    let (left, right) = operands();
                    return Self {
                        may_be_true: &left.may_be_true | &right.may_be_true,
                        may_be_false: &left.may_be_false & &right.may_be_false,
                    };
                }
                _ => {}
            }
        } else if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let inner = Self::partial(not.arg(), batch);
            return Self {
                may_be_true: inner.may_be_false,
                may_be_false: inner.may_be_true,
            };
        }
        Self::unknown(batch.num_rows())
    }
}

fn is_known(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> bool {
    collect_columns(expr)
        .iter()
        .all(|column| column.index() < batch.num_columns())
}
