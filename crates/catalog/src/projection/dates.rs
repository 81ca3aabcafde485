//! [`DateProjection`]: dates at regular intervals within a range that may move with the clock.

use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime, Utc};
use datafusion::arrow::array::{Array, ArrayRef, StringArray, TimestampSecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_datafusion_err, plan_err};

use super::column::typed;
use super::date_format::{DateFormat, DateUnit};

/// Dates from a first to a last one, both included, at an interval (Athena: the projection type
/// `date`).
#[derive(Debug, Clone, PartialEq)]
pub struct DateProjection {
    format: DateFormat,
    first: DateBound,
    last: DateBound,
    interval: i64,
    unit: DateUnit,
}

/// One end of the range.
#[derive(Debug, Clone, Copy, PartialEq)]
enum DateBound {
    At(NaiveDateTime),
    /// So many units from now.
    FromNow(i64, DateUnit),
}

impl DateProjection {
    /// Takes the range as Athena writes it, two ends with a comma in between, each a date in
    /// `format` or `NOW`, `NOW-3DAYS`, `NOW+1MONTH`. `NOW` is the time, in UTC, at which a query
    /// starts to read. The interval is one of the format's finest part.
    ///
    /// # Errors
    /// When `range` is none, goes beyond the years 0 to 9999, or can never have a date.
    pub fn try_new(format: DateFormat, range: &str) -> Result<Self> {
        let ends: Vec<&str> = range.split(',').collect();
        let &[first, last] = ends.as_slice() else {
            return plan_err!("the range '{range}' must be two dates with a comma in between");
        };
        let bound = |text: &str| {
            DateBound::parse(text.trim(), &format).ok_or_else(|| {
                plan_datafusion_err!(
                    "'{}' in the range '{range}' is neither a date in the format '{format}' nor \
                     NOW, NOW-<number><unit> or NOW+<number><unit>",
                    text.trim()
                )
            })
        };
        let (first, last) = (bound(first)?, bound(last)?);
        let now = Utc::now();
        let (Some(start), Some(end)) = (first.at(&format, now), last.at(&format, now)) else {
            return plan_err!("the range '{range}' goes beyond the years 0 to 9999");
        };
        // A first date that is fixed may come to be one day.
        let may_come = matches!((first, last), (DateBound::At(_), DateBound::FromNow(..)));
        if start > end && !may_come {
            return plan_err!("the range '{range}' ends before it begins");
        }
        let unit = format.precision();
        Ok(Self {
            format,
            first,
            last,
            interval: 1,
            unit,
        })
    }

    /// Sets the distance from one date to the next.
    ///
    /// # Errors
    /// When it is 0, or finer than the format, which would write two dates alike.
    pub fn with_interval(mut self, interval: u32, unit: DateUnit) -> Result<Self> {
        if interval == 0 {
            return plan_err!("the interval must be at least 1");
        }
        if unit > self.format.precision() {
            return plan_err!(
                "an interval of {unit:?} is finer than the format '{}', which writes no part below \
                 {:?}",
                self.format,
                self.format.precision()
            );
        }
        (self.interval, self.unit) = (i64::from(interval), unit);
        Ok(self)
    }

    /// Fails when a column of `field` cannot hold these dates one by one.
    pub(super) fn check_type(&self, field: &Field) -> Result<()> {
        let is_date = matches!(field.data_type(), DataType::Date32 | DataType::Date64);
        if is_date && self.format.precision() > DateUnit::Days {
            return plan_err!(
                "the format '{}' writes a time of day, which type {} does not hold; declare a \
                 TIMESTAMP or a text",
                self.format,
                field.data_type()
            );
        }
        if matches!(field.data_type(), DataType::Time32(_) | DataType::Time64(_)) {
            return plan_err!(
                "type {} holds no dates; declare a DATE, a TIMESTAMP or a text",
                field.data_type()
            );
        }
        // Any date shows whether a text of this format is one of the type; the last one may be too
        // late for it.
        let dates = self.at(DateTime::UNIX_EPOCH);
        let last = dates.len.saturating_sub(1);
        dates.values(field, 0..1)?;
        dates.values(field, last..last + 1).map(|_| ())
    }

