//! The formats of `STORED AS`.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::execution::SessionState;
use datafusion_partitioned_connector::{
    ConnectorContext, ConnectorOption, OptionDescription, OptionValue, parse_choice, quoted_list,
};

use crate::files::{FileReadOptions, MatchBy};

/// What `STORED AS` may say, in capitals as it arrives.
const FORMATS: [&str; 7] = ["PARQUET", "CSV", "TSV", "JSON", "NDJSON", "ARROW", "AVRO"];

/// The format that DataFusion has as CSV, with other defaults.
const TSV: &str = "TSV";

const MATCH_BY: ConnectorOption<Option<MatchBy>> = ConnectorOption::new(
    "csv.match-by",
    "whether the columns of CSV and TSV files are found by the names in their header or by position: \
     name or position; name by default where there is a header",
);

impl OptionValue for MatchBy {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let kinds = [("name", Self::Name), ("position", Self::Position)];
        parse_choice(text, &kinds)
    }
}

/// The format of a table's files, and how they are read.
#[derive(Debug)]
pub(crate) struct TableFormat {
    pub(crate) format: Arc<dyn FileFormat>,
    pub(crate) options: FileReadOptions,
}

impl TableFormat {
    pub(crate) fn descriptions() -> Vec<OptionDescription> {
        vec![MATCH_BY.describe()]
    }

    /// The format of `STORED AS` with the options of the statement that are not the connector's `own`.
    pub(crate) fn try_new(
        context: &ConnectorContext<'_>,
        state: &SessionState,
        own: &[OptionDescription],
    ) -> Result<Self> {
        let (table, options) = (context.table(), context.options());
        let file_type = context.command().file_type.as_str();
        if !FORMATS.contains(&file_type) {
            let known = quoted_list(FORMATS);
            return match file_type {
                "" => {
                    plan_err!("table '{table}': missing option 'format'; expected one of: {known}")
                }
                _ => plan_err!(
                    "table '{table}': the connector 'filesystem' does not support the format \
                     '{file_type}'; expected one of: {known}"
                ),
            };
        }
        let mut format_options = options.format_options(own);
        if file_type == TSV {
            let delimiter = "format.delimiter".to_owned();
            format_options
                .entry(delimiter)
                .or_insert_with(|| "\t".to_owned());
        }
        let known_as = match file_type {
            TSV => "CSV",
            "NDJSON" => "JSON",
            other => other,
        };
        let factory = context.format_factory(known_as)?;
        let format = factory.create(state, &format_options)?;

        let match_by = options.get(&MATCH_BY)?;
        let has_names = !is_positional(state, format.as_ref(), MatchBy::Name);
        match (match_by, format.downcast_ref::<CsvFormat>()) {
            (Some(_), None) => {
                return plan_err!(
                    "option 'csv.match-by' of table '{table}' has no effect on {file_type} files, whose \
                     columns are found by name; remove it"
                );
            }
            (Some(MatchBy::Name), Some(_)) if !has_names => {
                return plan_err!(
                    "option 'csv.match-by' of table '{table}' is 'name', but the files have no header; \
                     set it to 'position', or 'has_header' to 'true'"
                );
            }
            _ => {}
        }
        let mut keys = options.keys();
        Ok(Self {
            format,
            options: FileReadOptions {
                match_by: match_by.unwrap_or_default(),
                compression_by_extension: keys.all(|key| key != "compression"),
            },
        })
    }

    /// Whether columns are found by their position in the files.
    pub(crate) fn is_positional(&self, session: &dyn Session) -> bool {
        is_positional(session, self.format.as_ref(), self.options.match_by)
    }

    /// Whether values are text in the files, and parsed as the type of the table.
    pub(crate) fn is_csv(&self) -> bool {
        self.format.is::<CsvFormat>()
    }
}

fn is_positional(session: &dyn Session, format: &dyn FileFormat, match_by: MatchBy) -> bool {
    let Some(csv) = format.downcast_ref::<CsvFormat>() else {
        return false;
    };
    let default = session.config_options().catalog.has_header;
    match_by == MatchBy::Position || !csv.has_header().unwrap_or(default)
}
