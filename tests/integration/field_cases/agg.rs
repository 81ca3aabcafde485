//! AGG: counts, answers from metadata, ORDER BY, LIMIT, statistics.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::parquet::file::statistics::Statistics as ColumnStatistics;
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion_partitioned_test_utils::{scan_metric, sorted_rows};

use super::{Case, Table, modes};
use crate::common::{Fixture, is_build_side};

/// Rows of partition columns alone: the number of rows comes from the files, their columns are not
/// read (pola-rs/polars #11796 and #11682, spiceai/spiceai #14112).
#[tokio::test]
async fn agg_01_only_partition_columns_selected() {
    let case = Case::new()
        .ids("T/p=1/f.parquet", &[1, 2, 3])
        .ids("T/p=2/f.parquet", &[4])
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .open()
        .await;
    case.ordered("SELECT p FROM t ORDER BY p", &["1", "1", "1", "2"])
        .await;
    let query = "SELECT p, count(*) FROM t GROUP BY p ORDER BY p";
    case.ordered(query, &["1 | 3", "2 | 1"]).await;
    for session in case.usable() {
        for answer in session.ask("SELECT p FROM t LIMIT 2").await {
            assert_eq!(sorted_rows(&answer.batches).len(), 2, "{}", answer.name);
        }
    }
    case.rows("SELECT DISTINCT p FROM t WHERE p > 1", &["2"])
        .await;

    let bytes_scanned = async |query| {
        let (_, plan) = case.default().run(query).await.unwrap();
        scan_metric(&plan, "bytes_scanned")
    };
    let footers = bytes_scanned("SELECT p FROM t").await;
    assert!(footers < bytes_scanned("SELECT p, id FROM t").await);
    let grouped = bytes_scanned("SELECT p, count(*) FROM t GROUP BY p").await;
    assert!(grouped <= footers, "{grouped} bytes, {footers} of footers");
}

/// Counts over text formats, whose files have no number of rows (elastic/elasticsearch #154409,
/// facebookincubator/velox #893).
#[tokio::test]
async fn agg_02_count_over_csv_and_json() {
    let columns = "id BIGINT, p INT";
    let case = Case::new()
        .bytes("T/p=1/f.csv", "id\n1\n2\n")
        .bytes("T/p=2/f.csv", "id\n3\n")
        .bytes("T/p=3/f.csv", "id\n")
        .bytes("U/p=1/f.json", "{\"id\":1}\n{\"id\":2}\n")
        .bytes("U/p=2/f.json", "{\"id\":3}\n")
        .bytes("U/p=3/f.json", "\n")
        .table(Table::new("csv", columns, "p").stored_as("CSV"))
        .table(
            Table::new("json", columns, "p")
                .stored_as("JSON")
                .at(&["U/"]),
        )
        .open()
        .await;
    for table in ["csv", "json"] {
        for (query, expected) in [
            ("SELECT count(*) FROM", "3"),
            ("SELECT count(p) FROM", "3"),
            ("SELECT count(1) FROM", "3"),
        ] {
            case.rows(&format!("{query} {table}"), &[expected]).await;
        }
        let query = format!("SELECT count(*) FROM {table} WHERE p = 1");
        case.rows(&query, &["2"]).await;
        let query = format!("SELECT count(1) FROM {table} WHERE p = 3");
        case.rows(&query, &["0"]).await;
    }
}

