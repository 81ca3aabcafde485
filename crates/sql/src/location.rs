//! [`NewDirectory`]: the place of a table that a statement makes.

use std::path::{Path, PathBuf};

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;

/// A directory of the local file system that was not there before. It is removed again, with those around it that were
/// not there either, unless something is in it, or it is kept.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    /// From the inside out.
    paths: Vec<PathBuf>,
    is_kept: bool,
}

impl NewDirectory {
    /// Makes the directory of the first location; `None` when it is there, or in an object store.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make(locations: &[String]) -> Result<Option<Self>> {
        let Some(location) = locations.first().filter(|location| !location.is_empty()) else {
            return Ok(None);
        };
        let url = ListingTableUrl::parse(location)?;
        let Ok(path) = url.get_url().to_file_path() else {
            return Ok(None);
        };
        if url.scheme() != "file" || url.get_glob().is_some() || path.exists() {
            return Ok(None);
        }
        if path.iter().any(|name| name == "~") {
            return plan_err!(
                "'{location}' does not exist; '~' is not expanded, so write the path of the home folder"
            );
        }
        let new = path.ancestors().take_while(|path| !path.exists());
        let paths = new.map(Path::to_owned).collect();
        std::fs::create_dir_all(&path).map_err(|error| {
            let context = format!("cannot make the directory '{location}'");
            DataFusionError::from(error).context(context)
        })?;
        Ok(Some(Self {
            paths,
            is_kept: false,
        }))
    }

    /// Leaves it, also when nothing is in it.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            for path in &self.paths {
                // Fails when something is in it.
                if std::fs::remove_dir(path).is_err() {
                    return;
                }
            }
        }
    }
}
