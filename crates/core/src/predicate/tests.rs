//! Tests of the three-valued evaluation, against DataFusion's evaluation of complete rows.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int32Array, RecordBatchOptions, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, cast, col, lit, not};
use datafusion::physical_expr::expressions::Column;
use datafusion::prelude::SessionContext;

use super::*;
use crate::key_set::{KeySet, KeyTuples};

fn spec() -> PartitionSpec {
    PartitionSpec::try_new(vec![
        Field::new("year", DataType::Int32, true),
        Field::new("month", DataType::Int32, true),
        Field::new("town", DataType::Utf8, true),
    ])
    .unwrap()
}

/// A predicate over the partition columns and one file column, `amount`.
fn predicate(expr: Expr) -> PartitionPredicate {
    let mut fields = spec().fields().to_vec();
    fields.push(Arc::new(Field::new("amount", DataType::Int32, true)));
    let schema = DFSchema::try_from(Schema::new(fields)).unwrap();
    let expr = SessionContext::new()
        .create_physical_expr(expr, &schema)
        .unwrap();
    PartitionPredicate::all(&spec()).with_filter(&expr)
}

/// The rows of `batch` that are kept.
fn kept(predicate: &PartitionPredicate, batch: &RecordBatch) -> Vec<usize> {
    let pruned = predicate.evaluate(batch).unwrap();
    assert_eq!(
        batch.num_rows(),
        pruned.keep.true_count() + pruned.by_static + pruned.by_dynamic
    );
    (0..batch.num_rows())
        .filter(|row| pruned.keep.value(*row))
        .collect()
}

fn years(values: &[Option<i32>]) -> RecordBatch {
    let column = Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    RecordBatch::try_new(spec().prefix(1), vec![column]).unwrap()
}

fn ym(predicate: (i32, i32)) -> Expr {
    col("year")
        .eq(lit(predicate.0))
        .and(col("month").eq(lit(predicate.1)))
}

#[test]
fn a_known_column_drops_false_and_null() {
    let batch = years(&[Some(2023), Some(2024), None]);
    assert_eq!(kept(&predicate(col("year").eq(lit(2024))), &batch), [1]);
    assert_eq!(
        kept(&predicate(not(col("year").eq(lit(2024)))), &batch),
        [0]
    );
    assert_eq!(kept(&predicate(col("year").is_null()), &batch), [2]);
    assert_eq!(
        kept(
            &predicate(col("year").in_list(vec![lit(1), lit(2023)], false)),
            &batch
        ),
        [0]
    );
}

#[test]
fn an_unknown_column_keeps_what_may_become_true() {
    let batch = years(&[Some(2022), Some(2023), Some(2024), None]);
    assert_eq!(kept(&predicate(ym((2024, 7))), &batch), [2]);
    assert_eq!(
        kept(&predicate(ym((2024, 7)).or(ym((2023, 1)))), &batch),
        [1, 2]
    );
    assert_eq!(
        kept(
            &predicate(col("year").eq(lit(2024)).or(col("month").eq(lit(7)))),
            &batch
        ),
        [0, 1, 2, 3]
    );
    assert_eq!(kept(&predicate(not(ym((2024, 7)))), &batch), [0, 1, 2, 3]);
    assert_eq!(
        kept(
            &predicate(not(col("year").eq(lit(2024)).or(col("month").eq(lit(7))))),
            &batch
        ),
        [0, 1]
    );
    assert_eq!(
        kept(&predicate(col("month").eq(lit(7))), &batch),
        [0, 1, 2, 3]
    );
}

#[test]
fn a_column_of_the_files_is_never_known() {
    let batch = years(&[Some(2023), Some(2024)]);
    let mixed = (col("year").eq(lit(2024)).and(col("amount").gt(lit(1))))
        .or(col("year").eq(lit(2020)).and(col("amount").lt(lit(1))));
    assert_eq!(kept(&predicate(mixed), &batch), [1]);
    assert_eq!(
        kept(&predicate(col("year").eq(col("amount"))), &batch),
        [0, 1]
    );
}

#[test]
fn an_expression_over_known_columns_reports_its_errors_but_not_for_dropped_rows() {
    let batch = years(&[Some(0), Some(5)]);
    let division = (lit(10) / col("year")).gt(lit(1));
    assert!(predicate(division.clone()).evaluate(&batch).is_err());
    let guarded = predicate(col("year").not_eq(lit(0)).and(division.clone()));
    assert_eq!(kept(&guarded, &batch), [1]);
    // Undecided as long as the month is unknown: no error, and nothing dropped.
    assert_eq!(
        kept(&predicate(division.or(col("month").eq(lit(1)))), &batch),
        [0, 1]
    );
}

#[test]
fn knowing_more_columns_never_brings_a_partition_back() {
    let towns = ["a", "b"];
    let mut rows = vec![];
    for year in [None, Some(2023), Some(2024)] {
        for month in [None, Some(1), Some(7)] {
            rows.extend(towns.iter().map(|town| (year, month, *town)));
        }
    }
    let columns: [ArrayRef; 3] = [
        Arc::new(rows.iter().map(|r| r.0).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| r.1).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| Some(r.2)).collect::<StringArray>()),
    ];
    let expressions = [
        ym((2024, 7)).or(ym((2023, 1)).and(col("town").eq(lit("a")))),
        not(ym((2024, 7)).or(col("town").eq(lit("b")))),
        col("month")
            .is_null()
            .or(col("year").is_null().and(col("town").not_eq(lit("a")))),
        (col("year") + col("month")).gt(lit(2024)),
        lit(false),
    ];
    for expr in expressions {
        let predicate = predicate(expr.clone());
        let mut before: Vec<usize> = (0..rows.len()).collect();
        for known in 0..=3 {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(
                spec().prefix(known),
                columns[..known].to_vec(),
                &options,
            )
            .unwrap();
            let now = kept(&predicate, &batch);
            assert!(
                now.iter().all(|row| before.contains(row)),
                "{expr} with {known} columns"
            );
            before = now;
        }
    }
}

