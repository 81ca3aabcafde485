//! The options that DataFusion's file formats know, so that others can be refused.

use datafusion::catalog::Session;
use datafusion::common::config::{ConfigFileType, TableOptions};

/// The namespace of the options of the format in `STORED AS`.
pub(crate) const FORMAT_PREFIX: &str = "format.";

/// The formats that come with DataFusion and refuse nothing by themselves, although they have no
/// options.
const FORMATS_WITHOUT_OPTIONS: [&str; 2] = ["ARROW", "AVRO"];

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

    /// Whether DataFusion knows the key, in the spelling that DataFusion uses.
    ///
    /// A known key may still have an unsuitable value, about which the format itself will complain.
    pub(crate) fn knows(&self, key: &str, value: &str) -> bool {
        let Self::Known(options) = self else {
            return true;
        };
        // `TableOptions::set` reads this namespace as the one of `COPY`, and drops it.
        if key.starts_with("execution.") {
            return false;
        }
        // Entries do not show everything, such as the keys for one column, so that setting is what
        // decides.
        options.as_ref().clone().set(key, value).is_ok()
            || self.keys().iter().any(|known| known == key)
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

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn knows_the_keys_of_the_format_whatever_their_value() {
        let csv = options("csv");
        assert!(csv.knows("format.has_header", "true"));
        assert!(csv.knows("format.has_header", "perhaps"));
        assert!(!csv.knows("format.pushdown_filters", "true"));
        assert!(!csv.knows("has_header", "true"));
        assert!(csv.bare_keys().contains(&"has_header".to_owned()));
    }

    #[test]
    fn knows_the_keys_of_parquet_columns_and_metadata() {
        let parquet = options("PARQUET");
        assert!(parquet.knows("format.compression::name", "snappy"));
        assert!(parquet.knows("format.metadata::owner", "me"));
        assert!(!parquet.knows("format.compresion::name", "snappy"));
    }

    #[test]
    fn refuses_what_datafusion_would_drop() {
        assert!(!options("CSV").knows("execution.keep_partition_by_columns", "true"));
        assert!(!options("ARROW").knows("format.has_header", "true"));
        assert!(options("ARROW").bare_keys().is_empty());
    }

    #[test]
    fn leaves_custom_formats_to_their_factory() {
        assert!(options("VORTEX").knows("format.anything", "goes"));
    }

    fn options(file_type: &str) -> FormatOptions {
        FormatOptions::new(&SessionContext::new().state(), file_type)
    }
}