    /// Whether values of this type are in order.
    pub(super) fn is_ordered(&self, data_type: &DataType) -> bool {
        data_type.is_temporal() || self.format.is_sortable()
    }

    /// The dates of a query that starts to read at `now`.
    pub(super) fn at(&self, now: DateTime<Utc>) -> DateDomain {
        let ends = (
            self.first.at(&self.format, now),
            self.last.at(&self.format, now),
        );
        let (first, count) = match ends {
            (Some(first), Some(last)) => (first, self.unit.between(first, last)),
            _ => (NaiveDateTime::default(), -1),
        };
        DateDomain {
            format: self.format.clone(),
            first,
            len: usize::try_from(count.div_euclid(self.interval) + 1).unwrap_or(0),
            interval: self.interval,
            unit: self.unit,
        }
    }
}

impl DateBound {
    fn parse(text: &str, format: &DateFormat) -> Option<Self> {
        let now = text.get(..3).filter(|now| now.eq_ignore_ascii_case("now"));
        if now.is_none() {
            let time = format.parse(text)?;
            let is_spelled_so = format.text(time).eq_ignore_ascii_case(text);
            return is_spelled_so.then_some(Self::At(time));
        }
        let offset = text[3..].trim_start();
        let Some(sign) = offset.chars().next() else {
            return Some(Self::FromNow(0, format.precision()));
        };
        let sign = match sign {
            '+' => 1,
            '-' => -1,
            _ => return None,
        };
        let offset = offset[1..].trim_start();
        let end = offset.find(|c: char| !c.is_ascii_digit())?;
        let count: u32 = offset[..end].parse().ok()?;
        Some(Self::FromNow(
            sign * i64::from(count),
            DateUnit::parse(offset[end..].trim_start())?,
        ))
    }

    /// Cut off to what the format writes. `None` outside of the calendar.
    fn at(self, format: &DateFormat, now: DateTime<Utc>) -> Option<NaiveDateTime> {
        match self {
            Self::At(time) => Some(time),
            Self::FromNow(count, unit) => {
                let time = unit.add(now.naive_utc(), count)?;
                Some(format.truncate(time.and_utc()))
            }
        }
    }
}

/// The dates of a [`DateProjection`] in one query, by their position.
#[derive(Debug, Clone)]
pub(super) struct DateDomain {
    format: DateFormat,
    first: NaiveDateTime,
    pub(super) len: usize,
    interval: i64,
    unit: DateUnit,
}

impl DateDomain {
    fn time(&self, position: usize) -> NaiveDateTime {
        let steps = self.interval.saturating_mul(position as i64);
        // All positions are between the first and the last date.
        self.unit.add(self.first, steps).unwrap_or(self.first)
    }

    pub(super) fn text(&self, position: usize) -> String {
        self.format.text(self.time(position))
    }