/// Smallest and largest values of one partition that is left, and of none (duckdb/duckdb #25629,
/// pola-rs/polars #11536).
#[tokio::test]
async fn agg_04_extremes_after_pruning_to_one_file_or_none() {
    let row = || rows!(("a", Int32, [1]));
    let case = Case::new()
        .parquet("T/day=2026-01-09/f.parquet", row())
        .parquet("T/day=2026-01-10/f.parquet", row())
        .parquet("T/day=2026-01-13/f.parquet", row())
        .table(Table::new("t", "a INT, day DATE", "day"))
        .open()
        .await;
    for (query, expected) in [
        (
            "SELECT max(day) FROM t WHERE day < DATE '2026-01-13'",
            "2026-01-10",
        ),
        (
            "SELECT max(day) FROM t WHERE day < DATE '2026-01-10'",
            "2026-01-09",
        ),
        (
            "SELECT max(day), count(*) FROM t WHERE day < DATE '2020-01-01'",
            "<null> | 0",
        ),
    ] {
        case.rows(query, &[expected]).await;
    }
    let query = "SELECT day, a FROM t WHERE day = DATE '1999-01-01'";
    case.files(query, &[], 0).await;
    for session in case.usable() {
        let schema = session.plan(query).await.unwrap().schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, ["day", "a"], "{}", session.mode.name);
    }
}

/// A number of rows is exact only for what is counted, filters included (apache/datafusion #12416,
/// delta-io/delta-rs #4681).
#[tokio::test]
async fn agg_05_counts_with_filters_are_counted() {
    let case = Case::new()
        .parquet("T/p=1/f.parquet", rows!(("age", Int32, [5, 15, 25])))
        .parquet("T/p=2/f.parquet", rows!(("age", Int32, [35])))
        .table(Table::new("t", "age INT, p INT", "p"))
        .open()
        .await;
    for (query, expected) in [
        ("SELECT count(*) FROM t WHERE age > 10", "3"),
        ("SELECT count(*) FROM t WHERE p = 1", "3"),
        ("SELECT count(*) FROM t WHERE p = 1 AND age > 10", "2"),
        (
            "SELECT count(*) FROM t JOIN (VALUES (2)) v(p) ON t.p = v.p",
            "1",
        ),
        ("SELECT count(age) FROM t WHERE age <> 15", "3"),
    ] {
        case.rows(query, &[expected]).await;
    }
}

/// Estimates are those of the partitions that are left, so that the smaller side of a join is
/// collected (apache/spark #31205 and #18205, apache/flink #10315).
#[tokio::test]
async fn agg_09_statistics_after_pruning() {
    let rows = |count: i64| {
        let ids: Vec<_> = (0..count).collect();
        rows!(("id", Int64, ids))
    };
    let table = Table::new("t", "id BIGINT, p INT", "p");
    let case = Case::new()
        .parquet("T/p=1/f.parquet", rows(10))
        .parquet("T/p=2/f.parquet", rows(1_000_000))
        .table(table.rows_in_catalog(|location| match location.filename() {
            Some("p=1") => 10,
            _ => 1_000_000,
        }))
        .statement("CREATE TABLE big AS SELECT value % 7 AS p FROM generate_series(1, 30000)")
        // By this all partitions have been seen.
        .statement("SELECT DISTINCT p FROM t")
        .modes(modes::MANY_ROWS)
        .open_broken()
        .await;
    case.rows("SELECT count(*) FROM t WHERE p = 1", &["10"])
        .await;
    case.rows("SELECT min(p), max(p) FROM t WHERE p = 1", &["1 | 1"])
        .await;
    let join = |p| format!("SELECT t.id FROM t JOIN big ON t.p = big.p WHERE t.p = {p}");
    let counted = format!("SELECT count(*) FROM ({})", join(1));
    case.rows(&counted, &[&(10 * 4286).to_string()]).await;

    for session in case.usable() {
        let name = session.mode.name;
        // Without pruning both partitions are read in any case.
        for (p, is_small) in [(1, session.mode.prunes), (2, false)] {
            let plan = session.plan(&join(p)).await.unwrap();
            let text = displayable(plan.as_ref()).set_show_statistics(true);
            let text = format!("[{name}] {p}: {}", text.indent(false));
            assert_eq!(is_build_side(&plan), is_small, "{text}");
        }
        if session.mode.prunes {
            let query = "SELECT id, p FROM t WHERE p = 1";
            let statistics = statistics(&session.plan(query).await.unwrap());
            // The catalog has counted them; of directories the bytes are known.
            let rows = statistics.num_rows;
            let most = if session.mode.catalog_backed { 10 } else { 100 };
            assert_eq!(rows.is_exact(), Some(false), "[{name}]");
            let rows = *rows.get_value().unwrap();
            assert!((10..=most).contains(&rows), "[{name}] {rows}");
            let p = &statistics.column_statistics[1];
            let one = Precision::Inexact(ScalarValue::from(1));
            assert_eq!((&p.min_value, &p.max_value), (&one, &one), "[{name}]");
            assert_eq!(p.null_count, Precision::Inexact(0), "[{name}]");
            assert_eq!(p.distinct_count, Precision::Inexact(1), "[{name}]");
        }
    }
}

