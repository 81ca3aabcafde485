//! The inner loops of pruning: names to values, values against a predicate, values against keys.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use datafusion::arrow::array::{ArrayRef, Date32Array, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::expressions::Column;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::{
    FilterKey, KeySet, KeySlot, KeyTuples, PartitionLayout, PartitionPredicate, PartitionSpec,
};

/// How many directory names, or partitions, a loop goes over.
const COUNT: i32 = 100_000;

fn spec(data_type: DataType) -> Result<PartitionSpec> {
    PartitionSpec::try_new([Field::new("a", data_type, true)])
}

/// The values 0, 1, 2, .. of a partition column, and their directory names.
fn names(data_type: &DataType) -> Vec<String> {
    let name = |number: i32| match data_type {
        DataType::Date32 => {
            let (year, month, day) = (1000 + number / 336, 1 + number / 28 % 12, 1 + number % 28);
            format!("a={year}-{month:02}-{day:02}")
        }
        DataType::Utf8 => format!("a=K%C3%B6ln {number}"),
        _ => format!("a={number}"),
    };
    (0..COUNT).map(name).collect()
}

fn parse(c: &mut Criterion) -> Result<()> {
    let mut group = c.benchmark_group("parse 100k names");
    group.throughput(Throughput::Elements(COUNT as u64));
    for data_type in [DataType::Int32, DataType::Date32, DataType::Utf8] {
        let names = names(&data_type);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let layout = PartitionLayout::hive(&spec(data_type.clone())?);
        let parsed = layout.parse(0, &names, |_| String::new())?;
        assert!(parsed.mismatches.is_empty());
        group.bench_function(data_type.to_string(), |b| {
            b.iter(|| layout.parse(0, black_box(&names), |_| String::new()));
        });
    }
    group.finish();
    Ok(())
}

fn evaluate(c: &mut Criterion) -> Result<()> {
    let mut group = c.benchmark_group("predicate over 100k partitions");
    group.throughput(Throughput::Elements(COUNT as u64));
    let fields = [
        Field::new("i", DataType::Int32, true),
        Field::new("d", DataType::Date32, true),
        Field::new("s", DataType::Utf8, true),
    ];
    let spec = PartitionSpec::try_new(fields)?;
    let columns: [ArrayRef; 3] = [
        Arc::new(Int32Array::from_iter_values(0..COUNT)),
        Arc::new(Date32Array::from_iter_values(0..COUNT)),
        Arc::new(StringArray::from_iter_values(
            (0..COUNT).map(|i| i.to_string()),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(spec.schema()), columns.into())?;
    let schema = DFSchema::try_from(Arc::clone(spec.schema()))?;
    let ctx = SessionContext::new();
    let filters: [(&str, Expr); 5] = [
        ("integer =", col("i").eq(lit(7_i32))),
        ("text =", col("s").eq(lit("7"))),
        ("text LIKE", col("s").like(lit("%77%"))),
        (
            "1,000 IN",
            col("i").in_list((0..1000_i32).map(lit).collect(), false),
        ),
        (
            "OR of two columns",
            col("i").eq(lit(7_i32)).or(col("s").eq(lit("8"))),
        ),
    ];
    for (name, filter) in filters {
        let filter = ctx.create_physical_expr(filter, &schema)?;
        let predicate = PartitionPredicate::all(&spec).with_filter(&filter);
        assert!(predicate.evaluate(&batch)?.keep.true_count() > 0);
        group.bench_function(name, |b| b.iter(|| predicate.evaluate(black_box(&batch))));
    }

    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..1000).map(|i| i * 90)));
    let texts = (0..1000).map(|i| (i * 90).to_string());
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    for (name, keys, columns) in [
        ("1,000 integer keys", vec![Arc::clone(&keys)], &[0][..]),
        ("1,000 tuples", vec![keys, texts], &[0, 2][..]),
    ] {
        let slot = Arc::new(KeySlot::default());
        slot.publish(Arc::new(KeySet::Tuples(KeyTuples::new(keys))));
        let columns: Vec<_> = columns
            .iter()
            .map(|index| FilterKey::equal(Arc::new(Column::new("", *index))))
            .collect();
        let predicate = PartitionPredicate::all(&spec).with_keys(&columns, slot);
        assert_eq!(predicate.evaluate(&batch)?.keep.true_count(), 1000);
        group.bench_function(name, |b| b.iter(|| predicate.evaluate(black_box(&batch))));
    }
    group.finish();
    Ok(())
}

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    parse(&mut criterion)?;
    evaluate(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
