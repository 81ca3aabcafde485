//! The suite for readers, over files of each format.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::TaskContext;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::core::contract::{ReaderFixture, check_reader};
use datafusion_partitioned::core::{
    Partition, PartitionReader, PartitionSpec, RowSource, RowSourceReader,
};
use datafusion_partitioned::table::FilePartitionReader;
use datafusion_partitioned_test_utils::FileKind;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::ObjectMeta;

use crate::common::{Fixture, partition};

/// Partitions with files of one format.
pub(super) struct Files {
    fixture: Fixture,
    format: Arc<dyn FileFormat>,
    partitions: Vec<(Partition, RecordBatch)>,
}

pub(super) fn spec() -> PartitionSpec {
    let fields = [("p", DataType::Int32), ("q", DataType::Utf8)];
    PartitionSpec::try_new(fields.map(|(name, data_type)| Field::new(name, data_type, true)))
        .unwrap()
}

pub(super) fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let names = ids.clone().map(|id| (id % 3 > 0).then(|| format!("n{id}")));
    let names = Arc::new(names.collect::<StringArray>()) as ArrayRef;
    let ids = Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef;
    let columns = [("id", ids, true), ("name", names, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

impl Files {
    /// Of several files, of one, of none, and of one without rows where the format knows that.
    pub(super) async fn new(
        kind: FileKind,
        format: impl FileFormat + 'static,
        config: SessionConfig,
    ) -> Self {
        let fixture = Fixture::with_config(config);
        let given = [
            (Some(2), Some("x"), vec![0..1000, 1000..1001, 1001..1500]),
            (None, Some("x"), vec![7..9, 9..9]),
            (Some(1), None, vec![]),
            (Some(1), Some("y z"), vec![1..2, 5..5, 9..11]),
        ];
        let mut partitions = vec![];
        for (number, (p, q, files)) in given.into_iter().enumerate() {
            let mut all = rows(0..0);
            for (file, ids) in files.into_iter().enumerate() {
                let rows = rows(ids);
                let key = format!("t/{number}/{file}.{}", kind.extension());
                fixture.lake.put(&key, kind, &rows).await.unwrap();
                let both = [&all, &rows];
                all = datafusion::arrow::compute::concat_batches(&rows.schema(), both).unwrap();
            }
            let values = [ScalarValue::from(p), ScalarValue::from(q)];
            partitions.push((partition(&spec(), values, &format!("t/{number}")), all));
        }
        Self {
            fixture,
            format: Arc::new(format),
            partitions,
        }
    }
}

impl ReaderFixture for Files {
    fn reader(&self) -> Arc<dyn PartitionReader> {
        let root = ListingTableUrl::parse(self.fixture.lake.location("")).unwrap();
        let schema = TableSchema::builder(rows(0..0).schema())
            .with_table_partition_cols(spec().fields().clone())
            .build();
        let source = self.format.file_source(schema);
        let template = FileScanConfigBuilder::new(root.object_store(), source).build();
        Arc::new(FilePartitionReader::new(template))
    }

    fn spec(&self) -> PartitionSpec {
        spec()
    }

    fn partitions(&self) -> Vec<(Partition, RecordBatch)> {
        self.partitions.clone()
    }

    fn unreadable(&self) -> Option<Partition> {
        let values = [ScalarValue::from(9), ScalarValue::from("gone")];
        let mut partition = partition(&spec(), values, "t/gone");
        let gone = ObjectMeta {
            location: "t/gone/f".into(),
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: 100,
            e_tag: None,
            version: None,
        };
        partition.source = partition.source.with_objects(vec![gone]);
        Some(partition)
    }

    fn session(&self) -> SessionContext {
        self.fixture.ctx.clone()
    }
}

/// Sessions with small and large batches, with and without filters in the Parquet reader.
pub(super) fn sessions() -> [SessionConfig; 2] {
    let config = SessionConfig::new().with_target_partitions(2);
    let mut pushing = config.clone().with_batch_size(7);
    pushing.options_mut().execution.parquet.pushdown_filters = true;
    pushing.options_mut().optimizer.repartition_file_min_size = 1;
    [config, pushing]
}

/// Rows that are given.
#[derive(Debug)]
struct Given {
    schema: SchemaRef,
    partitions: Vec<(Partition, RecordBatch)>,
}

impl RowSource for Given {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn rows(
        &self,
        partition: Partition,
        columns: Vec<usize>,
        _: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let rows = self.partitions.iter().find(|(p, _)| *p == partition);
        let Some((_, rows)) = rows.map(|(p, rows)| (p, rows.project(&columns).unwrap())) else {
            return stream::once(async { exec_err!("no such partition") }).boxed();
        };
        let starts = (0..rows.num_rows()).step_by(400);
        stream::iter(starts)
            .map(move |start| Ok(rows.slice(start, 400.min(rows.num_rows() - start))))
            .boxed()
    }

    fn describe(&self) -> String {
        "given".to_owned()
    }
}

/// The partitions of files, and their rows from memory.
struct GivenFixture(Files);

impl ReaderFixture for GivenFixture {
    fn reader(&self) -> Arc<dyn PartitionReader> {
        let given = Given {
            schema: rows(0..0).schema(),
            partitions: self.partitions(),
        };
        Arc::new(RowSourceReader::new(Arc::new(given), &spec()))
    }

    fn spec(&self) -> PartitionSpec {
        spec()
    }

    fn partitions(&self) -> Vec<(Partition, RecordBatch)> {
        self.0.partitions()
    }

    fn unreadable(&self) -> Option<Partition> {
        self.0.unreadable()
    }
}

#[tokio::test]
async fn rows_of_a_source_keep_the_contract() {
    let [config, _] = sessions();
    let files = Files::new(FileKind::Parquet, ParquetFormat::default(), config).await;
    check_reader(&GivenFixture(files)).await.unwrap();
}

#[tokio::test]
async fn parquet_files_keep_the_contract() {
    for config in sessions() {
        let files = Files::new(FileKind::Parquet, ParquetFormat::default(), config).await;
        check_reader(&files).await.unwrap();
    }
}

#[tokio::test]
async fn csv_files_keep_the_contract() {
    for config in sessions() {
        let format = CsvFormat::default().with_has_header(true);
        check_reader(&Files::new(FileKind::Csv, format, config).await)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn json_files_keep_the_contract() {
    for config in sessions() {
        let files = Files::new(FileKind::Json, JsonFormat::default(), config).await;
        check_reader(&files).await.unwrap();
    }
}
