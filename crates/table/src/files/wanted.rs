//! Files of partitions that have come to be unwanted since they were listed: not opened.

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::physical_plan::metrics::Count;
use datafusion_datasource::morsel::{MorselPlan, MorselPlanner, Morselizer};
use datafusion_partitioned_core::{ChangingPredicate, ScanProgress};

use super::start_file;

/// Which files are still wanted at the time when they would be opened.
#[derive(Debug, Clone)]
pub(crate) struct StillWanted {
    pub(crate) partitions: ChangingPredicate,
    /// Counts the others.
    pub(crate) pruned: Count,
    /// For which they are done with.
    pub(crate) progress: ScanProgress,
}

/// A [`Morselizer`] that makes nothing of files that are wanted no more.
#[derive(Debug)]
pub(crate) struct PruningMorselizer {
    pub(crate) inner: Box<dyn Morselizer>,
    pub(crate) wanted: StillWanted,
}

impl Morselizer for PruningMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let StillWanted {
            partitions,
            pruned,
            progress,
        } = &self.wanted;
        if partitions.may_want(&file.partition_values) {
            return self.inner.plan_file(file);
        }
        pruned.add(1);
        drop(start_file(progress, &file));
        Ok(Box::new(NoRows))
    }
}

#[derive(Debug)]
struct NoRows;

impl MorselPlanner for NoRows {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(None)
    }
}
