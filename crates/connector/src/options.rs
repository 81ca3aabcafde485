//! The options of one `CREATE EXTERNAL TABLE` statement.
//!
//! SQL hands `OPTIONS ('sample' '1')` over as `format.sample`, because a key without a dot could
//! belong to the file format, and leaves `'schema.sample'` as it is. Programs write bare keys. All
//! spellings of a key are one:
//!
//! | given | key | handed to the file format as |
//! |---|---|---|
//! | `has_header`, `HAS_HEADER`, `format.has_header` | `has_header` | `format.has_header` |
//! | `schema.sample`, `format.schema.sample` | `schema.sample` | as given |
//! | `compression::Name` | `compression::Name` | `format.compression::Name` |
//! | `csv.has_header` of a table of CSV files | `csv.has_header` | `format.has_header` |
//!
//! What follows `::` names a Parquet column or a metadata key, so it keeps its case, as far as a program gives it:
//! SQL delivers keys in lower case.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{
    DataFusionError, Result, TableReference, config_datafusion_err, config_err,
};
use datafusion::logical_expr::CreateExternalTable;
use datafusion_partitioned_core::{did_you_mean, quoted_list};

use crate::factory::CONNECTOR;
use crate::format::{FORMAT_PREFIX, FormatOption, FormatOptions};
use crate::secret::{HIDDEN, hide_credentials, is_sensitive_key, resolve_secret};
use crate::{ConnectorOption, OptionDescription, OptionValue};

/// The normalised options of a statement. Remembers which of them were read.
pub struct ConnectorOptions {
    table: TableReference,
    /// As in `STORED AS`, in capitals.
    file_type: String,
    given: BTreeMap<String, GivenOption>,
}

struct GivenOption {
    /// The key as it was given.
    spelling: String,
    value: String,
    read: AtomicBool,
    /// Whether it is about the object store, and neither the connector's nor the format's.
    is_of_store: bool,
}

impl ConnectorOptions {
    /// Normalises the options of a statement.
    ///
    /// # Errors
    /// When two spellings of one key are given with different values.
    pub fn try_new(command: &CreateExternalTable) -> Result<Self> {
        let table = &command.name;
        let mut given = BTreeMap::<String, GivenOption>::new();
        for (spelling, value) in &command.options {
            let key = normalize_key(spelling);
            let option = GivenOption {
                spelling: spelling.clone(),
                value: value.clone(),
                read: AtomicBool::new(false),
                is_of_store: false,
            };
            if let Some(other) = given.insert(key.clone(), option)
                && other.value != *value
            {
                let mut spellings = [&other.spelling, spelling];
                spellings.sort_unstable();
                return config_err!(
                    "table '{table}': option '{key}' has two values; expected only one of: {}",
                    quoted_list(spellings.map(String::as_str))
                );
            }
        }
        Ok(Self {
            table: table.clone(),
            file_type: command.file_type.to_uppercase(),
            given,
        })
    }

    /// Sets which options are about the object store.
    pub(crate) fn with_store_options(mut self, options: &[OptionDescription]) -> Self {
        for (key, given) in &mut self.given {
            given.is_of_store = options.iter().any(|option| option.has_key(key));
        }
        self
    }

    /// The table that the statement makes.
    pub fn table(&self) -> &TableReference {
        &self.table
    }

    /// The value of an option, or else its default.
    ///
    /// # Errors
    /// When the text does not suit the type, and when a mandatory option is missing.
    pub fn get<T: OptionValue>(&self, option: &ConnectorOption<T>) -> Result<T> {
        self.value(option, |key| key.to_owned())
    }

