//! [`CommitPolicy`]: what is done when partitions have been written.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::common::Result;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::committer::WrittenPartition;
use crate::spec::PartitionSpec;

/// Tells others of partitions that have been written (Flink's `PartitionCommitPolicy`): by a file, a message, a call.
///
/// ```
/// use async_trait::async_trait;
/// use datafusion::common::Result;
/// use datafusion_partitioned_core::{CommitPolicy, PartitionCommit};
///
/// /// Prints what has been written.
/// #[derive(Debug)]
/// struct Announce;
///
/// #[async_trait]
/// impl CommitPolicy for Announce {
///     fn name(&self) -> &str {
///         "announce"
///     }
///
///     async fn commit(&self, commit: &PartitionCommit) -> Result<()> {
///         for written in &commit.written {
///             println!("{}: {} rows", written.partition.source.location, written.rows);
///         }
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait CommitPolicy: Debug + Send + Sync {
    /// What the option `sink.partition-commit.policy.kind` calls it.
    fn name(&self) -> &str;

    /// Is called when the files of a statement have their final names and new partitions are registered. A statement
    /// that is interrupted then is finished by the next one that writes to the table, which calls this again: it must
    /// not matter how often.
    ///
    /// # Errors
    /// The statement fails with it, although its rows are part of the table.
    async fn commit(&self, commit: &PartitionCommit) -> Result<()>;
}

/// What a statement has written.
#[derive(Debug, Clone)]
pub struct PartitionCommit {
    /// The partition columns.
    pub spec: PartitionSpec,
    /// The directory of the table.
    pub root: Path,
    /// The store with the partitions' files.
    pub store: Arc<dyn ObjectStore>,
    /// The partitions to which rows were added, in the order of their locations.
    pub written: Vec<WrittenPartition>,
}

/// The policies that tables of a session can name: an extension of its `SessionConfig`.
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion_partitioned_core::{CommitPolicies, CommitPolicy};
/// use datafusion::prelude::SessionConfig;
///
/// # fn configure(announce: Arc<dyn CommitPolicy>) {
/// let policies = CommitPolicies::default();
/// policies.register(announce);
/// let config = SessionConfig::new().with_extension(Arc::new(policies));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct CommitPolicies(RwLock<HashMap<String, Arc<dyn CommitPolicy>>>);

impl CommitPolicies {
    /// Adds a policy, in the place of one of the same name.
    pub fn register(&self, policy: Arc<dyn CommitPolicy>) {
        let mut policies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        policies.insert(policy.name().to_owned(), policy);
    }

    /// The policy of a name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn CommitPolicy>> {
        let policies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        policies.get(name).cloned()
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        let policies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = policies.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}
