//! The predicates with which catalogs are asked, made of the values that a table has.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, in_list, is_not_null, is_null, lit,
};

use crate::dynamic_filter::FilterKey;
use crate::key_set::{Comparison, KeyBounds, KeyColumn, KeySet, KeyTuples, normalize_keys};
use crate::spec::{PartitionBatch, PartitionSpec};

type Expr = Arc<dyn PhysicalExpr>;

/// Of each column, no more values than these are asked for one by one.
const VALUES_PER_COLUMN: usize = 4;

/// Filters over the partition columns of `table`, and over a column that its partitions do not know.
pub(super) fn filters(spec: &PartitionSpec, table: &PartitionBatch) -> Result<Vec<Expr>> {
    let mut filters = vec![lit(true), lit(false), lit(ScalarValue::Boolean(None))];
    let rows = table.len();
    for index in 0..spec.len() {
        let (column, values) = (column(spec, index), values(table, index)?);
        filters.extend([
            is_null(Arc::clone(&column))?,
            is_not_null(Arc::clone(&column))?,
        ]);
        for value in values.iter().take(VALUES_PER_COLUMN) {
            let operators = [
                Operator::Eq,
                Operator::NotEq,
                Operator::Lt,
                Operator::GtEq,
                Operator::IsDistinctFrom,
                Operator::IsNotDistinctFrom,
            ];
            filters.extend(operators.map(|operator| binary(&column, operator, lit(value.clone()))));
        }
        let null = ScalarValue::try_new_null(spec.fields()[index].data_type())?;
        filters.push(binary(&column, Operator::Eq, lit(null.clone())));
        let half = values[..values.len().div_ceil(2)].iter().cloned();
        for list in [
            half.clone().collect::<Vec<_>>(),
            half.chain([null]).collect(),
        ] {
            let list: Vec<Expr> = list.into_iter().map(lit).collect();
            for negated in [false, true] {
                let (column, list) = (Arc::clone(&column), list.clone());
                filters.push(in_list(column, list, &negated, spec.schema())?);
            }
        }
    }
    for row in 0..rows {
        filters.extend(all_values(spec, table, row)?);
    }
    // Filters over several columns, of partitions that are far from each other.
    for row in 0..rows.min(VALUES_PER_COLUMN) {
        let (one, other) = (
            all_values(spec, table, row)?,
            all_values(spec, table, rows - 1 - row)?,
        );
        for (left, right) in [(0, spec.len() - 1), (spec.len() - 1, 0)] {
            let (left, right) = (&one[left], &other[right]);
            filters.push(binary(left, Operator::Or, Arc::clone(right)));
            filters.push(binary(left, Operator::And, Arc::clone(right)));
        }
        let both = [&one, &other].map(|values| conjunction(values));
        filters.push(binary(&both[0], Operator::Or, Arc::clone(&both[1])));
        filters.extend(both);
    }
    // A column of what is in the partitions: nothing is known about it.
    let unknown = Arc::new(Column::new("unknown", spec.len())) as Expr;
    let unknown =
        [Operator::Gt, Operator::Lt].map(|operator| binary(&unknown, operator, lit(0_i64)));
    let (one, other) = (
        all_values(spec, table, 0)?,
        all_values(spec, table, rows - 1)?,
    );
    for column in 0..spec.len() {
        let (one, other) = (&one[column], &other[column]);
        let [more, less] = &unknown;
        let either = binary(
            &binary(one, Operator::And, Arc::clone(more)),
            Operator::Or,
            binary(other, Operator::And, Arc::clone(less)),
        );
        filters.extend([
            either,
            binary(one, Operator::Or, Arc::clone(more)),
            binary(one, Operator::And, Arc::clone(less)),
        ]);
    }
    Ok(filters)
}

/// Keys as a join may publish them: what they are compared with, and the keys.
pub(super) fn keys(
    spec: &PartitionSpec,
    table: &PartitionBatch,
) -> Result<Vec<(Vec<FilterKey>, Arc<KeySet>)>> {
    let mut columns: Vec<Vec<usize>> = (0..spec.len()).map(|column| vec![column]).collect();
    columns.extend((1..spec.len()).map(|column| vec![column - 1, column]));
    columns.extend((1..spec.len()).map(|column| vec![column, column - 1]));
    let last = table.len() as u32 - 1;
    let mut all = vec![];
    for columns in columns {
        let compared = |comparison| -> Vec<FilterKey> {
            let exprs = columns.iter().map(|index| column(spec, *index));
            exprs.map(|expr| FilterKey { expr, comparison }).collect()
        };
        let mut push = |comparison, keys| all.push((compared(comparison), Arc::new(keys)));
        for rows in [
            vec![],
            vec![0],
            vec![last],
            vec![0, last, 0],
            (0..=last).collect(),
        ] {
            let rows = UInt32Array::from(rows);
            let keys = columns.iter().map(|index| {
                let values = table.values().column(*index);
                Ok(normalize_keys(&take(values.as_ref(), &rows, None)?))
            });
            let keys = KeyTuples::new(keys.collect::<Result<Vec<ArrayRef>>>()?);
            push(Comparison::Equal, KeySet::Tuples(keys));
        }
        for (comparison, has_null) in [
            (Comparison::Equal, false),
            (Comparison::Equal, true),
            (Comparison::Less, false),
            (Comparison::LessOrEqual, false),
            (Comparison::Greater, false),
            (Comparison::GreaterOrEqual, true),
        ] {
            let bounds = columns.iter().map(|index| {
                let first = normalize_keys(table.values().column(*index));
                let value = (0..first.len()).find(|row| first.is_valid(*row));
                let value = value.map(|row| ScalarValue::try_from_array(&first, row));
                let range = value.transpose()?.map(|value| (value.clone(), value));
                Ok(KeyColumn::Bounds(KeyBounds { range, has_null }))
            });
            let columns = bounds.collect::<Result<_>>()?;
            push(comparison, KeySet::Columns(columns));
        }
        push(Comparison::Equal, KeySet::Unknown);
    }
    Ok(all)
}

pub(super) fn column(spec: &PartitionSpec, index: usize) -> Expr {
    Arc::new(Column::new(spec.fields()[index].name(), index))
}

/// The different values of a column, less NULL, in the order in which they occur.
pub(super) fn values(table: &PartitionBatch, column: usize) -> Result<Vec<ScalarValue>> {
    let array = table.values().column(column);
    let mut values: Vec<ScalarValue> = vec![];
    for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
        let value = ScalarValue::try_from_array(array, row)?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(values)
}

fn binary(left: &Expr, operator: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(Arc::clone(left), operator, right))
}

/// For each column, that it has the value of the partition `row`.
fn all_values(spec: &PartitionSpec, table: &PartitionBatch, row: usize) -> Result<Vec<Expr>> {
    let values = table.partition_values(row)?.into_inner();
    let values = values.into_iter().enumerate();
    values
        .map(|(index, value)| match value.is_null() {
            true => is_null(column(spec, index)),
            false => Ok(binary(&column(spec, index), Operator::Eq, lit(value))),
        })
        .collect()
}

fn conjunction(filters: &[Expr]) -> Expr {
    let filters = filters.iter().cloned();
    let all = filters.reduce(|all, filter| binary(&all, Operator::And, filter));
    all.unwrap_or_else(|| lit(true))
}
