//! What a connector declares about one of its options: key, type, default and a sentence for the
//! reader.
//!
//! Texts are parsed late, when [`ConnectorOptions::get`](crate::ConnectorOptions::get) asks for the
//! value, so that an error can name the table.

use std::fmt;
use std::marker::PhantomData;

/// A type that the text of an option can be parsed into.
///
/// Implement it for the enums of a connector. `Option<T>` is there for options that may be left
/// out.
pub trait OptionValue: Sized {
    /// The name of the type in lists of options.
    const TYPE_NAME: &'static str;

    /// Parses the text, or says what was expected instead, as in `true or false`.
    fn parse(text: &str) -> Result<Self, String>;

    /// The value of an option that is not given and has no default; `None` makes the option
    /// mandatory.
    fn absent() -> Option<Self> {
        None
    }
}

impl OptionValue for String {
    const TYPE_NAME: &'static str = "string";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl OptionValue for bool {
    const TYPE_NAME: &'static str = "boolean";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            _ if text.eq_ignore_ascii_case("true") => Ok(true),
            _ if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("true or false".to_owned()),
        }
    }
}

impl OptionValue for usize {
    const TYPE_NAME: &'static str = "integer";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("an integer from 0 to {}", Self::MAX))
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    const TYPE_NAME: &'static str = T::TYPE_NAME;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// The declaration of an option with values of type `T`, usually a constant:
///
/// ```
/// use datafusion_partitioned_connector::ConnectorOption;
///
/// const SCHEMA_SAMPLE: ConnectorOption<usize> =
///     ConnectorOption::new("schema.sample", "Number of partitions to infer the schema from")
///         .with_default("1");
/// const COMMENT: ConnectorOption<Option<String>> =
///     ConnectorOption::new("comment", "A remark about the table");
/// ```
///
/// An option without a default is mandatory, unless its type is an `Option`.
///
/// A `*` in the key stands for a name, as in `projection.*.type`; see
/// [`ConnectorOptions::get_named`](crate::ConnectorOptions::get_named).
pub struct ConnectorOption<T> {
    key: &'static str,
    description: &'static str,
    default: Option<&'static str>,
    value: PhantomData<fn() -> T>,
}

impl<T> ConnectorOption<T> {
    /// Declares an option. The key is in lower case and may contain dots.
    pub const fn new(key: &'static str, description: &'static str) -> Self {
        Self {
            key,
            description,
            default: None,
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

    /// The key without the prefix `format.`.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// The text that stands for an option that is not given.
    pub const fn default_text(&self) -> Option<&'static str> {
        self.default
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
        }
    }
}

impl<T: OptionValue> fmt::Debug for ConnectorOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.describe(), f)
    }
}

/// A [`ConnectorOption`] without its Rust type, for lists of options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDescription {
    key: &'static str,
    type_name: &'static str,
    default: Option<&'static str>,
    description: &'static str,
}

impl OptionDescription {
    /// The key without the prefix `format.`.
    pub fn key(&self) -> &str {
        self.key
    }

    /// Whether this is the option with the key `key`, in which any name may stand for a `*`.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        match self.key.split_once('*') {
            None => self.key == key,
            Some((before, behind)) => key
                .strip_prefix(before)
                .and_then(|key| key.strip_suffix(behind))
                .is_some_and(|name| !name.is_empty()),
        }
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
    }

    #[test]
    fn a_star_stands_for_a_name() {
        let range: ConnectorOption<String> = ConnectorOption::new("projection.*.range", "");
        let description = range.describe();
        assert!(description.has_key("projection.day.range"));
        assert!(description.has_key("projection.a.b.range"));
        assert!(!description.has_key("projection.range"));
        assert!(!description.has_key("projection..range"));
        assert!(!LIMIT.describe().has_key("limits"));
    }

    #[test]
    fn booleans_are_parsed_in_any_case() {
        assert_eq!(bool::parse("TRUE"), Ok(true));
        assert_eq!(bool::parse("false"), Ok(false));
        assert_eq!(bool::parse("yes"), Err("true or false".to_owned()));
    }

    #[test]
    fn integers_refuse_signs_and_text() {
        assert_eq!(usize::parse("12"), Ok(12));
        assert!(usize::parse("-1").is_err());
        assert!(usize::parse("many").is_err());
    }

    #[test]
    fn only_optional_values_may_be_absent() {
        assert_eq!(<Option<bool>>::absent(), Some(None));
        assert_eq!(<Option<bool>>::parse("true"), Ok(Some(true)));
        assert_eq!(bool::absent(), None);
    }
}
