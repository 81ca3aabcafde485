//! The options that DataFusion's file formats know, so that others can be refused.

use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use datafusion::common::config::{ConfigFileType, TableOptions};

/// The namespace of the options of the format in `STORED AS`.
pub(crate) const FORMAT_PREFIX: &str = "format.";

/// The formats that come with DataFusion and refuse nothing by themselves, although they have no
/// options.
const FORMATS_WITHOUT_OPTIONS: [&str; 2] = ["ARROW", "AVRO"];

/// The formats that have options, with their names and the prefixes of keys.
const FORMATS_WITH_OPTIONS: [(ConfigFileType, &str, &[&str]); 3] = [
    (ConfigFileType::CSV, "CSV and TSV", &["csv", "tsv"]),
    (ConfigFileType::JSON, "JSON and NDJSON", &["json", "ndjson"]),
    (ConfigFileType::PARQUET, "PARQUET", &["parquet"]),
];

/// What is known of an option of a format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormatOption {
    Suitable,
    /// The option is there, but its value should be this.
    Unsuitable(String),
    Unknown,
}

/// The options of the format in `STORED AS`.
#[derive(Debug)]
pub(crate) enum FormatOptions {
    /// A format that DataFusion configures by its own table options.
    Known(Box<TableOptions>),
    /// A registered format whose options only its own factory can judge.
    Custom,
}

impl FormatOptions {
    /// Looks the options of a format up in those of the session.
    pub(crate) fn new(session: &dyn Session, file_type: &str) -> Self {
        let file_type = file_type.to_uppercase();
        let format = match file_type.as_str() {
            "PARQUET" => Some(ConfigFileType::PARQUET),
            "CSV" | "TSV" => Some(ConfigFileType::CSV),
            "JSON" | "NDJSON" => Some(ConfigFileType::JSON),
            other if FORMATS_WITHOUT_OPTIONS.contains(&other) => None,
            _ => return Self::Custom,
        };
        let mut options = session.default_table_options();
        options.current_format = format;
        Self::Known(Box::new(options))
    }

    /// What DataFusion says about an option, whose key is in the spelling that it uses.
    pub(crate) fn check(&self, key: &str, value: &str) -> FormatOption {
        let Self::Known(options) = self else {
            return FormatOption::Suitable;
        };
        // `TableOptions::set` reads this namespace as the one of `COPY`, and drops it.
        if key.starts_with("execution.") {
            return FormatOption::Unknown;
        }
        // Entries do not show everything, such as the keys for one column, so that setting is what
        // decides.
        match options.as_ref().clone().set(key, value) {
            Ok(()) => FormatOption::Suitable,
            Err(error) if self.keys().iter().any(|known| known == key) => {
                FormatOption::Unsuitable(expected(&error))
            }
            Err(_) => FormatOption::Unknown,
        }
    }

    /// The formats that have an option of this name, which is that of another one.
    pub(crate) fn others_with(&self, key: &str) -> Option<&'static str> {
        let Self::Known(options) = self else {
            return None;
        };
        let bare = key.strip_prefix(FORMAT_PREFIX).unwrap_or(key);
        let mut formats = FORMATS_WITH_OPTIONS.iter();
        let (_, names, _) = formats.find(|(format, _, prefixes)| {
            let mut prefixes = prefixes.iter();
            let bare = prefixes.find_map(|prefix| bare.strip_prefix(prefix)?.strip_prefix('.'));
            let key = bare.map_or_else(|| key.to_owned(), |bare| format!("{FORMAT_PREFIX}{bare}"));
            let mut options = options.clone();
            options.current_format = Some(format.clone());
            Self::Known(options).keys().contains(&key)
        })?;
        Some(names)
    }

    /// The keys that DataFusion lists for the format, without the prefix `format.`, sorted.
    pub(crate) fn bare_keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self
            .keys()
            .into_iter()
            .map(|key| {
                key.strip_prefix(FORMAT_PREFIX)
                    .map(str::to_owned)
                    .unwrap_or(key)
            })
            .collect();
        keys.sort_unstable();
        keys
    }

    fn keys(&self) -> Vec<String> {
        let Self::Known(options) = self else {
            return vec![];
        };
        let format_keys = options
            .current_format
            .iter()
            .flat_map(|_| options.entries())
            .map(|entry| entry.key)
            .filter(|key| key.starts_with(FORMAT_PREFIX));
        let extension_keys = options.extensions.iter().flat_map(|(prefix, extension)| {
            let entries = extension.entries();
            entries
                .into_iter()
                .map(move |entry| format!("{prefix}.{}", entry.key))
        });
        format_keys.chain(extension_keys).collect()
    }
}

/// What the value should have been that DataFusion does not take.
fn expected(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    if matches!(error.find_root(), DataFusionError::NotImplemented(_)) {
        // The one type of option whose parser says so.
        return "gzip, bzip2, xz, zstd or uncompressed".to_owned();
    }
    let first_line = text.lines().next().unwrap_or_default();
    let kind = first_line.rsplit_once(" as ").map_or("", |(_, kind)| kind);
    match kind {
        "bool" => "true or false".to_owned(),
        "f64" => "a number".to_owned(),
        "usize" | "u32" | "u64" => "an integer from 0".to_owned(),
        kind if kind.starts_with("u8") => "one ASCII character".to_owned(),
        _ => format!("another one: {}", error.find_root().message()),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn values_of_options_are_judged() {
        let csv = options("csv");
        assert!(knows("csv", "format.has_header"));
        assert!(!knows("csv", "format.pushdown_filters"));
        assert!(!knows("csv", "has_header"));
        assert!(csv.bare_keys().contains(&"has_header".to_owned()));
        for (key, value, expected) in [
            ("has_header", "perhaps", "true or false"),
            ("delimiter", ";;", "one ASCII character"),
            ("schema_infer_max_rec", "-1", "an integer from 0"),
            (
                "compression",
                "zip",
                "gzip, bzip2, xz, zstd or uncompressed",
            ),
        ] {
            let verdict = csv.check(&format!("format.{key}"), value);
            assert_eq!(verdict, FormatOption::Unsuitable(expected.to_owned()));
        }
    }

    #[test]
    fn knows_the_keys_of_parquet_columns_and_metadata() {
        assert!(knows("PARQUET", "format.compression::name"));
        assert!(knows("PARQUET", "format.metadata::owner"));
        assert!(!knows("PARQUET", "format.compresion::name"));
    }

    #[test]
    fn refuses_what_datafusion_would_drop() {
        assert!(!knows("CSV", "execution.keep_partition_by_columns"));
        assert!(!knows("ARROW", "format.has_header"));
        assert!(options("ARROW").bare_keys().is_empty());
    }

    #[test]
    fn leaves_custom_formats_to_their_factory() {
        assert!(knows("VORTEX", "format.anything"));
    }

    #[test]
    fn options_of_another_format_are_recognized() {
        for (key, formats) in [
            ("format.delimiter", Some("CSV and TSV")),
            ("csv.delimiter", Some("CSV and TSV")),
            ("parquet.delimiter", None),
            ("format.newline_delimited", Some("JSON and NDJSON")),
        ] {
            assert_eq!(options("PARQUET").others_with(key), formats, "{key}");
        }
    }

    fn knows(file_type: &str, key: &str) -> bool {
        options(file_type).check(key, "true") != FormatOption::Unknown
    }

    fn options(file_type: &str) -> FormatOptions {
        FormatOptions::new(&SessionContext::new().state(), file_type)
    }
}
