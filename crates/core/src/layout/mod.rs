//! [`PartitionLayout`]: how the values of a partition become a path, and back.
//!
//! | layout | path of (2024, 7) |
//! |---|---|
//! | `hive` | `year=2024/month=7/` |
//! | `directory` | `2024/7/` |
//! | a template, `data/${year}/m-${month}` | `data/2024/m-7/` |
//!
//! In all of them a value is escaped as in Hive (`escape`), NULL is spelled by the default
//! partition name, and a path is read level by level.

mod escape;
mod pattern;

use std::borrow::Cow;
use std::ops::Range;

use datafusion::arrow::array::{ArrayRef, StringArray, StringBuilder};
use datafusion::common::{Result, plan_err};

use crate::error::PartitionError;
use crate::spec::{PartitionSpec, PartitionValues};
use crate::text::{parse_values, value_to_text};
pub use escape::{escape_path_name, unescape_path_name};
use pattern::Level;

/// How Apache Hive and Spark spell NULL in a directory name.
pub const DEFAULT_PARTITION_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// Reads and writes the directory names of a table.
///
/// ```
/// # use datafusion::arrow::datatypes::{DataType, Field};
/// # use datafusion::scalar::ScalarValue;
/// # use datafusion_partitioned_core::{PartitionLayout, PartitionSpec, PartitionValues};
/// let spec = PartitionSpec::try_new(vec![
///     Field::new("year", DataType::Int32, true),
///     Field::new("topic", DataType::Utf8, true),
/// ])?;
/// let values = PartitionValues::try_new(
///     &spec,
///     vec![ScalarValue::from(2024_i32), ScalarValue::from("rock/roll")],
/// )?;
/// let hive = PartitionLayout::hive(&spec);
/// assert_eq!(hive.path(&values)?, "year=2024/topic=rock%2Froll");
/// let template = PartitionLayout::template(&spec, "y${year}/${topic}")?;
/// assert_eq!(template.path(&values)?, "y2024/rock%2Froll");
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLayout {
    spec: PartitionSpec,
    levels: Vec<Level>,
    default_name: String,
}

/// The values that the names of one directory level spell.
#[derive(Debug)]
pub struct ParsedLevel {
    /// The decoded text of each name, one array for each column of the level. NULL for NULL and for
    /// names that do not fit.
    pub texts: Vec<StringArray>,
    /// The same as values of the columns' types. NULL where the text is no such value.
    pub values: Vec<ArrayRef>,
    /// The names that do not fit, in order, each once.
    pub mismatches: Vec<Mismatch>,
}

/// A directory that does not fit the layout, or whose value is not of its column's type.
#[derive(Debug)]
pub struct Mismatch {
    /// Which of the names.
    pub row: usize,
    /// Names offender and place: [`PartitionError::Segment`] or [`PartitionError::Value`].
    pub error: PartitionError,
}

impl PartitionLayout {
    /// `column=value/`, as Hive, Spark and Flink write.
    pub fn hive(spec: &PartitionSpec) -> Self {
        let levels = (0..spec.len()).map(|column| Level::named(spec, column));
        Self::new(spec, levels.collect())
    }

    /// `value/`, one directory level for each column.
    pub fn directory(spec: &PartitionSpec) -> Self {
        let levels = (0..spec.len()).map(|column| Level::value(spec, column));
        Self::new(spec, levels.collect())
    }

    /// Levels such as `data/${year}/x-${month}-${day}`: each partition column once, in the order of
    /// the spec, within fixed texts.
    ///
    /// # Errors
    /// When the template does not name the columns so, has a level without a name, or two columns
    /// with nothing in between.
    pub fn template(spec: &PartitionSpec, template: &str) -> Result<Self> {
        let mut levels: Vec<Level> = vec![];
        for segment in template.trim_matches('/').split('/') {
            if segment.is_empty() {
                return plan_err!("the partition layout '{template}' has an empty level");
            }
            let first = levels.last().map_or(0, |level| level.columns.end);
            let level = Level::template(spec, first, segment)
                .map_err(|error| error.context(format!("the partition layout '{template}'")))?;
            levels.push(level);
        }
        let known = levels.last().map_or(0, |level| level.columns.end);
        match spec.column_names().nth(known) {
            None => Ok(Self::new(spec, levels)),
            Some(missing) => plan_err!(
                "the partition layout '{template}' does not name the partition column '{missing}'; \
                 add ${{{missing}}}"
            ),
        }
    }

    fn new(spec: &PartitionSpec, levels: Vec<Level>) -> Self {
        Self {
            spec: spec.clone(),
            levels,
            default_name: DEFAULT_PARTITION_NAME.to_owned(),
        }
    }

    /// Spells NULL as `default_name` instead of [`DEFAULT_PARTITION_NAME`].
    pub fn with_default_name(mut self, default_name: impl Into<String>) -> Self {
        self.default_name = default_name.into();
        self
    }

    /// The number of directory levels below the root.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The columns that the names of directory level `level` spell; 0 is the level below the root.
    pub fn columns(&self, level: usize) -> Range<usize> {
        self.levels[level].columns.clone()
    }

    /// Whether `name` is a partition directory of `level` beyond doubt, so that it is none of those
    /// that are skipped because they begin with `_` or `.`: it has the column's name or the fixed
    /// text that begins the names of this level, or spells NULL. False for levels that do not exist.
    pub fn claims(&self, level: usize, name: &str) -> bool {
        let Some(level) = self.levels.get(level) else {
            return false;
        };
        let mut begins_with_null = false;
        let fits = level.capture(name, |position, text| {
            begins_with_null |= position == 0 && text == self.default_name;
        });
        fits && (level.begins_with_text() || begins_with_null)
    }

