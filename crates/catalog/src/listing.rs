//! What listings return, in a form that can be shared and remembered.

use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StringArray};
use datafusion::arrow::compute::filter;
use datafusion::common::Result;
use datafusion::execution::cache::cache_manager::meta_heap_bytes;
use datafusion_partitioned_core::{Mismatch, PartitionLayout};
use object_store::ObjectMeta;
use object_store::path::Path;

/// The directories in a directory: their names, one behind the other.
#[derive(Debug)]
pub(crate) struct Directories {
    parent: Path,
    names: StringArray,
    /// What the first table to ask has read from the names.
    parsed: OnceLock<Parsed>,
}

#[derive(Debug)]
struct Parsed {
    layout: PartitionLayout,
    depth: usize,
    names: Arc<ParsedNames>,
}

/// Those of some directories that are not hidden, with the values that their names spell.
#[derive(Debug)]
pub(crate) struct ParsedNames {
    /// Their positions among the directories.
    pub(crate) rows: Vec<u32>,
    /// One array for each column of the level.
    pub(crate) values: Vec<ArrayRef>,
    /// The same as texts.
    pub(crate) texts: Vec<ArrayRef>,
    /// Which do not fit, by their position among these.
    pub(crate) mismatches: Vec<Mismatch>,
}

impl ParsedNames {
    /// Those for which `keep` is true, as if they all fitted.
    pub(crate) fn filter(&self, keep: &BooleanArray) -> Result<Self> {
        let filtered = |columns: &[ArrayRef]| {
            let columns = columns.iter().map(|column| filter(column, keep));
            columns.collect::<Result<Vec<_>, _>>()
        };
        let rows = keep.values().set_indices();
        Ok(Self {
            rows: rows.map(|row| self.rows[row]).collect(),
            values: filtered(&self.values)?,
            texts: filtered(&self.texts)?,
            mismatches: vec![],
        })
    }
}

impl Directories {
    /// The last names of `paths`, which are directories in `parent`.
    pub(crate) fn new(parent: &Path, paths: &[Path]) -> Self {
        Self {
            parent: parent.clone(),
            names: StringArray::from_iter_values(paths.iter().filter_map(Path::filename)),
            parsed: OnceLock::new(),
        }
    }

    /// The names, in the order of the listing.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flatten()
    }

    /// The path of the directory with this position.
    pub(crate) fn path(&self, row: u32) -> Result<Path> {
        let name = self.names.value(row as usize);
        let path = if self.parent.is_root() {
            Path::parse(name)
        } else {
            Path::parse(format!("{}/{name}", self.parent))
        };
        Ok(path.map_err(object_store::Error::from)?)
    }

    /// What was read from the names before, by the rules of `layout` for directories in one that is
    /// `depth` levels below the root.
    pub(crate) fn parsed(
        &self,
        layout: &PartitionLayout,
        depth: usize,
    ) -> Option<Arc<ParsedNames>> {
        let parsed = self.parsed.get()?;
        (parsed.depth == depth && parsed.layout == *layout).then(|| Arc::clone(&parsed.names))
    }

    /// Sets what [`Self::parsed`] returns, unless somebody else has.
    pub(crate) fn set_parsed(
        &self,
        layout: &PartitionLayout,
        depth: usize,
        names: &Arc<ParsedNames>,
    ) {
        self.parsed.get_or_init(|| Parsed {
            layout: layout.clone(),
            depth,
            names: Arc::clone(names),
        });
    }

    /// The memory of this, with that of texts and values to be read from the names.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.names.get_array_memory_size();
        let values = self.names.len() * size_of::<(u32, u128)>();
        size_of::<Self>() + self.parent.as_ref().len() + 2 * names + values
    }
}

/// The objects below a directory, from one listing that was read to its end.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    batches: Vec<Arc<[ObjectMeta]>>,
    bytes: usize,
}

impl Objects {
    /// Adds the next objects of the listing.
    pub(crate) fn push(&mut self, batch: Arc<[ObjectMeta]>) {
        let heap: usize = batch.iter().map(meta_heap_bytes).sum();
        self.bytes += size_of_val(batch.as_ref()) + heap;
        self.batches.push(batch);
    }

    pub(crate) fn batches(&self) -> &[Arc<[ObjectMeta]>] {
        &self.batches
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_their_names() {
        let parent = Path::from("t");
        let paths = ["t/p=a%2Fb", "t/_tmp", "t/p=1"].map(|path| Path::parse(path).unwrap());
        let directories = Directories::new(&parent, &paths);
        let again = [0, 1, 2].map(|row| directories.path(row).unwrap());
        assert_eq!(again, paths);
        assert_eq!(directories.names().next(), Some("p=a%2Fb"));
        let root = Directories::new(&Path::ROOT, &[Path::from("t")]);
        assert_eq!(root.path(0).unwrap(), Path::from("t"));
    }
}
