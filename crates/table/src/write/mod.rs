//! Writing partitions: `INSERT INTO` and `INSERT OVERWRITE`.
//!
//! ```text
//!   input streams ──> Demultiplexer ──rows of an open partition──> PartitionWriter ──> FileWriter
//!   (in parallel)          │                                       (rolls its files)   (DataFusion's sink
//!                          └──rows of further partitions──> SortExec ──> SortedWriter ──^  of the format)
//! ```
//!
//! Nothing is shuffled. As long as there are few partitions, each has a writer that takes its rows from all inputs,
//! and gets further ones when it cannot keep up, so that one large partition does not end on one core. Rows of more
//! partitions than `sink.max-open-partitions` are sorted by DataFusion's external sort, which spills, and written
//! one partition after the other.
//!
//! Files are written under hidden names in the directory where they will be, and renamed when all of them are complete:
//! see [`transaction`].

mod demultiplexer;
mod exec;
mod file_writer;
mod metered_store;
mod options;
mod partition_writer;
mod replaced;
mod report;
mod sorted_writer;
mod transaction;

pub use exec::PartitionedSinkExec;
pub(crate) use exec::{cast_to, counted};
pub(crate) use options::SinkOptions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::datasource::file_format::FileFormat;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
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

/// Nothing is done while a lock is held that could leave its value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
