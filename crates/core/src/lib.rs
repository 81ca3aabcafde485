//! The model of `datafusion-partitioned`: what a partitioned table is, which of its partitions a
//! query wants, and the scan that brings both together.
//!
//! Three small traits and types meet in one scan:
//!
//! ```text
//!  what is wanted            what exists                 how one is read
//!  PartitionPredicate   x    PartitionCatalog       x    PartitionReader
//!         \                        |                       /
//!          +--------------> PartitionScan: DataSource <---+
//!                                  ^
//!                                  |  key sets, while the query runs
//!                        DynamicPartitionFilter
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `spec` | [`PartitionSpec`], [`PartitionValues`], [`Partition`], [`PartitionBatch`] |
//! | `text` | the text of a value and the value of a text |
//! | `layout` | how values become a path and back: `key=value/`, `value/`, templates; escapes |
//! | `predicate` | [`PartitionPredicate`], three-valued over the first columns of the spec |
//! | `key_set`, `dynamic_filter` | what the other side of a join turned out to contain |
//! | `catalog`, `memory`, `reader` | the two traits that others implement, and [`MemoryCatalog`] |
//! | `row_source` | [`RowSource`], the shortest way to a reader: one stream of batches for each partition |
//! | `registry` | [`PartitionRegistry`], for catalogs whose partitions statements add and remove |
//! | `order` | [`PartitionOrder`], partitions sorted by their values |
//! | `scan` | [`PartitionScan`], a `DataSource` that asks the catalog when it is first polled |
//! | `contract` | behind the feature `contract`: what every catalog and reader must do, as checks |
//!
//! This crate does no I/O of its own and knows no session. Implement [`PartitionCatalog`] and
//! [`PartitionReader`] to give another kind of source everything that file tables have.

mod catalog;
mod commit_policy;
mod committer;
#[cfg(feature = "contract")]
pub mod contract;
mod dynamic_filter;
mod error;
mod execution;
mod key_set;
mod layout;
mod location;
mod memory;
mod options;
mod order;
mod predicate;
mod reader;
mod registry;
mod report;
mod rewrite;
mod row_source;
mod scan;
mod spec;
mod suggestion;
mod text;
mod text_filtered;
mod units;

pub use catalog::{ListingChecks, ListingContext, PartitionCatalog, PartitionEstimate};
pub use commit_policy::{CommitPolicies, CommitPolicy, PartitionCommit};
pub use committer::{Committer, WrittenPartition};
pub use dynamic_filter::{DynamicPartitionFilter, FilterKey, KeySlot};
pub use error::PartitionError;
pub use execution::Executions;
pub use key_set::{
    BoundsAccumulator, Comparison, KeyBounds, KeyColumn, KeySet, KeyTuples, normalize_keys,
};
pub use layout::{
    DEFAULT_PARTITION_NAME, Mismatch, ParsedLevel, PartitionLayout, escape_path_name,
    unescape_path_name,
};
pub use location::{enclosing_locations, overlap_error};
pub use memory::MemoryCatalog;
pub use options::{DynamicFilterOptions, ListCacheOptions, PartitionedOptions};
pub use order::PartitionOrder;
pub use predicate::{ChangingPredicate, PartitionPredicate, Pruned};
pub use reader::{Division, PartitionReader, ReadContext};
pub use registry::PartitionRegistry;
pub use report::{FilterReport, PartitionReports, ScanReport};
pub use rewrite::rewrite_columns;
pub use row_source::{RowSource, RowSourceReader};
pub use scan::{
    FileInProgress, FilePart, PartitionLimits, PartitionScan, PartitionScanBuilder, RowsNeeded,
    ScanMetrics, ScanProgress, ScanProgressReport,
};
pub use spec::{Partition, PartitionBatch, PartitionSource, PartitionSpec, PartitionValues};
pub use suggestion::{did_you_mean, quoted_list};
pub use text::{ParsedValues, parse_values, value_to_text};
pub use text_filtered::{TextFilteredCatalog, filter_by_text};
pub use units::{ByteSize, TimeSpan};
