//! Partitioned tables of files, for DataFusion.
//!
//! | type | role |
//! |---|---|
//! | [`PartitionedTableProvider`] | the `TableProvider`: decides which filters choose partitions, builds the scan |
//! | [`FilePartitionReader`] | reads partitions through DataFusion's own `FileScanConfig` |
//! | [`DeclineUnsafeAggregateFilters`] | the optimizer rule that keeps wrong filters of DataFusion's away from scans |
//! | [`MetadataAnswers`] | the optimizer rule for aggregates that need one row of each partition value |
//! | [`FilesystemConnector`] | makes the provider from `CREATE EXTERNAL TABLE ... OPTIONS ('connector' 'filesystem')` |

mod aggregate_filters;
mod columns;
mod filesystem;
mod filter;
mod inference;
mod metadata_answers;
mod options;
mod partition_types;
mod provider;
mod reader;
mod text_filter;

pub use aggregate_filters::DeclineUnsafeAggregateFilters;
pub use filesystem::FilesystemConnector;
pub use metadata_answers::MetadataAnswers;
pub use provider::PartitionedTableProvider;
pub use reader::FilePartitionReader;
