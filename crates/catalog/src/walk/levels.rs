//! The directories of one level: listed, read as values, and rid of those that do not fit.

use std::sync::{Arc, PoisonError};

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use datafusion::common::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;

use super::{Walk, as_array_refs, is_excluded, mismatch_error};
use crate::commit_record::CommitRecord;
use crate::data_file::is_hidden;
use crate::directory::OnMismatch;
use crate::level::{Children, Level, extend};
use crate::lister::Lister;
use crate::listing::{Directories, ParsedNames};

impl Walk {
    /// The directories in those of `level`.
    pub(super) async fn list_level(&self, lister: &Lister, level: &Level) -> Result<Children> {
        let listings: Vec<Arc<Directories>> = stream::iter(level.directories.iter().cloned())
            .map(|directory| async move { lister.directories(&directory).await })
            .buffered(self.context.concurrency)
            .try_collect()
            .await?;
        if self.is_first(level.depth) && self.checked.get().is_none() {
            for directories in &listings {
                if directories
                    .names()
                    .any(|name| name == CommitRecord::DIRECTORY)
                {
                    self.load_commits(lister).await?;
                }
            }
        }
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
    pub(super) fn chosen_by_text(
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
                    return Err(mismatch_error(&self.table, mismatch));
                }
                OnMismatch::Error => {}
                OnMismatch::Skip => self.count_skipped(directory),
            }
            keep[mismatch.row] = false;
        }
        Ok(keep.into())
    }

    pub(super) fn count_skipped(&self, directory: Path) {
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
}
