//! What listings return, in a form that can be shared and remembered.

use std::sync::Arc;

use datafusion::arrow::array::{Array, StringArray};
use datafusion::common::Result;
use datafusion::execution::cache::cache_manager::meta_heap_bytes;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::data_file::is_hidden;

/// The directories in a directory: their names, one behind the other.
#[derive(Debug)]
pub(crate) struct Directories {
    parent: Path,
    names: StringArray,
}

impl Directories {
    /// The last names of `paths`, which are directories in `parent`.
    pub(crate) fn new(parent: &Path, paths: &[Path]) -> Self {
        Self {
            parent: parent.clone(),
            names: StringArray::from_iter_values(paths.iter().filter_map(Path::filename)),
        }
    }

    /// The names, in the order of the listing.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flatten()
    }

    /// The path of the directory called `name`.
    pub(crate) fn path(&self, name: &str) -> Result<Path> {
        let path = if self.parent.is_root() {
            Path::parse(name)
        } else {
            Path::parse(format!("{}/{name}", self.parent))
        };
        Ok(path.map_err(object_store::Error::from)?)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.parent.as_ref().len() + self.names.get_array_memory_size()
    }
}

/// The objects below a directory, from one listing that was read to its end.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    batches: Vec<Arc<[ObjectMeta]>>,
    bytes: usize,
    size: Size,
}

/// How much there is below a directory, by and large.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Directories with data files in them.
    pub(crate) partitions: usize,
    /// The bytes of the data files.
    pub(crate) bytes: usize,
}

impl Objects {
    /// Adds the next objects of the listing.
    pub(crate) fn push(&mut self, batch: Arc<[ObjectMeta]>) {
        let heap: usize = batch.iter().map(meta_heap_bytes).sum();
        self.bytes += size_of_val(batch.as_ref()) + heap;
        let last = self.batches.last().and_then(|last| {
            let mut objects = last.iter().rev();
            objects.find(|object| looks_like_data(object))
        });
        let mut last = last.map(|object| directory_of(&object.location));
        for object in batch.iter().filter(|object| looks_like_data(object)) {
            let directory = directory_of(&object.location);
            self.size.partitions += usize::from(last != Some(directory));
            self.size.bytes += object.size as usize;
            last = Some(directory);
        }
        self.batches.push(batch);
    }

    pub(crate) fn batches(&self) -> &[Arc<[ObjectMeta]>] {
        &self.batches
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Like [`is_data_file`](crate::data_file::is_data_file), for those who do not know the layout.
fn looks_like_data(object: &ObjectMeta) -> bool {
    let mut names = object.location.as_ref().rsplit('/');
    let is_visible = |name: &str| !is_hidden(name) || name.contains('=');
    object.size > 0 && !names.next().is_some_and(is_hidden) && names.all(is_visible)
}

fn directory_of(path: &Path) -> &str {
    path.as_ref()
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(location: &str, size: u64) -> ObjectMeta {
        ObjectMeta {
            location: Path::parse(location).unwrap(),
            last_modified: Default::default(),
            size,
            e_tag: None,
            version: None,
        }
    }

    #[test]
    fn directories_are_their_names() {
        let parent = Path::from("t");
        let paths = ["t/p=a%2Fb", "t/_tmp", "t/p=1"].map(|path| Path::parse(path).unwrap());
        let directories = Directories::new(&parent, &paths);
        let again = directories
            .names()
            .map(|name| directories.path(name).unwrap());
        assert_eq!(again.collect::<Vec<_>>(), paths);
        let root = Directories::new(&Path::ROOT, &[Path::from("t")]);
        assert_eq!(root.path("t").unwrap(), Path::from("t"));
    }

    #[test]
    fn the_size_counts_directories_of_data_files() {
        let mut objects = Objects::default();
        let first = [
            object("t/_SUCCESS", 3),
            object("t/p=1/a", 10),
            object("t/p=1/b", 10),
            object("t/p=2/_meta", 7),
        ];
        objects.push(Arc::from(first));
        let second = [
            object("t/p=2/a", 10),
            object("t/p=3/empty", 0),
            object("t/_p=4/a", 10),
            object("t/_temporary/p=1/a", 5),
        ];
        objects.push(Arc::from(second));
        let expected = Size {
            partitions: 3,
            bytes: 40,
        };
        assert_eq!(objects.size(), expected);
        assert_eq!(objects.batches().len(), 2);
        assert!(objects.bytes() > 8 * size_of::<ObjectMeta>());
    }
}
