//! The options of a session on which the meaning of a statement depends.

use std::collections::BTreeMap;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::config::ConfigOptions;

/// Where names without a schema are looked up, and what the parser makes of names, numbers and types. Not the default
/// catalog: that is the file, whatever the session calls it.
const KEYS: [&str; 6] = [
    "datafusion.catalog.default_schema",
    TIME_ZONE,
    "datafusion.sql_parser.dialect",
    "datafusion.sql_parser.enable_ident_normalization",
    "datafusion.sql_parser.map_string_types_to_utf8view",
    "datafusion.sql_parser.parse_float_as_decimal",
];

/// The only one that may have no value: the zone of `TIMESTAMP WITH TIME ZONE`.
const TIME_ZONE: &str = "datafusion.execution.time_zone";

/// Values of such options: those of the session in which a statement was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<String, Option<String>>);

impl Settings {
    pub(crate) fn of(options: &ConfigOptions) -> Self {
        let entries = options.entries().into_iter();
        let settings = entries.filter(|entry| KEYS.contains(&entry.key.as_str()));
        Self(settings.map(|entry| (entry.key, entry.value)).collect())
    }

    /// Whatever the session, a definition's own text has this dialect.
    pub(crate) fn with_generic_dialect(mut self) -> Self {
        let dialect = "datafusion.sql_parser.dialect".to_owned();
        self.0.insert(dialect, Some("generic".to_owned()));
        self
    }

    /// Gives another session these options.
    pub(crate) fn apply(&self, options: &mut ConfigOptions) -> Result<()> {
        for (key, value) in &self.0 {
            match value {
                Some(value) => options.set(key, value)?,
                None if key == TIME_ZONE => options.execution.time_zone = None,
                None => {}
            }
        }
        Ok(())
    }

    pub(crate) fn to_json(&self) -> String {
        let settings = self.0.iter().map(|(key, value)| {
            let value = value.clone().map_or(serde_json::Value::Null, Into::into);
            (key.clone(), value)
        });
        serde_json::Value::Object(settings.collect()).to_string()
    }

    pub(crate) fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map(Self).map_err(|error| {
            exec_datafusion_err!("the options of a definition, '{text}', cannot be read: {error}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_first_session() {
        let mut first = ConfigOptions::default();
        first
            .set("datafusion.catalog.default_schema", "lake")
            .unwrap();
        let settings = Settings::of(&first);
        assert_eq!(settings.0.len(), KEYS.len());
        let settings = Settings::from_json(&settings.to_json()).unwrap();

        let mut second = ConfigOptions::default();
        second.set(TIME_ZONE, "+01:00").unwrap();
        settings.apply(&mut second).unwrap();
        assert_eq!(second.catalog.default_schema, "lake");
        assert_eq!(second.execution.time_zone, None);
        assert!(Settings::from_json("{").is_err());
    }
}