    /// The same for an option whose key has a `*`, with `name` in that place; case does not matter.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_named<T: OptionValue>(&self, option: &ConnectorOption<T>, name: &str) -> Result<T> {
        let name = name.to_lowercase();
        self.value(option, |key| key.replacen('*', &name, 1))
    }

    /// The values of all options that are given with some name for the `*` in the key, by that name, such
    /// as `properties.*`.
    ///
    /// # Errors
    /// When a text does not suit the type.
    pub fn get_map<T: OptionValue>(
        &self,
        option: &ConnectorOption<T>,
    ) -> Result<BTreeMap<String, T>> {
        let mut names: Vec<&str> = vec![];
        for key in option.keys() {
            let (before, behind) = key.split_once('*').unwrap_or((key, ""));
            let given = self.given.keys();
            names.extend(given.filter_map(|given| {
                let name = given.strip_prefix(before)?.strip_suffix(behind)?;
                (!name.is_empty()).then_some(name)
            }));
        }
        names
            .into_iter()
            .map(|name| Ok((name.to_owned(), self.get_named(option, name)?)))
            .collect()
    }

    fn value<T: OptionValue>(
        &self,
        option: &ConnectorOption<T>,
        spell: impl Fn(&str) -> String,
    ) -> Result<T> {
        let mut keys = option.keys().map(&spell);
        let given = keys.find_map(|key| Some((self.given.get(&key)?.read(), key)));
        let default = || Some((option.default_text()?, spell(option.key())));
        match given.or_else(default) {
            Some((text, key)) => parse_value::<T>(text).map_err(|expected| {
                let problem = invalid_value(&key, text, T::IS_SECRET, &expected);
                self.error(&problem)
            }),
            None => T::absent().ok_or_else(|| {
                self.error(&missing_option(&spell(option.key()), &option.describe()))
            }),
        }
    }

    fn error(&self, problem: &str) -> DataFusionError {
        config_datafusion_err!("table '{}': {problem}", self.table)
    }

    /// The options that are not among the connector's own, as DataFusion's
    /// [`FileFormatFactory::create`](datafusion::datasource::file_format::FileFormatFactory::create)
    /// wants them.
    pub fn format_options(&self, own: &[OptionDescription]) -> HashMap<String, String> {
        self.given
            .iter()
            .filter(|(key, option)| !is_own(own, key) && !option.is_of_store)
            .map(|(_, option)| (self.format_key(&option.spelling), option.read().to_owned()))
            .collect()
    }

    /// The key as SQL would have delivered it, without the name of the format as its prefix.
    fn format_key(&self, spelling: &str) -> String {
        let key = lower_case_key(spelling);
        let prefixes = match self.file_type.as_str() {
            "TSV" => vec!["tsv", "csv"],
            "NDJSON" => vec!["ndjson", "json"],
            _ => vec![],
        };
        let file_type = self.file_type.to_lowercase();
        let mut prefixes = prefixes.into_iter().chain([file_type.as_str()]);
        let bare = prefixes.find_map(|prefix| key.strip_prefix(prefix)?.strip_prefix('.'));
        qualify_key(bare.unwrap_or(&key))
    }

    /// The normalised keys of all options that were given, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.given.keys().map(String::as_str)
    }

    /// Refuses options that are missing, have an unsuitable value, or that neither the connector nor
    /// the file format knows: all of them at once. Warns of former keys.
    pub(crate) fn check(
        &self,
        connector: &str,
        own: &[OptionDescription],
        format: &FormatOptions,
    ) -> Result<()> {
        let missing = own.iter().filter(|option| {
            option.is_required() && !option.keys().any(|key| self.given.contains_key(key))
        });
        let mut problems: Vec<String> = missing
            .map(|option| missing_option(option.key(), option))
            .collect();
        let mut format_keys = BTreeMap::new();
        for (key, given) in &self.given {
            if key == CONNECTOR.key() {
                continue;
            }
            let Some(option) = own.iter().find(|option| option.has_key(key)) else {
                let format_key = self.format_key(&given.spelling);
                if let Some(other) = format_keys.insert(format_key.clone(), key)
                    && self.given[other].value != given.value
                {
                    problems.push(format!(
                        "options '{other}' and '{key}' are one, with two values; remove one"
                    ));
                }
                match format.check(&format_key, &given.value) {
                    FormatOption::Suitable => {}
                    FormatOption::Unsuitable(expected) => {
                        problems.push(invalid_value(key, &given.value, false, &expected));
                    }
                    FormatOption::Unknown => {
                        let advice = self.advice(key, &format_key, connector, own, format);
                        problems.push(format!("unknown option '{key}'{advice}"));
                    }
                }
                continue;
            };
            if let Some(replacement) = option.replacement_of(key) {
                log::warn!(
                    "table '{}': option '{key}' is deprecated; use '{replacement}'",
                    self.table
                );
            }
            if let Err(expected) = option.check(&given.value) {
                let secret = option.is_secret();
                problems.push(invalid_value(key, &given.value, secret, &expected));
            }
        }
        match joined(&problems) {
            None => Ok(()),
            Some(problems) => Err(self.error(&problems)),
        }
    }

    /// Where to look for the option that `key` was meant to be.
    fn advice(
        &self,
        key: &str,
        format_key: &str,
        connector: &str,
        own: &[OptionDescription],
        format: &FormatOptions,
    ) -> String {
        let file_type = &self.file_type;
        if let Some(others) = format.others_with(format_key) {
            return format!(", which is one of {others}; the table is STORED AS {file_type}");
        }
        let of_format = format.bare_keys();
        let known = own.iter().map(OptionDescription::key);
        let known = known.chain([CONNECTOR.key()]);
        let similar = did_you_mean(key, known.chain(of_format.iter().map(String::as_str)));
        if !similar.is_empty() {
            return similar;
        }
        let lists = format!("; table_options('{connector}') lists those of the connector");
        match of_format.is_empty() {
            true => lists,
            false => format!("{lists}, DataFusion's documentation those of {file_type}"),
        }
    }

    /// Refuses the options that nobody has asked for.
    pub(crate) fn check_read(&self, connector: &str) -> Result<()> {
        let is_unread = |option: &GivenOption| !option.read.load(Ordering::Relaxed);
        let unread = self.given.iter().find(|(_, option)| is_unread(option));
        match unread {
            None => Ok(()),
            Some((key, _)) => Err(self.error(&format!(
                "option '{key}' has no effect with the connector '{connector}' here; remove it"
            ))),
        }
    }
}

