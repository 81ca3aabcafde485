//! [`Committer`]: partitions that are written.

use std::fmt::Debug;

use async_trait::async_trait;
use datafusion::common::Result;
use object_store::path::Path;

use crate::spec::{Partition, PartitionValues};

/// What a statement has written to a partition.
#[derive(Debug, Clone)]
pub struct WrittenPartition {
    /// The partition.
    pub partition: Partition,
    /// The rows that were added.
    pub rows: u64,
    /// The files that were added.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

impl WrittenPartition {
    /// A partition to which nothing has been added.
    pub fn new(partition: Partition) -> Self {
        Self {
            partition,
            rows: 0,
            files: 0,
            bytes: 0,
        }
    }
}

/// Says where the files of partitions go, and makes partitions part of a table when they are there.
///
/// It never touches files itself.
#[async_trait]
pub trait Committer: Debug + Send + Sync {
    /// The directory of the table, where it is noted which files are being published.
    fn root(&self) -> Path;

    /// Where the files of a partition are, or will be when it is new.
    ///
    /// # Errors
    /// When nobody would find a partition of these values again, such as one that the name of a directory cannot spell.
    async fn location(&self, values: &PartitionValues) -> Result<Path>;

    /// Whether a file with this path in the directory of a partition is one of the table: another one is not read, and
    /// may not be replaced.
    fn owns(&self, file: &Path) -> bool {
        let _ = file;
        true
    }

    /// The values as the table has them, where several mean the same.
    ///
    /// # Errors
    /// When they are not those of the partition columns.
    fn values(&self, values: PartitionValues) -> Result<PartitionValues> {
        Ok(values)
    }

    /// Makes partitions part of the table, those that are not yet. Their files have their final names.
    ///
    /// # Errors
    /// When the change cannot be stored.
    async fn commit(&self, written: &[WrittenPartition]) -> Result<()>;
}
