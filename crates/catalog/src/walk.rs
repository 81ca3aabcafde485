//! The walk over the directories of a table, guided by a predicate.
//!
//! ```text
//!   root ──LIST──> year=2023 year=2024 year=2025     parse, ask the predicate with (year, ?, ?)
//!                              │
//!                            LIST──> month=06 month=07    ask with (year, month, ?)
//!                                        │
//!                                      LIST, flat    nothing below is restricted any more
//! ```
//!
//! A level is asked about as one batch. Directories that are dropped cost nothing more, so a walk
//! makes at most one request for the root and one for each directory that survives. On the last
//! level, a directory all of whose directories are wanted is listed flat itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringArray, UInt32Array};
use datafusion::arrow::compute::and;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion_partitioned_core::{
    ListingContext, Mismatch, ParsedLevel, PartitionBatch, PartitionError, PartitionPredicate,
    PartitionSource,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::data_file::{is_data_file, is_hidden, listing_error};
use crate::directory::{OnMismatch, Table};
use crate::level::{Level, extend, whole_parents};
use crate::local::{check_local_directory, is_local, list_local_directories};

/// A flat listing is handed on after this many objects.
const OBJECTS_PER_BATCH: usize = 1024;

/// One listing of a table of directories.
pub(crate) struct Walk {
    pub(crate) table: Arc<Table>,
    pub(crate) wanted: PartitionPredicate,
    pub(crate) context: ListingContext,
    pub(crate) found: Found,
}

/// What a walk has come across.
#[derive(Debug, Default)]
pub(crate) struct Found {
    partitions: AtomicUsize,
    /// Whether there was a data file above the last partition level.
    misplaced: AtomicBool,
}

impl Walk {
    pub(crate) fn run(self) -> BoxStream<'static, Result<PartitionBatch>> {
        let concurrency = self.context.concurrency;
        let walk = Arc::new(self);
        stream::once(async move {
            let store = walk.context.runtime.object_store(&walk.table.store_url)?;
            if is_local(store.as_ref()) {
                for root in &walk.table.roots {
                    check_local_directory(root).map_err(|error| walk.error(root, error))?;
                }
            }
            let levels = walk.descend(&store).await?;
            // The roots themselves, listed flat, show whether there is any partition at all.
            let is_whole_table = levels.iter().all(Level::is_root);
            let (deferred, levels): (Vec<_>, Vec<_>) = levels
                .into_iter()
                .partition(|level| walk.is_deferred(level));
            let deferred = stream::iter(deferred).map({
                let walk = Arc::clone(&walk);
                move |level| walk.without_files(level)
            });
            let directories = levels.into_iter().flat_map(|level| {
                let level = Arc::new(level);
                (0..level.directories.len()).map(move |row| (Arc::clone(&level), row))
            });
            let directories: Vec<_> = directories.collect();
            let checked = Arc::clone(&walk);
            let check = stream::once(async move { checked.check_found() })
                .filter_map(|checked| std::future::ready(checked.err().map(Err)))
                .take(usize::from(is_whole_table));
            let batches = stream::iter(directories)
                .map(move |(level, row)| walk.list_below(&store, &level, row))
                .flatten_unordered(concurrency);
            Ok::<_, DataFusionError>(deferred.chain(batches).chain(check))
        })
        .try_flatten()
        .boxed()
    }

    /// Goes down level by level as long as [`Self::goes_below`]. Returns the directories to be listed
    /// flat, by their level, or the partitions themselves when their files are looked for later.
    async fn descend(&self, store: &Arc<dyn ObjectStore>) -> Result<Vec<Level>> {
        let table = &self.table;
        let roots = Level::roots(
            &table.spec,
            table.roots.clone(),
            table.text_filter.is_some(),
        )?;
        let wanted = self.wanted(&roots)?;
        let mut level = roots.filter(&wanted)?;
        for depth in 0..table.layout.levels() {
            if level.directories.is_empty() || !self.goes_below(&level, level.directories.len()) {
                break;
            }
            if let Some(name) = table.layout.fixed_name(depth) {
                level.depth += 1;
                for directory in &mut level.directories {
                    *directory = Path::parse(format!("{directory}/{name}"))
                        .map_err(object_store::Error::from)?;
                }
                continue;
            }
            let (children, parents) = self.list_level(store, &level).await?;
            if level.is_root() && children.directories.is_empty() {
                // Nothing to choose from: what is there instead?
                break;
            }
            let wanted = self.wanted(&children)?;
            if !self.goes_below(&children, wanted.true_count()) {
                let (whole, rest) = whole_parents(&wanted, &parents, level.directories.len());
                return Ok(vec![level.filter(&whole)?, children.filter(&rest)?]);
            }
            level = children.filter(&wanted)?;
        }
        Ok(vec![level])
    }

    /// Whether to go on level by level below `directories` of the directories of `level`: a predicate
    /// restricts a deeper level, or only names are asked for and these directories can be listed at
    /// once.
    fn goes_below(&self, level: &Level, directories: usize) -> bool {
        let first = level.values.num_columns();
        let text_filter = self.table.text_filter.as_ref();
        self.wanted.constrains_from(first)
            || text_filter.is_some_and(|filter| filter.constrains_from(first))
            || (self.defers_files()
                && (self.is_last(level) || directories <= self.context.concurrency))
    }

    /// Whether to leave the files to the reader, which does not know what selects them.
    fn defers_files(&self) -> bool {
        self.context.defer_files && !self.table.selects_files()
    }

    fn is_last(&self, level: &Level) -> bool {
        level.depth == self.table.layout.levels()
    }

    /// Whether the directories of `level` are partitions whose files are looked for later.
    fn is_deferred(&self, level: &Level) -> bool {
        self.defers_files() && !level.is_root() && self.is_last(level)
    }

    /// The partitions that the directories of `level` are. By now texts must have an answer.
    fn without_files(&self, level: Level) -> Result<PartitionBatch> {
        let level = match (&self.table.text_filter, &level.texts) {
            (Some(filter), Some(texts)) => {
                let keep = filter.evaluate(texts)?.keep;
                level.filter(&keep)?
            }
            _ => level,
        };
        let sources = level.directories.into_iter().map(PartitionSource::new);
        PartitionBatch::try_new(level.values, sources.collect())
    }

    /// Which directories may hold a wanted partition. All, when a predicate cannot be evaluated: a
    /// directory may hold no rows at all, so the error is reported once there are some.
    fn wanted(&self, level: &Level) -> Result<BooleanArray> {
        let all = || BooleanArray::from(vec![true; level.directories.len()]);
        let by_text = match (&self.table.text_filter, &level.texts) {
            (Some(filter), Some(texts)) => filter.evaluate(texts).ok(),
            _ => None,
        };
        let mut keep = by_text.map_or_else(all, |pruned| pruned.keep);
        if let Ok(pruned) = self.wanted.evaluate(&level.values) {
            self.context.metrics.record_pruned(&pruned);
            keep = and(&keep, &pruned.keep)?;
        }
        let dropped = keep.len() - keep.true_count();
        self.context.metrics.directories_pruned.add(dropped);
        Ok(keep)
    }

    /// Lists all directories of `level`. Returns those in them and for each of these the row of its
    /// parent.
    async fn list_level(
        &self,
        store: &Arc<dyn ObjectStore>,
        level: &Level,
    ) -> Result<(Level, UInt32Array)> {
        let listings: Vec<Vec<Path>> = stream::iter(level.directories.iter().cloned())
            .map(|directory| self.list_directories(Arc::clone(store), directory, level.depth))
            .buffered(self.context.concurrency)
            .try_collect()
            .await?;
        let found = listings
            .into_iter()
            .enumerate()
            .flat_map(|(parent, found)| found.into_iter().map(move |path| (parent as u32, path)));
        let (mut parents, mut directories): (Vec<u32>, Vec<Path>) = found.unzip();
        self.table.observed.record_directories(
            level.depth,
            directories.len(),
            level.directories.len(),
        );

        let mut parsed = self.parse(level.depth, &directories)?;
        if !parsed.mismatches.is_empty() {
            let fits = self
                .without_mismatches(store, &parsed, &directories, level.depth)
                .await?;
            let mut keep = fits.iter().copied();
            parents.retain(|_| keep.next().unwrap_or(true));
            let mut keep = fits.iter().copied();
            directories.retain(|_| keep.next().unwrap_or(true));
            parsed = self.parse(level.depth, &directories)?;
        }
        let parents = UInt32Array::from(parents);
        let children = level.child(
            &parents,
            directories,
            &self.table.spec,
            self.table.text_spec(),
            parsed.values,
            as_array_refs(parsed.texts),
        )?;
        Ok((children, parents))
    }

    /// The values that the last names of `directories` spell, which are in a directory at `depth`.
    fn parse(&self, depth: usize, directories: &[Path]) -> Result<ParsedLevel> {
        let _timer = self.context.metrics.listing_time.timer();
        let names: Vec<&str> = directories
            .iter()
            .map(|directory| name_from_end(directory, 0))
            .collect();
        self.table
            .layout
            .parse(depth, &names, |row| self.table.url_of(&directories[row]))
    }

    /// Which directories remain when some do not fit the layout or their column's type. As an error
    /// such a directory counts only if it holds data files: a flat listing would not notice it
    /// otherwise.
    async fn without_mismatches(
        &self,
        store: &Arc<dyn ObjectStore>,
        parsed: &ParsedLevel,
        directories: &[Path],
        depth: usize,
    ) -> Result<Vec<bool>> {
        let mut keep = vec![true; directories.len()];
        for mismatch in &parsed.mismatches {
            let directory = &directories[mismatch.row];
            match self.table.on_mismatch.of(mismatch) {
                OnMismatch::Null => continue,
                OnMismatch::Skip => self.context.metrics.partitions_mismatched.add(1),
                OnMismatch::Error if self.has_data(store, directory, depth + 1).await? => {
                    return plan_mismatch(mismatch);
                }
                OnMismatch::Error => {}
            }
            keep[mismatch.row] = false;
        }
        Ok(keep)
    }

    /// Whether there is a data file below `directory`, which is `depth` levels below the root.
    async fn has_data(
        &self,
        store: &Arc<dyn ObjectStore>,
        directory: &Path,
        depth: usize,
    ) -> Result<bool> {
        self.context.metrics.list_requests.add(1);
        let mut objects = store.list(Some(directory));
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| self.error(directory, error))?;
            if self.is_data(directory, depth, &object) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether `object` is a data file of a partition below `directory`, which is `depth` levels
    /// below the root.
    fn is_data(&self, directory: &Path, depth: usize, object: &ObjectMeta) -> bool {
        let layout = &self.table.layout;
        let missing = layout.levels() - depth;
        let is_partition =
            |level, name: &str| level < missing && layout.claims(depth + level, name);
        object.location.parts().count() > directory.parts().count() + missing
            && is_data_file(directory, object, is_partition)
            && self.table.is_selected(object)
    }

    /// The directories in `directory`, which is at `depth`, that are not hidden.
    async fn list_directories(
        &self,
        store: Arc<dyn ObjectStore>,
        directory: Path,
        depth: usize,
    ) -> Result<Vec<Path>> {
        self.context.metrics.list_requests.add(1);
        let listing = if is_local(store.as_ref()) {
            list_local_directories(directory.clone()).await
        } else {
            let listing = store.list_with_delimiter(Some(&directory)).await;
            listing.map(|listing| listing.common_prefixes)
        };
        let directories = listing.map_err(|error| self.error(&directory, error))?;
        let is_visible = |directory: &Path| {
            directory
                .filename()
                .is_some_and(|name| !is_hidden(name) || self.table.layout.claims(depth, name))
        };
        Ok(directories.into_iter().filter(is_visible).collect())
    }

    /// All partitions below directory `row` of `level`, from one flat listing.
    fn list_below(
        self: &Arc<Self>,
        store: &Arc<dyn ObjectStore>,
        level: &Arc<Level>,
        row: usize,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let directory = level.directories[row].clone();
        let (store, level, walk) = (Arc::clone(store), Arc::clone(level), Arc::clone(self));
        // The listing starts when this is first polled.
        stream::once(async move {
            walk.context.metrics.list_requests.add(1);
            let objects = store.list(Some(&directory));
            let failed = Arc::clone(&walk);
            let chunks = objects
                .map_err(move |error| failed.error(&directory, error))
                .try_chunks(OBJECTS_PER_BATCH)
                .map_err(|error| error.1);
            chunks.try_filter_map(move |objects| {
                let batch = walk.partitions(&level, row, objects);
                std::future::ready(batch.map(|batch| (!batch.is_empty()).then_some(batch)))
            })
        })
        .flatten()
        .boxed()
    }

    /// Groups the data files among `objects` into partitions below directory `row` of `level`.
    fn partitions(
        &self,
        level: &Level,
        row: usize,
        objects: Vec<ObjectMeta>,
    ) -> Result<PartitionBatch> {
        let _timer = self.context.metrics.listing_time.timer();
        let table = &self.table;
        let directory = &level.directories[row];

        // The partition that each source is in ends after this many names of its path.
        let end = directory.parts().count() + table.layout.levels() - level.depth;
        let mut sources: Vec<PartitionSource> = vec![];
        let mut bytes = 0;
        for object in objects {
            if !self.is_data(directory, level.depth, &object) {
                if is_data_file(directory, &object, |_, _| false) {
                    self.found.misplaced.store(true, Ordering::Relaxed);
                }
                continue;
            }
            bytes += object.size as usize;
            let location = Path::from_iter(object.location.parts().take(end));
            match sources.last_mut() {
                Some(last) if last.location == location => {
                    last.objects.get_or_insert_default().push(object);
                }
                _ => sources.push(PartitionSource::new(location).with_objects(vec![object])),
            }
        }
        if !sources.is_empty() {
            self.found
                .partitions
                .fetch_add(sources.len(), Ordering::Relaxed);
            table.observed.record_bytes(bytes, sources.len());
        }
        self.batch(level, row, sources)
    }

    /// The partitions `sources` below directory `row` of `level`, with the values that the missing
    /// levels of their locations spell.
    fn batch(
        &self,
        level: &Level,
        row: usize,
        sources: Vec<PartitionSource>,
    ) -> Result<PartitionBatch> {
        let table = &self.table;
        let parents = UInt32Array::from_value(row as u32, sources.len());
        let (mut values, mut texts, mut keep) = (vec![], vec![], vec![true; sources.len()]);
        for depth in level.depth..table.layout.levels() {
            let names: Vec<&str> = sources
                .iter()
                .map(|source| name_from_end(&source.location, table.layout.levels() - 1 - depth))
                .collect();
            let parsed = table
                .layout
                .parse(depth, &names, |row| table.url_of(&sources[row].location))?;
            for mismatch in &parsed.mismatches {
                match table.on_mismatch.of(mismatch) {
                    OnMismatch::Error => return plan_mismatch(mismatch),
                    OnMismatch::Null => {}
                    OnMismatch::Skip => keep[mismatch.row] = false,
                }
            }
            values.extend(parsed.values);
            texts.extend(as_array_refs(parsed.texts));
        }
        let mut keep = BooleanArray::from(keep);
        let skipped = keep.len() - keep.true_count();
        self.context.metrics.partitions_mismatched.add(skipped);
        if let (Some(filter), Some(known), Some(spec)) =
            (&table.text_filter, &level.texts, table.text_spec())
        {
            let texts = extend(known, &parents, spec, texts)?;
            keep = and(&keep, &filter.evaluate(&texts)?.keep)?;
        }
        let values = extend(&level.values, &parents, &table.spec, values)?;
        PartitionBatch::try_new(values, sources)?.filter(&keep)
    }

    /// Fails when the table has data files, and all of them above the last partition level.
    fn check_found(&self) -> Result<()> {
        let found = &self.found;
        if found.partitions.load(Ordering::Relaxed) > 0 || !found.misplaced.load(Ordering::Relaxed)
        {
            return Ok(());
        }
        plan_err!(
            "no partition below '{}', but data files: expected directories '{}'; does PARTITIONED \
             BY name a column too many, or is LOCATION a level too deep?",
            self.table.describe_roots(),
            self.table.layout.example()
        )
    }

    fn error(&self, directory: &Path, error: object_store::Error) -> DataFusionError {
        listing_error(&self.table.store_url, directory, error)
    }
}

fn plan_mismatch<T>(mismatch: &Mismatch) -> Result<T> {
    Err(PartitionError::clone(&mismatch.error).into())
}

fn as_array_refs(arrays: Vec<StringArray>) -> Vec<ArrayRef> {
    let arrays = arrays.into_iter();
    arrays.map(|array| Arc::new(array) as ArrayRef).collect()
}

/// The name that is `position` places before the last one of `path`.
fn name_from_end(path: &Path, position: usize) -> &str {
    path.as_ref().rsplit('/').nth(position).unwrap_or("")
}
