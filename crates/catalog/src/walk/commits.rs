//! Statements that have been committed, and whose files do not have their final names yet.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_err};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::Walk;
use crate::commit_record::{CommitRecord, UnfinishedCommits};
use crate::directory::Table;
use crate::level::Level;
use crate::lister::{Lister, OBJECTS_PER_BATCH};

impl Walk {
    /// Whether the directories at `depth` are the first that are listed: the records are in them.
    pub(super) fn is_first(&self, depth: usize) -> bool {
        let layout = &self.table.layout;
        self.below.is_none() && depth == layout.fixed_levels()
    }

    /// Looks for what is seen of commits before anything else of the table: on a local file system, where that is no
    /// request, and of a table with several roots.
    pub(super) async fn look_for_commits(&self, lister: &Lister) -> Result<()> {
        let mut directories = self.table.commit_directories();
        let Some(first) = directories.next() else {
            return Ok(());
        };
        // A record can be about files in other roots, which nothing tells while these are listed.
        match lister.is_local_directory(&first) {
            None if self.table.roots.len() == 1 => Ok(()),
            _ => self.load_commits(lister).await,
        }
    }

    /// Reads the records of unfinished commits, and sees to it that the listing fails if files are replaced before its
    /// end.
    pub(super) async fn load_commits(&self, lister: &Lister) -> Result<()> {
        let mut commits = UnfinishedCommits::default();
        let mut is_empty = true;
        let mut markers = HashSet::new();
        for directory in self.table.commit_directories() {
            if lister.is_local_directory(&directory) == Some(false) {
                continue;
            }
            for path in lister.paths(&directory).await? {
                if path.as_ref().ends_with(CommitRecord::OVERWRITTEN) {
                    markers.insert(path);
                } else if path.as_ref().ends_with(CommitRecord::EXTENSION)
                    && let Some(text) = lister.contents(&path).await?
                {
                    commits.add(&CommitRecord::parse(&path, &text)?)?;
                    is_empty = false;
                }
            }
        }
        if !is_empty {
            self.commits.get_or_init(|| commits);
        }
        if self.checked.set(()).is_ok() {
            let (table, lister) = (Arc::clone(&self.table), lister.clone());
            let check = async move { check_markers(&table, &lister, &markers).await };
            self.context.checks.add(check);
        }
        Ok(())
    }

    pub(super) fn is_removed(&self, path: &Path) -> bool {
        let commits = self.commits.get();
        commits.is_some_and(|commits| commits.is_removed(path))
    }

    /// Adds a file to those of a partition. While an object store copies one, it is there under both of its names.
    pub(super) fn add_once(&self, files: &mut Vec<ObjectMeta>, file: &ObjectMeta) {
        if let Some(commits) = self.commits.get() {
            let published = |file: &ObjectMeta| commits.published(&file.location);
            let is_same = |known: &ObjectMeta| {
                published(known).is_some_and(|path| path == file.location)
                    || published(file).is_some_and(|path| path == known.location)
            };
            if files.iter().any(is_same) {
                return;
            }
        }
        files.push(file.clone());
    }

    /// The objects below directory `row` of `level`. If they are those of the whole table, records among them are
    /// looked for before anything is handed on.
    pub(super) fn objects_below(
        self: &Arc<Self>,
        lister: &Lister,
        level: &Level,
        row: usize,
    ) -> BoxStream<'static, Result<Arc<[ObjectMeta]>>> {
        let objects = lister.objects(&level.directories[row]);
        if level.depth > self.table.layout.fixed_levels() || self.below.is_some() {
            return objects;
        }
        if self.checked.get().is_some() {
            return objects;
        }
        let (walk, lister) = (Arc::clone(self), lister.clone());
        let looked = async move {
            let mut objects = objects;
            let first = objects.try_next().await?;
            if let Some(first) = &first
                && walk.may_have_commits(first)
            {
                walk.load_commits(&lister).await?;
            }
            let checked = objects.and_then(move |objects| {
                // Markers alone, of stores that list in no order, change nothing.
                let is_late = walk.checked.get().is_none()
                    && walk.has_commits(&objects, &[CommitRecord::EXTENSION]);
                std::future::ready(match is_late {
                    false => Ok(objects),
                    true => exec_err!(
                        "the table at '{}' is being written to; run the query again",
                        walk.table.describe_roots()
                    ),
                })
            });
            Ok::<_, DataFusionError>(stream::iter(first.map(Ok)).chain(checked))
        };
        stream::once(looked).try_flatten().boxed()
    }

    fn has_commits(&self, objects: &[ObjectMeta], extensions: &[&str]) -> bool {
        let mut directories = self.table.commit_directories();
        directories.any(|directory| {
            objects.iter().any(|object| {
                let path = object.location.as_ref();
                object.location.prefix_matches(&directory)
                    && extensions.iter().any(|extension| path.ends_with(extension))
            })
        })
    }

    /// Whether there may be records, as far as the first objects of a listing tell, which are in the order of keys.
    fn may_have_commits(&self, first: &[ObjectMeta]) -> bool {
        if self.has_commits(first, &[CommitRecord::EXTENSION, CommitRecord::OVERWRITTEN]) {
            return true;
        }
        let Some(last) = first.last().filter(|_| first.len() >= OBJECTS_PER_BATCH) else {
            return false;
        };
        let mut directories = self.table.commit_directories();
        directories.any(|directory| last.location < directory)
    }
}

/// Fails when there are markers now that were not there before.
async fn check_markers(table: &Table, lister: &Lister, before: &HashSet<Path>) -> Result<()> {
    for directory in table.commit_directories() {
        if lister.is_local_directory(&directory) == Some(false) {
            continue;
        }
        let now = lister.paths(&directory).await?;
        let mut new = now.iter().filter(|path| !before.contains(*path));
        if new.any(|path| path.as_ref().ends_with(CommitRecord::OVERWRITTEN)) {
            return exec_err!(
                "files of the table at '{}' have been replaced since the query began, so that it could mix what was \
                 there before with what is there now; run the query again",
                table.describe_roots()
            );
        }
    }
    Ok(())
}
