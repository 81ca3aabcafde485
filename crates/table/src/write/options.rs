//! The options of a table that say how it is written. Keys are Flink's where Flink has them.

use datafusion::common::{Result, config_err};
use datafusion_partitioned_connector::{
    ConnectorOption, ConnectorOptions, OptionDescription, OptionValue, parse_choice,
};
use datafusion_partitioned_core::ByteSize;

use super::replaced::OverwriteMode;

/// DuckDB and Hive have the same limit.
const MAX_OPEN_PARTITIONS: ConnectorOption<usize> = ConnectorOption::new(
    "sink.max-open-partitions",
    "how many partitions a statement writes to at the same time; rows of further ones are sorted first",
)
.with_default("100");

/// Flink's key.
const FILE_SIZE: ConnectorOption<ByteSize> = ConnectorOption::new(
    "sink.rolling-policy.file-size",
    "the size at which a file is completed and another one begun; Parquet files grow by whole row groups",
)
.with_default("128M");

const ROW_COUNT: ConnectorOption<Option<usize>> =
    ConnectorOption::new("sink.rolling-policy.row-count", "the most rows of a file");

/// Spark's `spark.sql.sources.partitionOverwriteMode`; the default is what Hive and Flink do.
const OVERWRITE_MODE: ConnectorOption<OverwriteMode> = ConnectorOption::new(
    "sink.overwrite-mode",
    "what INSERT OVERWRITE replaces: the partitions to which it writes (dynamic), or all that the static values of \
     PARTITION (..) leave (static)",
)
.with_default("dynamic");

impl OptionValue for OverwriteMode {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let modes = [("dynamic", Self::Dynamic), ("static", Self::Static)];
        parse_choice(text, &modes)
    }
}

/// How a table is written.
#[derive(Debug, Clone)]
pub(crate) struct SinkOptions {
    pub(crate) max_open_partitions: usize,
    /// In bytes.
    pub(crate) file_size: u64,
    pub(crate) max_rows: usize,
    pub(crate) overwrite_mode: OverwriteMode,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            max_open_partitions: 100,
            file_size: 128 << 20,
            max_rows: usize::MAX,
            overwrite_mode: OverwriteMode::Dynamic,
        }
    }
}

impl SinkOptions {
    pub(crate) fn descriptions() -> Vec<OptionDescription> {
        vec![
            MAX_OPEN_PARTITIONS.describe(),
            FILE_SIZE.describe(),
            ROW_COUNT.describe(),
            OVERWRITE_MODE.describe(),
        ]
    }

    pub(crate) fn try_new(options: &ConnectorOptions) -> Result<Self> {
        let file_size = options.get(&FILE_SIZE)?.bytes() as u64;
        let max_rows = options.get(&ROW_COUNT)?;
        for (option, value) in [
            (FILE_SIZE.key(), Some(file_size)),
            (ROW_COUNT.key(), max_rows.map(|rows| rows as u64)),
        ] {
            if value == Some(0) {
                return config_err!("option '{option}': expected more than 0");
            }
        }
        Ok(Self {
            max_open_partitions: options.get(&MAX_OPEN_PARTITIONS)?,
            file_size,
            max_rows: max_rows.unwrap_or(usize::MAX),
            overwrite_mode: options.get(&OVERWRITE_MODE)?,
        })
    }
}
