//! [`ColumnProjection`]: the values of one partition column, as a rule.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::arrow::array::{Array, ArrayRef, Int64Array, StringArray, UInt32Array};
use datafusion::arrow::compute::{
    CastOptions, cast, cast_with_options, partition, sort, sort_to_indices, take,
};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::cast::as_int64_array;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion_partitioned_core::{parse_values, value_to_text};

use super::dates::{DateDomain, DateProjection};

/// The values of a partition column that no listing has to find (Athena: partition projection).
///
/// | | values | written as |
/// |---|---|---|
/// | `Enum` | the given ones | given |
/// | `Integer` | from `first` to `last`, both included, every `step` | decimal, filled up with zeros to `digits` |
/// | `Date` | see [`DateProjection`] | in its format |
/// | `Injected` | those that the query names: `=`, `IN`, or the keys of a join | see [`value_to_text`] |
///
/// NULL is not among them.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnProjection {
    /// Values as they are written in paths.
    Enum(Vec<String>),
    /// Integers at regular intervals.
    Integer {
        /// The first value.
        first: i64,
        /// The largest value there can be.
        last: i64,
        /// The distance from one value to the next.
        step: NonZeroU32,
        /// The least number of digits, 0 for as many as it takes.
        digits: usize,
    },
    /// Dates at regular intervals.
    Date(DateProjection),
    /// The values that the query asks for.
    Injected,
}

impl ColumnProjection {
    /// Fails when a value is not one of the type of `field`, or cannot be told from another.
    pub(super) fn check(&self, field: &Field) -> Result<()> {
        match self {
            Self::Enum(texts) => {
                if texts.is_empty() || texts.iter().any(String::is_empty) {
                    return plan_err!("the list of values has an empty value");
                }
                let mut sorted = texts.clone();
                sorted.sort_unstable();
                if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    return plan_err!("the value '{}' is listed twice", twice[0]);
                }
                typed(field, &StringArray::from_iter_values(texts)).map(|_| ())
            }
            Self::Integer { first, last, .. } => {
                if last < first {
                    return plan_err!("the range '{first},{last}' ends before it begins");
                }
                let data_type = value_type(field);
                if !data_type.is_numeric() && !data_type.is_string() {
                    return plan_err!(
                        "integers are no values of type {data_type}; declare a number or a text"
                    );
                }
                let ends = StringArray::from_iter_values([first, last].map(i64::to_string));
                typed(field, &ends).map(|_| ())
            }
            Self::Date(dates) => dates.check_type(field),
            Self::Injected => Ok(()),
        }
    }

    /// Whether the values of `field` are in ascending order, each once.
    pub(super) fn is_ordered(&self, field: &Field) -> bool {
        let data_type = field.data_type();
        match self {
            Self::Enum(texts) => typed(field, &StringArray::from_iter_values(texts))
                .and_then(|values| Ok(partition(&[sort(&values, None)?])?.len() == texts.len()))
                .unwrap_or(false),
            Self::Injected => true,
            Self::Integer { .. } => data_type.is_integer() || data_type.is_decimal(),
            Self::Date(dates) => dates.is_ordered(data_type),
        }
    }

    /// The values in one query, which names `candidates` and starts to read at `now`. `None` when
    /// the query does not say which.
    pub(super) fn domain(
        &self,
        field: &Field,
        candidates: Option<&ArrayRef>,
        now: DateTime<Utc>,
    ) -> Result<Option<Domain>> {
        let (values, selected) = match self {
            Self::Enum(texts) => {
                let texts = StringArray::from_iter_values(texts);
                (Values::listed(&typed(field, &texts)?, &texts)?, None)
            }
            Self::Injected => {
                let Some(candidates) = candidates else {
                    return Ok(None);
                };
                let texts = (0..candidates.len())
                    .map(|row| value_to_text(&ScalarValue::try_from_array(candidates, row)?))
                    .collect::<Result<StringArray>>()?;
                (Values::listed(candidates, &texts)?, None)
            }
            Self::Integer {
                first,
                last,
                step,
                digits,
            } => {
                let values = Integers {
                    first: i128::from(*first),
                    last: i128::from(*last),
                    step: i128::from(step.get()),
                    digits: *digits,
                };
                let positions = candidates.and_then(|c| values.positions(c, value_type(field)));
                (Values::Integers(values), positions)
            }
            Self::Date(dates) => {
                let values = dates.at(now);
                // Values of other types have other texts than the format writes.
                let positions = candidates
                    .filter(|_| value_type(field).is_string())
                    .and_then(|c| Some(in_order(texts(c)?.iter().map(|t| values.position(t)))));
                (Values::Dates(values), positions)
            }
        };
        Ok(Some(Domain { values, selected }))
    }
}

/// How the candidates are written. `None` when one has no text.
fn texts(candidates: &ArrayRef) -> Option<Vec<String>> {
    (0..candidates.len())
        .map(|row| value_to_text(&ScalarValue::try_from_array(candidates, row).ok()?).ok()?)
        .collect()
}

