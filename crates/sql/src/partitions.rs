//! The table function `partitions('t')`: the partitions of a table as a table, partitioned like it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, TableReference, internal_datafusion_err, plan_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_partitioned_catalog::{Lister, list_data_files, location_of};
use datafusion_partitioned_core::{
    ListingContext, Partition, PartitionSpec, RowSource, RowSourceReader, ScanMetrics,
};
use datafusion_partitioned_table::{PartitionedSourceProvider, PartitionedTableProvider};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::ObjectMeta;

use crate::target::{catalog_of, provider_of};

/// The time zone of modification times.
const UTC: &str = "UTC";

/// `partitions('t')`: one row for each partition of a table.
///
/// | column | |
/// |---|---|
/// | `location` | where its files are, as a URL |
/// | `rows` | its rows as its catalog has counted them, which may have been long ago; NULL if it has not |
/// | `files`, `bytes` | its data files and their size, compressed if they are |
/// | `last_modified` | when the last of them was written; NULL without files |
/// | the partition columns | as in the table; one that has the name of a column above takes it, which becomes `partition_..` |
///
/// Conditions on partition columns choose what is listed, as they do for the table itself. `files`, `bytes` and
/// `last_modified` are looked up only where a query wants them.
#[derive(Debug)]
pub struct PartitionsFunction;

impl PartitionsFunction {
    /// The name of the function.
    pub const NAME: &'static str = "partitions";
}

impl TableFunctionImpl for PartitionsFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let [Expr::Literal(ScalarValue::Utf8(Some(name)), _)] = args.exprs() else {
            return plan_err!(
                "partitions() takes the name of a table as text, as in partitions('sales')"
            );
        };
        let state = args.session().as_any().downcast_ref::<SessionState>();
        let state =
            state.ok_or_else(|| internal_datafusion_err!("partitions() needs a SessionState"))?;
        let name = TableReference::from(name.as_str());
        let table = found_at_once(state, &name)?;
        partitions_table(&name, table.as_ref())
    }
}

/// The table of a name. A function has no time to wait, but a catalog may need some to open a table; it gets a
/// thread for that.
fn found_at_once(state: &SessionState, name: &TableReference) -> Result<Arc<dyn TableProvider>> {
    if let Some(table) = provider_of(state, name).now_or_never() {
        return table;
    }
    let waiting = WAITING.fetch_add(1, Ordering::SeqCst);
    let opened = match waiting < MOST_WAITING {
        true => opened_in_a_thread(state, name),
        false => plan_err!(
            "partitions('{name}'): {waiting} of these are waiting for their tables; does a view refer to its own partitions?"
        ),
    };
    WAITING.fetch_sub(1, Ordering::SeqCst);
    opened
}

/// Calls of the function that wait for a table, in the whole process. A view that asks for its own partitions would
/// start one after the other.
static WAITING: AtomicUsize = AtomicUsize::new(0);

const MOST_WAITING: usize = 64;

fn opened_in_a_thread(
    state: &SessionState,
    name: &TableReference,
) -> Result<Arc<dyn TableProvider>> {
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(provider_of(state, name))
        });
        match opened.join() {
            Ok(table) => table,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The partitions of a table as a table.
///
/// # Errors
/// When it is not one of this project.
pub(crate) fn partitions_table(
    name: &TableReference,
    table: &dyn TableProvider,
) -> Result<Arc<dyn TableProvider>> {
    let Some(catalog) = catalog_of(table) else {
        return plan_err!(
            "table '{name}' is not a partitioned table of a connector; such a table is created with the option \
             'connector' 'filesystem'"
        );
    };
    let store_url = table
        .downcast_ref::<PartitionedTableProvider>()
        .map(|table| table.object_store_url().clone());
    let rows = PartitionRows {
        schema: schema(catalog.spec()),
        store_url,
    };
    let reader = RowSourceReader::new(Arc::new(rows), catalog.spec());
    let table = PartitionedSourceProvider::try_new(Arc::clone(catalog), Arc::new(reader))?;
    Ok(Arc::new(table))
}

const LOCATION: usize = 0;
const ROWS: usize = 1;
const FILES: usize = 2;
const BYTES: usize = 3;

fn schema(spec: &PartitionSpec) -> SchemaRef {
    let modified = DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into()));
    let fields = [
        ("location", DataType::Utf8),
        ("rows", DataType::UInt64),
        ("files", DataType::UInt64),
        ("bytes", DataType::UInt64),
        ("last_modified", modified),
    ];
    let fields = fields.map(|(name, data_type)| {
        let is_taken = spec.column_names().any(|column| column == name);
        let name = if is_taken {
            format!("partition_{name}")
        } else {
            name.to_owned()
        };
        Field::new(name, data_type, true)
    });
    Arc::new(Schema::new(fields.to_vec()))
}