/// A table that no query has read is large, and no request is made to know better. Of one that has
/// been read, what was seen counts as it is, and what was not as a share of the average.
#[tokio::test]
async fn agg_09_what_has_not_been_seen_is_large() {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=1/f.csv", &[1, 2, 3]).await;
    let many: Vec<i64> = (0..20_000).collect();
    fixture.put_ids("t/p=2/f.csv", &many).await;
    fixture.put_ids("t/p=3/f.csv", &many).await;
    fixture.create("t", "p INT").await;
    let values = "SELECT CAST(value % 3 AS INT) AS p FROM generate_series(1, 10000)";
    fixture
        .run(&format!("CREATE TABLE other AS {values}"))
        .await
        .unwrap();
    let is_build = async |p: i32| {
        let join = format!("SELECT t.id FROM t JOIN other ON t.p = other.p WHERE t.p = {p}");
        is_build_side(&fixture.plan(&join).await.unwrap())
    };
    // Rows are bytes by the width of a row, which is 12.
    let rows = async |filter: &str| {
        let query = format!("SELECT * FROM t WHERE {filter}");
        let statistics = statistics(&fixture.plan(&query).await.unwrap());
        *statistics.num_rows.get_value().unwrap()
    };
    let see = async |filter: &str| {
        fixture
            .rows(&format!("SELECT count(*) FROM t WHERE {filter}"))
            .await;
        fixture.take_requests();
    };
    assert_eq!(rows("p > 0").await, 20 * 64 * 1024 * 1024 / 12);
    assert!(!is_build(1).await);
    see("p = 2").await;
    // The one that was seen, one like it, and with a fifth of two like it.
    assert_eq!(rows("p = 2").await, 9074);
    assert_eq!(rows("p = 1").await, 9074);
    assert_eq!(rows("p > 1").await, 12_704);
    see("p = 1").await;
    assert!(is_build(1).await);
    assert!(!is_build(2).await);
    see("p > 0").await;
    // Nothing is wanted here, which says nothing about the table.
    let nothing =
        "SELECT t.id FROM other JOIN t ON t.p = other.p AND t.id = other.p WHERE other.p > 9";
    assert_eq!(fixture.rows(nothing).await.len(), 0);
    fixture.take_requests();
    for (filter, expected) in [
        ("p = 1", 1),
        ("p = 2", 9074),
        ("p > 0", 18_149),
        ("p = 7", 1),
    ] {
        assert_eq!(rows(filter).await, expected, "{filter}");
    }
    assert!(is_build(1).await && !is_build(2).await);
    assert_eq!(fixture.take_requests(), "");
}

fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
    StatisticsContext::new()
        .compute(plan.as_ref(), &Default::default())
        .unwrap()
}

