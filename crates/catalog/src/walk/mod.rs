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

mod commits;
mod flat;
mod levels;

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::and;
use datafusion::common::{DataFusionError, Result};
use datafusion_partitioned_core::{
    ListingContext, Mismatch, PartitionBatch, PartitionError, PartitionPredicate, PartitionSource,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::commit_record::UnfinishedCommits;
use crate::directory::Table;
use crate::level::{Level, whole_parents};
use crate::lister::Lister;

/// One listing of a table of directories.
pub(crate) struct Walk {
    table: Arc<Table>,
    /// Tells this walk from others of the table.
    number: u64,
    wanted: PartitionPredicate,
    context: ListingContext,
    found: Found,
    /// Of statements that have been interrupted, or are being published; not set when there are none.
    commits: OnceLock<UnfinishedCommits>,
    /// Set when it is clear what there is of commits, and whether the table changes is looked at in the end.
    checked: OnceLock<()>,
    /// The directories to start in, with their values of the first columns, instead of the roots.
    below: Option<PartitionBatch>,
}

/// What a walk has come across.
#[derive(Debug, Default)]
struct Found {
    /// Partitions, also such as are left out.
    partitions: AtomicUsize,
    /// Partitions that are part of the table.
    returned: AtomicUsize,
    /// A data file outside of all partitions, or a directory that is no partition.
    misplaced: OnceLock<Path>,
    /// The directories left out because they do not fit; several listings may come across one.
    skipped: Mutex<HashSet<Path>>,
}

impl Walk {
    pub(crate) fn new(
        table: Arc<Table>,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> Self {
        Self {
            number: table.observed.start_walk(),
            table,
            wanted,
            context,
            found: Found::default(),
            commits: OnceLock::new(),
            checked: OnceLock::new(),
            below: None,
        }
    }

    /// Starts at the locations of `partitions`, which know the columns that the layout does not have.
    pub(crate) fn below(mut self, partitions: PartitionBatch) -> Self {
        self.below = Some(partitions);
        self
    }

    pub(crate) fn run(self) -> BoxStream<'static, Result<PartitionBatch>> {
        let concurrency = self.context.concurrency;
        let walk = Arc::new(self);
        stream::once(async move {
            let lister = Lister::try_new(&walk.table.store_url, &walk.context)?;
            if walk.below.is_none() {
                for root in &walk.table.roots {
                    lister.check(root)?;
                }
                walk.look_for_commits(&lister).await?;
            }
            let levels = walk.descend(&lister).await?;
            // The roots themselves, listed flat, show whether there is any partition at all.
            let listed: usize = levels.iter().map(|level| level.directories.len()).sum();
            let is_whole_table = walk.below.is_none()
                && levels.iter().all(Level::is_root)
                && listed == walk.table.roots.len();
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
                .map(move |(level, row)| walk.list_below(&lister, &level, row))
                .flatten_unordered(concurrency);
            Ok::<_, DataFusionError>(deferred.chain(batches).chain(check))
        })
        .try_flatten()
        .boxed()
    }

    /// Goes down level by level as long as [`Self::goes_below`]. Returns the directories to be listed
    /// flat, by their level, or the partitions themselves when their files are looked for later.
    async fn descend(&self, lister: &Lister) -> Result<Vec<Level>> {
        let table = &self.table;
        let roots = match &self.below {
            Some(partitions) => Level::below(partitions),
            None => self.roots()?,
        };
        let wanted = self.wanted(&roots.values, roots.texts.as_ref())?;
        let mut level = roots.filter(&wanted)?;
        for depth in 0..table.layout.levels() {
            let columns = level.values.num_columns();
            let count = level.directories.len();
            if count == 0 || !self.goes_below(level.depth, columns, count) {
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
            let children = self.list_level(lister, &level).await?;
            if columns == 0 && children.is_empty() && self.below.is_none() {
                // Nothing to choose from: what is there instead?
                return Ok(vec![self.roots()?]);
            }
            let wanted = self.wanted(&children.values, children.texts.as_ref())?;
            let columns = children.values.num_columns();
            if !self.goes_below(children.depth, columns, wanted.true_count()) {
                let parents = level.directories.len();
                let (whole, rest) = whole_parents(&wanted, &children.parents, parents);
                return Ok(vec![level.filter(&whole)?, children.filter(&rest)?]);
            }
            level = children.filter(&wanted)?;
        }
        Ok(vec![level])
    }

    fn roots(&self) -> Result<Level> {
        let Table {
            spec,
            roots,
            text_filter,
            ..
        } = self.table.as_ref();
        Level::roots(spec, roots.clone(), text_filter.is_some())
    }

    /// Whether to go on level by level below `directories` directories at `depth`, whose paths spell
    /// `columns` columns: a predicate restricts a deeper level, or only names are asked for and
    /// these directories can be listed at once.
    fn goes_below(&self, depth: usize, columns: usize, directories: usize) -> bool {
        let text_filter = self.table.text_filter.as_ref();
        self.wanted.constrains_from(columns)
            || text_filter.is_some_and(|filter| filter.constrains_from(columns))
            || (self.defers_files()
                && (self.is_last(depth) || directories <= self.context.concurrency))
    }

    /// Whether to leave the files to the reader, which does not know what selects them.
    fn defers_files(&self) -> bool {
        self.context.defer_files && !self.table.selects_files() && self.commits.get().is_none()
    }

    /// Whether the directories at `depth` are partitions.
    fn is_last(&self, depth: usize) -> bool {
        depth == self.table.layout.levels()
    }

    /// Whether the directories of `level` are partitions whose files are looked for later.
    fn is_deferred(&self, level: &Level) -> bool {
        self.defers_files() && !level.is_root() && self.is_last(level.depth)
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
    fn wanted(&self, values: &RecordBatch, texts: Option<&RecordBatch>) -> Result<BooleanArray> {
        let _timer = self.context.metrics.listing_time.timer();
        let all = || BooleanArray::new(BooleanBuffer::new_set(values.num_rows()), None);
        let by_text = match (&self.table.text_filter, texts) {
            (Some(filter), Some(texts)) => filter.evaluate(texts).ok(),
            _ => None,
        };
        let mut keep = by_text.map_or_else(all, |pruned| pruned.keep);
        if let Ok(pruned) = self.wanted.evaluate(values) {
            self.context.metrics.record_pruned(&pruned);
            keep = and(&keep, &pruned.keep)?;
        }
        let dropped = keep.len() - keep.true_count();
        self.context.metrics.directories_pruned.add(dropped);
        Ok(keep)
    }
}

/// Whether a directory is no part of the table by its texts, whatever its values. Of one that does
/// not fit the layout no text is known.
fn is_excluded(mismatch: &Mismatch, chosen: Option<&BooleanArray>) -> bool {
    let has_text = matches!(mismatch.error, PartitionError::Value { .. });
    has_text && chosen.is_some_and(|chosen| !chosen.value(mismatch.row))
}

fn mismatch_error(table: &Table, mismatch: &Mismatch) -> DataFusionError {
    table.named(PartitionError::clone(&mismatch.error).into())
}

fn as_array_refs(arrays: Vec<StringArray>) -> Vec<ArrayRef> {
    let arrays = arrays.into_iter();
    arrays.map(|array| Arc::new(array) as ArrayRef).collect()
}
