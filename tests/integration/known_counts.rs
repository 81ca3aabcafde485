//! Partitions whose rows a catalog has counted: they are not opened where nothing else is asked for.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::prelude::SessionConfig;
use datafusion_partitioned::core::{MemoryCatalog, PartitionSpec};
use datafusion_partitioned_test_utils::FileKind;

use crate::common::{Fixture, partition};
use crate::metadata_answers::{SWITCH, ids};

/// A catalog that knows the number of rows of some partitions.
fn counted(partitions: &[(Option<i32>, &str, usize)]) -> MemoryCatalog {
    let spec = PartitionSpec::try_new([Field::new("p", DataType::Int32, true)]).unwrap();
    let partitions = partitions.iter().map(|(p, location, rows)| {
        let partition = partition(&spec, [ScalarValue::Int32(*p)], location);
        partition.with_rows(*rows)
    });
    let partitions: Vec<_> = partitions.collect();
    MemoryCatalog::try_new(spec, &partitions).unwrap()
}

#[tokio::test]
async fn known_row_counts_open_nothing() {
    let fixture = Fixture::with_streams(3);
    fixture.register_csv(
        "t",
        counted(&[
            (Some(1), "none/1", 20_000),
            (None, "none/2", 1),
            (Some(3), "none/3", 5),
            (Some(3), "none/4", 6),
        ]),
    );
    for (sql, expected) in [
        (
            "SELECT count(*), count(p), sum(p), max(p) FROM t",
            vec!["20012 | 20011 | 20033 | 3"],
        ),
        (
            "SELECT p, count(*) FROM t GROUP BY p",
            vec!["1 | 20000", "3 | 11", "<null> | 1"],
        ),
        ("SELECT max(p), min(p) FROM t", vec!["3 | 1"]),
        ("SELECT DISTINCT p + 1 FROM t", vec!["2", "4", "<null>"]),
        (
            "SELECT count(*) FROM t WHERE p IS NULL OR p > 2",
            vec!["12"],
        ),
        (
            "SELECT p FROM t WHERE p > 1 ORDER BY p DESC LIMIT 3",
            vec!["3", "3", "3"],
        ),
        ("SELECT 'x' FROM t WHERE p = 3 LIMIT 2", vec!["x", "x"]),
    ] {
        assert_eq!(fixture.rows(sql).await, expected, "{sql}");
        assert_eq!(fixture.take_requests(), "", "{sql}");
    }
    // There is nothing where the catalog points to: what opens it sees no row.
    assert_eq!(fixture.rows("SELECT count(id) FROM t").await, ["0"]);
    assert_eq!(
        fixture.rows("SELECT count(*) FROM t WHERE id > 0").await,
        ["0"]
    );
    fixture.set(SWITCH, false).await;
    assert_eq!(
        fixture.rows("SELECT count(*), max(p) FROM t").await,
        ["0 | <null>"]
    );
}

#[tokio::test]
async fn a_row_count_of_zero_is_no_knowledge() {
    let fixture = Fixture::with_streams(2);
    fixture.put_ids("real/1/f.csv", &[1, 2, 3]).await;
    fixture.put_ids("real/2/f.csv", &[]).await;
    fixture.register_csv(
        "t",
        counted(&[
            (Some(1), "real/1", 0),
            (Some(2), "real/2", 0),
            (Some(0), "none/3", 7),
        ]),
    );
    for on in [true, false] {
        fixture.set(SWITCH, on).await;
        assert_eq!(fixture.rows("SELECT max(p) FROM t").await, ["1"]);
        assert_eq!(
            fixture.rows("SELECT count(*) FROM t WHERE p > 0").await,
            ["3"]
        );
    }
    fixture.set(SWITCH, true).await;
    assert_eq!(
        fixture.rows("SELECT p, count(*) FROM t GROUP BY p").await,
        ["0 | 7", "1 | 3"]
    );
    assert_eq!(
        fixture
            .ordered_rows("SELECT p FROM t ORDER BY p DESC")
            .await
            .concat(),
        "1110000000"
    );
}

#[tokio::test]
async fn a_filter_in_the_reader_outweighs_a_row_count() {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().execution.parquet.pushdown_filters = true;
    let fixture = Fixture::with_config(config);
    fixture
        .lake
        .put("real/1/f.parquet", FileKind::Parquet, &ids(10))
        .await
        .unwrap();
    fixture.register(
        "t",
        counted(&[(Some(1), "real/1", 10)]),
        ParquetFormat::default(),
    );
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["10"]);
    assert_eq!(
        fixture.rows("SELECT count(*) FROM t WHERE id < 4").await,
        ["4"]
    );
    assert_eq!(
        fixture.rows("SELECT max(p) FROM t WHERE id > 40").await,
        ["<null>"]
    );
    assert_eq!(
        fixture
            .rows("SELECT DISTINCT p FROM t WHERE id > 40")
            .await
            .len(),
        0
    );
    assert_eq!(
        fixture.rows("SELECT DISTINCT p FROM t WHERE id < 4").await,
        ["1"]
    );
}