/// A Parquet file with a row group for each of `groups`, whose statistics have smallest and largest
/// values of the first column and no number of NULLs.
fn without_null_counts(groups: &[RecordBatch]) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    let mut bytes = vec![];
    let schema = groups[0].schema();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties)).unwrap();
    for group in groups {
        writer.write(group).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();

    // At the end: the metadata, its length, "PAR1".
    let end = bytes.len() - 8;
    let length = bytes[end..end + 4].try_into().unwrap();
    let start = end - u32::from_le_bytes(length) as usize;
    let metadata = &bytes[start..end];
    let metadata = ParquetMetaDataReader::decode_metadata(metadata).unwrap();
    let mut metadata = metadata.into_builder();
    let row_groups = metadata.take_row_groups().into_iter().map(|group| {
        let column = group.column(0).clone();
        let Some(ColumnStatistics::Int32(known)) = column.statistics() else {
            panic!("{:?}", column.statistics());
        };
        let known = ColumnStatistics::int32(
            known.min_opt().copied(),
            known.max_opt().copied(),
            None,
            None,
            false,
        );
        let column = column.into_builder().set_statistics(known).build().unwrap();
        let group = group.into_builder().set_column_metadata(vec![column]);
        group.build().unwrap()
    });
    let metadata = metadata.set_row_groups(row_groups.collect()).build();
    // The data and the offsets of it stay as they are.
    bytes.truncate(start);
    ParquetMetaDataWriter::new(&mut bytes, &metadata)
        .finish()
        .unwrap();
    bytes
}

/// Statistics that are missing are unknown, not zero (apache/datafusion #25239,
/// ClickHouse/ClickHouse #118930).
#[tokio::test]
async fn agg_10_missing_null_count_is_not_zero() {
    let group = |values: [Option<i32>; 3]| rows!(("k", Int32, values.to_vec()));
    let file = without_null_counts(&[
        group([Some(0), Some(1), Some(2)]),
        group([None, Some(100), Some(101)]),
        group([Some(200), Some(201), Some(202)]).slice(0, 2),
    ]);
    let case = Case::new()
        .bytes("T/p=1/f.parquet", file)
        .table(Table::new("t", "k INT, p INT", "p"))
        .open()
        .await;
    for (query, expected) in [
        (
            "SELECT k FROM t ORDER BY k ASC NULLS FIRST LIMIT 1",
            "<null>",
        ),
        ("SELECT count(*) FROM t WHERE k IS NULL", "1"),
        ("SELECT count(k) FROM t", "7"),
        ("SELECT count(*) FROM t WHERE k IS NOT NULL", "7"),
    ] {
        case.rows(query, &[expected]).await;
    }
}

/// A catalog that says 0 rows has not counted them: the files have them (JanKaul/iceberg-rust #359).
#[tokio::test]
async fn agg_10_no_rows_in_the_catalog_is_not_known() {
    let values = |values: [Option<i32>; 3]| rows!(("k", Int32, values.to_vec()));
    let case = Case::new()
        .parquet("T/p=1/f.parquet", values([None, Some(100), Some(101)]))
        .parquet("T/p=2/f.parquet", values([Some(7), Some(8), None]))
        .parquet("T/p=3/f.parquet", values([None; 3]).slice(0, 0))
        .table(
            Table::new("t", "k INT, p INT", "p").rows_in_catalog(|location| {
                // The second has been counted, the others have not.
                if location.as_ref().ends_with("p=2") {
                    3
                } else {
                    0
                }
            }),
        )
        .open()
        .await;
    for (query, expected) in [
        ("SELECT count(*) FROM t", &["6"][..]),
        ("SELECT count(p) FROM t WHERE p = 1", &["3"]),
        ("SELECT count(*) FROM t WHERE p = 3", &["0"]),
        ("SELECT count(k) FROM t", &["4"]),
        ("SELECT count(*) FROM t WHERE k IS NULL", &["2"]),
        ("SELECT count(*) FROM t WHERE k IS NOT NULL", &["4"]),
        ("SELECT p, count(*) FROM t GROUP BY p", &["1 | 3", "2 | 3"]),
        ("SELECT DISTINCT p FROM t", &["1", "2"]),
        ("SELECT min(p), max(p) FROM t", &["1 | 2"]),
        ("SELECT p FROM t", &["1", "1", "1", "2", "2", "2"]),
        ("SELECT p FROM t ORDER BY p LIMIT 4", &["1", "1", "1", "2"]),
        (
            "SELECT count(*) FROM t JOIN (VALUES (1)) v(p) ON t.p = v.p",
            &["3"],
        ),
    ] {
        case.rows(query, expected).await;
    }
}
