//! The types of option values: how their texts are read, and what is said about a text that is none.

use datafusion::common::config::ConfigField;
use datafusion_partitioned_core::{ByteSize, TimeSpan};
use secrecy::SecretString;

/// A type that the text of an option can be parsed into.
///
/// | type | text |
/// |---|---|
/// | `String` | any |
/// | `bool` | `true` or `false` |
/// | `usize`, `i64` | an integer |
/// | [`TimeSpan`] | a duration such as `30s`, `5m` or `1h 30m` |
/// | [`ByteSize`] | a size such as `512K`, `64M` or `2G` |
/// | `Vec<T>` | values separated by commas |
/// | [`SecretString`] | any; never shown, nor is the statement's text |
/// | `Option<T>` | as `T`, and may be left out |
///
/// Implement it for the enums of a connector, with the help of [`parse_choice`].
pub trait OptionValue: Sized {
    /// The name of the type in lists of options.
    const TYPE_NAME: &'static str;

    /// Whether the value must not appear in errors, lists and statements that are shown.
    const IS_SECRET: bool = false;

    /// Parses the text, or says what was expected instead, as in `true or false`.
    ///
    /// # Errors
    /// What was expected.
    fn parse(text: &str) -> Result<Self, String>;

    /// The value of an option that is not given and has no default; `None` makes the option
    /// mandatory.
    fn absent() -> Option<Self> {
        None
    }
}

/// One of some names, in any case; else says which there are: `error, null or skip`.
///
/// # Errors
/// The names.
pub fn parse_choice<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    if let Some((_, value)) = chosen {
        return Ok(value.clone());
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    Err(match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    })
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
        parse_choice(text, &[("true", true), ("false", false)])
    }
}

impl OptionValue for usize {
    const TYPE_NAME: &'static str = "integer";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "an integer from 0".to_owned())
    }
}

impl OptionValue for i64 {
    const TYPE_NAME: &'static str = "integer";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "an integer".to_owned())
    }
}

impl OptionValue for TimeSpan {
    const TYPE_NAME: &'static str = "duration";

    fn parse(text: &str) -> Result<Self, String> {
        parse_field(text).ok_or_else(|| "a duration such as '30s', '5m' or '1h 30m'".to_owned())
    }
}

impl OptionValue for ByteSize {
    const TYPE_NAME: &'static str = "memory size";

    fn parse(text: &str) -> Result<Self, String> {
        parse_field(text).ok_or_else(|| "a size such as '512K', '64M' or '2G'".to_owned())
    }
}

/// A value as a session option would have it.
fn parse_field<T: ConfigField + Default>(text: &str) -> Option<T> {
    let mut value = T::default();
    value.set("", text).ok()?;
    Some(value)
}

impl<T: OptionValue> OptionValue for Vec<T> {
    const TYPE_NAME: &'static str = "list";
    const IS_SECRET: bool = T::IS_SECRET;

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(vec![]);
        }
        text.split(',')
            .map(|item| T::parse(item.trim()))
            .collect::<Result<_, _>>()
            .map_err(|expected| format!("values separated by commas, each of them {expected}"))
    }
}

impl OptionValue for SecretString {
    const TYPE_NAME: &'static str = "secret";
    const IS_SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    const TYPE_NAME: &'static str = T::TYPE_NAME;
    const IS_SECRET: bool = T::IS_SECRET;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn booleans_are_parsed_in_any_case() {
        assert_eq!(bool::parse("TRUE"), Ok(true));
        assert_eq!(bool::parse("false"), Ok(false));
        assert_eq!(bool::parse("yes"), Err("true or false".to_owned()));
    }

    #[test]
    fn integers_refuse_what_does_not_fit() {
        assert_eq!(usize::parse("12"), Ok(12));
        assert_eq!(i64::parse("-12"), Ok(-12));
        for text in ["-1", "many", "1.5", ""] {
            assert!(usize::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_and_sizes_have_units() {
        let span = TimeSpan::parse("5m").unwrap();
        assert_eq!(span.duration(), Duration::from_secs(300));
        assert!(TimeSpan::parse("soon").unwrap_err().contains("'30s'"));
        assert_eq!(ByteSize::parse("64M").unwrap().bytes(), 64 << 20);
        assert!(ByteSize::parse("big").unwrap_err().contains("'64M'"));
    }

    #[test]
    fn lists_are_separated_by_commas() {
        assert_eq!(Vec::<usize>::parse("1, 2,3"), Ok(vec![1, 2, 3]));
        assert_eq!(Vec::<String>::parse(" "), Ok(vec![]));
        let error = Vec::<bool>::parse("true,perhaps").unwrap_err();
        assert_eq!(
            error,
            "values separated by commas, each of them true or false"
        );
    }

    #[test]
    fn choices_are_listed() {
        let choices = [("error", 1), ("null", 2), ("skip", 3)];
        assert_eq!(parse_choice("Skip", &choices), Ok(3));
        let expected = parse_choice("drop", &choices).unwrap_err();
        assert_eq!(expected, "error, null or skip");
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = SecretString::parse("hunter2").unwrap();
        assert_eq!(secret.expose_secret(), "hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
        let is_secret = [<Option<SecretString>>::IS_SECRET, String::IS_SECRET];
        assert_eq!(is_secret, [true, false]);
    }

    #[test]
    fn only_optional_values_may_be_absent() {
        assert_eq!(<Option<bool>>::absent(), Some(None));
        assert_eq!(<Option<bool>>::parse("true"), Ok(Some(true)));
        assert_eq!(bool::absent(), None);
    }
}
