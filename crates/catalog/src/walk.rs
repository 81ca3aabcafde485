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

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::and;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion_partitioned_core::{
    ListingContext, Mismatch, PartitionBatch, PartitionError, PartitionPredicate, PartitionSource,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::data_file::{is_data_file, is_hidden};
use crate::directory::{OnMismatch, Table};
use crate::level::{Children, Level, extend, whole_parents};
use crate::lister::Lister;
use crate::listing::{Directories, ParsedNames};

/// One listing of a table of directories.
pub(crate) struct Walk {
    table: Arc<Table>,
    /// Tells this walk from others of the table.
    number: u64,
    wanted: PartitionPredicate,
    context: ListingContext,
    found: Found,
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
    /// Whether there was a data file outside of all partitions.
    misplaced: AtomicBool,
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
            }
            let levels = walk.descend(&lister).await?;
            // The roots themselves, listed flat, show whether there is any partition at all.
            let is_whole_table = walk.below.is_none() && levels.iter().all(Level::is_root);
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
        self.context.defer_files && !self.table.selects_files()
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

    /// The directories in those of `level`.
    async fn list_level(&self, lister: &Lister, level: &Level) -> Result<Children> {
        let listings: Vec<Arc<Directories>> = stream::iter(level.directories.iter().cloned())
            .map(|directory| async move { lister.directories(&directory).await })
            .buffered(self.context.concurrency)
            .try_collect()
            .await?;
        let mut parsed = Vec::with_capacity(listings.len());
        for (parent, directories) in (0_u32..).zip(listings) {
            let mut names = self.parse(level.depth, &directories)?;
            if !names.mismatches.is_empty() {
                let parents = UInt32Array::from_value(parent, names.rows.len());
                // What cannot be evaluated drops nothing: see `Self::wanted`.
                let chosen = self.chosen_by_text(level, &parents, names.texts.clone());
                let chosen = chosen.unwrap_or(None);
                let keep = self
                    .without_mismatches(lister, &names, &directories, level.depth, chosen)
                    .await?;
                names = Arc::new(names.filter(&keep)?);
            }
            parsed.push((directories, names));
        }
        let _timer = self.context.metrics.listing_time.timer();
        let children = level.children(parsed, &self.table.spec, self.table.text_spec())?;
        self.table.observed.record_directories(
            level.depth,
            children.values.num_rows(),
            level.directories.len(),
        );
        Ok(children)
    }

    /// The names of those of `directories`, which are in a directory at `depth`, that are not hidden,
    /// with the values that they spell.
    fn parse(&self, depth: usize, directories: &Directories) -> Result<Arc<ParsedNames>> {
        let layout = &self.table.layout;
        if let Some(parsed) = directories.parsed(layout, depth) {
            return Ok(parsed);
        }
        let _timer = self.context.metrics.listing_time.timer();
        let is_visible = |(_, name): &(u32, &str)| !is_hidden(name) || layout.claims(depth, name);
        let (rows, names): (Vec<u32>, Vec<&str>) =
            (0..).zip(directories.names()).filter(is_visible).unzip();
        let parsed = layout.parse(depth, &names, |row| {
            let path = directories.path(rows[row]);
            path.map_or_else(|_| names[row].to_owned(), |path| self.table.url_of(&path))
        })?;
        let parsed = Arc::new(ParsedNames {
            rows,
            values: parsed.values,
            texts: as_array_refs(parsed.texts),
            mismatches: parsed.mismatches,
        });
        if parsed.mismatches.is_empty() {
            directories.set_parsed(layout, depth, &parsed);
        }
        Ok(parsed)
    }

    /// Which directories the filter on texts makes part of the table; `None` for all. Their texts are
    /// those of their parents in `level`, and `further` ones.
    fn chosen_by_text(
        &self,
        level: &Level,
        parents: &UInt32Array,
        further: Vec<ArrayRef>,
    ) -> Result<Option<BooleanArray>> {
        let table = &self.table;
        let (Some(filter), Some(known), Some(spec)) =
            (&table.text_filter, &level.texts, table.text_spec())
        else {
            return Ok(None);
        };
        let texts = extend(known, parents, spec, further)?;
        Ok(Some(filter.evaluate(&texts)?.keep))
    }

    /// Which directories remain when some do not fit the layout or their column's type. As an error
    /// such a directory counts only if it holds data files: a flat listing would not notice it
    /// otherwise.
    async fn without_mismatches(
        &self,
        lister: &Lister,
        names: &ParsedNames,
        directories: &Directories,
        depth: usize,
        chosen: Option<BooleanArray>,
    ) -> Result<BooleanArray> {
        let mut keep = vec![true; names.rows.len()];
        for mismatch in &names.mismatches {
            if is_excluded(mismatch, chosen.as_ref()) {
                continue;
            }
            let directory = directories.path(names.rows[mismatch.row])?;
            match self.table.on_mismatch.of(mismatch) {
                OnMismatch::Null => continue,
                OnMismatch::Error if self.has_data(lister, &directory, depth + 1).await? => {
                    return plan_mismatch(mismatch);
                }
                OnMismatch::Error => {}
                OnMismatch::Skip => self.count_skipped(directory),
            }
            keep[mismatch.row] = false;
        }
        Ok(keep.into())
    }

    fn count_skipped(&self, directory: Path) {
        let skipped = &self.found.skipped;
        let mut skipped = skipped.lock().unwrap_or_else(PoisonError::into_inner);
        if skipped.insert(directory) {
            self.context.metrics.partitions_mismatched.add(1);
        }
    }

    /// Whether there is a data file below `directory`, which is `depth` levels below the root.
    async fn has_data(&self, lister: &Lister, directory: &Path, depth: usize) -> Result<bool> {
        let mut batches = lister.objects(directory);
        while let Some(objects) = batches.try_next().await? {
            if objects
                .iter()
                .any(|object| self.is_data(directory, depth, object))
            {
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
        let table = &self.table;
        let directory = &level.directories[row];

        // The partition that each source is in ends after this many names of its path.
        let end = directory.parts().count() + table.layout.levels() - level.depth;
        let mut sources: Vec<PartitionSource> = vec![];
        for object in objects {
            if !self.is_data(directory, level.depth, object) {
                if is_data_file(directory, object, |_, _| false) {
                    self.found.misplaced.store(true, Ordering::Relaxed);
                    self.context.metrics.files_misplaced.add(1);
                }
                continue;
            }
            let location = Path::from_iter(object.location.parts().take(end));
            match sources.last_mut() {
                Some(last) if last.location == location => {
                    last.objects.get_or_insert_default().push(object.clone());
                }
                _ => {
                    sources.push(PartitionSource::new(location).with_objects(vec![object.clone()]))
                }
            }
        }
        let batch = self.batch(level, row, sources)?;
        let new = table.observed.record_partitions(self.number, &batch)?;
        self.found.returned.fetch_add(new, Ordering::Relaxed);
        Ok(batch)
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
        let levels = table.layout.levels();
        let is_fixed = |depth: usize| table.layout.fixed_name(depth).is_some();
        let parents = UInt32Array::from_value(row as u32, sources.len());
        let (mut values, mut texts, mut mismatches) = (vec![], vec![], vec![]);
        for depth in level.depth..levels {
            let names: Vec<&str> = sources
                .iter()
                .map(|source| name_from_end(&source.location, levels - 1 - depth))
                .collect();
            let parsed = table
                .layout
                .parse(depth, &names, |row| table.url_of(&sources[row].location))?;
            mismatches.extend(parsed.mismatches.into_iter().map(|m| (depth, m)));
            values.extend(parsed.values);
            texts.extend(as_array_refs(parsed.texts));
        }
        let chosen = self.chosen_by_text(level, &parents, texts)?;
        let mut keep = vec![true; sources.len()];
        // A walk by levels does not look at other directories where the name is fixed.
        for (_, mismatch) in mismatches.iter().filter(|(depth, _)| is_fixed(*depth)) {
            keep[mismatch.row] = false;
            self.found.misplaced.store(true, Ordering::Relaxed);
        }
        let partitions = keep.iter().filter(|keep| **keep).count();
        self.found
            .partitions
            .fetch_add(partitions, Ordering::Relaxed);
        for (depth, mismatch) in &mismatches {
            if !keep[mismatch.row] || is_excluded(mismatch, chosen.as_ref()) {
                continue;
            }
            match table.on_mismatch.of(mismatch) {
                OnMismatch::Error => return plan_mismatch(mismatch),
                OnMismatch::Null => {}
                OnMismatch::Skip => {
                    keep[mismatch.row] = false;
                    let names = sources[mismatch.row].location.parts();
                    let end = names.clone().count() - (levels - 1 - depth);
                    self.count_skipped(names.take(end).collect());
                }
            }
        }
        let mut keep = BooleanArray::from(keep);
        if let Some(chosen) = chosen {
            keep = and(&keep, &chosen)?;
        }
        let values = extend(&level.values, &parents, &table.spec, values)?;
        PartitionBatch::try_new(values, sources)?.filter(&keep)
    }

    /// At the end of a walk over the whole table. Fails when the table has data files, and all of them
    /// above the last partition level.
    fn check_found(&self) -> Result<()> {
        let found = &self.found;
        if found.partitions.load(Ordering::Relaxed) > 0 || !found.misplaced.load(Ordering::Relaxed)
        {
            let partitions = found.returned.load(Ordering::Relaxed);
            let observed = &self.table.observed;
            return observed.record_whole_table(self.number, partitions);
        }
        plan_err!(
            "no partition below '{}', but data files: expected directories '{}'; does PARTITIONED \
             BY name a column too many, or is LOCATION a level too deep?",
            self.table.describe_roots(),
            self.table.layout.example()
        )
    }
}

/// Whether a directory is no part of the table by its texts, whatever its values. Of one that does
/// not fit the layout no text is known.
fn is_excluded(mismatch: &Mismatch, chosen: Option<&BooleanArray>) -> bool {
    let has_text = matches!(mismatch.error, PartitionError::Value { .. });
    has_text && chosen.is_some_and(|chosen| !chosen.value(mismatch.row))
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
