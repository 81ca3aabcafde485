//! Partitioned tables of files and of other sources, for DataFusion.
//!
//! | type | role |
//! |---|---|
//! | [`PartitionedTableProvider`] | the `TableProvider`: decides which filters choose partitions, builds the scan |
//! | [`PartitionedSourceProvider`] | the same for what is not files: a catalog and a reader |
//! | [`FilePartitionReader`] | reads partitions through DataFusion's own `FileScanConfig` |
//! | [`FileReadOptions`], [`MatchBy`] | how its files are read, beyond what their format decides |
//! | [`OnMissing`] | what to do with a partition that has no files |
//! | [`MetadataColumn`] | columns that describe the file of a row |
//! | [`KeepSmallScansTogether`] | the optimizer rule that does not spread a few rows over all cores |
//! | [`MetadataAnswers`] | the optimizer rule for aggregates that need one row of each partition value |
//! | [`EqualityChainPlanner`] | the planner of expressions that makes lists of long chains of equalities |
//! | [`PartitionedSinkExec`] | the operator that writes partitions |
//! | [`Leftovers`] | what statements have left that were killed |
//! | [`FilesystemConnector`] | makes the provider from `CREATE EXTERNAL TABLE ... OPTIONS ('connector' 'filesystem')` |

mod columns;
mod constraints;
mod equality_chain;
mod files;
mod filesystem;
mod filter;
mod format;
mod inference;
mod metadata;
mod metadata_answers;
mod null_counts;
mod options;
mod partition_types;
mod plan;
mod projection;
mod provider;
mod reader;
mod registered;
mod schema;
mod small_scans;
mod source_provider;
mod statistics;
mod text_filter;
mod widening;
mod write;

pub use equality_chain::EqualityChainPlanner;
pub use files::{FileReadOptions, MatchBy};
pub use filesystem::{FilesystemConnector, parse_location};
pub use metadata::MetadataColumn;
pub use metadata_answers::MetadataAnswers;
pub use provider::PartitionedTableProvider;
pub use reader::{FilePartitionReader, OnMissing};
pub use small_scans::KeepSmallScansTogether;
pub use source_provider::PartitionedSourceProvider;
pub use write::{Leftovers, PartitionedSinkExec};
