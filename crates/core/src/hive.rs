//! The `hive` layout: `column=value/` directories and the escapes within them.
//!
//! The escapes are those of Apache Hive (`FileUtils.escapePathName`), which Spark and Flink share:
//!
//! | | rule |
//! |---|---|
//! | written | control characters, DEL and `" # % ' * / : = ? \ { [ ] ^` become `%XX`, upper case, in names and values |
//! | read | any `%XX`, either case, exactly once; a broken escape (`%`, `%2`, `%zz`) stays as it is |
//! | read | bytes that are not UTF-8 after decoding leave the whole text as it was |
//! | read | only the first `=` separates name and value; `+` is a plus sign |
//! | NULL | is spelled by the default partition name, `__HIVE_DEFAULT_PARTITION__` |

use std::borrow::Cow;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::common::{Result, ScalarValue};
use percent_encoding::percent_decode_str;

use crate::error::PartitionError;
use crate::spec::{PartitionSpec, PartitionValues};
use crate::text::{parse_values, value_to_text};

/// How Apache Hive and Spark spell NULL in a directory name.
pub const DEFAULT_PARTITION_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// Reads and writes the directory names of a table in the hive layout.
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::arrow::datatypes::{DataType, Field};
/// # use datafusion::scalar::ScalarValue;
/// # use datafusion_partitioned_core::{HiveLayout, PartitionSpec, PartitionValues};
/// let spec = PartitionSpec::try_new(vec![
///     Field::new("year", DataType::Int32, true),
///     Field::new("topic", DataType::Utf8, true),
/// ])?;
/// let values = PartitionValues::try_new(
///     &spec,
///     vec![ScalarValue::from(2024_i32), ScalarValue::from("rock/roll")],
/// )?;
/// assert_eq!(HiveLayout::default().path(&spec, &values)?, "year=2024/topic=rock%2Froll");
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiveLayout {
    default_name: String,
}

impl Default for HiveLayout {
    fn default() -> Self {
        Self {
            default_name: DEFAULT_PARTITION_NAME.to_owned(),
        }
    }
}

impl HiveLayout {
    /// Spells NULL as `default_name` instead of [`DEFAULT_PARTITION_NAME`].
    pub fn with_default_name(mut self, default_name: impl Into<String>) -> Self {
        self.default_name = default_name.into();
        self
    }

    /// The relative path of a partition, as the writer spells it.
    ///
    /// A reader never uses this: one value can have several spellings, so paths to read come from
    /// a listing.
    ///
    /// # Errors
    /// When a value has no text form.
    pub fn path(&self, spec: &PartitionSpec, values: &PartitionValues) -> Result<String> {
        let mut path = String::new();
        for (field, value) in spec.fields().iter().zip(values.values()) {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(&escape_path_name(field.name()));
            path.push('=');
            path.push_str(&self.value_name(value)?);
        }
        Ok(path)
    }

    /// The escaped text of one value. NULL and the empty string are both spelled by the default
    /// name, since Hive has no other spelling for them.
    fn value_name(&self, value: &ScalarValue) -> Result<String> {
        match value_to_text(value)? {
            Some(text) if !text.is_empty() => Ok(escape_path_name(&text).into_owned()),
            _ => Ok(self.default_name.clone()),
        }
    }

    /// The typed values of the directories `segments`, all of them at the level of partition
    /// column `level`.
    ///
    /// `path_of` names the whole path of a segment for error messages.
    ///
    /// # Errors
    /// [`PartitionError::Segment`] when a segment is not `column=value` for the column of this
    /// level, [`PartitionError::Value`] when a value is not of the column's type.
    pub fn parse_level(
        &self,
        spec: &PartitionSpec,
        level: usize,
        segments: &[&str],
        path_of: impl Fn(usize) -> String,
    ) -> Result<ArrayRef> {
        let field = &spec.fields()[level];
        let texts = segments
            .iter()
            .enumerate()
            .map(|(row, segment)| {
                self.parse_segment(field.name(), segment)
                    .ok_or_else(|| PartitionError::Segment {
                        column: field.name().clone(),
                        segment: (*segment).to_owned(),
                        path: path_of(row),
                    })
            })
            .collect::<Result<Vec<Option<Cow<'_, str>>>, _>>()?;
        let texts = StringArray::from_iter(texts);
        parse_values(field, &texts, path_of)
    }

    /// Whether `segment` is `column=value` for this column.
    pub fn is_partition_of(&self, column: &str, segment: &str) -> bool {
        self.parse_segment(column, segment).is_some()
    }

