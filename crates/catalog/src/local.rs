//! Lists directories of the local file system.
//!
//! `LocalFileSystem::list_with_delimiter` opens every directory that it finds, only to return its
//! name: four system calls for each, which is most of the time of a query that needs a few
//! directories of thousands. This reads the names alone.

use std::io;
use std::path::PathBuf;

use datafusion::common::runtime::SpawnedTask;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, Result};

const STORE: &str = "LocalFileSystem";

/// Whether `store` is the local file system itself, with nothing around it and no other root.
pub(crate) fn is_local(store: &dyn ObjectStore) -> bool {
    store.to_string() == LocalFileSystem::new().to_string()
}

/// Where a path of the local file system is; `None` for other stores.
pub fn local_path(store: &dyn ObjectStore, path: &Path) -> Option<PathBuf> {
    let local = is_local(store).then(|| LocalFileSystem::new().path_to_filesystem(path))?;
    local.ok()
}

/// Whether an error says that there is no such directory: its name is that of a file, below that of
/// a file, or longer than names can be. In an object store nothing has its prefix then.
pub(crate) fn is_no_directory(error: &Error) -> bool {
    let mut causes =
        std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |e| {
            e.source()
        });
    causes.any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|error| is_missing(error.kind()))
    })
}

fn is_missing(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(kind, NotFound | NotADirectory | InvalidFilename)
}

/// The directories in `directory`, also those behind symbolic links, sorted. None when it does not
/// exist, as in an object store.
pub(crate) async fn list_local_directories(directory: Path) -> Result<Vec<Path>> {
    SpawnedTask::spawn_blocking(move || read_directory(&directory))
        .await
        .map_err(|source| Error::JoinError { source })?
}

/// Fails when `directory` is not there: on a local file system that is different from being empty.
pub(crate) fn check_local_directory(directory: &Path) -> Result<()> {
    let local = LocalFileSystem::new().path_to_filesystem(directory)?;
    let metadata = std::fs::metadata(&local).map_err(|error| Error::NotFound {
        path: local.display().to_string(),
        source: error.into(),
    })?;
    if metadata.is_dir() {
        return Ok(());
    }
    Err(Error::Generic {
        store: STORE,
        source: format!("'{}' is not a directory", local.display()).into(),
    })
}

fn read_directory(directory: &Path) -> Result<Vec<Path>> {
    let failed = |error: io::Error| Error::Generic {
        store: STORE,
        source: error.into(),
    };
    let local = LocalFileSystem::new().path_to_filesystem(directory)?;
    let entries = match std::fs::read_dir(local) {
        Ok(entries) => entries,
        Err(error) if is_missing(error.kind()) => return Ok(vec![]),
        Err(error) => return Err(failed(error)),
    };
    let mut names = vec![];
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let mut file_type = entry.file_type().map_err(failed)?;
        if file_type.is_symlink() {
            match std::fs::metadata(entry.path()) {
                Ok(target) => file_type = target.file_type(),
                // A link to nowhere is no directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            }
        }
        if file_type.is_dir() {
            let name = entry
                .file_name()
                .into_string()
                .map_err(|name| Error::Generic {
                    store: STORE,
                    source: format!("the name of the directory {name:?} is not UTF-8").into(),
                })?;
            names.push(name);
        }
    }
    names.sort_unstable();
    names
        .iter()
        .map(|name| Ok(Path::parse(format!("{directory}/{name}"))?))
        .collect()
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn it_lists_what_the_store_lists() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "p=1", "p=a b", "p=50%25", "p=Köln", "p=%2F", "_hidden", "p=x#y?z", "p=[1]",
        ] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("f"), "x").unwrap();
        }
        std::fs::write(dir.path().join("p=file"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path().join("p=1"), dir.path().join("p=link")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("gone"), dir.path().join("p=broken")).unwrap();

        let store = LocalFileSystem::new();
        assert!(is_local(&store));
        assert!(!is_local(
            &LocalFileSystem::new_with_prefix(dir.path()).unwrap()
        ));
        let root = Path::from_absolute_path(dir.path()).unwrap();
        let listing = store.list_with_delimiter(Some(&root)).await.unwrap();
        let found = list_local_directories(root.clone()).await.unwrap();
        assert_eq!(found, listing.common_prefixes);
        assert_eq!(found.len(), 9);

        let long = "x".repeat(300);
        for missing in ["none", "p=file", "p=file/q=1", &long] {
            let path = Path::parse(format!("{root}/{missing}")).unwrap();
            assert_eq!(list_local_directories(path.clone()).await.unwrap(), vec![]);
            let listed: Result<Vec<_>> = store.list(Some(&path)).try_collect().await;
            let is_missing = |error| is_no_directory(&error);
            assert!(listed.map_or_else(is_missing, |l| l.is_empty()), "{path}");
            assert!(check_local_directory(&path).is_err());
        }
    }
}
