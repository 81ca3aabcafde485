//! The tables on disk, generated once for each scale.

use std::fs;
use std::path::Path;

use datafusion::error::Result;
use datafusion_partitioned_test_utils::{Lake, TpcdsTable, TpcdsWritten};

/// The lake of this scale below `directory`. A lake that is not there is generated, and `progress` is
/// told of each table.
///
/// The lake is written under another name and renamed when it is whole, so that one that was
/// interrupted is not taken for it.
pub async fn tpcds_lake(
    directory: &Path,
    scale: f64,
    mut progress: impl FnMut(TpcdsTable, TpcdsWritten) + Send,
) -> Result<Lake> {
    let whole = directory.join(format!("scale-{scale}"));
    if !whole.is_dir() {
        let part = directory.join(format!("scale-{scale}.part"));
        if part.is_dir() {
            fs::remove_dir_all(&part)?;
        }
        fs::create_dir_all(&part)?;
        let lake = Lake::local(&part)?;
        for table in TpcdsTable::ALL {
            let written = table.write(&lake, scale).await?;
            table.write_listing_tree(&lake).await?;
            progress(table, written);
        }
        fs::rename(&part, &whole)?;
    }
    Lake::local(&whole)
}
