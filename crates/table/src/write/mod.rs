//! Writing partitions: `INSERT INTO` and `INSERT OVERWRITE`.
//!
//! ```text
//!   input streams ──> Demultiplexer ──rows of an open partition──> PartitionWriter ──> FileWriter
//!   (in parallel)          │                                       (rolls its files)   (DataFusion's sink
//!                          ├──rows of further partitions──> PartitionBuffer ────────────^  of the format)
//!                          └──when there is no memory left──> SortExec ──> SortedWriter ─^
//! ```
//!
//! Nothing is shuffled. As long as there are few partitions, each has a writer that takes its rows from all inputs,
//! and gets further ones when it cannot keep up, so that one large partition does not end on one core. Rows of more
//! partitions than `sink.max-open-partitions` are kept in memory, by partition, until the inputs end. When the memory
//! pool has no room for them, they are sorted by DataFusion's external sort, which spills. Then they are written one
//! partition after the other.
//!
//! Files are written under hidden names in the directory where they will be, and renamed when all of them are complete:
//! see [`transaction`].

mod commit_policy;
mod commits;
mod demultiplexer;
mod exec;
mod file_writer;
mod leftovers;
mod metered_store;
mod options;
mod overwrite_lock;
mod partition_buffer;
mod partition_writer;
mod replaced;
mod report;
mod sorted_writer;
mod time_partitions;
mod transaction;

pub use exec::PartitionedSinkExec;
pub(crate) use exec::{cast_to, counted};
pub use leftovers::Leftovers;
pub(crate) use leftovers::{finish_interrupted, remove_leftovers};
pub(crate) use options::SinkOptions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::{PhysicalSortExpr, create_physical_sort_exprs};
use datafusion_partitioned_core::{Committer, PartitionCatalog, PartitionSpec};

/// The table that is written to.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) catalog: Arc<dyn PartitionCatalog>,
    pub(crate) committer: Arc<dyn Committer>,
    pub(crate) spec: PartitionSpec,
    pub(crate) store_url: ObjectStoreUrl,
    pub(crate) format: Arc<dyn FileFormat>,
    /// The columns of the files, which come first in the input; the partition columns follow.
    pub(crate) file_schema: SchemaRef,
    pub(crate) options: SinkOptions,
    pub(crate) state: SessionState,
    /// Whether partitions are replaced.
    pub(crate) overwrites: bool,
}

impl Sink {
    /// The columns of the input: those of the files, then the partition columns.
    fn schema(&self) -> SchemaRef {
        let fields = self.file_schema.fields().iter().chain(self.spec.fields());
        Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()))
    }

    /// The position of the first partition column in the input.
    fn first_partition_column(&self) -> usize {
        self.file_schema.fields().len()
    }

    /// The columns that are written.
    fn written_schema(&self) -> SchemaRef {
        match self.options.keep_partition_columns {
            true => self.schema(),
            false => Arc::clone(&self.file_schema),
        }
    }

    /// Their positions in the input.
    fn written_columns(&self) -> Vec<usize> {
        (0..self.written_schema().fields().len()).collect()
    }

    /// How the rows of each file are sorted: what `WITH ORDER` says.
    fn order(&self) -> Result<Vec<PhysicalSortExpr>> {
        let schema = DFSchema::try_from(self.schema())?;
        create_physical_sort_exprs(
            &self.options.order,
            &schema,
            self.state.execution_props(),
            &PhysicalPlanningContext::default(),
        )
    }
}

/// Nothing is done while a lock is held that could leave its value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
