//! [`DateFormat`]: how the dates of a projection are written, in the letters of Java's
//! `DateTimeFormatter` that Athena uses.

use std::fmt::Write;

use chrono::format::{Fixed, Item, Numeric, Pad, Parsed, parse};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Utc};
use datafusion::common::{Result, plan_datafusion_err, plan_err};

/// A part of a date, from coarse to fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DateUnit {
    /// A year.
    Years,
    /// A month.
    Months,
    /// Seven days.
    Weeks,
    /// A day.
    Days,
    /// An hour.
    Hours,
    /// A minute.
    Minutes,
    /// A second.
    Seconds,
}

impl DateUnit {
    /// Reads `DAYS`, `DAY` and so on, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        Some(match text.strip_suffix('s').unwrap_or(&text) {
            "year" => Self::Years,
            "month" => Self::Months,
            "week" => Self::Weeks,
            "day" => Self::Days,
            "hour" => Self::Hours,
            "minute" => Self::Minutes,
            "second" => Self::Seconds,
            _ => return None,
        })
    }

    /// How many seconds one has, if all have the same.
    fn seconds(self) -> Option<i64> {
        Some(match self {
            Self::Years | Self::Months => return None,
            Self::Weeks => 7 * 86_400,
            Self::Days => 86_400,
            Self::Hours => 3_600,
            Self::Minutes => 60,
            Self::Seconds => 1,
        })
    }

    /// `count` units after `time`, or before it. `None` beyond the years of four digits.
    pub(super) fn add(self, time: NaiveDateTime, count: i64) -> Option<NaiveDateTime> {
        self.add_any(time, count).filter(has_year_of_four_digits)
    }

    fn add_any(self, time: NaiveDateTime, count: i64) -> Option<NaiveDateTime> {
        if let Some(seconds) = self.seconds() {
            let seconds = chrono::TimeDelta::try_seconds(seconds.checked_mul(count)?)?;
            return time.checked_add_signed(seconds);
        }
        let months = count.checked_mul(if self == Self::Years { 12 } else { 1 })?;
        let size = chrono::Months::new(u32::try_from(months.unsigned_abs()).ok()?);
        match months < 0 {
            true => time.checked_sub_months(size),
            false => time.checked_add_months(size),
        }
    }

    /// How many whole units lie between two times, negative when `end` is first.
    pub(super) fn between(self, start: NaiveDateTime, end: NaiveDateTime) -> i64 {
        if let Some(seconds) = self.seconds() {
            return (end - start).num_seconds().div_euclid(seconds);
        }
        let months = |time: NaiveDateTime| i64::from(time.year()) * 12 + i64::from(time.month0());
        let size = if self == Self::Years { 12 } else { 1 };
        let count = (months(end) - months(start)).div_euclid(size);
        // The last one may not be over yet.
        match self.add(start, count) {
            Some(last) if last > end => count - 1,
            _ => count,
        }
    }
}

/// Others are written with a sign, and do not sort.
fn has_year_of_four_digits(time: &NaiveDateTime) -> bool {
    (0..=9999).contains(&time.year())
}

/// A format such as `yyyy-MM-dd` or `'dt='yyyy/MM/dd/HH`.
#[derive(Debug, Clone, PartialEq)]
pub struct DateFormat {
    pattern: String,
    items: Vec<Item<'static>>,
    /// The finest part that it writes.
    precision: DateUnit,
    is_sortable: bool,
}

