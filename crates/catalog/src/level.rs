//! The directories of one level of a walk, with the values that are known of them.

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{filter_record_batch, take_arrays};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion_partitioned_core::PartitionSpec;
use object_store::path::Path;

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

    /// The level below, whose directories `directories` are in those with the rows `parents` and
    /// have the further values and texts.
    pub(crate) fn child(
        &self,
        parents: &UInt32Array,
        directories: Vec<Path>,
        spec: &PartitionSpec,
        text_spec: Option<&PartitionSpec>,
        values: Vec<ArrayRef>,
        texts: Vec<ArrayRef>,
    ) -> Result<Self> {
        let texts = match (&self.texts, text_spec) {
            (Some(known), Some(spec)) => Some(extend(known, parents, spec, texts)?),
            _ => None,
        };
        Ok(Self {
            depth: self.depth + 1,
            values: extend(&self.values, parents, spec, values)?,
            texts,
            directories,
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
