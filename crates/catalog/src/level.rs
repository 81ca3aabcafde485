//! The directories of one level of a walk, with the values that are known of them.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{concat, filter_record_batch, take_arrays};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion_partitioned_core::{PartitionBatch, PartitionSpec};
use object_store::path::Path;

use crate::listing::{Directories, ParsedNames};

/// Directories of one level that may hold wanted partitions.
#[derive(Debug)]
pub(crate) struct Level {
    /// How many directory levels they are below the root.
    pub(crate) depth: usize,
    /// A row with the values of the columns so far for each directory.
    pub(crate) values: RecordBatch,
    /// The same as the texts of their names, when these are asked about too.
    pub(crate) texts: Option<RecordBatch>,
    pub(crate) directories: Vec<Path>,
}

impl Level {
    /// The roots of a table, of which no value is known.
    pub(crate) fn roots(
        spec: &PartitionSpec,
        directories: Vec<Path>,
        with_texts: bool,
    ) -> Result<Self> {
        let nothing = || batch(spec.prefix(0), vec![], directories.len());
        Ok(Self {
            depth: 0,
            values: nothing()?,
            texts: with_texts.then(nothing).transpose()?,
            directories,
        })
    }

    /// The locations of `partitions`, of which the first columns are known.
    pub(crate) fn below(partitions: &PartitionBatch) -> Self {
        let locations = partitions.sources().iter().map(|s| s.location.clone());
        Self {
            depth: 0,
            values: partitions.values().clone(),
            texts: None,
            directories: locations.collect(),
        }
    }

    /// What was found in the directories of this level, one listing for each in their order.
    pub(crate) fn children(
        &self,
        found: Vec<(Arc<Directories>, Arc<ParsedNames>)>,
        spec: &PartitionSpec,
        text_spec: Option<&PartitionSpec>,
    ) -> Result<Children> {
        let count = found.iter().map(|(_, names)| names.rows.len()).sum();
        let (mut parents, mut rows) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (parent, (_, names)) in (0_u32..).zip(&found) {
            parents.resize(parents.len() + names.rows.len(), parent);
            rows.extend_from_slice(&names.rows);
        }
        let parents = UInt32Array::from(parents);
        let values = concat_columns(&found, |names| &names.values)?;
        let values = extend(&self.values, &parents, spec, values)?;
        let texts = match (&self.texts, text_spec) {
            (Some(known), Some(spec)) => {
                let texts = concat_columns(&found, |names| &names.texts)?;
                Some(extend(known, &parents, spec, texts)?)
            }
            _ => None,
        };
        let listings = found.into_iter().map(|(listing, _)| listing).collect();
        Ok(Children {
            depth: self.depth + 1,
            values,
            texts,
            parents,
            rows,
            listings,
        })
    }

    pub(crate) fn is_root(&self) -> bool {
        self.depth == 0
    }

    /// The directories for which `keep` is true.
    pub(crate) fn filter(self, keep: &BooleanArray) -> Result<Self> {
        if keep.true_count() == self.directories.len() {
            return Ok(self);
        }
        let directories = self
            .directories
            .into_iter()
            .zip(keep.values())
            .filter_map(|(directory, keep)| keep.then_some(directory))
            .collect();
        let texts = self.texts.as_ref();
        Ok(Self {
            depth: self.depth,
            values: filter_record_batch(&self.values, keep)?,
            texts: texts
                .map(|texts| filter_record_batch(texts, keep))
                .transpose()?,
            directories,
        })
    }
}

/// The directories in those of a level: like a [`Level`], without the paths, since most of them may
/// not be wanted.
#[derive(Debug)]
pub(crate) struct Children {
    pub(crate) depth: usize,
    pub(crate) values: RecordBatch,
    pub(crate) texts: Option<RecordBatch>,
    /// For each of them which directory of the level it is in,
    pub(crate) parents: UInt32Array,
    /// and where it is in the listing of that.
    rows: Vec<u32>,
    listings: Vec<Arc<Directories>>,
}

impl Children {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The directories for which `keep` is true.
    pub(crate) fn filter(&self, keep: &BooleanArray) -> Result<Level> {
        let path = |child: usize| {
            let parent = self.parents.value(child) as usize;
            self.listings[parent].path(self.rows[child])
        };
        let directories = keep.values().set_indices().map(path);
        let texts = self.texts.as_ref();
        Ok(Level {
            depth: self.depth,
            values: filter_record_batch(&self.values, keep)?,
            texts: texts
                .map(|texts| filter_record_batch(texts, keep))
                .transpose()?,
            directories: directories.collect::<Result<_>>()?,
        })
    }
}

/// The columns of all listings, one behind the other.
fn concat_columns(
    found: &[(Arc<Directories>, Arc<ParsedNames>)],
    columns: impl Fn(&ParsedNames) -> &[ArrayRef],
) -> Result<Vec<ArrayRef>> {
    let Some((_, first)) = found.first() else {
        return Ok(vec![]);
    };
    (0..columns(first).len())
        .map(|column| {
            if found.len() == 1 {
                return Ok(Arc::clone(&columns(first)[column]));
            }
            let arrays = found
                .iter()
                .map(|(_, names)| columns(names)[column].as_ref());
            Ok(concat(&arrays.collect::<Vec<_>>())?)
        })
        .collect()
}

/// The rows `parents` of `known` with further columns.
pub(crate) fn extend(
    known: &RecordBatch,
    parents: &UInt32Array,
    spec: &PartitionSpec,
    further: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    let mut columns = take_arrays(known.columns(), parents, None)?;
    columns.extend(further);
    batch(spec.prefix(columns.len()), columns, parents.len())
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// Splits the wanted directories of a level, below which nothing is restricted any more, into
/// parents to be listed as a whole, because all of their directories are wanted, and single
/// directories. The first mask is over the parents, the second over the directories.
pub(crate) fn whole_parents(
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
