//! Everything below a directory from one flat listing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::{BooleanArray, UInt32Array};
use datafusion::arrow::compute::and;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion_partitioned_core::{PartitionBatch, PartitionSource};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::{Walk, as_array_refs, is_excluded, mismatch_error};
use crate::data_file::is_data_file;
use crate::directory::OnMismatch;
use crate::level::{Level, extend};
use crate::lister::Lister;

impl Walk {
    /// Whether `object` is a data file of a partition below `directory`, which is `depth` levels
    /// below the root.
    pub(super) fn is_data(&self, directory: &Path, depth: usize, object: &ObjectMeta) -> bool {
        let layout = &self.table.layout;
        if let Some(commits) = self.commits.get() {
            if commits.is_removed(&object.location) {
                return false;
            }
            if let Some(location) = commits.published(&object.location) {
                let published = ObjectMeta {
                    location,
                    ..object.clone()
                };
                return self.is_data(directory, depth, &published);
            }
        }
        let missing = layout.levels() - depth;
        let is_partition =
            |level, name: &str| level < missing && layout.claims(depth + level, name);
        object.location.parts().count() > directory.parts().count() + missing
            && is_data_file(directory, object, is_partition)
            && self.table.is_selected(object)
    }

    /// All partitions below directory `row` of `level`, from one flat listing.
    pub(super) fn list_below(
        self: &Arc<Self>,
        lister: &Lister,
        level: &Arc<Level>,
        row: usize,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let (level, walk) = (Arc::clone(level), Arc::clone(self));
        self.objects_below(lister, &level, row)
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
                let is_file = is_data_file(directory, object, |_, _| false)
                    && !self.is_removed(&object.location);
                // What the table does not select is none of its files, wherever it is.
                if is_file && table.is_selected(object) {
                    self.found.misplaced.get_or_init(|| object.location.clone());
                    self.context.metrics.files_misplaced.add(1);
                }
                continue;
            }
            let location = Path::from_iter(object.location.parts().take(end));
            match sources.last_mut() {
                Some(last) if last.location == location => {
                    let objects = last.objects.get_or_insert_default();
                    self.add_once(objects, object);
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
            let location = &sources[mismatch.row].location;
            self.found.misplaced.get_or_init(|| location.clone());
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
                OnMismatch::Error => return Err(mismatch_error(table, mismatch)),
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
    pub(super) fn check_found(&self) -> Result<()> {
        let found = &self.found;
        match found.misplaced.get() {
            Some(misplaced) if found.partitions.load(Ordering::Relaxed) == 0 => Err(self.table.named(plan_datafusion_err!(
                "no partition below '{}', but '{}': expected directories '{}'; does PARTITIONED \
                 BY name a column too many, is LOCATION a level too deep, or is it another 'partition.layout'?",
                self.table.describe_roots(),
                self.table.url_of(misplaced),
                self.table.layout.example()
            ))),
            _ => {
                let partitions = found.returned.load(Ordering::Relaxed);
                let observed = &self.table.observed;
                observed.record_whole_table(self.number, partitions)
            }
        }
    }
}

/// The name that is `position` places before the last one of `path`.
fn name_from_end(path: &Path, position: usize) -> &str {
    path.as_ref().rsplit('/').nth(position).unwrap_or("")
}
