//! [`PartitionStore`]: where the registered partitions of a table are kept.

use std::fmt::Debug;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion_partitioned_core::{Partition, PartitionBatch, PartitionSpec, PartitionValues};

/// Keeps the registered partitions of one table. Others may change them at the same time.
///
/// Partitions reach a store through a [`RegisteredCatalog`](super::RegisteredCatalog), so that their values are those
/// of its spec in one representation: equal values are `==`.
#[async_trait]
pub trait PartitionStore: Debug + Send + Sync {
    /// All partitions, and the version that they are.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn load(&self) -> Result<StoredPartitions>;

    /// The version of what [`Self::load`] would return: another number after each change, by whomever. Cheap, since it
    /// is asked for by each query.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn version(&self) -> Result<u64>;

    /// Adds all `partitions` or, when this fails, none; see
    /// [`PartitionRegistry::add`](datafusion_partitioned_core::PartitionRegistry::add).
    ///
    /// # Errors
    /// Where values are there already and not `if_not_exists`, where locations overlap, and when the change cannot be
    /// stored.
    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>>;

    /// Removes the partitions of these values that are there, all or none, and returns them.
    ///
    /// # Errors
    /// When the change cannot be stored.
    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>>;
}

/// What a [`PartitionStore`] has at one time.
#[derive(Debug, Clone)]
pub struct StoredPartitions {
    /// The number of this state.
    pub version: u64,
    /// The partitions. Their numbers of rows are guesses, for join order only.
    pub partitions: PartitionBatch,
}

/// The error of a store that has a partition of these values already.
pub fn already_registered(spec: &PartitionSpec, values: &PartitionValues) -> DataFusionError {
    plan_datafusion_err!(
        "the partition ({}) is registered already; drop it first, or leave it as it is with IF NOT EXISTS",
        spec.describe(values)
    )
}
