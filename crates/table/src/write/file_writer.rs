//! [`FileWriter`]: one file, written by DataFusion's sink of the format.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{FileOutputMode, FileSinkConfig};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::DefaultObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_partitioned_catalog::location_of;
use datafusion_partitioned_core::{Partition, PartitionValues};
use futures::stream;
use object_store::ObjectStore;
use tokio::sync::mpsc::{self, Sender};

use super::Sink;
use super::metered_store::MeteredStore;
use super::replaced::Replaced;
use super::transaction::{FilePlace, Transaction, WrittenFile};

/// Begins the files of a statement.
#[derive(Debug, Clone)]
pub(super) struct FileWriters {
    sink: Arc<Sink>,
    format: Arc<dyn FileFormat>,
    transaction: Arc<Transaction>,
    replaced: Option<Arc<Replaced>>,
    store: Arc<MeteredStore>,
    /// Finds the metered store instead of the one of the session.
    context: Arc<TaskContext>,
}

impl FileWriters {
    pub(super) fn try_new(
        sink: Arc<Sink>,
        transaction: Arc<Transaction>,
        replaced: Option<Arc<Replaced>>,
        store: Arc<dyn ObjectStore>,
        context: &TaskContext,
    ) -> Result<Self> {
        let store = Arc::new(MeteredStore::new(store));
        let registry = DefaultObjectStoreRegistry::new();
        let runtime = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env());
        let runtime = runtime
            .with_object_store_registry(Arc::new(registry))
            .build_arc()?;
        let url = sink.store_url.as_ref();
        runtime.register_object_store(url, Arc::clone(&store) as Arc<dyn ObjectStore>);
        let context = TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone(),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            runtime,
        );
        Ok(Self {
            format: Arc::clone(&sink.format),
            sink,
            transaction,
            replaced,
            store,
            context: Arc::new(context),
        })
    }

    /// The same for files of which several are written at once, so that nothing is gained by more tasks for each.
    pub(super) fn of_one_task_each(&self) -> Self {
        let mut files = self.clone();
        if let Some(parquet) = files.format.downcast_ref::<ParquetFormat>() {
            let mut options = parquet.options().clone();
            options.global.allow_single_file_parallelism = false;
            files.format = Arc::new(ParquetFormat::default().with_options(options));
        }
        files
    }

    pub(super) fn sink(&self) -> &Arc<Sink> {
        &self.sink
    }

    /// The partition of these values, whose files are replaced if that is what the statement does.
    pub(super) async fn partition(&self, values: PartitionValues) -> Result<Partition> {
        let location = self.sink.committer.location(&values).await?;
        if let Some(replaced) = &self.replaced {
            replaced.add(&values, &location).await?;
        }
        Ok(Partition::new(values, location))
    }

    /// Begins a file of a partition.
    pub(super) async fn begin(&self, partition: &Partition) -> Result<FileWriter> {
        let sink = &self.sink;
        let place = self.transaction.next_file(&partition.source.location);
        if !sink.committer.owns(&place.published) {
            return exec_err!(
                "nobody would read '{}', which the option 'source.path.regex-pattern' leaves out; write through a table \
                 without it",
                place.published
            );
        }
        let url = location_of(&sink.store_url, &place.pending);
        let schema = sink.written_schema();
        let config = FileSinkConfig {
            original_url: url.clone(),
            object_store_url: sink.store_url.clone(),
            file_group: Default::default(),
            table_paths: vec![ListingTableUrl::parse(&url)?],
            output_schema: Arc::clone(&schema),
            table_partition_cols: vec![],
            insert_op: InsertOp::Append,
            keep_partition_by_columns: false,
            file_extension: String::new(),
            file_output_mode: FileOutputMode::SingleFile,
        };
        let input = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let format = &self.format;
        // Parquet files say it in their metadata.
        let order = sink.order()?.into_iter().take_while(|sort| {
            let column = sort.expr.downcast_ref::<Column>();
            column.is_some_and(|column| column.index() < schema.fields().len())
        });
        let order = LexRequirement::new(order.map(Into::into));
        let plan = format.create_writer_physical_plan(input, &sink.state, config, order);
        let plan = plan.await?;
        let meter = self.store.meter(&place.pending);
        let (sender, receiver) = mpsc::channel(2);
        let written =
            SpawnedTask::spawn(write_all(plan, receiver, schema, Arc::clone(&self.context)));
        Ok(FileWriter {
            partition: partition.clone(),
            place,
            rows: 0,
            meter,
            sender,
            written,
            store: Arc::clone(&self.store),
        })
    }
}

async fn write_all(
    plan: Arc<dyn ExecutionPlan>,
    receiver: mpsc::Receiver<RecordBatch>,
    schema: SchemaRef,
    context: Arc<TaskContext>,
) -> Result<u64> {
    let Some(exec) = plan.downcast_ref::<DataSinkExec>() else {
        return internal_err!("expected a DataSinkExec, not {}", plan.name());
    };
    let batches = stream::unfold(receiver, async |mut receiver| {
        let batch = receiver.recv().await?;
        Some((Ok(batch), receiver))
    });
    let batches = RecordBatchStreamAdapter::new(schema, batches);
    exec.sink().write_all(Box::pin(batches), &context).await
}

/// A file that is being written. It stays hidden when this is dropped before [`Self::finish`].
#[derive(Debug)]
pub(super) struct FileWriter {
    partition: Partition,
    place: FilePlace,
    rows: u64,
    meter: Arc<AtomicU64>,
    /// Dropped first, so that the task ends before it takes the end of its rows for that of the file.
    written: SpawnedTask<Result<u64>>,
    sender: Sender<RecordBatch>,
    store: Arc<MeteredStore>,
}

impl FileWriter {
    /// The rows so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes that have reached the store so far.
    pub(super) fn bytes(&self) -> u64 {
        self.meter.load(Ordering::Relaxed)
    }

    /// Adds rows, with the columns of files.
    pub(super) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.sender.send(batch).await.is_ok() {
            return Ok(());
        }
        // It has stopped reading, and says why.
        let stopped = (&mut self.written).await;
        Err(match stopped {
            Ok(Ok(_)) => exec_datafusion_err!("'{}' ended early", self.place.published),
            Ok(Err(error)) => named(error, &self.place),
            Err(error) => exec_datafusion_err!("'{}': {error}", self.place.published),
        })
    }

    /// Completes the file.
    pub(super) async fn finish(self) -> Result<WrittenFile> {
        drop(self.sender);
        let written = self.written.join_unwind().await;
        let written = written.map_err(|error| exec_datafusion_err!("{error}"))?;
        self.store.forget(&self.place.pending);
        let bytes = self.meter.load(Ordering::Relaxed);
        match written {
            Ok(_) => Ok(WrittenFile {
                partition: self.partition,
                place: self.place,
                rows: self.rows,
                bytes,
            }),
            Err(error) => Err(named(error, &self.place)),
        }
    }
}

fn named(error: DataFusionError, place: &FilePlace) -> DataFusionError {
    error.context(format!("cannot write '{}'", place.published))
}
