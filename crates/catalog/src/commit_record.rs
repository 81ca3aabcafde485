//! [`CommitRecord`]: what a statement that writes to a table has still to do behind its commit.
//!
//! Files are written under hidden names, `.NAME.pending`. From the moment on at which there is a record of them in
//! [`CommitRecord::DIRECTORY`] of the table, they are part of it, and those that they replace are not, whatever their
//! names are: the record is there until all of them have been renamed or deleted.

use std::collections::HashSet;

use datafusion::arrow::array::StringArray;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion_partitioned_core::{
    Partition, PartitionSpec, PartitionValues, WrittenPartition, parse_values, value_to_text,
};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

/// The version of the records.
const VERSION: u32 = 1;

/// The name of an empty file in a registered partition without data: the partition is there and no mistake.
pub const TRUNCATED: &str = "_TRUNCATED";

/// Behind the name of a file that does not have its final one.
const PENDING: &str = ".pending";

/// The files of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecord {
    version: u32,
    /// The final paths of the files that become part of the table.
    files: Vec<String>,
    /// The paths of those in whose place they come.
    removed: Vec<String>,
    /// What was written to each partition.
    partitions: Vec<RecordedPartition>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedPartition {
    /// The texts of its values, unescaped; `null` for NULL.
    values: Vec<Option<String>>,
    location: String,
    rows: u64,
    files: u64,
    bytes: u64,
}

impl CommitRecord {
    /// The directory of the records in that of the table.
    pub const DIRECTORY: &'static str = "_commits";

    /// The extension of the records.
    pub const EXTENSION: &'static str = ".json";

    /// The extension of empty files beside the records. Each says that the statement of its name has replaced files:
    /// whoever comes across a new one while listing the table may have seen files of both states.
    pub const OVERWRITTEN: &'static str = ".overwritten";

    /// The record of files with these final paths, in the place of those that are removed.
    ///
    /// # Errors
    /// When a value of a partition has no text.
    pub fn try_new(files: &[Path], removed: &[Path], written: &[WrittenPartition]) -> Result<Self> {
        let partitions = written.iter().map(|written| {
            let Partition { values, source } = &written.partition;
            let values = values.values().iter().map(value_to_text);
            Ok(RecordedPartition {
                values: values.collect::<Result<_>>()?,
                location: source.location.to_string(),
                rows: written.rows,
                files: written.files,
                bytes: written.bytes,
            })
        });
        Ok(Self {
            version: VERSION,
            files: files.iter().map(Path::to_string).collect(),
            removed: removed.iter().map(Path::to_string).collect(),
            partitions: partitions.collect::<Result<_>>()?,
        })
    }

    /// Reads a record; `path` is where it was.
    ///
    /// # Errors
    /// When it is none, or of a newer version.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self> {
        let record: Self = serde_json::from_slice(text)
            .map_err(|error| exec_datafusion_err!("'{path}' is no commit record: {error}"))?;
        if record.version > VERSION {
            return exec_err!(
                "the commit record '{path}' has version {}, but this program knows those up to {VERSION}; use a newer \
                 one",
                record.version
            );
        }
        Ok(record)
    }

    /// The text of the record.
    ///
    /// # Errors
    /// Never for paths that are text.
    pub fn to_text(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(self);
        text.map_err(|error| exec_datafusion_err!("the commit record: {error}"))
    }

    /// The final paths of the new files.
    ///
    /// # Errors
    /// When one is no path.
    pub fn files(&self) -> Result<Vec<Path>> {
        paths(&self.files)
    }

    /// The paths of the files that are removed.
    ///
    /// # Errors
    /// When one is no path.
    pub fn removed(&self) -> Result<Vec<Path>> {
        paths(&self.removed)
    }

    /// What was written to each partition.
    ///
    /// # Errors
    /// When these are not partitions with the columns of `spec`.
    pub fn written(&self, spec: &PartitionSpec) -> Result<Vec<WrittenPartition>> {
        let written = self.partitions.iter().map(|recorded| {
            let location = Path::parse(&recorded.location).map_err(object_store::Error::from)?;
            Ok(WrittenPartition {
                partition: Partition::new(recorded.values(spec)?, location),
                rows: recorded.rows,
                files: recorded.files,
                bytes: recorded.bytes,
            })
        });
        written.collect()
    }
}

