//! How the name of one directory level spells values.

use std::borrow::Cow;
use std::ops::Range;

use datafusion::common::{Result, plan_err};

use super::escape::{escape_path_name, unescape_path_name};
use crate::spec::PartitionSpec;

/// One directory level of a layout: which columns it spells, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Level {
    pattern: Pattern,
    /// The columns that it spells, as indexes into the spec.
    pub(super) columns: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// `column=value`.
    Named(String),
    /// Fixed texts and columns in turn.
    Parts(Vec<Part>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Column(String),
}

impl Level {
    /// `column=value`, for the column with index `column`.
    pub(super) fn named(spec: &PartitionSpec, column: usize) -> Self {
        Self {
            pattern: Pattern::Named(spec.fields()[column].name().clone()),
            columns: column..column + 1,
        }
    }

    /// `value`, for the column with index `column`.
    pub(super) fn value(spec: &PartitionSpec, column: usize) -> Self {
        let name = spec.fields()[column].name().clone();
        Self {
            pattern: Pattern::Parts(vec![Part::Column(name)]),
            columns: column..column + 1,
        }
    }

    /// One segment of a template, such as `x-${day}`, whose first column has the index `first`.
    pub(super) fn template(spec: &PartitionSpec, first: usize, segment: &str) -> Result<Self> {
        let mut parts = vec![];
        let mut next = first;
        let mut rest = segment;
        while !rest.is_empty() {
            let (text, behind) = rest.split_once("${").unwrap_or((rest, ""));
            let has_column = text.len() < rest.len();
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            if !has_column {
                break;
            }
            let Some((name, behind)) = behind.split_once('}') else {
                return plan_err!("'{segment}' has '${{' without '}}'");
            };
            let expected = spec.column_names().nth(next);
            if expected != Some(name) {
                return match expected {
                    Some(expected) => plan_err!(
                        "'{segment}' names '{name}' where the next partition column is \
                         '{expected}'; name each partition column once, in the order of PARTITIONED BY"
                    ),
                    None => plan_err!(
                        "'{segment}' names '{name}' after all partition columns; name each \
                         partition column once, in the order of PARTITIONED BY"
                    ),
                };
            }
            if matches!(parts.last(), Some(Part::Column(_))) {
                return plan_err!(
                    "'{segment}' has nothing between two columns, so that nobody knows where one ends"
                );
            }
            parts.push(Part::Column(name.to_owned()));
            next += 1;
            rest = behind;
        }
        Ok(Self {
            pattern: Pattern::Parts(parts),
            columns: first..next,
        })
    }

    /// Passes the raw text of each column in `name` to `found`, by its position within this level.
    /// False when the name does not fit; then some texts may have been passed already.
    ///
    /// A column ends where the text behind it first occurs; none is empty, except in `column=`.
    pub(super) fn capture<'a>(&self, name: &'a str, mut found: impl FnMut(usize, &'a str)) -> bool {
        let parts = match &self.pattern {
            Pattern::Named(column) => {
                return match name.split_once('=') {
                    Some((key, value)) if key == column || unescape_path_name(key) == *column => {
                        found(0, value);
                        true
                    }
                    _ => false,
                };
            }
            Pattern::Parts(parts) => parts,
        };
        let mut rest = name;
        let mut position = 0;
        for (index, part) in parts.iter().enumerate() {
            let value = match (part, parts.get(index + 1)) {
                (Part::Text(text), _) => match rest.strip_prefix(text.as_str()) {
                    Some(behind) => {
                        rest = behind;
                        continue;
                    }
                    None => return false,
                },
                (Part::Column(_), Some(Part::Text(text))) if index + 2 == parts.len() => {
                    rest.strip_suffix(text.as_str())
                }
                (Part::Column(_), Some(Part::Text(text))) => {
                    rest.find(text.as_str()).map(|end| &rest[..end])
                }
                (Part::Column(_), _) => Some(rest),
            };
            match value {
                Some(value) if !value.is_empty() => {
                    found(position, value);
                    position += 1;
                    rest = &rest[value.len()..];
                }
                _ => return false,
            }
        }
        rest.is_empty()
    }

