//! Which of the objects that a listing returns are data files.

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::lister::Lister;

/// The data files below `directory`, from one flat listing; `None` when there is nothing at all, not even
/// a hidden file.
///
/// # Errors
/// When the listing fails. A directory that does not exist has no files on most stores.
pub async fn list_data_files(lister: &Lister, directory: &Path) -> Result<Option<Vec<ObjectMeta>>> {
    let mut batches = lister.objects(directory);
    let mut is_there = false;
    let mut files = vec![];
    while let Some(batch) = batches.try_next().await? {
        is_there |= !batch.is_empty();
        let is_data = |object: &&ObjectMeta| is_data_file(directory, object, |_, _| false);
        files.extend(batch.iter().filter(is_data).cloned());
    }
    Ok(is_there.then_some(files))
}

/// Whether `object` is a data file below `directory`: it has bytes and no name on its way is
/// hidden. `is_partition(level, name)` says which directories are none of that, whatever their
/// name starts with; level 0 is the first below `directory`.
pub(crate) fn is_data_file(
    directory: &Path,
    object: &ObjectMeta,
    is_partition: impl Fn(usize, &str) -> bool,
) -> bool {
    let Some(names) = object.location.prefix_match(directory) else {
        return false;
    };
    object.size > 0
        && names
            .enumerate()
            .all(|(level, name)| !is_hidden(name.as_ref()) || is_partition(level, name.as_ref()))
}

/// Job markers, staging trees, checksums: names that Hive, Spark and Flink skip.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

/// The URL of `path`, for people: nothing in it is escaped.
pub fn url_of(store_url: &ObjectStoreUrl, path: &Path) -> String {
    format!("{store_url}{path}")
}

pub(crate) fn listing_error(
    store_url: &ObjectStoreUrl,
    directory: &Path,
    error: object_store::Error,
) -> DataFusionError {
    DataFusionError::ObjectStore(Box::new(error)).context(format!(
        "cannot list the partitions in '{}'",
        url_of(store_url, directory)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_data(location: &str, size: u64) -> bool {
        let object = ObjectMeta {
            location: Path::parse(location).unwrap(),
            last_modified: Default::default(),
            size,
            e_tag: None,
            version: None,
        };
        is_data_file(&Path::from("t"), &object, |level, name| {
            level == 0 && name.starts_with("_p=")
        })
    }

    #[test]
    fn markers_and_hidden_names_are_no_data() {
        assert!(is_data("t/p=1/f.parquet", 1));
        assert!(is_data("t/p=1/SUB/f", 1));
        assert!(is_data("t/_p=1/f", 1));
        assert!(!is_data("t/p=1/f.parquet", 0));
        assert!(!is_data("t/p=1/_metadata", 1));
        assert!(!is_data("t/p=1/.f.crc", 1));
        assert!(!is_data("t/_temporary/0/p=1/f.parquet", 1));
        assert!(!is_data("t/p=1/_p=1/f", 1));
        assert!(!is_data("t2/p=1/f", 1));
    }
}