impl RecordedPartition {
    fn values(&self, spec: &PartitionSpec) -> Result<PartitionValues> {
        if self.values.len() != spec.len() {
            return exec_err!(
                "the commit record of '{}' has {} partition columns, and the table {}",
                self.location,
                self.values.len(),
                spec.len()
            );
        }
        let values = spec.fields().iter().zip(&self.values);
        let values = values.map(|(field, text)| {
            let parsed = parse_values(field, &StringArray::from(vec![text.as_deref()]))?;
            match parsed.mismatches.is_empty() {
                true => ScalarValue::try_from_array(&parsed.values, 0),
                false => exec_err!(
                    "the commit record of '{}' has no value of column '{}'",
                    self.location,
                    field.name()
                ),
            }
        });
        PartitionValues::try_new(spec, values.collect::<Result<_>>()?)
    }
}

fn paths(texts: &[String]) -> Result<Vec<Path>> {
    let paths = texts.iter().map(Path::parse);
    let paths = paths.collect::<Result<_, _>>();
    paths.map_err(|error| object_store::Error::from(error).into())
}

/// The name that a file has until it is published under its final one.
pub fn pending_path(published: &Path) -> Path {
    let (directory, name) = match published.as_ref().rsplit_once('/') {
        Some((directory, name)) => (directory, name),
        None => ("", published.as_ref()),
    };
    // What was a path before is one now.
    let path = Path::parse(format!("{directory}/.{name}{PENDING}"));
    path.unwrap_or_else(|_| published.clone())
}

/// The final name of a file that has the name of one that is not published.
pub fn published_path(pending: &Path) -> Option<Path> {
    let name = pending.filename()?;
    let directory = pending.as_ref().strip_suffix(name)?;
    let name = name.strip_prefix('.')?.strip_suffix(PENDING)?;
    Path::parse(format!("{directory}{name}")).ok()
}

/// What is part of a table according to the records of its unfinished commits.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedCommits {
    pending: HashSet<Path>,
    removed: HashSet<Path>,
}

impl UnfinishedCommits {
    pub(crate) fn add(&mut self, record: &CommitRecord) -> Result<()> {
        let files = record.files()?;
        self.pending.extend(files.iter().map(pending_path));
        self.removed.extend(record.removed()?);
        Ok(())
    }

    /// The final path of a file that is part of the table under a hidden name.
    pub(crate) fn published(&self, path: &Path) -> Option<Path> {
        if !self.pending.contains(path) {
            return None;
        }
        published_path(path)
    }

    /// Whether a file is not part of the table any more.
    pub(crate) fn is_removed(&self, path: &Path) -> bool {
        self.removed.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_files_have_hidden_names() {
        for (published, pending) in [
            (
                "t/p=a%2Fb/part-1.csv.gz",
                "t/p=a%2Fb/.part-1.csv.gz.pending",
            ),
            ("part-1.parquet", ".part-1.parquet.pending"),
        ] {
            let published = Path::parse(published).unwrap();
            assert_eq!(pending_path(&published).as_ref(), pending);
            let mut commits = UnfinishedCommits::default();
            let record =
                CommitRecord::try_new(std::slice::from_ref(&published), &["t/old".into()], &[])
                    .unwrap();
            let text = record.to_text().unwrap();
            commits
                .add(&CommitRecord::parse(&"x".into(), &text).unwrap())
                .unwrap();
            assert_eq!(
                commits.published(&pending_path(&published)),
                Some(published)
            );
            assert_eq!(commits.published(&"t/.other.pending".into()), None);
            assert!(commits.is_removed(&"t/old".into()) && !commits.is_removed(&"t/new".into()));
        }
    }
}
