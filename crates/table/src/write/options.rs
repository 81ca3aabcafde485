//! The options of a table that say how it is written. Keys are Flink's where Flink has them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{Result, config_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::SortExpr;
use datafusion_partitioned_connector::{
    ConnectorOption, ConnectorOptions, OptionDescription, OptionValue, parse_choice,
};
use datafusion_partitioned_core::{ByteSize, CommitPolicy, TimeSpan};

use super::commit_policy::policies;
use super::replaced::OverwriteMode;
use super::time_partitions::TimePartitions;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// DuckDB and Hive have the same limit.
const MAX_OPEN_PARTITIONS: ConnectorOption<usize> = ConnectorOption::new(
    "sink.max-open-partitions",
    "how many partitions a statement writes to at the same time; rows of further ones are kept in memory, or sorted",
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

/// Flink's key. What a registered partition needs, `catalog`, is done in any case.
const COMMIT_POLICIES: ConnectorOption<String> = ConnectorOption::new(
    "sink.partition-commit.policy.kind",
    "what is done when partitions have been written, as a list: catalog (always done), success-file (an empty file in \
     each of them), and those that the session registers",
)
.with_default("catalog");

/// Flink's key and default.
const SUCCESS_FILE: ConnectorOption<String> = ConnectorOption::new(
    "sink.partition-commit.success-file.name",
    "the name of the file that the commit policy success-file makes",
)
.with_default("_SUCCESS");

const KEEP_PARTITION_COLUMNS: ConnectorOption<bool> = ConnectorOption::new(
    "sink.keep-partition-columns",
    "whether files have the partition columns too, for programs that read them one by one; here the names of directories \
     are what counts",
)
.with_default("false");

/// Alink's `partitionsFormat`.
const PARTITIONS_FORMAT: ConnectorOption<Option<String>> = ConnectorOption::new(
    "sink.partitions-format",
    "how the partition columns follow from a time, such as year=yyyy/month=MM/day=dd; INSERT leaves them out then",
);

/// Alink's `timeCol`.
const TIME_COLUMN: ConnectorOption<Option<String>> = ConnectorOption::new(
    "sink.partitions-format.time-column",
    "the column with the time of 'sink.partitions-format'",
);

const TIME_ZONE: ConnectorOption<String> = ConnectorOption::new(
    "sink.partitions-format.time-zone",
    "the time zone of 'sink.partitions-format', such as Asia/Shanghai or +08:00",
)
.with_default("UTC");

const PENDING_GRACE_TIME: ConnectorOption<TimeSpan> = ConnectorOption::new(
    "sink.pending.grace-time",
    "the age at which MSCK REPAIR TABLE takes a hidden file for one of a statement that was killed; no statement may \
     take longer",
)
.with_default("24h");

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
    pub(crate) commit_policies: Vec<Arc<dyn CommitPolicy>>,
    pub(crate) pending_grace_time: TimeSpan,
    pub(crate) keep_partition_columns: bool,
    pub(crate) time_partitions: Option<TimePartitions>,
    /// How rows are sorted within each file.
    pub(crate) order: Vec<SortExpr>,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            max_open_partitions: 100,
            file_size: 128 << 20,
            max_rows: usize::MAX,
            overwrite_mode: OverwriteMode::Dynamic,
            commit_policies: vec![],
            pending_grace_time: TimeSpan::new(DAY),
            keep_partition_columns: false,
            time_partitions: None,
            order: vec![],
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
            COMMIT_POLICIES.describe(),
            SUCCESS_FILE.describe(),
            KEEP_PARTITION_COLUMNS.describe(),
            PARTITIONS_FORMAT.describe(),
            TIME_COLUMN.describe(),
            TIME_ZONE.describe(),
            PENDING_GRACE_TIME.describe(),
        ]
    }

    pub(crate) fn try_new(options: &ConnectorOptions, state: &SessionState) -> Result<Self> {
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
            commit_policies: policies(
                state,
                &options.get(&COMMIT_POLICIES)?,
                &options.get(&SUCCESS_FILE)?,
            )?,
            pending_grace_time: options.get(&PENDING_GRACE_TIME)?,
            keep_partition_columns: options.get(&KEEP_PARTITION_COLUMNS)?,
            time_partitions: time_partitions(options)?,
            order: vec![],
        })
    }
}

fn time_partitions(options: &ConnectorOptions) -> Result<Option<TimePartitions>> {
    let format = options.get(&PARTITIONS_FORMAT)?;
    let column = options.get(&TIME_COLUMN)?;
    let zone = options.get(&TIME_ZONE)?;
    match (format, column) {
        (None, None) => Ok(None),
        (Some(format), Some(column)) => TimePartitions::try_new(&format, &column, &zone).map(Some),
        (Some(_), None) => config_err!(
            "the option '{}' needs '{}' too",
            PARTITIONS_FORMAT.key(),
            TIME_COLUMN.key()
        ),
        (None, Some(_)) => config_err!(
            "the option '{}' needs '{}' too",
            TIME_COLUMN.key(),
            PARTITIONS_FORMAT.key()
        ),
    }
}
