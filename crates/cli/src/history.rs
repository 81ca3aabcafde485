//! What was typed in earlier runs, in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use datafusion_partitioned::connector::{hide_credentials, is_sensitive_key, names_secret};
use rustyline::Config;
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History};

/// How many entries are kept.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// The file to which entries are written as soon as they are made. Several runs may share it.
#[derive(Debug)]
pub(crate) struct HistoryFile {
    path: PathBuf,
    config: Config,
}

impl HistoryFile {
    /// The file, which need not exist.
    pub(crate) fn new(path: PathBuf, config: Config) -> Self {
        Self { path, config }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was typed before.
    pub(crate) fn load(&self) -> Result<FileHistory, ReadlineError> {
        let mut history = FileHistory::with_config(&self.config);
        if self.path.exists() {
            history.load(&self.path)?;
        }
        Ok(history)
    }

    /// Writes an entry, unless it holds what looks like a secret.
    pub(crate) fn add(&self, entry: &str) -> Result<(), ReadlineError> {
        if holds_secret(entry) {
            return Ok(());
        }
        if !self.path.exists() {
            create_private(&self.path)?;
        }
        let mut history = FileHistory::with_config(&self.config);
        history.add(entry)?;
        history.append(&self.path)
    }
}

/// An empty file that nobody else may read.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(|_| ())
}

/// Whether an entry has what looks like a secret in it. The name of a column is a small loss.
fn holds_secret(entry: &str) -> bool {
    let mut literals = entry.split('\'').skip(1).step_by(2);
    names_secret(entry) || literals.any(is_sensitive_key) || hide_credentials(entry) != entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_from_run_to_run_and_secrets_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = || {
            let config = Config::builder().max_history_size(3).unwrap().build();
            HistoryFile::new(dir.path().join("history"), config)
        };
        file().add("SELECT 1;").unwrap();
        file().add("SELECT 2,\n  '\\';").unwrap();
        file().add("SET x.Password = 'hidden';").unwrap();
        let entries =
            |file: &HistoryFile| -> Vec<String> { file.load().unwrap().iter().cloned().collect() };
        assert_eq!(entries(&file()), ["SELECT 1;", "SELECT 2,\n  '\\';"]);
        for number in 3..6 {
            file().add(&format!("SELECT {number};")).unwrap();
        }
        assert_eq!(entries(&file()), ["SELECT 3;", "SELECT 4;", "SELECT 5;"]);
        let text = fs::read_to_string(file().path()).unwrap();
        assert!(!text.contains("hidden"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let file = HistoryFile::new(dir.path().join("history"), Config::default());
        file.add("SELECT 1;").unwrap();
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn secrets_are_options_and_parts_of_urls() {
        for entry in [
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://b/' \
             OPTIONS ('AWS.SECRET_ACCESS_KEY' 'x')",
            "OPTIONS (aws.access_key_id 'x')",
            "OPTIONS ('aws.session_token' 'x')",
            "COPY t TO 'https://me:pw@host/x'",
            "COPY t TO 'https://host/x?sv=1&sig=abc'",
            "OPTIONS ('api-key' 'x', 'pwd' 'y')",
            "OPTIONS ('x.key' 'x')",
            "LOCATION 's3://u:x/w@bucket/x'",
            "LOCATION 's3://u:w''x@bucket/x'",
            "LOCATION 's3://u:w x@bucket/x'",
        ] {
            assert!(holds_secret(entry), "{entry}");
        }
        for entry in [
            "SELECT * FROM 's3://lake/day=1/x@y.parquet'",
            "SELECT key FROM t WHERE mail = 'a@b'",
        ] {
            assert!(!holds_secret(entry), "{entry}");
        }
    }
}
