//! DYN-12: keys of every type of text.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionConfig;
use datafusion_partitioned::core::{MemoryCatalog, PartitionSpec};
use datafusion_partitioned_test_utils::{FileKind, scan_metric};

use crate::common::{Fixture, partition};

fn text_types() -> [DataType; 4] {
    let dictionary = DataType::Dictionary(DataType::UInt16.into(), DataType::Utf8.into());
    let plain = [DataType::Utf8, DataType::Utf8View, DataType::LargeUtf8];
    let [a, b, c] = plain;
    [a, b, c, dictionary]
}

/// Facts `f0` to `f3` by a partition column `s`, and dimensions `d0` to `d3` with a file column `s`,
/// of the four types.
async fn fixture(config: SessionConfig) -> Fixture {
    let fixture = Fixture::with_config(config);
    fixture.put_ids("f/s=u/f.csv", &[1]).await;
    fixture.put_ids("f/s=v/f.csv", &[2]).await;
    for (number, data_type) in text_types().into_iter().enumerate() {
        let spec = PartitionSpec::try_new([Field::new("s", data_type.clone(), true)]).unwrap();
        let partitions = ["u", "v"].map(|s| {
            let value = ScalarValue::from(s).cast_to(&data_type).unwrap();
            partition(&spec, [value], &format!("f/s={s}"))
        });
        let catalog = MemoryCatalog::try_new(spec, &partitions).unwrap();
        fixture.register_csv(&format!("f{number}"), catalog);

        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("u"), Some("v"), None]));
        let flags = BooleanArray::from(vec![false, true, true]);
        let rows = RecordBatch::try_from_iter_with_nullable([
            ("s", cast(&texts, &data_type).unwrap(), true),
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3])), true),
            ("flag", Arc::new(flags), true),
        ]);
        let key = format!("d{number}/f.parquet");
        let rows = rows.unwrap();
        fixture
            .lake
            .put(&key, FileKind::Parquet, &rows)
            .await
            .unwrap();
        let location = fixture.lake.location(&format!("d{number}/"));
        let sql =
            format!("CREATE EXTERNAL TABLE d{number} STORED AS PARQUET LOCATION '{location}'");
        fixture.run(&sql).await.unwrap();
    }
    fixture
}

/// How the planner joins, and how files are read.
fn configs() -> [SessionConfig; 4] {
    [
        (true, 1_000_000, 1, 8192),
        (true, 0, 3, 1),
        (true, 0, 16, 8192),
        (false, 0, 3, 8192),
    ]
    .map(|(hash, threshold, streams, batch_size)| {
        let mut config = SessionConfig::new()
            .with_target_partitions(streams)
            .with_batch_size(batch_size);
        let options = config.options_mut();
        options.optimizer.prefer_hash_join = hash;
        options.optimizer.hash_join_single_partition_threshold = threshold;
        options.optimizer.hash_join_single_partition_threshold_rows = threshold;
        options.execution.parquet.pushdown_filters = batch_size > 1;
        options.execution.parquet.schema_force_view_types = false;
        config
    })
}

/// The types of the two columns of a join may differ in how they hold texts (apache/datafusion
/// #20696, #20937 and #2145).
#[tokio::test]
async fn dyn_12_text_keys_of_all_types() {
    for config in configs() {
        let fixture = fixture(config).await;
        for enabled in [true, false] {
            fixture
                .set("partitioned.dynamic_filter.enabled", enabled)
                .await;
            for f in 0..4 {
                for d in 0..4 {
                    let from = format!("f{f} f JOIN d{d} d");
                    for query in [
                        format!("SELECT f.id FROM {from} ON f.s = d.s WHERE d.flag"),
                        format!(
                            "SELECT f.id FROM {from} ON f.s = d.s AND f.id = d.id WHERE d.flag"
                        ),
                        format!("SELECT f.id FROM f{f} f JOIN (VALUES ('v')) x(s) ON f.s = x.s"),
                    ] {
                        let (rows, plan) = fixture.analyze(&query).await;
                        assert_eq!(rows, ["2"], "{query}");
                        let scanned = scan_metric(&plan, "partitions_scanned");
                        let expected = if enabled { 1 } else { 2 };
                        assert_eq!(
                            scanned,
                            expected,
                            "{query}\n{}",
                            fixture.explain(&query).await
                        );
                    }
                }
            }
        }
        for (number, data_type) in text_types().into_iter().enumerate() {
            for table in ["f", "d"] {
                let query = format!("SELECT DISTINCT arrow_typeof(s) FROM {table}{number}");
                assert_eq!(
                    fixture.rows(&query).await,
                    [data_type.to_string()],
                    "{query}"
                );
            }
        }
    }
}
