//! Tables of a source that is not files: every way to ask, against the same rows in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Int64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::prelude::SessionConfig;
use datafusion_partitioned::core::{
    MemoryCatalog, Partition, PartitionLimits, PartitionSpec, RowSource, RowSourceReader,
};
use datafusion_partitioned::table::PartitionedSourceProvider;
use datafusion_partitioned_test_utils::scan_metric;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use insta::assert_snapshot;

use crate::common::{Fixture, partition};

/// The partition at `n` has the rows `id = 10 * n, .., 10 * n + n - 1`, and `twice` as much.
#[derive(Debug)]
struct Numbers {
    schema: SchemaRef,
    opened: AtomicUsize,
}

impl Numbers {
    fn new() -> Self {
        let fields = ["id", "twice"].map(|name| Field::new(name, DataType::Int64, true));
        Self {
            schema: Arc::new(Schema::new(fields.to_vec())),
            opened: AtomicUsize::default(),
        }
    }
}

impl RowSource for Numbers {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn rows(
        &self,
        partition: Partition,
        columns: Vec<usize>,
        _: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let n: i64 = partition.source.location.as_ref().parse().unwrap();
        let schema = Arc::new(self.schema.project(&columns).unwrap());
        stream::iter(10 * n..11 * n)
            .map(move |id| {
                let values = columns.iter().map(|column| [id, 2 * id][*column]);
                let values = values.map(|value| Arc::new(Int64Array::from(vec![value])) as _);
                let options = RecordBatchOptions::new().with_row_count(Some(1));
                let schema = Arc::clone(&schema);
                Ok(RecordBatch::try_new_with_options(
                    schema,
                    values.collect(),
                    &options,
                )?)
            })
            .boxed()
    }

    fn describe(&self) -> String {
        "numbers".to_owned()
    }
}

fn spec() -> PartitionSpec {
    let fields = [("p", DataType::Int32), ("q", DataType::Utf8)];
    PartitionSpec::try_new(fields.map(|(name, data_type)| Field::new(name, data_type, true)))
        .unwrap()
}

/// Ten partitions, the first of which has no rows; and `m`, the same rows in memory.
async fn fixture(config: SessionConfig, limits: PartitionLimits) -> (Fixture, Arc<Numbers>) {
    let fixture = Fixture::with_config(config);
    let partitions = (0..10).map(|n| {
        let q = (n % 3 > 0).then(|| format!("q{}", n % 3));
        partition(
            &spec(),
            [ScalarValue::from(n / 2), ScalarValue::from(q)],
            &n.to_string(),
        )
    });
    let catalog = MemoryCatalog::try_new(spec(), &partitions.collect::<Vec<_>>()).unwrap();
    let numbers = Arc::new(Numbers::new());
    let reader = RowSourceReader::new(Arc::clone(&numbers) as _, &spec());
    let table = PartitionedSourceProvider::try_new(Arc::new(catalog), Arc::new(reader)).unwrap();
    let table = Arc::new(table.with_limits(limits));
    fixture.ctx.register_table("t", table).unwrap();
    let memory = "CREATE TABLE m AS SELECT n * 10 + i AS id, 2 * (n * 10 + i) AS twice, \
        CAST(n / 2 AS INT) AS p, CASE WHEN n % 3 > 0 THEN concat('q', n % 3) END AS q \
        FROM generate_series(0, 9) AS a(n), generate_series(0, 9) AS b(i) WHERE i < n";
    fixture.run(memory).await.unwrap();
    let keys =
        "CREATE TABLE d AS SELECT * FROM (VALUES (1, 'q2'), (4, NULL), (4, 'q2')) AS d(a, b)";
    fixture.run(keys).await.unwrap();
    (fixture, numbers)
}

const QUERIES: [&str; 16] = [
    "SELECT * FROM t",
    "SELECT q, twice FROM t",
    "SELECT p, q FROM t",
    "SELECT count(*) FROM t",
    "SELECT p + id, q AS r, id FROM t WHERE twice > 100",
    "SELECT * FROM t WHERE p = 2",
    "SELECT id FROM t WHERE q IS NULL AND p IN (0, 3, 4)",
    "SELECT id FROM t WHERE (p = 1 AND id > 30) OR (q = 'q2' AND id < 60)",
    "SELECT p, min(id), count(*) FROM t GROUP BY p",
    "SELECT DISTINCT q FROM t",
    "SELECT max(p), min(q) FROM t",
    "SELECT id, p FROM t ORDER BY p DESC, q, id LIMIT 4",
    "SELECT t.id, d.b FROM t JOIN d ON t.p = d.a AND t.q = d.b",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM d WHERE d.a = t.p AND d.b = t.q)",
    "SELECT id FROM t WHERE p = (SELECT min(a) FROM d)",
    "SELECT a.id FROM t AS a JOIN t AS b ON a.p = b.p WHERE b.id = 30",
];

