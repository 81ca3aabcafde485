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

/// An expression, taken apart where three-valued logic can say something although a part is not
/// known: at AND, OR and NOT.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    expr: Arc<dyn PhysicalExpr>,
    /// One past the last column it needs; 0 for a constant.
    needs: usize,
    operator: Logic,
}

#[derive(Debug, Clone)]
enum Logic {
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    Not(Box<Expression>),
    /// Anything else needs all of its columns.
    Other,
}

impl Expression {
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>) -> Self {
        let operator = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            let operands = || Box::new([Self::new(binary.left()), Self::new(binary.right())]);
            match binary.op() {
                Operator::And => Logic::And(operands()),
                Operator::Or => Logic::Or(operands()),
                _ => Logic::Other,
            }
        } else if let Some(not) = expr.downcast_ref::<NotExpr>() {
            Logic::Not(Box::new(Self::new(not.arg())))
        } else {
            Logic::Other
        };
        let needs = match &operator {
            Logic::And(operands) | Logic::Or(operands) => operands
                .iter()
                .map(|operand| operand.needs)
                .max()
                .unwrap_or(0),
            Logic::Not(operand) => operand.needs,
            Logic::Other => {
                let columns = collect_columns(expr);
                columns
                    .iter()
                    .map(|column| column.index() + 1)
                    .max()
                    .unwrap_or(0)
            }
        };
        Self {
            expr: Arc::clone(expr),
            needs,
            operator,
        }
    }

    pub(super) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// Whether `batch` has all columns that the expression needs.
    pub(super) fn is_known(&self, batch: &RecordBatch) -> bool {
        self.needs <= batch.num_columns()
    }

    /// For each row whether the expression can still turn out true. Columns that `batch` does not
    /// have may hold anything.
    pub(super) fn may_be_true(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let outcome = if self.is_known(batch) {
            Outcome::known(&self.expr, batch)?
        } else {
            Outcome::partial(self, batch)
        };
        Ok(BooleanArray::new(outcome.may_be_true, None))
    }
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

    /// A part that needs a column which is not there is unknown; so is one that cannot be
    /// evaluated, since the whole expression decides once all of its columns are known.
    fn partial(expression: &Expression, batch: &RecordBatch) -> Self {
        if expression.is_known(batch) {
            return Self::known(&expression.expr, batch)
                .unwrap_or_else(|_| Self::unknown(batch.num_rows()));
        }
        match &expression.operator {
            Logic::And(operands) => {
                let [left, right] = operands.each_ref().map(|o| Self::partial(o, batch));
                Self {
                    may_be_true: &left.may_be_true & &right.may_be_true,
                    may_be_false: &left.may_be_false | &right.may_be_false,
                }
            }
            Logic::Or(operands) => {
                let [left, right] = operands.each_ref().map(|o| Self::partial(o, batch));
                Self {
                    may_be_true: &left.may_be_true | &right.may_be_true,
                    may_be_false: &left.may_be_false & &right.may_be_false,
                }
            }
            Logic::Not(operand) => {
                let inner = Self::partial(operand, batch);
                Self {
                    may_be_true: inner.may_be_false,
                    may_be_false: inner.may_be_true,
                }
            }
            Logic::Other => Self::unknown(batch.num_rows()),
        }
    }
}