    /// The decoded value text of `segment`: `Some(None)` for NULL, `None` when the segment does
    /// not belong to `column`.
    fn parse_segment<'a>(&self, column: &str, segment: &'a str) -> Option<Option<Cow<'a, str>>> {
        let (name, value) = segment.split_once('=')?;
        if name != column && unescape_path_name(name) != column {
            return None;
        }
        if value == self.default_name {
            return Some(None);
        }
        Some(Some(unescape_path_name(value)))
    }
}

/// Escapes a name or value for use as a path segment, by Hive's rules.
///
/// ```
/// # use datafusion_partitioned_core::escape_path_name;
/// assert_eq!(escape_path_name("50%/a=b c"), "50%25%2Fa%3Db c");
/// ```
pub fn escape_path_name(text: &str) -> Cow<'_, str> {
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if needs_escape(c) {
            // All characters that need an escape are ASCII.
            escaped.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Decodes each `%XX` once. Broken escapes, and escapes that do not decode to UTF-8, are kept.
///
/// ```
/// # use datafusion_partitioned_core::unescape_path_name;
/// assert_eq!(unescape_path_name("a%252Fb%2fc%zz"), "a%2Fb/c%zz");
/// ```
pub fn unescape_path_name(text: &str) -> Cow<'_, str> {
    percent_decode_str(text)
        .decode_utf8()
        .unwrap_or(Cow::Borrowed(text))
}

fn needs_escape(c: char) -> bool {
    c.is_ascii_control()
        || matches!(
            c,
            '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '[' | ']' | '^'
        )
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{DataType, Field, Int32Type};

    use super::*;

    fn parse(data_type: DataType, segments: &[&str]) -> Result<ArrayRef> {
        let spec = PartitionSpec::try_new(vec![Field::new("k", data_type, true)])?;
        HiveLayout::default().parse_level(&spec, 0, segments, |row| format!("t/{}", segments[row]))
    }

    #[test]
    fn decodes_each_escape_once_and_splits_at_the_first_equals_sign() {
        let segments = [
            "k=rock%2Froll",
            "k=New Wave",
            "k=50%25",
            "k=a%252Fb",
            "k=dna_0=none",
            "k==",
            "k=UTC+2",
            "k=K%C3%B6ln",
            "k=%",
            "k=%2",
            "k=%zz",
            "k=%FF",
            "k=",
        ];
        let array = parse(DataType::Utf8, &segments).unwrap();
        let texts: Vec<_> = array.as_string::<i32>().iter().flatten().collect();
        assert_eq!(
            texts,
            [
                "rock/roll",
                "New Wave",
                "50%",
                "a%2Fb",
                "dna_0=none",
                "=",
                "UTC+2",
                "Köln",
                "%",
                "%2",
                "%zz",
                "%FF",
                ""
            ]
        );
    }

    #[test]
    fn spellings_of_one_value_are_equal_and_the_default_name_is_null() {
        let array = parse(
            DataType::Int32,
            &["k=6", "k=06", "k=__HIVE_DEFAULT_PARTITION__"],
        )
        .unwrap();
        let array = array.as_primitive::<Int32Type>();
        assert_eq!(array.iter().collect::<Vec<_>>(), [Some(6), Some(6), None]);
    }

    #[test]
    fn the_word_null_is_a_string() {
        let array = parse(DataType::Utf8, &["k=NULL", "k=null", "k=None"]).unwrap();
        assert_eq!(array.null_count(), 0);
    }

    #[test]
    fn errors_name_column_text_and_path() {
        let error = parse(DataType::Int32, &["k=1", "k=abc"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(
                "partition column 'k': 'abc' is not a value of type Int32 (in 't/k=abc')"
            ),
            "{error}"
        );
        let error = parse(DataType::Int32, &["j=1"]).unwrap_err().to_string();
        assert!(
            error.contains("expected a directory 'k=<value>' but found 'j=1'"),
            "{error}"
        );
    }

    #[test]
    fn escapes_exactly_the_characters_of_hive() {
        let escaped: String = (0..=0x7f_u8)
            .map(char::from)
            .filter(|c| needs_escape(*c) && !c.is_ascii_control())
            .collect();
        assert_eq!(escaped, "\"#%'*/:=?[\\]^{");
        assert_eq!(escape_path_name("\u{1}\u{7f}"), "%01%7F");
        assert_eq!(escape_path_name("a b}~Łódź"), "a b}~Łódź");
    }
}
