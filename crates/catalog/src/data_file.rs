//! Which of the objects that a listing returns are data files.

use datafusion::common::{DataFusionError, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

/// The data files below `directory`, from one flat listing.
///
/// # Errors
/// When the listing fails. A directory that does not exist has no files on most stores.
pub async fn list_data_files(store: &dyn ObjectStore, directory: &Path) -> Result<Vec<ObjectMeta>> {
    store
        .list(Some(directory))
        .map_err(|error| listing_error(directory, error))
        .try_filter(|object| {
            std::future::ready(directories_of_data_file(directory, 0, object).is_some())
        })
        .try_collect()
        .await
}

/// The names of the first `levels` directories between `directory` and `object`, if the object is
/// a data file: it has bytes, lies below that many directories, and no name on its way is hidden.
pub(crate) fn directories_of_data_file(
    directory: &Path,
    levels: usize,
    object: &ObjectMeta,
) -> Option<Vec<String>> {
    if object.size == 0 {
        return None;
    }
    let mut names: Vec<String> = object
        .location
        .prefix_match(directory)?
        .map(|name| name.as_ref().to_owned())
        .collect();
    if names.len() <= levels || names.iter().any(|name| is_hidden(name)) {
        return None;
    }
    names.truncate(levels);
    Some(names)
}

/// Job markers, staging trees, checksums: names that Hive, Spark and Flink skip.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

pub(crate) fn listing_error(directory: &Path, error: object_store::Error) -> DataFusionError {
    DataFusionError::ObjectStore(Box::new(error))
        .context(format!("cannot list the partitions in '{directory}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(location: &str, size: u64) -> Option<Vec<String>> {
        let object = ObjectMeta {
            location: Path::parse(location).unwrap(),
            last_modified: Default::default(),
            size,
            e_tag: None,
            version: None,
        };
        directories_of_data_file(&Path::from("t"), 1, &object)
    }

    #[test]
    fn markers_hidden_names_and_files_above_the_level_are_no_data() {
        assert_eq!(
            directories("t/p=1/f.parquet", 1),
            Some(vec!["p=1".to_owned()])
        );
        assert_eq!(directories("t/p=1/SUB/f", 1), Some(vec!["p=1".to_owned()]));
        assert_eq!(directories("t/p=1/f.parquet", 0), None);
        assert_eq!(directories("t/f.parquet", 1), None);
        assert_eq!(directories("t/p=1/_metadata", 1), None);
        assert_eq!(directories("t/p=1/.f.crc", 1), None);
        assert_eq!(directories("t/_temporary/0/p=1/f.parquet", 1), None);
    }
}