#[tokio::test]
async fn every_query_in_every_mode() {
    for (streams, work_stealing) in [(1, true), (3, true), (3, false)] {
        let config = SessionConfig::new().with_target_partitions(streams);
        let (fixture, _) = fixture(config, PartitionLimits::default()).await;
        let stealing = "datafusion.execution.enable_file_stream_work_stealing";
        fixture.set(stealing, work_stealing).await;
        for option in ["", "static_pruning", "metadata_answers", "ordered_scan"] {
            if !option.is_empty() {
                fixture
                    .set(&format!("partitioned.{option}"), option == "ordered_scan")
                    .await;
            }
            for sql in QUERIES {
                let in_memory = sql.replace("FROM t", "FROM m").replace("JOIN t", "JOIN m");
                let expected = fixture.rows(&in_memory.replace("t.", "m.")).await;
                let asked = format!("{sql} ({streams}, {work_stealing}, {option})");
                assert_eq!(fixture.rows(sql).await, expected, "{asked}");
            }
        }
    }
}

#[tokio::test]
async fn only_what_is_wanted_is_opened() {
    let config = SessionConfig::new().with_target_partitions(2);
    let (fixture, numbers) = fixture(config, PartitionLimits::default()).await;
    for (sql, opened) in [
        ("SELECT id FROM t WHERE p = 2", 2),
        ("SELECT t.id FROM t JOIN d ON t.p = d.a AND t.q = d.b", 2),
        ("SELECT id FROM t WHERE p = 3 AND q IS NULL LIMIT 1", 1),
        ("SELECT max(p) FROM t", 1),
        ("EXPLAIN SELECT * FROM t", 0),
    ] {
        numbers.opened.store(0, Ordering::Relaxed);
        let (_, plan) = fixture.analyze(sql).await;
        assert_eq!(numbers.opened.load(Ordering::Relaxed), opened, "{sql}");
        if opened > 0 {
            assert_eq!(scan_metric(&plan, "partitions_scanned"), opened, "{sql}");
        }
    }
    // Each query counts for itself.
    let (rows, plan) = fixture.analyze("SELECT id FROM t WHERE p = 4").await;
    assert_eq!(scan_metric(&plan, "output_rows"), rows.len());
    let plan = fixture.explain("SELECT q, id FROM t WHERE p > 3 AND id > 5");
    assert_snapshot!(plan.await, @r"
    FilterExec: id@0 > 5, projection=[q@1, id@0]
      CooperativeExec
        DataSourceExec: partitions=memory(10 partitions), partitioned_by=[p, q], partition_filters=[p@0 > 3], projection=[id, q], source=numbers
    ");
}

#[tokio::test]
async fn limits_hold() {
    let limits = PartitionLimits {
        filter_required: true,
        max_partitions: Some(2),
    };
    let (fixture, _) = fixture(SessionConfig::new(), limits).await;
    fixture
        .fails("SELECT * FROM t", &["must be queried with a filter"])
        .await;
    fixture
        .fails("SELECT * FROM t WHERE p > 2", &["at least 4 partitions"])
        .await;
    assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 1").await.len(), 5);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let catalog = |spec: PartitionSpec| Arc::new(MemoryCatalog::try_new(spec, &[]).unwrap());
    let table = |of_catalog: PartitionSpec| {
        let reader = RowSourceReader::new(Arc::new(Numbers::new()), &spec());
        PartitionedSourceProvider::try_new(catalog(of_catalog), Arc::new(reader))
    };
    let of = |name, data_type| {
        let fields = [(name, data_type), ("q", DataType::Utf8)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        PartitionSpec::try_new(fields).unwrap()
    };
    assert!(table(of("p", DataType::Int32)).is_ok());
    for wrong in [of("p", DataType::Int64), of("r", DataType::Int32)] {
        let error = table(wrong).unwrap_err().to_string();
        assert!(
            error.contains("must end with the partition columns"),
            "{error}"
        );
    }
    let twice = PartitionSpec::try_new([Field::new("id", DataType::Int32, true)]).unwrap();
    let reader = RowSourceReader::new(Arc::new(Numbers::new()), &twice);
    let error = PartitionedSourceProvider::try_new(catalog(twice), Arc::new(reader)).unwrap_err();
    assert!(error.to_string().contains("'id' is both"), "{error}");
}
