//! [`PartitionRegistry`]: partitions that are added and removed by statements.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use object_store::path::Path;

use crate::catalog::PartitionCatalog;
use crate::spec::{Partition, PartitionValues};

/// Changes which partitions a catalog has: what `ALTER TABLE .. ADD | DROP PARTITION` does.
///
/// A registry has no part in reading a table and never touches files. What it changes is seen by queries
/// that start afterwards.
///
/// Values are the same when SQL's `IS NOT DISTINCT FROM` says so, and those of `-0.0` and `0.0` too; NULL and
/// empty text differ.
#[async_trait]
pub trait PartitionRegistry: Debug + Send + Sync {
    /// Registers `partitions`, all of them or, when this fails, none. One whose values are registered already is left
    /// as it is when `if_not_exists`, and an error otherwise. Returns those that were added.
    ///
    /// # Errors
    /// When values are not those of the partition columns or come twice, when a location is that of another partition
    /// or inside of it, and when the change cannot be stored.
    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>>;

    /// Removes the partitions of exactly these values, all of them or, when this fails, none. Unknown ones are
    /// skipped. Returns those that were removed.
    ///
    /// # Errors
    /// When values are not those of the partition columns, and when the change cannot be stored.
    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>>;

    /// Forgets what is remembered of a store that others change too.
    fn refresh(&self);

    /// Where the files of a partition are that is registered without a location.
    ///
    /// # Errors
    /// When that cannot be told from its values.
    fn default_location(&self, values: &PartitionValues) -> Result<Path>;

    /// The partitions that the table's directories spell, registered or not: what `MSCK REPAIR TABLE` adds.
    /// `None` when directories do not tell.
    fn directories(&self) -> Option<Arc<dyn PartitionCatalog>>;
}