/// The positions that there are, in order and each once.
fn in_order(positions: impl Iterator<Item = Option<usize>>) -> Vec<usize> {
    let mut positions: Vec<usize> = positions.flatten().collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// The values of a column in one query, by their place in an order.
#[derive(Debug)]
pub(super) struct Domain {
    values: Values,
    /// The positions of the values that the query names, if it does.
    selected: Option<Vec<usize>>,
}

#[derive(Debug)]
enum Values {
    /// In the order of the values.
    Listed {
        values: ArrayRef,
        texts: Vec<String>,
    },
    Integers(Integers),
    Dates(DateDomain),
}

#[derive(Debug)]
struct Integers {
    first: i128,
    last: i128,
    step: i128,
    digits: usize,
}

impl Domain {
    pub(super) fn len(&self) -> usize {
        match (&self.selected, &self.values) {
            (Some(selected), _) => selected.len(),
            (_, Values::Listed { texts, .. }) => texts.len(),
            (_, Values::Integers(integers)) => integers.len(),
            (_, Values::Dates(dates)) => dates.len,
        }
    }

    /// The values at some places, as values of the type of `field`.
    pub(super) fn values(&self, field: &Field, places: Range<usize>) -> Result<ArrayRef> {
        let positions = places.clone().map(|place| self.position(place));
        match &self.values {
            Values::Listed { values, .. } => Ok(values.slice(places.start, places.len())),
            Values::Integers(integers) => integers.values(field, positions),
            Values::Dates(dates) => dates.values(field, positions),
        }
    }

    /// How the value at a place is written, before any escaping.
    pub(super) fn text(&self, place: usize) -> String {
        let position = self.position(place);
        match &self.values {
            Values::Listed { texts, .. } => texts[position].clone(),
            Values::Integers(integers) => integers.text(position),
            Values::Dates(dates) => dates.text(position),
        }
    }

    fn position(&self, place: usize) -> usize {
        self.selected.as_ref().map_or(place, |s| s[place])
    }
}

impl Values {
    /// Sorts, and leaves out what has no text or that of another one.
    fn listed(values: &ArrayRef, texts: &StringArray) -> Result<Self> {
        let mut known = HashSet::new();
        let order = sort_to_indices(values, None, None)?;
        let order: UInt32Array = order
            .values()
            .iter()
            .copied()
            .filter(|row| {
                let text = texts.value(*row as usize);
                // No directory is named by nothing.
                !text.is_empty() && known.insert(text)
            })
            .collect();
        let texts = order.values().iter().map(|row| texts.value(*row as usize));
        Ok(Self::Listed {
            texts: texts.map(str::to_owned).collect(),
            values: take(values, &order, None)?,
        })
    }
}

impl Integers {
    /// One less than there are if that is more than can be counted; nobody gets that far.
    fn len(&self) -> usize {
        usize::try_from((self.last - self.first) / self.step + 1).unwrap_or(usize::MAX)
    }

    /// Fits, because it is between the first and the last value.
    fn value(&self, position: usize) -> i64 {
        (self.first + self.step * position as i128) as i64
    }

    fn text(&self, position: usize) -> String {
        format!("{:0digits$}", self.value(position), digits = self.digits)
    }

    fn values(&self, field: &Field, positions: impl Iterator<Item = usize>) -> Result<ArrayRef> {
        if field.data_type().is_integer() {
            let values = positions.map(|position| self.value(position));
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            return Ok(cast_with_options(&values, field.data_type(), &options)?);
        }
        let texts: StringArray = positions
            .map(|position| Some(self.text(position)))
            .collect();
        typed(field, &texts)
    }

    /// Where the candidates may be, in a column of this type. `None` when that is not known: one
    /// float can be several integers.
    fn positions(&self, candidates: &ArrayRef, data_type: &DataType) -> Option<Vec<usize>> {
        if data_type.is_string() {
            let texts = texts(candidates)?;
            let values = texts.iter().map(|text| text.parse().ok());
            return Some(in_order(values.map(|value| self.position(value?))));
        }
        if !data_type.is_integer() && !data_type.is_decimal() {
            return None;
        }
        // NULL where a value is beyond all integers.
        let values = cast(candidates, &DataType::Int64).ok()?;
        let values = as_int64_array(&values).ok()?;
        Some(in_order(values.iter().map(|value| self.position(value?))))
    }

    fn position(&self, value: i64) -> Option<usize> {
        let value = i128::from(value);
        let distance = value - self.first;
        if value > self.last || distance % self.step != 0 {
            return None;
        }
        usize::try_from(distance / self.step).ok()
    }
}

/// The type of the values that a dictionary has, or else the type itself.
fn value_type(field: &Field) -> &DataType {
    match field.data_type() {
        DataType::Dictionary(_, values) => values,
        data_type => data_type,
    }
}

/// Texts as values of the type of `field`.
pub(super) fn typed(field: &Field, texts: &StringArray) -> Result<ArrayRef> {
    let parsed = parse_values(field, texts)?;
    match parsed.mismatches.first() {
        None => Ok(parsed.values),
        Some(row) => plan_err!(
            "'{}' is not a value of type {}",
            texts.value(*row),
            field.data_type()
        ),
    }
}
