//! [`PartitionRegistry`]: partitions that are added and removed by statements.

use std::any::Any;
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
/// Values are the same when SQL's `IS NOT DISTINCT FROM` says so, and `-0.0` and `0.0` too; NULL and empty text
/// differ.
#[async_trait]
pub trait PartitionRegistry: Any + Debug + Send + Sync {
    /// Registers `partitions`, all of them or, when this fails, none. One whose values are registered already is left
    /// as it is when `if_not_exists`, and an error otherwise. Returns those that were added.
    ///
    /// # Errors
    /// When values are not those of the partition columns, or are registered already without `if_not_exists`; when a
    /// location is that of another partition or inside of it; when the change cannot be stored.
    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>>;

    /// Removes the partitions of exactly these values, all of them or, when this fails, none. Unknown ones are
    /// skipped. Returns those that were removed.
    ///
    /// # Errors
    /// When values are not those of the partition columns, and when the change cannot be stored.
    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>>;

    /// Forgets what is remembered of a store that others change too.
    fn refresh(&self);

    /// Where a partition is that a statement gives no location. `None` when there is no such rule.
    ///
    /// # Errors
    /// When the values cannot be spelled as the name of a directory.
    fn default_location(&self, values: &PartitionValues) -> Result<Option<Path>> {
        let _ = values;
        Ok(None)
    }

    /// The partitions whose directories are below the location of the table, registered or not: what
    /// `MSCK REPAIR TABLE` compares the registered ones with. `None` when the table has no such directory.
    fn directories(&self) -> Option<Arc<dyn PartitionCatalog>> {
        None
    }
}