/// The name of the column with the location of a partition.
pub(crate) fn location_column(spec: &PartitionSpec) -> String {
    schema(spec).field(LOCATION).name().clone()
}

/// One row for each partition.
struct PartitionRows {
    schema: SchemaRef,
    /// Where files are, if there are any.
    store_url: Option<ObjectStoreUrl>,
}

impl fmt::Debug for PartitionRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionRows")
    }
}

impl RowSource for PartitionRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn rows(
        &self,
        partition: Partition,
        columns: Vec<usize>,
        context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let store_url = self.store_url.clone();
        let schema = Arc::clone(&self.schema);
        stream::once(async move {
            let files = match columns.iter().any(|column| *column >= FILES) {
                true => files(&partition, store_url.as_ref(), &context).await?,
                false => None,
            };
            let schema = schema.project(&columns)?;
            let columns = columns
                .iter()
                .map(|column| value(*column, &partition, store_url.as_ref(), files.as_deref()));
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let columns = columns.collect();
            Ok(RecordBatch::try_new_with_options(
                Arc::new(schema),
                columns,
                &options,
            )?)
        })
        .boxed()
    }

    fn describe(&self) -> String {
        "partitions".to_owned()
    }
}

fn value(
    column: usize,
    partition: &Partition,
    store_url: Option<&ObjectStoreUrl>,
    files: Option<&[ObjectMeta]>,
) -> ArrayRef {
    let location = &partition.source.location;
    let number = |number: Option<u64>| -> ArrayRef { Arc::new(UInt64Array::from(vec![number])) };
    match column {
        LOCATION => Arc::new(StringArray::from(vec![match store_url {
            Some(store_url) => location_of(store_url, location),
            None => location.to_string(),
        }])),
        ROWS => number(partition.source.rows.map(|rows| usize::from(rows) as u64)),
        FILES => number(files.map(|files| files.len() as u64)),
        BYTES => number(files.map(|files| files.iter().map(|file| file.size).sum())),
        _ => {
            let modified = files.and_then(|files| files.iter().map(|f| f.last_modified).max());
            let modified = modified.map(|time| time.timestamp_millis());
            Arc::new(TimestampMillisecondArray::from(vec![modified]).with_timezone(UTC))
        }
    }
}

/// The data files of a partition; `None` if it does not consist of files.
async fn files(
    partition: &Partition,
    store_url: Option<&ObjectStoreUrl>,
    context: &TaskContext,
) -> Result<Option<Vec<ObjectMeta>>> {
    let Some(store_url) = store_url else {
        return Ok(None);
    };
    if let Some(objects) = &partition.source.objects {
        return Ok(Some(objects.to_vec()));
    }
    let context = ListingContext::new(
        context.runtime_env(),
        context.session_config().clone(),
        ScanMetrics::new(&ExecutionPlanMetricsSet::new()),
    );
    let lister = Lister::try_new(store_url, &context)?;
    let files = list_data_files(&lister, &partition.source.location).await?;
    Ok(Some(files.unwrap_or_default()))
}
