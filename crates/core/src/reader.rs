//! [`PartitionReader`]: how the rows of a partition are read.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::source::DataSource;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::prelude::SessionConfig;

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
#[async_trait]
pub trait PartitionReader: Debug + Send + Sync {
    /// A source without partitions, whose schema is the file columns followed by the partition
    /// columns, less what has been projected away.
    fn template(&self) -> &Arc<dyn DataSource>;

    /// The same reader with another template, derived from [`Self::template`].
    fn with_template(&self, template: Arc<dyn DataSource>) -> Arc<dyn PartitionReader>;

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
    /// Where to count files.
    pub metrics: ScanMetrics,
}
