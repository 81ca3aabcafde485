//! Partitioned tables of files, for DataFusion.
//!
//! | type | role |
//! |---|---|
//! | [`PartitionedTableProvider`] | the `TableProvider`: decides which filters choose partitions, builds the scan |
//! | [`FilePartitionReader`] | reads partitions through DataFusion's own `FileScanConfig` |
//! | [`FilesystemConnector`] | makes the provider from `CREATE EXTERNAL TABLE ... OPTIONS ('connector' 'filesystem')` |

mod columns;
mod filesystem;
mod filter;
mod inference;
mod options;
mod partition_types;
mod provider;
mod reader;
mod text_filter;

pub use filesystem::FilesystemConnector;
pub use provider::PartitionedTableProvider;
pub use reader::FilePartitionReader;