    /// The name of all directories of `level`, when it spells no column.
    pub fn fixed_name(&self, level: usize) -> Option<String> {
        let level = &self.levels[level];
        level
            .columns
            .is_empty()
            .then(|| level.spell([].into_iter()))
    }

    /// What a path looks like below the root, for people: `year=<value>/month=<value>/`.
    pub fn example(&self) -> String {
        let levels = self.levels.iter().map(|level| level.example() + "/");
        levels.collect()
    }

    /// Reads the directory names of `level`. `path_of` names the whole path of a name, for errors.
    ///
    /// # Errors
    /// When a column has a type that no text can be cast to.
    pub fn parse(
        &self,
        level: usize,
        names: &[&str],
        path_of: impl Fn(usize) -> String,
    ) -> Result<ParsedLevel> {
        let level = &self.levels[level];
        let mut mismatches = vec![];
        let mut texts: Vec<StringBuilder> = level
            .columns
            .clone()
            .map(|_| StringBuilder::with_capacity(names.len(), names.len() * 8))
            .collect();
        let mut found: Vec<Option<Cow<'_, str>>> = vec![None; texts.len()];
        for (row, name) in names.iter().enumerate() {
            let fits = level.capture(name, |position, text| {
                let is_null = text == self.default_name;
                found[position] = (!is_null).then(|| unescape_path_name(text));
            });
            if !fits {
                found.fill(None);
                let error = PartitionError::Segment {
                    expected: level.example(),
                    segment: (*name).to_owned(),
                    path: path_of(row),
                    advice: level.advice(name),
                };
                mismatches.push(Mismatch { row, error });
            }
            for (builder, text) in texts.iter_mut().zip(&mut found) {
                builder.append_option(text.take());
            }
        }
        let texts: Vec<StringArray> = texts.iter_mut().map(StringBuilder::finish).collect();
        let fields = &self.spec.fields()[level.columns.clone()];
        let mut values = vec![];
        for (field, texts) in fields.iter().zip(&texts) {
            let parsed = parse_values(field, texts)?;
            mismatches.extend(parsed.mismatches.into_iter().map(|row| Mismatch {
                row,
                error: PartitionError::Value {
                    column: field.name().clone(),
                    text: texts.value(row).to_owned(),
                    data_type: field.data_type().clone(),
                    path: path_of(row),
                    advice: level.advice_on_value(texts.value(row)),
                },
            }));
            values.push(parsed.values);
        }
        mismatches.sort_by_key(|mismatch| mismatch.row);
        mismatches.dedup_by_key(|mismatch| mismatch.row);
        Ok(ParsedLevel {
            texts,
            values,
            mismatches,
        })
    }

    /// How many levels there are whose name is fixed, before the first that is listed.
    pub fn fixed_levels(&self) -> usize {
        let levels = 0..self.levels();
        levels
            .take_while(|level| self.fixed_name(*level).is_some())
            .count()
    }

    /// The path of a partition below the root, as a writer or a projection spells it.
    ///
    /// A reader never uses this: one value can have several spellings, so paths to read come from
    /// a listing.
    ///
    /// # Errors
    /// When a value has no text form, or its text would not be found again in the name, as `1-2` in
    /// `${a}-${b}`.
    pub fn path(&self, values: &PartitionValues) -> Result<String> {
        let texts = values
            .values()
            .iter()
            .map(value_to_text)
            .collect::<Result<Vec<_>>>()?;
        self.spell(&texts)
    }

    /// The path of a partition whose values have these texts; `None` is NULL.
    ///
    /// # Errors
    /// When a text would not be found again in its name.
    pub fn spell(&self, texts: &[Option<String>]) -> Result<String> {
        let names = self
            .levels
            .iter()
            .map(|level| {
                let texts = &texts[level.columns.clone()];
                let mut spelled: Vec<_> = texts.iter().map(|text| self.spell_value(text)).collect();
                if let Some(first) = spelled.first_mut()
                    && *first != self.default_name
                    && !level.begins_with_text()
                {
                    escape_hidden(first);
                }
                let name = level.spell(spelled.iter().cloned());
                let mut is_found = true;
                let fits = level.capture(&name, |position, text| {
                    is_found &= spelled.get(position).is_some_and(|spelled| spelled == text);
                });
                if fits && is_found {
                    return Ok(name);
                }
                plan_err!(
                    "the values {texts:?} cannot be told apart in the directory name '{name}' ({})",
                    level.example()
                )
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(names.join("/"))
    }

    /// NULL and the empty string are both spelled by the default name, since Hive has no other
    /// spelling for them. A text that looks like the default name is escaped.
    fn spell_value<'a>(&'a self, text: &'a Option<String>) -> Cow<'a, str> {
        match text.as_deref() {
            None | Some("") => Cow::from(&self.default_name),
            Some(text) if text == self.default_name => text
                .bytes()
                .map(|byte| format!("%{byte:02X}"))
                .collect::<String>()
                .into(),
            Some(text) => escape_path_name(text),
        }
    }
}

/// Escapes the first character of a name that would be skipped, or mean another directory.
fn escape_hidden(name: &mut Cow<'_, str>) {
    let Some(rest) = name.strip_prefix(['_', '.']) else {
        return;
    };
    let first = name.as_bytes()[0];
    *name = Cow::from(format!("%{first:02X}{rest}"));
}

#[cfg(test)]
mod tests;