    pub(super) fn values(
        &self,
        field: &Field,
        mut positions: impl Iterator<Item = usize> + Clone,
    ) -> Result<ArrayRef> {
        if field.data_type().is_temporal() {
            let seconds = positions
                .clone()
                .map(|p| self.time(p).and_utc().timestamp());
            let seconds: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(seconds));
            let values = cast(&seconds, field.data_type())?;
            let too_far = (0..values.len()).find(|row| values.is_null(*row));
            return match too_far.and_then(|row| positions.nth(row)) {
                None => Ok(values),
                Some(position) => plan_err!(
                    "'{}' is not a value of type {}",
                    self.text(position),
                    field.data_type()
                ),
            };
        }
        let texts: StringArray = positions.map(|p| Some(self.text(p))).collect();
        typed(field, &texts)
    }

    /// The position of the date with this text, if it is one; of another date it may be any.
    pub(super) fn position(&self, text: &str) -> Option<usize> {
        let time = self.format.parse(text)?;
        let steps = self.unit.between(self.first, time);
        let position = usize::try_from(steps / self.interval).ok()?;
        (steps >= 0 && position < self.len).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(format: &str, range: &str, interval: Option<(u32, DateUnit)>) -> Vec<String> {
        let mut dates =
            DateProjection::try_new(DateFormat::try_new(format).unwrap(), range).unwrap();
        if let Some((count, unit)) = interval {
            dates = dates.with_interval(count, unit).unwrap();
        }
        let now: NaiveDateTime = "2024-03-10T10:30:00".parse().unwrap();
        let domain = dates.at(now.and_utc());
        let texts: Vec<String> = (0..domain.len).map(|p| domain.text(p)).collect();
        for (position, text) in texts.iter().enumerate() {
            assert_eq!(domain.position(text), Some(position));
        }
        texts
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(
            texts("yyyy-MM-dd", "2024-02-28,2024-03-01", None),
            ["2024-02-28", "2024-02-29", "2024-03-01"]
        );
        assert_eq!(
            texts(
                "yyyy-MM-dd",
                "2024-01-31,2024-03-31",
                Some((1, DateUnit::Months))
            ),
            ["2024-01-31", "2024-02-29", "2024-03-31"]
        );
        assert_eq!(
            texts(
                "yyyy/MM/dd/HH",
                "2024/01/01/00,2024/01/01/12",
                Some((6, DateUnit::Hours))
            ),
            ["2024/01/01/00", "2024/01/01/06", "2024/01/01/12"]
        );
        assert_eq!(
            texts("yyyyMMdd", "20240101,20240120", Some((1, DateUnit::Weeks))),
            ["20240101", "20240108", "20240115"]
        );
    }

    #[test]
    fn now_is_cut_off_to_the_format() {
        assert_eq!(
            texts("yyyy-MM-dd", "NOW-2DAYS,NOW", None),
            ["2024-03-08", "2024-03-09", "2024-03-10"]
        );
        // The middle of a month does not lose the last one.
        assert_eq!(
            texts("yyyy-MM", " now - 1 month , NOW+20DAYS", None),
            ["2024-02", "2024-03"]
        );
        assert_eq!(texts("yyyy", "2022,NOW-1YEAR", None), ["2022", "2023"]);
        assert!(texts("yyyy", "2025,NOW", None).is_empty());
    }

    #[test]
    fn bad_ranges_and_intervals_are_refused() {
        let format = || DateFormat::try_new("yyyy-MM-dd").unwrap();
        for (range, message) in [
            ("2024-01-01", "must be two dates"),
            ("2024-01-01,yesterday", "'yesterday' in the range"),
            ("NOW-3,NOW", "'NOW-3' in the range"),
            ("NOW*3DAYS,NOW", "'NOW*3DAYS' in the range"),
            ("2024-02-01,2024-01-01", "ends before it begins"),
            ("NOW,NOW-1DAY", "ends before it begins"),
            ("NOW,2024-01-01", "ends before it begins"),
            ("24-01-01,NOW", "'24-01-01' in the range"),
            ("-0001-01-01,NOW", "'-0001-01-01' in the range"),
            ("NOW-9000YEARS,NOW", "beyond the years 0 to 9999"),
            ("NOW,NOW+4000000000DAYS", "beyond the years 0 to 9999"),
        ] {
            let error = DateProjection::try_new(format(), range)
                .unwrap_err()
                .to_string();
            assert!(error.contains(message), "{error}");
        }
        let dates = DateProjection::try_new(format(), "2024-01-01,NOW").unwrap();
        assert!(dates.clone().with_interval(0, DateUnit::Days).is_err());
        assert!(dates.clone().with_interval(1, DateUnit::Hours).is_err());
        let hours = DateProjection::try_new(DateFormat::try_new("yyyyMMddHH").unwrap(), "NOW,NOW");
        let field = Field::new("d", DataType::Date32, true);
        assert!(hours.unwrap().check_type(&field).is_err());
        let number = Field::new("d", DataType::Int32, true);
        assert!(dates.check_type(&number).is_err());
    }

    #[test]
    fn values_are_those_of_the_columns_type() {
        let format = DateFormat::try_new("yyyyMMdd").unwrap();
        let dates = DateProjection::try_new(format, "20240228,20240301").unwrap();
        let domain = dates.at(DateTime::UNIX_EPOCH);
        for data_type in [DataType::Date32, DataType::Int32, DataType::Utf8View] {
            let field = Field::new("d", data_type.clone(), true);
            dates.check_type(&field).unwrap();
            let values = domain.values(&field, 1..3).unwrap();
            assert_eq!((values.len(), values.null_count()), (2, 0));
            assert_eq!(values.data_type(), &data_type);
        }
    }
}