impl DateFormat {
    /// Reads a format: `yyyy` or `uuuu`, `M`, `MM`, `MMM`, `d`, `dd`, `DDD`, `H`, `HH`, `m`, `mm`,
    /// `s`, `ss`, and text, which is quoted when it has letters. All parts from the year down to
    /// the finest one must be there, or two dates would have one text.
    ///
    /// # Errors
    /// With other letters, when a part is missing, and when a digit follows a part of one or two
    /// digits: in `yyyyMd`, `2024111` is two dates.
    pub fn try_new(pattern: &str) -> Result<Self> {
        let context = || format!("the date format '{pattern}'");
        let (items, parts) = items(pattern).map_err(|error| error.context(context()))?;
        if items.iter().zip(items.iter().skip(1)).any(runs_into) {
            return plan_err!(
                "{} has a digit right behind M, d, H, m or s, which have one or two; write MM, dd, \
                 HH, mm or ss, or put something in between",
                context()
            );
        }
        let mut units: Vec<DateUnit> = parts.iter().map(|(unit, _)| *unit).collect();
        // A text that sorts as its date does has its parts from coarse to fine, each of one width.
        let is_sortable = units.is_sorted() && parts.iter().all(|(_, is_fixed)| *is_fixed);
        units.sort_unstable();
        units.dedup();
        let all = [
            DateUnit::Years,
            DateUnit::Months,
            DateUnit::Days,
            DateUnit::Hours,
            DateUnit::Minutes,
            DateUnit::Seconds,
        ];
        let Some(precision) = units.last().filter(|_| all.starts_with(&units)) else {
            return plan_err!(
                "{} must have a year (yyyy) and every part down to its finest one",
                context()
            );
        };
        Ok(Self {
            pattern: pattern.to_owned(),
            precision: *precision,
            items,
            is_sortable,
        })
    }

    /// The finest part that it writes.
    pub fn precision(&self) -> DateUnit {
        self.precision
    }

    /// Whether texts sort as their dates do.
    pub(super) fn is_sortable(&self) -> bool {
        self.is_sortable
    }

    /// The text of a time.
    pub(super) fn text(&self, time: NaiveDateTime) -> String {
        let mut text = String::with_capacity(self.pattern.len());
        // Writing into a text fails for items that a time cannot have, of which there are none.
        let _ = write!(text, "{}", time.format_with_items(self.items.iter()));
        text
    }

    /// The time that a text means, from its first second. Not more exact than the format.
    pub(super) fn parse(&self, text: &str) -> Option<NaiveDateTime> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter()).ok()?;
        let date = match parsed.ordinal() {
            Some(_) => parsed.to_naive_date().ok()?,
            None => NaiveDate::from_ymd_opt(
                parsed.year()?,
                parsed.month().unwrap_or(1),
                parsed.day().unwrap_or(1),
            )?,
        };
        let hour = parsed.hour_div_12().unwrap_or(0) * 12 + parsed.hour_mod_12().unwrap_or(0);
        let time = NaiveTime::from_hms_opt(
            hour,
            parsed.minute().unwrap_or(0),
            parsed.second().unwrap_or(0),
        )?;
        Some(date.and_time(time)).filter(has_year_of_four_digits)
    }

    /// The first second of the part of a time that the format writes.
    pub(super) fn truncate(&self, time: DateTime<Utc>) -> NaiveDateTime {
        let time = time.naive_utc();
        let time = time.with_nanosecond(0).unwrap_or(time);
        self.parse(&self.text(time)).unwrap_or(time)
    }
}

impl std::fmt::Display for DateFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.pattern)
    }
}

/// Whether nobody knows where the first of two neighbours ends.
fn runs_into((item, next): (&Item<'_>, &Item<'_>)) -> bool {
    let begins_with_digit = match next {
        Item::Numeric(..) => true,
        Item::OwnedLiteral(text) => text.starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    };
    matches!(item, Item::Numeric(_, Pad::None)) && begins_with_digit
}

