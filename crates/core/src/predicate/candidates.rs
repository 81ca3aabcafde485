//! Which values a column of a wanted partition may have, where the predicate lists them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use datafusion::arrow::compute::{cast, filter, is_not_null};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;

use super::{Conjunct, DynamicConjunct, PartitionPredicate};
use crate::key_set::Comparison;

impl PartitionPredicate {
    /// The values that `column` has in every wanted partition, as far as the predicate lists them:
    /// by `=`, `IN`, a boolean column as it stands, any of them in all branches of an `OR`, or by the
    /// keys of a join; also of a cast of the column. Values may occur twice, and NULL is left out.
    /// `None` when nothing limits the column to a list.
    pub fn candidates(&self, column: usize) -> Option<ArrayRef> {
        let data_type = self.spec.fields()[column].data_type();
        let column = &Target { column, data_type };
        let by_filters = self
            .filters()
            .filter_map(|filter| to_array(&listed(filter, column)?, data_type));
        let by_keys = self
            .dynamic
            .iter()
            .filter_map(|dynamic| dynamic.candidates(column));
        by_filters.chain(by_keys).min_by_key(|values| values.len())
    }
}

/// The column whose values are looked for.
struct Target<'a> {
    column: usize,
    data_type: &'a DataType,
}

impl DynamicConjunct {
    fn candidates(&self, column: &Target<'_>) -> Option<ArrayRef> {
        let is_meant = |(key, comparison): (&Conjunct, &Comparison)| {
            *comparison == Comparison::Equal && column.is_meant_by(key.expression.expr())
        };
        let key = self.keys.iter().zip(&self.comparisons).position(is_meant)?;
        without_nulls(self.slot.keys()?.values(key)?, column.data_type)
    }
}

/// The values of `column` for which `filter` can be true. A value that is NULL equals nothing.
fn listed(filter: &Arc<dyn PhysicalExpr>, column: &Target<'_>) -> Option<Vec<ScalarValue>> {
    if let Some(literal) = constant(filter) {
        // `true` lists nothing.
        return (literal != ScalarValue::Boolean(Some(true))).then(Vec::new);
    }
    if column.is_boolean(filter) {
        return Some(vec![ScalarValue::from(true)]);
    }
    if let Some(not) = filter.downcast_ref::<NotExpr>() {
        let is_listed = column.is_boolean(not.arg());
        return is_listed.then(|| vec![ScalarValue::from(false)]);
    }
    if let Some(is_null) = filter.downcast_ref::<IsNullExpr>() {
        return column.is_meant_by(is_null.arg()).then(Vec::new);
    }
    if let Some(in_list) = filter.downcast_ref::<InListExpr>() {
        let values = || in_list.list().iter().map(constant);
        return (!in_list.negated() && column.is_meant_by(in_list.expr()))
            .then(|| values().collect())
            .flatten();
    }
    let binary = filter.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    match binary.op() {
        Operator::Eq | Operator::IsNotDistinctFrom => {
            let value = match (column.is_meant_by(left), column.is_meant_by(right)) {
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

impl Target<'_> {
    /// Whether `expr` is the column, or a cast of it that can be undone: the column then has at most
    /// the value that the result is cast back to.
    fn is_meant_by(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.is(cast.expr()) && can_be_undone(self.data_type, cast.cast_type());
        }
        self.is(expr)
    }

    fn is(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        let column = expr.downcast_ref::<Column>();
        column.is_some_and(|column| column.index() == self.column)
    }

    fn is_boolean(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.data_type == &DataType::Boolean && self.is(expr)
    }
}

/// Whether each value of type `from` comes back when it is cast to `to` and then to `from`, unless
/// the first cast has no result.
fn can_be_undone(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (Dictionary(_, from), to) => can_be_undone(from, to),
        (from, Dictionary(_, to)) => can_be_undone(from, to),
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Float64) => true,
        (Float32, Float64) => true,
        (from, to) if from.is_integer() => to.is_integer() || to.is_decimal() || to.is_string(),
        (from, to) if from.is_string() => to.is_string(),
        (Boolean | Date32, to) if to.is_string() => true,
        (Date32, Timestamp(_, None)) => true,
        (from, to) => from == to,
    }
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

/// Without the values that are none of the type.
fn to_array(values: &[ScalarValue], data_type: &DataType) -> Option<ArrayRef> {
    let values = values.iter().filter_map(|v| v.cast_to(data_type).ok());
    let mut values = values.filter(|v| !v.is_null()).peekable();
    if values.peek().is_none() {
        return Some(new_empty_array(data_type));
    }
    ScalarValue::iter_to_array(values).ok()
}

fn without_nulls(values: &ArrayRef, data_type: &DataType) -> Option<ArrayRef> {
    let values = cast(values, data_type).ok()?;
    filter(&values, &is_not_null(&values).ok()?).ok()
}
