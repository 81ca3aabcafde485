//! [`PartitionReader`]: how the rows of a partition are read.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::source::DataSource;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::prelude::SessionConfig;

use crate::catalog::{ListingChecks, ListingContext};
use crate::predicate::ChangingPredicate;
use crate::scan::ScanMetrics;
use crate::spec::PartitionBatch;

/// Reads partitions as an ordinary DataFusion [`DataSource`].
///
/// Projections and filters are pushed into a template when the query is planned, before any
/// partition is known; the partitions arrive when it runs.
///
/// ```text
///   planning    PartitionScan --projections, filters--> template() --> with_template(..)
///   executing   PartitionScan --PartitionBatch--> read(..) --> DataSource --open(i)--> rows
/// ```
///
/// [`RowSourceReader`](crate::RowSourceReader) is a reader of anything that returns a stream of batches
/// for a partition. The suite `contract::check_reader`, behind the feature `contract`, checks what is
/// promised here.
#[async_trait]
pub trait PartitionReader: Debug + Send + Sync {
    /// A source without partitions, whose schema is the file columns followed by the partition
    /// columns, less what has been projected away. It takes projections to some of its columns.
    fn template(&self) -> &Arc<dyn DataSource>;

    /// The same reader with another template, derived from [`Self::template`].
    fn with_template(&self, template: Arc<dyn DataSource>) -> Arc<dyn PartitionReader>;

    /// Whether the template may drop rows, because filters have been pushed into it. As long as it
    /// may, row counts that a catalog knows are no answer. Default: true
    fn filters_rows(&self) -> bool {
        true
    }

    /// A source with the rows of `partitions`. Each of its output partitions is one unit of work
    /// that any of the scan's streams may take.
    ///
    /// # Errors
    /// When the partitions cannot be found.
    async fn read(
        &self,
        partitions: PartitionBatch,
        context: &ReadContext,
    ) -> Result<Arc<dyn DataSource>>;

    /// What `EXPLAIN` shows of the reader, behind the scan's own part.
    ///
    /// # Errors
    /// When writing fails.
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.template().fmt_as(t, f)
    }
}

/// What a reader may use while it turns partitions into a source.
#[derive(Debug, Clone)]
pub struct ReadContext {
    /// Holds the object stores.
    pub runtime: Arc<RuntimeEnv>,
    /// The options and the extensions of the session.
    pub config: SessionConfig,
    /// How many streams take units of work.
    pub streams: usize,
    /// How many requests to keep in flight, at least 1.
    pub concurrency: usize,
    /// How the rows are divided into units of work.
    pub division: Division,
    /// What may come to drop partitions until they are read. It is of use to ask before something of a
    /// partition is opened, and to leave it out then; if it is read all the same, that does no harm.
    pub still_wanted: Option<ChangingPredicate>,
    /// Whether the dynamic filters in the template may be used to skip rows. DataFusion's operators keep
    /// them from one execution of a plan to the next, so that they are right in the first one only.
    pub uses_running_filters: bool,
    /// Where to count files, rows and whatever else shall be seen in `EXPLAIN ANALYZE`.
    pub metrics: ScanMetrics,
}

impl ReadContext {
    /// The same for whoever lists the files of a partition.
    pub fn listing(&self) -> ListingContext {
        ListingContext {
            runtime: Arc::clone(&self.runtime),
            config: self.config.clone(),
            concurrency: self.concurrency,
            defer_files: false,
            metrics: self.metrics.clone(),
            checks: ListingChecks::default(),
        }
    }
}

/// How a [`PartitionReader`] divides partitions into units of work: the output partitions of the
/// source that it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// In any way that keeps all streams busy.
    Balanced,
    /// The units one after another give the rows in the order of the partitions. Rows of one
    /// partition have no order.
    InOrder,
    /// As small as possible, such as a file each, because a few rows may do.
    Smallest,
}
