//! The table options of the connector `filesystem` that say how directories are read.

use datafusion::common::{Result, plan_err};
use datafusion_partitioned_catalog::{DirectoryCatalog, OnMismatch};
use datafusion_partitioned_connector::{
    ConnectorOption, ConnectorOptions, OptionDescription, OptionValue, parse_choice,
};
use datafusion_partitioned_core::{
    DEFAULT_PARTITION_NAME, PartitionLayout, PartitionLimits, PartitionSpec,
};

use crate::columns::with_dictionaries;
use crate::metadata::MetadataColumn;

/// How NULL is spelled in a directory name (Flink's key; the default is Hive's and Spark's name).
const DEFAULT_NAME: ConnectorOption<String> = ConnectorOption::new(
    "partition.default-name",
    "the directory name that stands for NULL",
)
.with_default(DEFAULT_PARTITION_NAME);

const LAYOUT: ConnectorOption<String> = ConnectorOption::new(
    "partition.layout",
    "how directories spell values: hive (column=value), directory (value), or a template such as \
     ${year}/${month}/x-${day}",
)
.with_default("hive");

const ON_MISMATCH: ConnectorOption<MismatchRule> = ConnectorOption::new(
    "partition.on-mismatch",
    "what to do with a directory whose value is not of the column's type: error, null or skip",
)
.with_default("error");

const TYPE_INFERENCE: ConnectorOption<bool> = ConnectorOption::new(
    "partition.type-inference",
    "whether partition columns without a declared type get one from all directories; they are text \
     otherwise",
)
.with_default("true");

const DICTIONARY: ConnectorOption<bool> = ConnectorOption::new(
    "partition.dictionary",
    "whether text partition columns are dictionary encoded",
)
.with_default("false");

/// Alink: `setPartitions`.
const PARTITIONS: ConnectorOption<Option<String>> = ConnectorOption::new(
    "partitions",
    "a condition over the partition columns as text; other partitions are not part of the table",
);

const FILTER_REQUIRED: ConnectorOption<bool> = ConnectorOption::new(
    "partition.filter-required",
    "whether every query must restrict the partitions",
)
.with_default("false")
.forwardable();

const MAX: ConnectorOption<Option<usize>> = ConnectorOption::new(
    "partition.max",
    "the most partitions that one scan may read",
)
.forwardable();

const METADATA_COLUMNS: ConnectorOption<Option<Vec<MetadataColumn>>> = ConnectorOption::new(
    "metadata.columns",
    "columns that describe the file of a row, some of: file.path, file.name, file.size, \
     file.modification-time",
);

const SCHEMA_SAMPLE: ConnectorOption<SchemaSample> = ConnectorOption::new(
    "schema.sample",
    "how many partitions to look at for columns that are not declared, the last ones by path; or all",
)
.with_default("1");

/// Flink's key.
const PATH_PATTERN: ConnectorOption<Option<String>> = ConnectorOption::new(
    "source.path.regex-pattern",
    "a regular expression for the whole path of a file; others are skipped",
);

/// The values of these options in a statement.
#[derive(Debug)]
pub(crate) struct DirectoryOptions {
    table: String,
    default_name: String,
    layout: String,
    on_mismatch: OnMismatch,
    pub(crate) type_inference: bool,
    dictionary: bool,
    pub(crate) partitions: Option<String>,
    pub(crate) limits: PartitionLimits,
    pub(crate) path_pattern: Option<String>,
    pub(crate) metadata_columns: Vec<MetadataColumn>,
    /// How many partitions to look at for columns that are not declared.
    pub(crate) schema_sample: usize,
}

impl DirectoryOptions {
    pub(crate) fn descriptions() -> Vec<OptionDescription> {
        vec![
            DEFAULT_NAME.describe(),
            LAYOUT.describe(),
            ON_MISMATCH.describe(),
            TYPE_INFERENCE.describe(),
            DICTIONARY.describe(),
            PARTITIONS.describe(),
            FILTER_REQUIRED.describe(),
            MAX.describe(),
            PATH_PATTERN.describe(),
            METADATA_COLUMNS.describe(),
            SCHEMA_SAMPLE.describe(),
        ]
    }

    pub(crate) fn try_new(options: &ConnectorOptions) -> Result<Self> {
        Ok(Self {
            table: options.table().to_string(),
            default_name: options.get(&DEFAULT_NAME)?,
            layout: options.get(&LAYOUT)?,
            on_mismatch: options.get(&ON_MISMATCH)?.0,
            type_inference: options.get(&TYPE_INFERENCE)?,
            dictionary: options.get(&DICTIONARY)?,
            partitions: options.get(&PARTITIONS)?,
            limits: PartitionLimits {
                filter_required: options.get(&FILTER_REQUIRED)?,
                max_partitions: options.get(&MAX)?,
            },
            path_pattern: options.get(&PATH_PATTERN)?,
            metadata_columns: options.get(&METADATA_COLUMNS)?.unwrap_or_default(),
            schema_sample: options.get(&SCHEMA_SAMPLE)?.0,
        })
    }

    /// The partition columns, encoded as asked for.
    pub(crate) fn encoded(&self, spec: PartitionSpec) -> Result<PartitionSpec> {
        match self.dictionary {
            true => with_dictionaries(&spec),
            false => Ok(spec),
        }
    }

    /// A catalog of directories that keeps these rules.
    pub(crate) fn rules_of(&self, catalog: DirectoryCatalog) -> Result<DirectoryCatalog> {
        catalog
            .with_table_name(&self.table)
            .with_on_mismatch(self.on_mismatch)
            .with_path_pattern(self.path_pattern.as_deref())
            .map_err(|error| error.context("option 'source.path.regex-pattern'"))
    }

    /// The layout of a table with these partition columns.
    pub(crate) fn layout(&self, spec: &PartitionSpec) -> Result<PartitionLayout> {
        let layout = match self.layout.as_str() {
            "hive" => PartitionLayout::hive(spec),
            "directory" => PartitionLayout::directory(spec),
            template if template.contains("${") => PartitionLayout::template(spec, template)?,
            other => {
                return plan_err!(
                    "option 'partition.layout': expected hive, directory or a template with \
                     ${{column}} for each partition column, but got '{other}'"
                );
            }
        };
        Ok(layout.with_default_name(&self.default_name))
    }
}

struct SchemaSample(usize);

impl OptionValue for SchemaSample {
    const TYPE_NAME: &'static str = "integer or all";

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text.eq_ignore_ascii_case("all") => Ok(Self(usize::MAX)),
            Ok(partitions) if partitions > 0 => Ok(Self(partitions)),
            _ => Err("a number from 1, or all".to_owned()),
        }
    }
}

struct MismatchRule(OnMismatch);

impl OptionValue for MismatchRule {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let rules = [
            ("error", OnMismatch::Error),
            ("null", OnMismatch::Null),
            ("skip", OnMismatch::Skip),
        ];
        parse_choice(text, &rules).map(Self)
    }
}
