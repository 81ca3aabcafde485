//! Times and sizes as values of session options.

use std::fmt;
use std::time::Duration;

use datafusion::arrow::compute::kernels::cast_utils::{
    IntervalParseConfig, IntervalUnit, parse_interval_month_day_nano_config,
};
use datafusion::common::{Result, config_datafusion_err, config_field};
use datafusion::prelude::SessionContext;

/// A length of time.
///
/// Written as an SQL interval without months: `30s`, `5m`, `1h 30m`, `250 milliseconds`. A number
/// without a unit means seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeSpan(Duration);

impl TimeSpan {
    /// That long.
    pub fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// The time as a duration.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// Whether it is no time at all.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    fn parse(text: &str) -> Result<Self> {
        let config = IntervalParseConfig::new(IntervalUnit::Second);
        let interval = parse_interval_month_day_nano_config(text, config).ok();
        interval
            .filter(|interval| interval.months == 0)
            .and_then(|interval| {
                let days = u64::try_from(interval.days).ok()?;
                let nanoseconds = u64::try_from(interval.nanoseconds).ok()?;
                let days = Duration::from_secs(days * 24 * 60 * 60);
                days.checked_add(Duration::from_nanos(nanoseconds))
            })
            .map(Self)
            .ok_or_else(|| {
                config_datafusion_err!(
                    "'{text}' is not a duration; expected one such as '30s', '5m' or '1h', or '0s'"
                )
            })
    }
}

/// In seconds, `90s`, with as many decimals as it takes.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs())?;
        if self.0.subsec_nanos() > 0 {
            let decimals = format!("{:09}", self.0.subsec_nanos());
            write!(f, ".{}", decimals.trim_end_matches('0'))?;
        }
        f.write_str("s")
    }
}

config_field!(TimeSpan, value => Self::parse(value)?);

/// A number of bytes, written as DataFusion writes its limits: `512K`, `1.5M`, `2G`, `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteSize(usize);

impl ByteSize {
    /// That many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: usize = 1 << 10;
        const UNITS: [(usize, &str); 2] = [(KIB * KIB * KIB, "G"), (KIB * KIB, "M")];
        let whole = UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit));
        match whole {
            _ if self.0 == 0 => f.write_str("0"),
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}K", self.0 as f64 / KIB as f64),
        }
    }
}

config_field!(ByteSize, value => {
    let bytes = SessionContext::parse_capacity_limit("size", value).map_err(|_| {
        config_datafusion_err!("'{value}' is not a size; expected one such as '512K', '64M' or '2G'")
    })?;
    Self(bytes)
});

#[cfg(test)]
mod tests {
    use datafusion::common::config::ConfigField;

    use super::*;

    #[test]
    fn durations_are_sql_intervals_of_fixed_length() {
        let parse = |text: &str| TimeSpan::parse(text).map(TimeSpan::duration);
        let seconds = [
            ("0", 0),
            ("0s", 0),
            ("30", 30),
            ("30s", 30),
            ("5m", 300),
            ("1h 30m", 5400),
            ("2 days", 172_800),
        ];
        for (text, expected) in seconds {
            assert_eq!(
                parse(text).unwrap(),
                Duration::from_secs(expected),
                "{text}"
            );
        }
        assert_eq!(parse("250ms").unwrap(), Duration::from_millis(250));
        for text in ["", "s", "5x", "-1s", "1 month", "five minutes"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{text}' is not a duration")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_shown_can_be_set() {
        for text in ["0s", "90s", "0.25s"] {
            let parsed = TimeSpan::parse(text).unwrap();
            assert_eq!(parsed.to_string(), text);
        }
        for text in ["0", "2G", "64M", "1536M", "1.5K", "100K"] {
            let mut size = ByteSize::default();
            size.set("", text).unwrap();
            assert_eq!(size.to_string(), text);
        }
        assert!(ByteSize::default().set("", "64").is_err());
    }
}
