//! What a connector declares about one of its options: keys, type, default and a sentence for the
//! reader.
//!
//! Texts are parsed late, when [`ConnectorOptions::get`](crate::ConnectorOptions::get) asks for the
//! value, so that an error can name the table.

use std::fmt;
use std::marker::PhantomData;

use crate::OptionValue;
use crate::options::parse_value;

/// The declaration of an option with values of type `T`, usually a constant:
///
/// ```
/// use datafusion_partitioned_connector::ConnectorOption;
/// use datafusion_partitioned_core::TimeSpan;
///
/// const SCHEMA_SAMPLE: ConnectorOption<usize> =
///     ConnectorOption::new("schema.sample", "Number of partitions to infer the schema from")
///         .with_default("1");
/// const TIMEOUT: ConnectorOption<TimeSpan> =
///     ConnectorOption::new("request.timeout", "How long to wait for an answer")
///         .with_default("30s")
///         .with_deprecated_keys(&["timeout"]);
/// const COMMENT: ConnectorOption<Option<String>> =
///     ConnectorOption::new("comment", "A remark about the table");
/// ```
///
/// An option without a default is mandatory, unless its type is an `Option`.
///
/// A `*` in the key stands for a name, as in `projection.*.type`; see
/// [`ConnectorOptions::get_named`](crate::ConnectorOptions::get_named) and
/// [`ConnectorOptions::get_map`](crate::ConnectorOptions::get_map).
pub struct ConnectorOption<T> {
    key: &'static str,
    description: &'static str,
    default: Option<&'static str>,
    fallback_keys: &'static [&'static str],
    deprecated_keys: &'static [&'static str],
    is_forwardable: bool,
    value: PhantomData<fn() -> T>,
}

impl<T> ConnectorOption<T> {
    /// Declares an option. The key is in lower case and may contain dots.
    pub const fn new(key: &'static str, description: &'static str) -> Self {
        Self {
            key,
            description,
            default: None,
            fallback_keys: &[],
            deprecated_keys: &[],
            is_forwardable: false,
            value: PhantomData,
        }
    }

    /// The text that is parsed when a statement does not give the option.
    pub const fn with_default(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Other keys that are looked for, in this order, when the statement does not give the first.
    pub const fn with_fallback_keys(self, keys: &'static [&'static str]) -> Self {
        Self {
            fallback_keys: keys,
            ..self
        }
    }

    /// Former keys, looked for last. A statement that gives one gets a warning.
    pub const fn with_deprecated_keys(self, keys: &'static [&'static str]) -> Self {
        Self {
            deprecated_keys: keys,
            ..self
        }
    }

    /// Says that the option does not change what the table is, so that the definition of the catalog
    /// may set it for a plan that was stored with another value (Flink: `forwardOptions`).
    pub const fn forwardable(self) -> Self {
        Self {
            is_forwardable: true,
            ..self
        }
    }

    /// The key without the prefix `format.`.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// The text that stands for an option that is not given.
    pub const fn default_text(&self) -> Option<&'static str> {
        self.default
    }

    /// All keys, the first one that is given wins.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let others = self.fallback_keys.iter().chain(self.deprecated_keys);
        std::iter::once(self.key).chain(others.copied())
    }
}

impl<T: OptionValue> ConnectorOption<T> {
    /// The declaration without its Rust type.
    pub const fn describe(&self) -> OptionDescription {
        OptionDescription {
            key: self.key,
            type_name: T::TYPE_NAME,
            default: self.default,
            description: self.description,
            fallback_keys: self.fallback_keys,
            deprecated_keys: self.deprecated_keys,
            is_forwardable: self.is_forwardable,
            is_secret: T::IS_SECRET,
            check: |text| parse_value::<T>(text).map(drop),
            may_be_absent: || T::absent().is_some(),
        }
    }
}

impl<T: OptionValue> fmt::Debug for ConnectorOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.describe(), f)
    }
}

/// A [`ConnectorOption`] without its Rust type, for lists of options.
#[derive(Clone)]
pub struct OptionDescription {
    key: &'static str,
    type_name: &'static str,
    default: Option<&'static str>,
    description: &'static str,
    fallback_keys: &'static [&'static str],
    deprecated_keys: &'static [&'static str],
    is_forwardable: bool,
    is_secret: bool,
    check: fn(&str) -> Result<(), String>,
    may_be_absent: fn() -> bool,
}

