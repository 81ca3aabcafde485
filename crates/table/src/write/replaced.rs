//! [`Replaced`]: the files in whose place those of an `INSERT OVERWRITE` come.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_partitioned_catalog::{Lister, list_data_files};
use datafusion_partitioned_core::{
    ListingContext, PartitionPredicate, PartitionSource, PartitionValues, PartitionedOptions,
    ScanMetrics, TimeSpan,
};
use futures::TryStreamExt;
use object_store::path::Path;

use super::Sink;

/// Which partitions an `INSERT OVERWRITE` replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverwriteMode {
    /// Those to which it writes rows (Hive, Flink; Spark's mode `DYNAMIC`).
    Dynamic,
    /// All that have the static values of `PARTITION (..)` (Spark's mode `STATIC`).
    Static,
}

/// The static values of `PARTITION (..)`, by the position of their column.
pub(super) type StaticValues = Vec<(usize, ScalarValue)>;

/// The partitions of a table when a statement begins, and the files of those that it replaces.
pub(super) struct Replaced {
    sink: Arc<Sink>,
    lister: Lister,
    partitions: HashMap<PartitionValues, Vec<PartitionSource>>,
    /// As they were when the statement came across their partition.
    files: Mutex<BTreeSet<Path>>,
    /// The directories that they are in.
    directories: Mutex<BTreeSet<Path>>,
}

impl Replaced {
    pub(super) async fn try_new(
        sink: &Arc<Sink>,
        fixed: &StaticValues,
        context: &TaskContext,
    ) -> Result<Self> {
        let context = listing_context(context);
        let lister = Lister::try_new(&sink.store_url, &context)?;
        let all = PartitionPredicate::all(&sink.spec);
        let mut partitions: HashMap<_, Vec<PartitionSource>> = HashMap::new();
        let mut listed = sink.catalog.list(all, context);
        while let Some(batch) = listed.try_next().await? {
            for row in 0..batch.len() {
                let partition = batch.partition(row)?;
                let sources = partitions.entry(partition.values).or_default();
                sources.push(partition.source);
            }
        }
        let replaced = Self {
            sink: Arc::clone(sink),
            lister,
            partitions,
            files: Mutex::default(),
            directories: Mutex::default(),
        };
        // A partition all of whose values are given is replaced without rows too.
        let is_static = sink.options.overwrite_mode == OverwriteMode::Static;
        if is_static || fixed.len() == sink.spec.len() {
            for values in replaced.partitions.keys() {
                let has =
                    |(column, value): &(usize, ScalarValue)| values.values()[*column] == *value;
                if fixed.iter().all(has) {
                    replaced.add(values).await?;
                }
            }
        }
        Ok(replaced)
    }

    /// Replaces the files that a partition has now, in all of its directories: one value can have several spellings.
    pub(super) async fn add(&self, values: &PartitionValues) -> Result<()> {
        for source in self.partitions.get(values).into_iter().flatten() {
            let directory = &source.location;
            if !lock(&self.directories).insert(directory.clone()) {
                continue;
            }
            let files = self.files_in(directory).await?;
            lock(&self.files).extend(files);
        }
        Ok(())
    }

    /// The files to delete: those that were there, all of which have to be there still. What has come since stays.
    ///
    /// # Errors
    /// When somebody else has replaced some of them.
    pub(super) async fn files(&self) -> Result<Vec<Path>> {
        let directories = self.directories();
        let mut there = BTreeSet::new();
        for directory in &directories {
            there.extend(self.files_in(directory).await?);
        }
        let files = lock(&self.files).clone();
        match files.difference(&there).next() {
            None => Ok(files.into_iter().collect()),
            Some(gone) => exec_err!(
                "conflict: '{gone}' has been removed by another statement since this one began, so that nothing was \
                 written; run it again"
            ),
        }
    }

    /// The directories in which files are replaced.
    pub(super) fn directories(&self) -> BTreeSet<Path> {
        lock(&self.directories).clone()
    }

    async fn files_in(&self, directory: &Path) -> Result<Vec<Path>> {
        let files = list_data_files(&self.lister, directory).await?;
        let files = files.unwrap_or_default().into_iter();
        let own = files.filter(|file| self.sink.committer.owns(file));
        Ok(own.map(|file| file.location).collect())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A statement begins with what is there now, not with what is remembered; names are enough.
fn listing_context(context: &TaskContext) -> ListingContext {
    let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new());
    let config = context.session_config().clone();
    let mut context = ListingContext::new(context.runtime_env(), config, metrics);
    context.defer_files = true;
    let extensions = &mut context.config.options_mut().extensions;
    if let Some(options) = extensions.get_mut::<PartitionedOptions>() {
        options.list_cache.ttl = TimeSpan::default();
    }
    context
}

impl fmt::Debug for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replaced").finish_non_exhaustive()
    }
}
