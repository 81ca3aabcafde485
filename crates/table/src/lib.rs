//! Partitioned tables of files, for DataFusion.
//!
//! | type | role |
//! |---|---|
//! | [`PartitionedTableProvider`] | the `TableProvider`: decides which filters choose partitions, builds the scan |
//! | [`FilePartitionReader`] | reads partitions through DataFusion's own `FileScanConfig` |
//! | [`FileReadOptions`], [`MatchBy`] | how its files are read, beyond what their format decides |
//! | [`MetadataColumn`] | columns that describe the file of a row |
//! | [`FilesystemConnector`] | makes the provider from `CREATE EXTERNAL TABLE ... OPTIONS ('connector' 'filesystem')` |

mod columns;
mod files;
mod filesystem;
mod filter;
mod format;
mod inference;
mod metadata;
mod options;
mod partition_types;
mod provider;
mod reader;
mod schema;
mod text_filter;
mod widening;

pub use files::{FileReadOptions, MatchBy};
pub use filesystem::FilesystemConnector;
pub use metadata::MetadataColumn;
pub use provider::PartitionedTableProvider;
pub use reader::FilePartitionReader;