#[test]
fn key_tuples_are_not_a_product_of_columns() {
    let slot = Arc::new(KeySlot::default());
    let column = |name, index| FilterKey::equal(Arc::new(Column::new(name, index)));
    let keys = [column("year", 0), column("month", 1)];
    let predicate = PartitionPredicate::all(&spec()).with_keys(&keys, Arc::clone(&slot));
    assert!(!predicate.constrains_from(0));
    assert_eq!(kept(&predicate, &years(&[Some(2022)])), [0]);

    let keys: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![2024, 2023])),
        Arc::new(Int32Array::from(vec![7, 1])),
    ];
    slot.publish(Arc::new(KeySet::Tuples(KeyTuples::new(keys))));
    assert!(predicate.constrains_from(1));
    assert!(!predicate.constrains_from(2));
    assert_eq!(
        kept(
            &predicate,
            &years(&[Some(2022), Some(2023), Some(2024), None])
        ),
        [1, 2]
    );

    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![2023, 2023, 2024, 2024])),
        Arc::new(Int32Array::from(vec![1, 7, 1, 7])),
    ];
    let batch = RecordBatch::try_new(spec().prefix(2), columns).unwrap();
    assert_eq!(kept(&predicate, &batch), [0, 3]);
    assert_eq!(predicate.evaluate(&batch).unwrap().by_dynamic, 2);
}

/// The years that a predicate lists, sorted.
fn listed(predicate: &PartitionPredicate) -> Option<Vec<i32>> {
    let values = predicate.candidates(0)?;
    let values = values.as_any().downcast_ref::<Int32Array>().unwrap();
    assert_eq!(values.null_count(), 0);
    let mut values = values.values().to_vec();
    values.sort_unstable();
    Some(values)
}

#[test]
fn equalities_and_lists_name_candidates() {
    let year = || col("year");
    let null = || lit(ScalarValue::Int32(None));
    let month = || col("month").eq(lit(7));
    for (expr, expected) in [
        (year().eq(lit(2024)), Some(vec![2024])),
        (lit(2024).eq(year()).and(month()), Some(vec![2024])),
        (
            year().in_list(vec![lit(1), lit(2), null()], false),
            Some(vec![1, 2]),
        ),
        (year().in_list(vec![lit(1), lit(2)], true), None),
        (
            year().eq(lit(1)).or(year().eq(lit(2)).and(month())),
            Some(vec![1, 2]),
        ),
        (year().eq(lit(1)).or(month()), None),
        (
            year()
                .in_list(vec![lit(1), lit(2)], false)
                .and(year().eq(lit(2))),
            Some(vec![2]),
        ),
        (year().eq(null()), Some(vec![])),
        (year().gt(lit(1)), None),
        (year().eq(col("month")), None),
        (month(), None),
        (not(year().eq(lit(1))), None),
        (year().is_null(), Some(vec![])),
        (year().is_not_null(), None),
        (
            cast(year(), DataType::Int64).in_list(vec![lit(2024_i64), lit(1_i64 << 40)], false),
            Some(vec![2024]),
        ),
        (cast(year(), DataType::Utf8).eq(lit("7")), Some(vec![7])),
        (cast(year(), DataType::Float32).eq(lit(7_f32)), None),
        (cast(year(), DataType::Boolean).eq(lit(true)), None),
    ] {
        assert_eq!(listed(&predicate(expr.clone())), expected, "{expr}");
    }
}

#[test]
fn keys_of_a_join_are_candidates_once_they_are_known() {
    let slot = Arc::<KeySlot>::default();
    let column = |name, index| FilterKey::equal(Arc::new(Column::new(name, index)));
    let keys = [column("month", 1), column("year", 0)];
    let wanted = PartitionPredicate::all(&spec()).with_keys(&keys, Arc::clone(&slot));
    assert_eq!(listed(&wanted), None);
    let months: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let years: ArrayRef = Arc::new(Int32Array::from(vec![Some(2024), None, Some(2023)]));
    slot.publish(Arc::new(KeySet::Tuples(KeyTuples::new(vec![
        months, years,
    ]))));
    assert_eq!(listed(&wanted), Some(vec![2023, 2024]));
    assert_eq!(
        listed(&wanted.with_filter(&year_is(2024))),
        Some(vec![2024])
    );
}

fn year_is(year: i32) -> Arc<dyn PhysicalExpr> {
    Arc::clone(
        predicate(col("year").eq(lit(year)))
            .filters()
            .next()
            .unwrap(),
    )
}

#[test]
fn of_a_prefix_the_other_columns_are_not_known() {
    let wanted = predicate(ym((2024, 7)).or(col("town").eq(lit("x")).and(col("year").gt(lit(9)))));
    let prefix = wanted.over_prefix(1);
    assert_eq!(prefix.spec().len(), 1);
    assert_eq!(
        kept(&prefix, &years(&[Some(8), Some(2024), Some(10), None])),
        [1, 2]
    );
    assert!(!prefix.constrains_from(1));
}
