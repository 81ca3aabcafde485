//! Which values a column of a wanted partition may have, where the predicate lists them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use datafusion::arrow::compute::{cast, filter, is_not_null};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;

use super::{DynamicConjunct, PartitionPredicate};
use crate::key_set::KeySet;

impl PartitionPredicate {
    /// The values that `column` has in every wanted partition, as far as the predicate lists them:
    /// by `=`, `IN`, either of them in all branches of an `OR`, or by the keys of a join. Values may
    /// occur twice, and NULL is left out. `None` when nothing limits the column to a list.
    pub fn candidates(&self, column: usize) -> Option<ArrayRef> {
        let data_type = self.spec.fields()[column].data_type();
        let by_filters = self
            .filters()
            .filter_map(|filter| to_array(listed(filter, column)?, data_type));
        let by_keys = self
            .dynamic
            .iter()
            .filter_map(|dynamic| dynamic.candidates(column, data_type));
        by_filters.chain(by_keys).min_by_key(|values| values.len())
    }
}

impl DynamicConjunct {
    fn candidates(&self, column: usize, data_type: &DataType) -> Option<ArrayRef> {
        let mut keys = self.keys.iter().map(|key| key.expression.expr());
        let key = keys.position(|key| is_column(key, column))?;
        match self.slot.keys()?.as_ref() {
            KeySet::Tuples(tuples) => without_nulls(tuples.column(key)?, data_type),
            KeySet::Bounds(_) | KeySet::Unknown => None,
        }
    }
}

/// The values of `column` for which `filter` can be true. A value that is NULL equals nothing.
fn listed(filter: &Arc<dyn PhysicalExpr>, column: usize) -> Option<Vec<ScalarValue>> {
    if let Some(literal) = constant(filter) {
        // `true` lists nothing.
        return (literal != ScalarValue::Boolean(Some(true))).then(Vec::new);
    }
    if let Some(in_list) = filter.downcast_ref::<InListExpr>() {
        let values = || in_list.list().iter().map(constant);
        return (!in_list.negated() && is_column(in_list.expr(), column))
            .then(|| values().collect())
            .flatten();
    }
    let binary = filter.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    match binary.op() {
        Operator::Eq | Operator::IsNotDistinctFrom => {
            let value = match (is_column(left, column), is_column(right, column)) {
                (true, false) => constant(right),
                (false, true) => constant(left),
                _ => None,
            };
            value.map(|value| vec![value])
        }
        Operator::Or => {
            let mut values = listed(left, column)?;
            values.extend(listed(right, column)?);
            Some(values)
        }
        Operator::And => match (listed(left, column), listed(right, column)) {
            (Some(left), Some(right)) if right.len() < left.len() => Some(right),
            (left, right) => left.or(right),
        },
        _ => None,
    }
}

fn is_column(expr: &Arc<dyn PhysicalExpr>, index: usize) -> bool {
    let column = expr.downcast_ref::<Column>();
    column.is_some_and(|column| column.index() == index)
}

/// The value of an expression without columns, such as a literal or the result of a subquery.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    if !collect_columns(expr).is_empty() {
        return None;
    }
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expr.evaluate(&nothing).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(_) => None,
    }
}

/// `None` when a value cannot be one of the type.
fn to_array(values: Vec<ScalarValue>, data_type: &DataType) -> Option<ArrayRef> {
    let mut values = values.into_iter().filter(|v| !v.is_null()).peekable();
    if values.peek().is_none() {
        return Some(new_empty_array(data_type));
    }
    let values = values.map(|value| value.cast_to(data_type));
    ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>().ok()?).ok()
}

fn without_nulls(values: &ArrayRef, data_type: &DataType) -> Option<ArrayRef> {
    let values = cast(values, data_type).ok()?;
    filter(&values, &is_not_null(&values).ok()?).ok()
}
