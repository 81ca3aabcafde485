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

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{filter_record_batch, take_arrays};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned_core::{
    HiveLayout, ListingContext, PartitionBatch, PartitionPredicate, PartitionSource, PartitionSpec,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::data_file::{is_data_file, is_hidden, url_of};
use crate::lister::Lister;
use crate::listing::Size;
use crate::observed::Observed;

pub(crate) struct Walk {
    pub(crate) root: ListingTableUrl,
    pub(crate) spec: PartitionSpec,
    pub(crate) layout: HiveLayout,
    pub(crate) observed: Arc<Observed>,
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

/// The directories of one level that may hold wanted partitions.
struct Level {
    /// A row with the values of the columns so far for each directory.
    values: RecordBatch,
    directories: Vec<Path>,
}

impl Walk {
    pub(crate) fn run(self) -> BoxStream<'static, Result<PartitionBatch>> {
        let concurrency = self.context.concurrency;
        let walk = Arc::new(self);
        stream::once(async move {
            let lister = Lister::try_new(&walk.root.object_store(), &walk.context)?;
            lister.check(walk.root.prefix())?;
            let levels = walk.descend(&lister).await?;
            let directories = levels.into_iter().flat_map(|level| {
                let level = Arc::new(level);
                (0..level.directories.len()).map(move |row| (Arc::clone(&level), row))
            });
            let directories: Vec<_> = directories.collect();
            // The root itself, listed flat, shows whether there is any partition at all.
            let is_whole_table = matches!(&directories[..], [(level, _)] if level.is_root());
            let checked = Arc::clone(&walk);
            let check = stream::once(async move { checked.check_found() })
                .filter_map(|checked| std::future::ready(checked.err().map(Err)))
                .take(usize::from(is_whole_table));
            let batches = stream::iter(directories)
                .map(move |(level, row)| walk.list_below(&lister, &level, row))
                .flatten_unordered(concurrency);
            Ok::<_, DataFusionError>(batches.chain(check))
        })
        .try_flatten()
        .boxed()
    }

    /// How much the directories hold that would be listed flat, with the number of columns that
    /// their paths spell; `None` for those of which the cache of `lister` does not know it.
    ///
    /// # Errors
    /// When `lister` makes no requests and cannot tell which directories these are.
    pub(crate) async fn remembered_sizes(
        &self,
        lister: &Lister,
    ) -> Result<Vec<(usize, Option<Size>)>> {
        let levels = self.descend(lister).await?;
        let sizes = levels.iter().flat_map(|level| {
            let known = level.values.num_columns();
            let directories = level.directories.iter();
            directories.map(move |directory| (known, lister.remembered_size(directory)))
        });
        Ok(sizes.collect())
    }

    /// Goes down level by level as long as the predicate restricts a deeper one. Returns the
    /// directories to be listed flat, by their level.
    async fn descend(&self, lister: &Lister) -> Result<Vec<Level>> {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let root = RecordBatch::try_new_with_options(self.spec.prefix(0), vec![], &options)?;
        let root = Level {
            values: root,
            directories: vec![self.root.prefix().clone()],
        };
        let wanted = self.wanted(&root);
        let mut level = root.filter(&wanted)?;
        for column in 0..self.spec.len() {
            if level.directories.is_empty() || !self.wanted.constrains_from(column) {
                break;
            }
            let (children, parents) = self.list_level(lister, &level, column).await?;
            if column == 0 && children.directories.is_empty() {
                // Nothing to choose from: what is there instead?
                break;
            }
            let wanted = self.wanted(&children);
            if !self.wanted.constrains_from(column + 1) {
                let (whole, rest) = whole_parents(&wanted, &parents, level.directories.len());
                return Ok(vec![level.filter(&whole)?, children.filter(&rest)?]);
            }
            level = children.filter(&wanted)?;
        }
        Ok(vec![level])
    }

    /// Which directories may hold a wanted partition. All, when the predicate cannot be evaluated:
    /// a directory may hold no rows at all, so the scan reports the error once there are some.
    fn wanted(&self, level: &Level) -> BooleanArray {
        let Ok(pruned) = self.wanted.evaluate(&level.values) else {
            return BooleanArray::from(vec![true; level.directories.len()]);
        };
        let metrics = &self.context.metrics;
        metrics.record_pruned(&pruned);
        let dropped = pruned.by_static + pruned.by_dynamic;
        metrics.directories_pruned.add(dropped);
        pruned.keep
    }

    /// Lists all directories of `level`, whose own directories hold the values of `column`. Returns
    /// these and for each of them the row of its parent.
    async fn list_level(
        &self,
        lister: &Lister,
        level: &Level,
        column: usize,
    ) -> Result<(Level, UInt32Array)> {
        let listings: Vec<Vec<Path>> = stream::iter(level.directories.iter().cloned())
            .map(|directory| self.list_directories(lister, directory, column))
            .buffered(self.context.concurrency)
            .try_collect()
            .await?;
        let found = listings
            .into_iter()
            .enumerate()
            .flat_map(|(parent, found)| found.into_iter().map(move |path| (parent as u32, path)));
        let (mut parents, mut directories): (Vec<u32>, Vec<Path>) = found.unzip();
        self.observed
            .record_directories(column, directories.len(), level.directories.len());

        let parsed = match self.parse(column, &directories) {
            Ok(parsed) => parsed,
            Err(_) => {
                (parents, directories) = self
                    .without_strays(lister, parents, directories, column)
                    .await?;
                self.parse(column, &directories)?
            }
        };
        let parents = UInt32Array::from(parents);
        let mut columns = take_arrays(level.values.columns(), &parents, None)?;
        columns.push(parsed);
        let children = Level {
            values: self.batch(columns, directories.len())?,
            directories,
        };
        Ok((children, parents))
    }

    /// The values of partition column `column`, which the last names of `directories` spell.
    fn parse(&self, column: usize, directories: &[Path]) -> Result<ArrayRef> {
        let _timer = self.context.metrics.listing_time.timer();
        let names: Vec<&str> = directories
            .iter()
            .map(|directory| name_from_end(directory, 0))
            .collect();
        self.layout.parse_level(&self.spec, column, &names, |row| {
            self.url_of(&directories[row])
        })
    }

    /// Leaves out directories that are no partitions and hold no data files, which a flat listing
    /// would not notice either. One with data is an error.
    async fn without_strays(
        &self,
        lister: &Lister,
        parents: Vec<u32>,
        directories: Vec<Path>,
        column: usize,
    ) -> Result<(Vec<u32>, Vec<Path>)> {
        let mut kept = (vec![], vec![]);
        for (parent, directory) in parents.into_iter().zip(directories) {
            if let Err(error) = self.parse(column, std::slice::from_ref(&directory)) {
                if self.has_data(lister, &directory, column + 1).await? {
                    return Err(error);
                }
                continue;
            }
            kept.0.push(parent);
            kept.1.push(directory);
        }
        Ok(kept)
    }

    /// Whether there is a data file below `directory`, whose path spells the first `known` columns.
    async fn has_data(&self, lister: &Lister, directory: &Path, known: usize) -> Result<bool> {
        let mut batches = lister.objects(directory);
        while let Some(objects) = batches.try_next().await? {
            if objects
                .iter()
                .any(|object| self.is_data(directory, known, object))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether `object` is a data file of a partition below `directory`, whose path spells the
    /// first `known` columns.
    fn is_data(&self, directory: &Path, known: usize, object: &ObjectMeta) -> bool {
        let missing = self.spec.len() - known;
        let depth = directory.parts().count() + missing;
        let is_partition =
            |level, name: &str| level < missing && self.is_partition(known + level, name);
        object.location.parts().count() > depth && is_data_file(directory, object, is_partition)
    }

    /// The directories in `directory` that are not hidden.
    async fn list_directories(
        &self,
        lister: &Lister,
        directory: Path,
        column: usize,
    ) -> Result<Vec<Path>> {
        let directories = lister.directories(&directory).await?;
        let is_visible = |name: &&str| !is_hidden(name) || self.is_partition(column, name);
        let visible = directories.names().filter(is_visible);
        visible.map(|name| directories.path(name)).collect()
    }

    /// Whether `name` is `column=value` for the partition column with index `column`.
    fn is_partition(&self, column: usize, name: &str) -> bool {
        let field = self.spec.fields().get(column);
        field.is_some_and(|field| self.layout.is_partition_of(field.name(), name))
    }

    /// All partitions below directory `row` of `level`, from one flat listing.
    fn list_below(
        self: &Arc<Self>,
        lister: &Lister,
        level: &Arc<Level>,
        row: usize,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let (level, walk) = (Arc::clone(level), Arc::clone(self));
        lister
            .objects(&level.directories[row])
            .try_filter_map(move |objects| {
                let batch = walk.partitions(&level, row, &objects);
                std::future::ready(batch.map(|batch| (!batch.is_empty()).then_some(batch)))
            })
            .boxed()
    }

    /// Groups the data files among `objects` into partitions below directory `row` of `level`.
    fn partitions(
        &self,
        level: &Level,
        row: usize,
        objects: &[ObjectMeta],
    ) -> Result<PartitionBatch> {
        let _timer = self.context.metrics.listing_time.timer();
        let directory = &level.directories[row];
        let known = level.values.num_columns();
        let missing = self.spec.len() - known;

        // The partition that each source is in ends after this many names of its path.
        let depth = directory.parts().count() + missing;
        let mut sources: Vec<PartitionSource> = vec![];
        let mut bytes = 0;
        for object in objects {
            if !self.is_data(directory, known, object) {
                if is_data_file(directory, object, |_, _| false) {
                    self.found.misplaced.store(true, Ordering::Relaxed);
                }
                continue;
            }
            bytes += object.size as usize;
            let location = Path::from_iter(object.location.parts().take(depth));
            match sources.last_mut() {
                Some(last) if last.location == location => {
                    last.objects.get_or_insert_default().push(object.clone());
                }
                _ => {
                    sources.push(PartitionSource::new(location).with_objects(vec![object.clone()]))
                }
            }
        }
        if !sources.is_empty() {
            self.found
                .partitions
                .fetch_add(sources.len(), Ordering::Relaxed);
            self.observed.record_bytes(bytes, sources.len());
        }

        let rows = UInt32Array::from_value(row as u32, sources.len());
        let mut columns = take_arrays(level.values.columns(), &rows, None)?;
        let path_of = |row: usize| self.url_of(&sources[row].location);
        for column in known..self.spec.len() {
            // Each location ends with the names of the missing levels.
            let names: Vec<&str> = sources
                .iter()
                .map(|source| name_from_end(&source.location, self.spec.len() - 1 - column))
                .collect();
            let parsed = self
                .layout
                .parse_level(&self.spec, column, &names, path_of)?;
            columns.push(parsed);
        }
        PartitionBatch::try_new(self.batch(columns, sources.len())?, sources)
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
            self.url_of(self.root.prefix()),
            self.spec
                .column_names()
                .map(|name| format!("{name}=<value>/"))
                .collect::<String>()
        )
    }

    fn url_of(&self, path: &Path) -> String {
        url_of(&self.root.object_store(), path)
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = self.spec.prefix(columns.len());
        debug_assert!(columns.iter().all(|column| column.len() == rows));
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

impl Level {
    fn is_root(&self) -> bool {
        self.values.num_columns() == 0
    }

    fn filter(self, keep: &BooleanArray) -> Result<Self> {
        let directories = self
            .directories
            .into_iter()
            .zip(keep.values())
            .filter_map(|(directory, keep)| keep.then_some(directory))
            .collect();
        Ok(Self {
            values: filter_record_batch(&self.values, keep)?,
            directories,
        })
    }
}

/// Splits the wanted directories of a level, below which nothing is restricted any more, into
/// parents to be listed as a whole, because all of their directories are wanted, and single
/// directories. The first mask is over the parents, the second over the directories.
fn whole_parents(
    wanted: &BooleanArray,
    parents: &UInt32Array,
    parent_count: usize,
) -> (BooleanArray, BooleanArray) {
    let mut children = vec![0_usize; parent_count];
    let mut wanted_children = vec![0_usize; parent_count];
    for (parent, wanted) in parents.values().iter().zip(wanted.values()) {
        children[*parent as usize] += 1;
        wanted_children[*parent as usize] += usize::from(wanted);
    }
    let whole: Vec<bool> = children
        .iter()
        .zip(&wanted_children)
        .map(|(children, wanted)| *children > 1 && children == wanted)
        .collect();
    let rest: Vec<bool> = parents
        .values()
        .iter()
        .zip(wanted.values())
        .map(|(parent, wanted)| wanted && !whole[*parent as usize])
        .collect();
    (BooleanArray::from(whole), BooleanArray::from(rest))
}

/// The name that is `position` places before the last one of `path`.
fn name_from_end(path: &Path, position: usize) -> &str {
    path.as_ref().rsplit('/').nth(position).unwrap_or("")
}
