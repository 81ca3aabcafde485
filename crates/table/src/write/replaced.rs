//! [`Replaced`]: the files in whose place those of an `INSERT OVERWRITE` come.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_partitioned_catalog::{Lister, TRUNCATED, list_data_files};
use datafusion_partitioned_core::{
    ListingContext, PartitionPredicate, PartitionSource, PartitionValues, PartitionedOptions,
    ScanMetrics, TimeSpan, WrittenPartition,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use super::{Sink, lock};

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
    store: Arc<dyn ObjectStore>,
    lister: Lister,
    concurrency: usize,
    /// With all of their files.
    partitions: HashMap<PartitionValues, Vec<PartitionSource>>,
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
        let store = context.runtime.object_store(&sink.store_url)?;
        let concurrency = context.concurrency;
        let mut partitions: HashMap<_, Vec<PartitionSource>> = HashMap::new();
        let mut listed = sink.catalog.list(having(sink, fixed), context);
        while let Some(batch) = listed.try_next().await? {
            for row in 0..batch.len() {
                let partition = batch.partition(row)?;
                let values = sink.committer.values(partition.values)?;
                partitions.entry(values).or_default().push(partition.source);
            }
        }
        let mut replaced = Self {
            sink: Arc::clone(sink),
            store,
            lister,
            concurrency,
            partitions,
            files: Mutex::default(),
            directories: Mutex::default(),
        };
        replaced.find_files().await?;
        // A partition all of whose values are given is replaced without rows too.
        let is_static = sink.options.overwrite_mode == OverwriteMode::Static;
        if is_static || fixed.len() == sink.spec.len() {
            for (values, sources) in &replaced.partitions {
                let has =
                    |(column, value): &(usize, ScalarValue)| values.values()[*column] == *value;
                if fixed.iter().all(has) {
                    replaced.add_sources(sources);
                }
            }
        }
        Ok(replaced)
    }

    /// Looks for the files of those partitions that the catalog knows without.
    async fn find_files(&mut self) -> Result<()> {
        let unknown = self.partitions.values().flatten();
        let unknown = unknown.filter(|source| source.objects.is_none());
        let unknown: Vec<Path> = unknown.map(|source| source.location.clone()).collect();
        let listed = stream::iter(unknown).map(|directory| {
            let lister = self.lister.clone();
            async move {
                let files = list_data_files(&lister, &directory).await?;
                Ok::<_, DataFusionError>((directory, files.unwrap_or_default()))
            }
        });
        let listed = listed.buffered(self.concurrency);
        let mut listed: HashMap<_, _> = listed.try_collect().await?;
        for source in self.partitions.values_mut().flatten() {
            if let Some(files) = listed.remove(&source.location) {
                source.objects = Some(files);
            }
        }
        Ok(())
    }

    fn add_sources(&self, sources: &[PartitionSource]) {
        for source in sources {
            lock(&self.directories).insert(source.location.clone());
            let files = source.objects.iter().flatten();
            let own = files.filter(|file| self.sink.committer.owns(&file.location));
            lock(&self.files).extend(own.map(|file| file.location.clone()));
        }
    }

    /// Replaces the files that a partition had when the statement began, in all of its directories: one value can have
    /// several spellings. `location` is the one that it writes to.
    pub(super) async fn add(&self, values: &PartitionValues, location: &Path) -> Result<()> {
        let values = self.sink.committer.values(values.clone())?;
        let sources = self.partitions.get(&values);
        self.add_sources(sources.map_or(&[], Vec::as_slice));
        let is_new = lock(&self.directories).insert(location.clone());
        if is_new && self.sink.catalog.registry().is_some() {
            // A directory that is not registered yet.
            let files = self.files_in(location).await?;
            lock(&self.files).extend(files);
        }
        Ok(())
    }

    /// The files to delete: those that were there when the statement began.
    ///
    /// # Errors
    /// When others are there now: their rows may be among those that the statement has read, or not.
    pub(super) async fn files_still_there(&self) -> Result<Vec<Path>> {
        let directories = stream::iter(self.directories());
        let there = directories.map(|directory| async move { self.files_in(&directory).await });
        let there: Vec<_> = there.buffered(self.concurrency).try_collect().await?;
        let there: BTreeSet<Path> = there.into_iter().flatten().collect();
        let files = lock(&self.files).clone();
        match files.symmetric_difference(&there).next() {
            None => Ok(files.into_iter().collect()),
            Some(changed) => exec_err!(
                "conflict: '{changed}' has come or gone since the statement began, so that nothing was written; run it \
                 again"
            ),
        }
    }

    /// Says of registered partitions that are replaced by nothing that they are there.
    pub(super) async fn mark_emptied(&self, written: &[WrittenPartition]) -> Result<()> {
        if self.sink.catalog.registry().is_none() {
            return Ok(());
        }
        let written = written.iter().map(|w| &w.partition.source.location);
        let written: BTreeSet<&Path> = written.collect();
        for directory in self.directories() {
            if !written.contains(&directory) {
                let marker = directory.join(TRUNCATED);
                self.store.put(&marker, PutPayload::new()).await?;
            }
        }
        Ok(())
    }

    /// The directories in which files are replaced.
    pub(super) fn directories(&self) -> BTreeSet<Path> {
        lock(&self.directories).clone()
    }

    async fn files_in(&self, directory: &Path) -> Result<Vec<Path>> {
        let files = list_data_files(&self.lister, directory).await?;
        let files = files.unwrap_or_default().into_iter();
        let own = files.filter(|file| self.sink.committer.owns(&file.location));
        Ok(own.map(|file| file.location).collect())
    }
}

/// The partitions that have some values.
fn having(sink: &Sink, fixed: &StaticValues) -> PartitionPredicate {
    let mut predicate = PartitionPredicate::all(&sink.spec);
    for (column, value) in fixed {
        let name = sink.spec.fields()[*column].name();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, *column));
        let value: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(value.clone()));
        let same = BinaryExpr::new(column, Operator::IsNotDistinctFrom, value);
        let same: Arc<dyn PhysicalExpr> = Arc::new(same);
        predicate = predicate.with_filter(&same);
    }
    predicate
}

/// A statement begins with what is there now, not with what is remembered.
pub(super) fn listing_context(context: &TaskContext) -> ListingContext {
    let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new());
    let config = context.session_config().clone();
    let mut context = ListingContext::new(context.runtime_env(), config, metrics);
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
