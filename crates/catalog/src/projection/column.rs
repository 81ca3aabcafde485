//! [`ColumnProjection`]: the values of one partition column, as a rule.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::arrow::array::{
    Array, ArrayRef, Int64Array, StringArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options, concat, sort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field};
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
                let ends = StringArray::from_iter_values([first, last].map(i64::to_string));
                typed(field, &ends).map(|_| ())
            }
            Self::Date(dates) => dates.check_type(field),
            Self::Injected => Ok(()),
        }
    }

    /// Whether the values are in ascending order as values of this type.
    pub(super) fn is_ordered(&self, data_type: &DataType) -> bool {
        match self {
            Self::Enum(_) | Self::Injected => true,
            Self::Integer { .. } => data_type.is_numeric(),
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
                let step = i128::from(step.get());
                let values = Integers {
                    first: i128::from(*first),
                    step,
                    len: ((i128::from(*last) - i128::from(*first)) / step + 1) as usize,
                    digits: *digits,
                };
                let positions = candidates.and_then(|c| positions(c, |text| values.position(text)));
                (Values::Integers(values), positions)
            }
            Self::Date(dates) => {
                let values = dates.at(now);
                let positions = match candidates {
                    // Their texts would be those of another format.
                    Some(candidates) if !candidates.data_type().is_temporal() => {
                        positions(candidates, |text| values.position(text))
                    }
                    _ => None,
                };
                (Values::Dates(values), positions)
            }
        };
        Ok(Some(Domain { values, selected }))
    }
}

/// Where the candidates are, in order and each once. `None` when one has no text.
fn positions(
    candidates: &ArrayRef,
    position: impl Fn(&str) -> Option<usize>,
) -> Option<Vec<usize>> {
    let mut positions = vec![];
    for row in 0..candidates.len() {
        let value = ScalarValue::try_from_array(candidates, row).ok()?;
        positions.extend(position(&value_to_text(&value).ok()??));
    }
    positions.sort_unstable();
    positions.dedup();
    Some(positions)
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
    step: i128,
    len: usize,
    digits: usize,
}

impl Domain {
    pub(super) fn len(&self) -> usize {
        match (&self.selected, &self.values) {
            (Some(selected), _) => selected.len(),
            (_, Values::Listed { texts, .. }) => texts.len(),
            (_, Values::Integers(integers)) => integers.len,
            (_, Values::Dates(dates)) => dates.len,
        }
    }

    /// The values at some places, as values of the type of `field`.
    pub(super) fn values(&self, field: &Field, places: Range<usize>) -> Result<ArrayRef> {
        let Some(selected) = &self.selected else {
            return self.values.of(field, places);
        };
        if places.is_empty() {
            return Ok(new_empty_array(field.data_type()));
        }
        let values = selected[places]
            .iter()
            .map(|position| self.values.of(field, *position..*position + 1))
            .collect::<Result<Vec<_>>>()?;
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        Ok(concat(&values)?)
    }

    /// How the value at a place is written, before any escaping.
    pub(super) fn text(&self, place: usize) -> String {
        let position = self.selected.as_ref().map_or(place, |s| s[place]);
        match &self.values {
            Values::Listed { texts, .. } => texts[position].clone(),
            Values::Integers(integers) => integers.text(position),
            Values::Dates(dates) => dates.text(position),
        }
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

    fn of(&self, field: &Field, positions: Range<usize>) -> Result<ArrayRef> {
        match self {
            Self::Listed { values, .. } => Ok(values.slice(positions.start, positions.len())),
            Self::Integers(integers) => integers.values(field, positions),
            Self::Dates(dates) => dates.values(field, positions),
        }
    }
}

impl Integers {
    /// Fits, because it is between the first and the last value.
    fn value(&self, position: usize) -> i64 {
        (self.first + self.step * position as i128) as i64
    }

    fn text(&self, position: usize) -> String {
        format!("{:0digits$}", self.value(position), digits = self.digits)
    }

    fn values(&self, field: &Field, positions: Range<usize>) -> Result<ArrayRef> {
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

    fn position(&self, text: &str) -> Option<usize> {
        let distance = text.parse::<i128>().ok()? - self.first;
        let position = usize::try_from(distance / self.step).ok()?;
        (distance % self.step == 0 && position < self.len).then_some(position)
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