impl GivenOption {
    fn read(&self) -> &str {
        self.read.store(true, Ordering::Relaxed);
        &self.value
    }
}

fn missing_option(key: &str, option: &OptionDescription) -> String {
    format!("missing option '{key}': {}", option.description())
}

fn invalid_value(key: &str, text: &str, is_secret: bool, expected: &str) -> String {
    let text = match is_secret || is_sensitive_key(key) {
        true => Cow::Borrowed(HIDDEN),
        false => hide_credentials(text),
    };
    format!("invalid value '{text}' for option '{key}'; expected {expected}")
}

/// The value of a text, which may refer to the environment if it is a secret.
pub(crate) fn parse_value<T: OptionValue>(text: &str) -> Result<T, String> {
    match T::IS_SECRET {
        true => T::parse(&resolve_secret(text)?),
        false => T::parse(text),
    }
}

/// One problem as it is, several with their numbers.
fn joined(problems: &[String]) -> Option<String> {
    match problems {
        [] => None,
        [problem] => Some(problem.clone()),
        several => {
            let numbered = several.iter().enumerate();
            let numbered: Vec<_> = numbered
                .map(|(index, problem)| format!("({}) {problem}", index + 1))
                .collect();
            Some(numbered.join("; "))
        }
    }
}

/// Shows keys only, because values may be secret.
impl fmt::Debug for ConnectorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorOptions")
            .field("table", &self.table)
            .field("keys", &self.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// The one key of all spellings: without `format.`, in lower case up to `::`.
pub(crate) fn normalize_key(spelling: &str) -> String {
    let key = lower_case_key(spelling);
    match key.strip_prefix(FORMAT_PREFIX) {
        Some(bare) => bare.to_owned(),
        None => key,
    }
}

/// The key as SQL would have delivered it.
fn qualify_key(key: &str) -> String {
    let name = key.split("::").next().unwrap_or_default();
    if name.contains('.') {
        key.to_owned()
    } else {
        format!("{FORMAT_PREFIX}{key}")
    }
}

fn lower_case_key(spelling: &str) -> String {
    match spelling.split_once("::") {
        Some((name, rest)) => format!("{}::{rest}", name.to_lowercase()),
        None => spelling.to_lowercase(),
    }
}

fn is_own(own: &[OptionDescription], key: &str) -> bool {
    key == CONNECTOR.key() || own.iter().any(|option| option.has_key(key))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::common::DFSchema;
    use datafusion::prelude::SessionContext;
    use secrecy::{ExposeSecret, SecretString};

    use super::*;

    const SAMPLE: ConnectorOption<usize> =
        ConnectorOption::new("schema.sample", "Partitions to look at").with_default("1");
    const OWNER: ConnectorOption<Option<String>> = ConnectorOption::new("owner", "Who pays");
    const TOPIC: ConnectorOption<String> = ConnectorOption::new("topic", "What to read");

    #[test]
    fn both_spellings_are_one_key() {
        for spelling in ["owner", "Owner", "format.owner"] {
            let options = options(&[(spelling, "Me")]).unwrap();
            assert_eq!(options.get(&OWNER).unwrap().as_deref(), Some("Me"));
        }
        for spelling in ["schema.sample", "format.schema.sample"] {
            assert_eq!(
                options(&[(spelling, "3")]).unwrap().get(&SAMPLE).unwrap(),
                3
            );
        }
    }

    #[test]
    fn spellings_with_equal_values_are_accepted() {
        let options = options(&[("owner", "me"), ("format.owner", "me")]).unwrap();
        assert_eq!(options.get(&OWNER).unwrap().as_deref(), Some("me"));
    }

    #[test]
    fn spellings_with_different_values_are_refused() {
        let error = options(&[("owner", "me"), ("format.owner", "you")]).unwrap_err();
        assert!(
            error.to_string().ends_with(
                "table 'sales': option 'owner' has two values; \
                 expected only one of: 'format.owner', 'owner'"
            ),
            "{error}"
        );
    }

    #[test]
    fn absent_options_have_their_default() {
        let options = options(&[]).unwrap();
        assert_eq!(options.get(&SAMPLE).unwrap(), 1);
        assert_eq!(options.get(&OWNER).unwrap(), None);
        let error = options.get(&TOPIC).unwrap_err().to_string();
        assert!(
            error.ends_with("table 'sales': missing option 'topic': What to read"),
            "{error}"
        );
    }

    #[test]
    fn a_name_stands_in_the_key() {
        const RANGE: ConnectorOption<usize> = ConnectorOption::new("projection.*.range", "");
        let options = options(&[("Projection.Day.range", "3")]).unwrap();
        assert_eq!(options.get_named(&RANGE, "DAY").unwrap(), 3);
        let error = options.get_named(&RANGE, "hour").unwrap_err().to_string();
        assert!(
            error.contains("missing option 'projection.hour.range'"),
            "{error}"
        );
    }

    #[test]
    fn unsuitable_values_name_option_table_and_type() {
        let options = options(&[("schema.sample", "all")]).unwrap();
        let error = options.get(&SAMPLE).unwrap_err().to_string();
        assert!(
            error.contains(
                "table 'sales': invalid value 'all' for option 'schema.sample'; \
                 expected an integer"
            ),
            "{error}"
        );
    }

    #[test]
    fn format_options_are_qualified_and_without_own_keys() {
        let options = options(&[
            ("connector", "filesystem"),
            ("schema.sample", "1"),
            ("has_header", "true"),
            ("format.delimiter", ";"),
            ("Compression::Name", "snappy"),
            ("other.key", "x"),
        ])
        .unwrap();
        let mut format_options: Vec<_> = options
            .format_options(&[SAMPLE.describe()])
            .into_iter()
            .collect();
        format_options.sort();
        let expected = [
            ("format.compression::Name", "snappy"),
            ("format.delimiter", ";"),
            ("format.has_header", "true"),
            ("other.key", "x"),
        ];
        assert_eq!(
            format_options,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn all_problems_are_reported_together() {
        let format = FormatOptions::new(&SessionContext::new().state(), "JSON");
        let own = [SAMPLE.describe(), TOPIC.describe()];
        let check = |pairs: &[(&str, &str)]| {
            let result = options(pairs).unwrap().check("kafka", &own, &format);
            result.map_err(|error| error.strip_backtrace())
        };
        let known = [
            ("connector", "x"),
            ("schema.sample", "1"),
            ("format.compression", "gzip"),
            ("topic", "news"),
        ];
        check(&known).unwrap();

        let error = check(&[
            ("format.schema.smaple", "1"),
            ("schema.sample", "all"),
            ("aws.token", "hidden"),
        ]);
        let error = error.unwrap_err();
        assert!(
            error.ends_with(
                "table 'sales': \
                 (1) missing option 'topic': What to read; (2) unknown option 'aws.token'; \
                 table_options('kafka') lists those of the connector, DataFusion's documentation \
                 those of JSON; (3) invalid value 'all' for option 'schema.sample'; expected an integer from 0; \
                 (4) unknown option 'schema.smaple' (did you mean \
                 'schema.sample'?)"
            ),
            "{error}"
        );
    }

    #[test]
    fn secrets_are_read_from_the_environment_and_never_shown() {
        const PASSWORD: ConnectorOption<SecretString> = ConnectorOption::new("password", "");
        let given = options(&[("password", "${env:CARGO_PKG_NAME}")]).unwrap();
        let secret = given.get(&PASSWORD).unwrap();
        assert_eq!(secret.expose_secret(), env!("CARGO_PKG_NAME"));

        let given = options(&[("password", "${env:DFP_NO_SUCH_VARIABLE}")]).unwrap();
        let error = given.get(&PASSWORD).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "table 'sales': invalid value '******' for option 'password'; expected the \
                 environment variable 'DFP_NO_SUCH_VARIABLE' to be set"
            ),
            "{error}"
        );
    }

    #[test]
    fn former_keys_are_read_last() {
        const LIMIT: ConnectorOption<usize> = ConnectorOption::new("limit", "")
            .with_default("9")
            .with_fallback_keys(&["max"])
            .with_deprecated_keys(&["most"]);
        for (pairs, limit) in [
            (vec![], 9),
            (vec![("most", "3")], 3),
            (vec![("most", "3"), ("max", "2")], 2),
            (vec![("most", "3"), ("max", "2"), ("limit", "1")], 1),
        ] {
            assert_eq!(options(&pairs).unwrap().get(&LIMIT).unwrap(), limit);
        }
    }

    #[test]
    fn prefixes_make_a_map() {
        const PROPERTIES: ConnectorOption<usize> = ConnectorOption::new("properties.*", "");
        let given = options(&[("properties.a", "1"), ("Properties.b.c", "2"), ("x", "3")]).unwrap();
        let map = given.get_map(&PROPERTIES).unwrap();
        let expected = [("a".to_owned(), 1), ("b.c".to_owned(), 2)];
        assert_eq!(map, BTreeMap::from(expected));
    }

    #[test]
    fn options_that_nobody_read_are_refused() {
        let options = options(&[("owner", "me"), ("has_header", "true")]).unwrap();
        options.get(&OWNER).unwrap();
        let error = options.check_read("memory").unwrap_err().to_string();
        assert!(
            error.contains(
                "table 'sales': option 'has_header' has no effect with the connector 'memory'"
            ),
            "{error}"
        );
        options.format_options(&[OWNER.describe()]);
        options.check_read("memory").unwrap();
    }

    #[test]
    fn debug_output_hides_values() {
        let text = format!("{:?}", options(&[("owner", "secret")]).unwrap());
        assert!(text.contains("owner") && !text.contains("secret"), "{text}");
    }

    fn options(pairs: &[(&str, &str)]) -> Result<ConnectorOptions> {
        let options = pairs
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        let schema = Arc::new(DFSchema::empty());
        let command = CreateExternalTable::builder("sales", "", "JSON", schema)
            .with_options(options.collect())
            .build();
        ConnectorOptions::try_new(&command)
    }
}