type Items = (Vec<Item<'static>>, Vec<(DateUnit, bool)>);

/// What a pattern is made of, and which parts of a date it writes, each with whether it has a
/// fixed width.
fn items(pattern: &str) -> Result<Items> {
    let (mut items, mut parts) = (vec![], vec![]);
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted
                .find('\'')
                .ok_or_else(|| plan_datafusion_err!("a ' is open"))?;
            let text = if end == 0 { "'" } else { &quoted[..end] };
            items.push(Item::OwnedLiteral(text.into()));
            rest = &quoted[end + 1..];
            continue;
        }
        let end = rest.find(|c| c != first).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        if !first.is_ascii_alphabetic() {
            items.push(Item::OwnedLiteral(run.into()));
            continue;
        }
        let number = |numeric, width, unit| {
            let pad = if run.len() == width {
                Pad::Zero
            } else {
                Pad::None
            };
            let is_known = run.len() == width || run.len() == 1;
            is_known.then_some((Item::Numeric(numeric, pad), unit, run.len() == width))
        };
        let item = match first {
            'y' | 'u' if run.len() == 4 => number(Numeric::Year, 4, DateUnit::Years),
            'M' if run.len() == 3 => {
                Some((Item::Fixed(Fixed::ShortMonthName), DateUnit::Months, false))
            }
            'M' => number(Numeric::Month, 2, DateUnit::Months),
            'd' => number(Numeric::Day, 2, DateUnit::Days),
            'D' if run.len() == 3 => {
                parts.push((DateUnit::Months, true));
                number(Numeric::Ordinal, 3, DateUnit::Days)
            }
            'H' => number(Numeric::Hour, 2, DateUnit::Hours),
            'm' => number(Numeric::Minute, 2, DateUnit::Minutes),
            's' => number(Numeric::Second, 2, DateUnit::Seconds),
            _ => None,
        };
        let Some((item, unit, is_fixed)) = item else {
            return plan_err!(
                "'{run}' is none of yyyy, uuuu, M, MM, MMM, d, dd, DDD, H, HH, m, mm, s, ss; quote \
                 letters that stand for themselves"
            );
        };
        items.push(item);
        parts.push((unit, is_fixed));
    }
    Ok((items, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    #[test]
    fn texts_and_times() {
        let noon = time("2024-02-09T12:05:07");
        for (pattern, text, back) in [
            ("yyyy-MM-dd", "2024-02-09", "2024-02-09T00:00:00"),
            ("yyyyMMddHH", "2024020912", "2024-02-09T12:00:00"),
            ("yyyy/M/d", "2024/2/9", "2024-02-09T00:00:00"),
            ("uuuu-DDD", "2024-040", "2024-02-09T00:00:00"),
            ("yyyy-MM", "2024-02", "2024-02-01T00:00:00"),
            ("yyyy", "2024", "2024-01-01T00:00:00"),
            (
                "dd'th of 'MMM yyyy",
                "09th of Feb 2024",
                "2024-02-09T00:00:00",
            ),
            ("yyyy''MM", "2024'02", "2024-02-01T00:00:00"),
            (
                "yyyy-MM-dd'T'HH:mm:ss",
                "2024-02-09T12:05:07",
                "2024-02-09T12:05:07",
            ),
        ] {
            let format = DateFormat::try_new(pattern).unwrap();
            assert_eq!(format.text(noon), text);
            assert_eq!(format.parse(text), Some(time(back)), "{pattern}");
            assert_eq!(format.truncate(noon.and_utc()), time(back), "{pattern}");
            assert_eq!(format.parse("x"), None);
        }
    }

    #[test]
    fn sortable_formats_go_from_coarse_to_fine() {
        let is_sortable = |pattern| DateFormat::try_new(pattern).unwrap().is_sortable();
        assert!(is_sortable("yyyy-MM-dd") && is_sortable("yyyyDDDHH"));
        assert!(!is_sortable("dd.MM.yyyy") && !is_sortable("yyyy-M") && !is_sortable("yyyy-MMM"));
    }

    #[test]
    fn incomplete_and_unknown_formats_are_refused() {
        for (pattern, message) in [
            ("MM-dd", "must have a year"),
            ("yyyy-dd", "must have a year"),
            ("", "must have a year"),
            ("yy-MM-dd", "'yy' is none of"),
            ("yyyy-MM-dd'T", "a ' is open"),
            ("yyyy-MM-ddThh", "'T' is none of"),
            ("yyyyMd", "has a digit right behind"),
            ("yyyy-M'1'", "has a digit right behind"),
        ] {
            let error = DateFormat::try_new(pattern).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn months_are_counted_by_the_calendar() {
        let (start, end) = (time("2024-01-31T00:00:00"), time("2024-03-30T00:00:00"));
        assert_eq!(DateUnit::Months.between(start, end), 1);
        assert_eq!(DateUnit::Months.between(end, start), -2);
        assert_eq!(DateUnit::Days.between(start, end), 59);
        assert_eq!(DateUnit::Years.between(start, end), 0);
        assert_eq!(
            DateUnit::Months.add(start, 1),
            Some(time("2024-02-29T00:00:00"))
        );
        assert_eq!(DateUnit::parse("Day"), Some(DateUnit::Days));
        assert_eq!(DateUnit::parse("fortnight"), None);
    }
}
