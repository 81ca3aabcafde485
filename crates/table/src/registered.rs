//! The table options of registered partitions.

use datafusion::common::{Result, plan_err};
use datafusion_partitioned_catalog::{DirectoryCatalog, RegisteredCatalog};
use datafusion_partitioned_connector::{
    ConnectorOption, ConnectorOptions, OptionDescription, OptionValue, parse_choice,
};
use datafusion_partitioned_core::PartitionCatalog;

use crate::reader::OnMissing;

const CATALOG: ConnectorOption<CatalogKind> = ConnectorOption::new(
    "partition.catalog",
    "what the partitions of the table are: its directories, or those that are registered",
)
.with_default("directories");

const ON_MISSING: ConnectorOption<Option<MissingRule>> = ConnectorOption::new(
    "partition.on-missing",
    "what to do with a registered partition without files, when it is read: error, the default, or skip",
);

/// What a table with registered partitions does.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) on_missing: OnMissing,
}

impl Registered {
    pub(crate) fn descriptions() -> Vec<OptionDescription> {
        vec![CATALOG.describe(), ON_MISSING.describe()]
    }

    /// `None` when the partitions of the table are not registered.
    ///
    /// # Errors
    /// When options are given that would do nothing.
    pub(crate) fn try_new(options: &ConnectorOptions) -> Result<Option<Self>> {
        let on_missing = options.get(&ON_MISSING)?;
        if options.get(&CATALOG)? == CatalogKind::Directories {
            return match on_missing {
                None => Ok(None),
                Some(_) => plan_err!(
                    "option 'partition.on-missing' needs 'partition.catalog' 'registered': directories that are \
                     not there are no partitions"
                ),
            };
        }
        if let Some(key) = options.keys().find(|key| is_refused(key)) {
            return plan_err!(
                "option '{key}' does not go with 'partition.catalog' 'registered', which searches no directories; \
                 leave one of them out"
            );
        }
        Ok(Some(Self {
            on_missing: on_missing.map_or(OnMissing::Error, |rule| rule.0),
        }))
    }

    /// The catalog of a new table in these directories.
    pub(crate) fn catalog(directories: DirectoryCatalog) -> Result<RegisteredCatalog> {
        if directories.roots().len() > 1 {
            return plan_err!("a table with registered partitions has one LOCATION");
        }
        let catalog = RegisteredCatalog::new(directories.spec().clone());
        Ok(catalog.with_directories(directories))
    }
}

/// The layout and the rules for names say where new partitions are put, and which ones a search for partitions that
/// are not registered finds.
fn is_refused(key: &str) -> bool {
    let keys = [
        "partition.type-inference",
        "schema.sample",
        "source.path.regex-pattern",
    ];
    keys.contains(&key) || key.starts_with("projection.") || key == "storage.location.template"
}

#[derive(Clone, PartialEq)]
enum CatalogKind {
    Directories,
    Registered,
}

impl OptionValue for CatalogKind {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let kinds = [
            ("directories", Self::Directories),
            ("registered", Self::Registered),
        ];
        parse_choice(text, &kinds)
    }
}

struct MissingRule(OnMissing);

impl OptionValue for MissingRule {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let rules = [("error", OnMissing::Error), ("skip", OnMissing::Skip)];
        parse_choice(text, &rules).map(Self)
    }
}