impl OptionDescription {
    /// The key without the prefix `format.`.
    pub fn key(&self) -> &str {
        self.key
    }

    /// All keys, the first one that is given wins.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let others = self.fallback_keys.iter().chain(self.deprecated_keys);
        std::iter::once(self.key).chain(others.copied())
    }

    /// Whether a key of this option is `key`, in which any name may stand for a `*`.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.name_in(key).is_some()
    }

    /// Whether two keys are ones of this option, with the same name for the `*`.
    pub(crate) fn is_same(&self, key: &str, other: &str) -> bool {
        let name = self.name_in(key);
        name.is_some() && name == self.name_in(other)
    }

    /// The name that stands for the `*` in `key`, empty if there is none; `None` for another option.
    pub fn name_in<'a>(&self, key: &'a str) -> Option<&'a str> {
        self.keys().find_map(|own| match own.split_once('*') {
            None => (own == key).then_some(""),
            Some((before, behind)) => {
                let name = key.strip_prefix(before)?.strip_suffix(behind)?;
                (!name.is_empty()).then_some(name)
            }
        })
    }

    /// The key to use instead of `key`, if that is a former one.
    pub(crate) fn replacement_of(&self, key: &str) -> Option<&'static str> {
        self.deprecated_keys.contains(&key).then_some(self.key)
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &str {
        self.type_name
    }

    /// The text that stands for an option that is not given.
    pub fn default_text(&self) -> Option<&str> {
        self.default
    }

    /// What the option does.
    pub fn description(&self) -> &str {
        self.description
    }

    /// Whether a statement must give it.
    pub fn is_required(&self) -> bool {
        let is_pattern = self.key.contains('*');
        self.default.is_none() && !is_pattern && !(self.may_be_absent)()
    }

    /// Whether its value must not be shown.
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// See [`ConnectorOption::forwardable`].
    pub fn is_forwardable(&self) -> bool {
        self.is_forwardable
    }

    /// Whether `text` is a value of it, or else what was expected.
    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        (self.check)(text)
    }
}

impl fmt::Debug for OptionDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionDescription")
            .field("keys", &self.keys().collect::<Vec<_>>())
            .field("type", &self.type_name)
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: ConnectorOption<usize> =
        ConnectorOption::new("limit", "The most to read").with_default("10");

    #[test]
    fn description_keeps_what_was_declared() {
        let description = LIMIT.describe();
        assert_eq!(description.key(), "limit");
        assert_eq!(description.type_name(), "integer");
        assert_eq!(description.default_text(), Some("10"));
        assert_eq!(description.description(), "The most to read");
        assert!(!description.is_required() && !description.is_secret());
        assert!(description.check("1").is_ok() && description.check("x").is_err());
    }

    #[test]
    fn a_star_stands_for_a_name() {
        let range: ConnectorOption<String> = ConnectorOption::new("projection.*.range", "");
        let description = range.describe();
        assert!(description.has_key("projection.day.range"));
        assert!(description.has_key("projection.a.b.range"));
        assert!(!description.has_key("projection.range"));
        assert!(!description.has_key("projection..range"));
        assert!(!description.is_required());
        assert!(!LIMIT.describe().has_key("limits"));
    }

    #[test]
    fn other_keys_belong_to_the_option() {
        let option = LIMIT
            .with_fallback_keys(&["max"])
            .with_deprecated_keys(&["most"])
            .forwardable();
        let description = option.describe();
        assert_eq!(
            description.keys().collect::<Vec<_>>(),
            ["limit", "max", "most"]
        );
        assert!(description.has_key("most") && description.is_forwardable());
        assert_eq!(description.replacement_of("most"), Some("limit"));
        assert_eq!(description.replacement_of("max"), None);
    }

    #[test]
    fn options_are_required_without_a_default() {
        let required: ConnectorOption<bool> = ConnectorOption::new("a", "");
        assert!(required.describe().is_required());
        let optional: ConnectorOption<Option<bool>> = ConnectorOption::new("a", "");
        assert!(!optional.describe().is_required());
    }
}
