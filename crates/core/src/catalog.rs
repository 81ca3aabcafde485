//! [`PartitionCatalog`]: which partitions a table has.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::prelude::SessionConfig;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::committer::Committer;
use crate::options::PartitionedOptions;
use crate::order::PartitionOrder;
use crate::predicate::PartitionPredicate;
use crate::registry::PartitionRegistry;
use crate::scan::ScanMetrics;
use crate::spec::{PartitionBatch, PartitionSpec};

/// Knows which partitions exist. Implement it for a metastore, a service or a naming scheme.
///
/// ```text
///   TableProvider::scan            --estimate--> PartitionCatalog      when planning
///   PartitionScan, at the first poll ---list---> PartitionCatalog      when executing
/// ```
///
/// The suite `contract::check_catalog`, behind the feature `contract`, checks what is promised here.
#[async_trait]
pub trait PartitionCatalog: Debug + Send + Sync {
    /// The partition columns.
    fn spec(&self) -> &PartitionSpec;

    /// The partitions that may satisfy `wanted`, in any order, in batches of any size.
    ///
    /// The contract is one-sided: a partition too many costs time, a partition too few loses
    /// rows. So what cannot be read is an error in the stream and never an end of it. The stream
    /// does its requests only while it is polled. `wanted` gains keys of dynamic filters while
    /// the query runs: ask it again before each unit of work.
    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>>;

    /// The same as [`Self::list`], with all partitions in `order`, when the catalog knows them in
    /// order without holding them all. `None` when it does not; then they are collected and sorted.
    fn list_in_order(
        &self,
        wanted: PartitionPredicate,
        order: &PartitionOrder,
        context: ListingContext,
    ) -> Option<BoxStream<'static, Result<PartitionBatch>>> {
        let _ = (wanted, order, context);
        None
    }

    /// How much of the table satisfies `wanted`, for join order only. Must be cheap: at most a few
    /// requests, none where something is remembered or can be assumed.
    ///
    /// # Errors
    /// When the catalog cannot be reached.
    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        context: &ListingContext,
    ) -> Result<PartitionEstimate>;

    /// The same partitions less those whose texts do not satisfy `filter`, a predicate over the
    /// partition columns as text (Alink: `setPartitions`). The text of a value is its directory's,
    /// decoded. `None` when this catalog knows values only; then their canonical texts are used.
    fn with_text_filter(&self, filter: PartitionPredicate) -> Option<Arc<dyn PartitionCatalog>> {
        let _ = filter;
        None
    }

    /// What changes which partitions there are. `None` when that follows from something else, such as
    /// directories or rules.
    fn registry(&self) -> Option<Arc<dyn PartitionRegistry>> {
        None
    }

    /// What partitions are written through. `None` when they cannot be written.
    fn committer(&self) -> Option<Arc<dyn Committer>> {
        None
    }

    /// A short text for `EXPLAIN`, without credentials.
    fn describe(&self) -> String;
}

/// What a catalog may use while it lists or estimates.
#[derive(Debug, Clone)]
pub struct ListingContext {
    /// Holds the object stores.
    pub runtime: Arc<RuntimeEnv>,
    /// The options and the extensions of the session.
    pub config: SessionConfig,
    /// How many requests to keep in flight, at least 1.
    pub concurrency: usize,
    /// Whether the query is likely to read few of the partitions. The catalog may then return
    /// partitions whose files it has not looked for, even such that have none; they are looked for
    /// when the partition is read.
    pub defer_files: bool,
    /// Where to count requests and what was dropped.
    pub metrics: ScanMetrics,
    /// What is to be looked at when all that the query needs has been listed.
    pub checks: ListingChecks,
}

impl ListingContext {
    /// The context of an execution in a session with the options `config`.
    pub fn new(runtime: Arc<RuntimeEnv>, config: SessionConfig, metrics: ScanMetrics) -> Self {
        let options = PartitionedOptions::from_config(config.options());
        Self {
            runtime,
            config,
            concurrency: options.list_concurrency.max(1),
            defer_files: false,
            metrics,
            checks: ListingChecks::default(),
        }
    }

    /// The context of what happens while a statement is planned. Nobody sees its metrics.
    pub fn for_planning(session: &dyn Session) -> Self {
        Self::new(
            Arc::clone(session.runtime_env()),
            session.config().clone(),
            ScanMetrics::new(&ExecutionPlanMetricsSet::new()),
        )
    }
}

/// Checks that a catalog leaves for the end of a listing, when also the files are listed that were deferred: whether the
/// first answers and the last ones are of the same state of the table.
#[derive(Clone, Default)]
pub struct ListingChecks(Arc<Mutex<Vec<BoxFuture<'static, Result<()>>>>>);

impl ListingChecks {
    /// Adds a check, which fails when the query has to be run again.
    pub fn add(&self, check: impl Future<Output = Result<()>> + Send + 'static) {
        self.lock().push(check.boxed());
    }

    /// Makes the checks, each once.
    ///
    /// # Errors
    /// That of the first one that fails.
    pub async fn run(&self) -> Result<()> {
        let checks = std::mem::take(&mut *self.lock());
        for check in checks {
            check.await?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BoxFuture<'static, Result<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for ListingChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingChecks").finish_non_exhaustive()
    }
}

/// A guess at the size of a set of partitions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartitionEstimate {
    /// The number of partitions.
    pub partitions: usize,
    /// Their size as stored, in bytes. Where neither this nor the rows are known, each partition is
    /// taken to have [`Self::ASSUMED_BYTES`].
    pub bytes: Option<usize>,
    /// Their rows.
    pub rows: Option<usize>,
    /// The number of distinct values of each partition column; empty when they are not known.
    pub distinct: Vec<usize>,
    /// One row of values for each of them, in the columns of the spec; `None` when not all are
    /// known, or very many.
    pub values: Option<RecordBatch>,
}

impl PartitionEstimate {
    /// What a partition is taken to have in bytes as long as nobody knows better: a table that may be
    /// large must not be read first in a join.
    pub const ASSUMED_BYTES: usize = 64 * 1024 * 1024;

    /// The values of no more partitions than these are worth looking at.
    pub const MOST_VALUES: usize = 10_000;
}