    /// Whether names of this level begin with a fixed text, or with that of a column's name.
    pub(super) fn begins_with_text(&self) -> bool {
        match &self.pattern {
            Pattern::Named(_) => true,
            Pattern::Parts(parts) => matches!(parts.first(), Some(Part::Text(_))),
        }
    }

    /// The name that spells `values`, already escaped, one for each column of this level.
    pub(super) fn spell<'a>(&self, mut values: impl Iterator<Item = Cow<'a, str>>) -> String {
        match &self.pattern {
            Pattern::Named(column) => {
                let value = values.next().unwrap_or_default();
                format!("{}={value}", escape_path_name(column))
            }
            Pattern::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => Cow::from(text),
                    Part::Column(_) => values.next().unwrap_or_default(),
                })
                .collect(),
        }
    }

    /// What to change for a directory name that does not fit.
    pub(super) fn advice(&self, name: &str) -> &'static str {
        match &self.pattern {
            Pattern::Named(_) if name.contains('=') => {
                "PARTITIONED BY has the columns of the directories in their order"
            }
            Pattern::Named(_) => {
                "for directories without column names set 'partition.layout' to 'directory' or a template"
            }
            Pattern::Parts(_) => "'partition.layout' says how directories are named",
        }
    }

    /// What to change for a text that is no value of its column.
    pub(super) fn advice_on_value(&self, text: &str) -> &'static str {
        match &self.pattern {
            Pattern::Parts(_) if text.contains('=') => {
                "directories with column names are the 'partition.layout' 'hive'"
            }
            _ => "declare another type, or set 'partition.on-mismatch' to 'null' or 'skip'",
        }
    }

    /// What a name of this level looks like, for people: `year=<value>`, `x-<day>`.
    pub(super) fn example(&self) -> String {
        match &self.pattern {
            Pattern::Named(column) => format!("{column}=<value>"),
            Pattern::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.clone(),
                    Part::Column(column) => format!("<{column}>"),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    fn spec() -> PartitionSpec {
        PartitionSpec::try_new(["a", "b"].map(|name| Field::new(name, DataType::Utf8, true)))
            .unwrap()
    }

    fn captured(segment: &str, name: &str) -> Option<Vec<String>> {
        let level = Level::template(&spec(), 0, segment).unwrap();
        let mut texts = vec![];
        level
            .capture(name, |_, text| texts.push(text.to_owned()))
            .then_some(texts)
    }

    #[test]
    fn a_column_ends_where_the_next_text_begins() {
        let some = |texts: &[&str]| Some(texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>());
        assert_eq!(captured("x-${a}", "x-1"), some(&["1"]));
        assert_eq!(captured("${a}-${b}", "1-2-3"), some(&["1", "2-3"]));
        assert_eq!(captured("${a}.d", "1.d.d"), some(&["1.d"]));
        assert_eq!(captured("${a}_${b}.d", "1_2.d"), some(&["1", "2"]));
        assert_eq!(captured("fixed", "fixed"), some(&[]));
        for (segment, name) in [
            ("x-${a}", "y-1"),
            ("x-${a}", "x-"),
            ("${a}-${b}", "12"),
            ("${a}-${b}", "-2"),
            ("${a}.d", "1.e"),
            ("fixed", "fixed2"),
        ] {
            assert_eq!(captured(segment, name), None, "{segment} {name}");
        }
    }

    #[test]
    fn bad_segments_say_what_is_wrong() {
        for (segment, message) in [
            ("${a", "without '}'"),
            ("${b}", "the next partition column is 'a'"),
            ("${a}${b}", "nothing between two columns"),
            ("${a}-${b}-${a}", "after all partition columns"),
        ] {
            let error = Level::template(&spec(), 0, segment)
                .unwrap_err()
                .to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
