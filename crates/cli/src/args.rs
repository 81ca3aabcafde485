//! The flags of the shell, which are those of `datafusion-cli`.

use std::fmt;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// SQL over partitioned tables
///
/// Without commands and files, statements come from standard input, or from a prompt if that is a
/// terminal.
#[derive(Debug, Parser)]
#[command(name = "dfp", version)]
pub(crate) struct Args {
    /// Run these statements, then exit; may be repeated
    #[arg(short, long, value_name = "SQL")]
    pub(crate) command: Vec<String>,

    /// Run the statements of this file, then exit; may be repeated, and goes before commands
    #[arg(short, long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,

    /// At the start, run these files instead of ~/.dfprc; may be repeated
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["file", "command"])]
    pub(crate) rc: Vec<PathBuf>,

    /// The folder that relative paths begin in [default: the current one]
    #[arg(short = 'p', long, value_name = "PATH")]
    pub(crate) data_path: Option<PathBuf>,

    /// The rows of a batch while statements run [default: that of DataFusion]
    #[arg(short, long, value_name = "ROWS", value_parser = parse_batch_size)]
    pub(crate) batch_size: Option<usize>,

    /// Keep the definitions of tables and views, and registered partitions, in this file, which is made if it is
    /// not there
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,

    /// How to write results
    #[arg(long, value_enum, ignore_case = true, default_value_t)]
    pub(crate) format: OutputFormat,

    /// Write results only: no row counts, times and greeting
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The most rows of a result in a table, or `inf` for all
    #[arg(long, value_name = "ROWS", default_value_t, value_parser = MaxRows::parse)]
    pub(crate) maxrows: MaxRows,

    /// The columns that a table may take: a number, `inf`, or `auto` for those of the terminal. A
    /// result that needs more is written as records, one line for each value
    #[arg(long, value_name = "COLUMNS", default_value_t, value_parser = Width::parse)]
    pub(crate) width: Width,

    /// The most memory for running statements, in bytes or as in 512k, 100m or 8g [default: no
    /// limit]
    #[arg(short, long, value_name = "BYTES", value_parser = parse_memory_limit)]
    pub(crate) memory_limit: Option<usize>,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table; comma-separated values if the result has no end
    #[default]
    Automatic,
    /// A table drawn with characters
    Table,
    /// Comma-separated values with a header
    Csv,
    /// Tab-separated values with a header
    Tsv,
    /// One array of objects for each statement
    Json,
    /// One object on each line
    NdJson,
}

impl OutputFormat {
    /// The format of that name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let names = Self::value_variants().iter().map(ToString::to_string);
        <Self as ValueEnum>::from_str(text, true).map_err(|_| {
            let names: Vec<_> = names.collect();
            format!("expected one of: {}", names.join(", "))
        })
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// The most rows of a result that a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaxRows(pub(crate) usize);

impl Default for MaxRows {
    fn default() -> Self {
        Self(40)
    }
}

impl MaxRows {
    /// Such as `40` or `inf`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if is_unlimited(text) {
            return Ok(Self(usize::MAX));
        }
        let number = text.parse().map(Self);
        number.map_err(|_| "expected a number of rows, or 'inf' for all".to_owned())
    }
}

impl fmt::Display for MaxRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            usize::MAX => f.write_str("inf"),
            rows => write!(f, "{rows}"),
        }
    }
}

/// The columns of the screen that a table may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Width {
    /// Those of the terminal; any number if the output is none.
    #[default]
    Auto,
    Columns(usize),
    Unlimited,
}

impl Width {
    /// Such as `100`, `auto` or `inf`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        if is_unlimited(text) {
            return Ok(Self::Unlimited);
        }
        let columns = text.parse().ok().filter(|columns| *columns >= Self::LEAST);
        columns.map(Self::Columns).ok_or_else(|| {
            let least = Self::LEAST;
            format!("expected a number of columns from {least}, 'auto' or 'inf'")
        })
    }

    /// Too narrow for records with anything less.
    const LEAST: usize = 20;
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Columns(columns) => write!(f, "{columns}"),
            Self::Unlimited => f.write_str("inf"),
        }
    }
}

fn is_unlimited(text: &str) -> bool {
    let names = ["inf", "infinite", "none"];
    names.iter().any(|name| text.eq_ignore_ascii_case(name))
}

fn parse_batch_size(text: &str) -> Result<usize, String> {
    let rows = text.parse().ok().filter(|rows| *rows > 0);
    rows.ok_or_else(|| "expected a number of rows, at least 1".to_owned())
}

fn parse_memory_limit(text: &str) -> Result<usize, String> {
    let text = text.to_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        unit => {
            return Err(format!(
                "unknown unit '{unit}'; expected one of: b, k, m, g, t"
            ));
        }
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "expected a number of bytes, as in 1000000, 512k, 100m or 8g".to_owned())?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("expected a limit from 1 to {} bytes", usize::MAX))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn commands_and_files_repeat() {
        let args = Args::try_parse_from([
            "dfp",
            "-q",
            "-c",
            "a",
            "--command",
            "b",
            "-f",
            "x.sql",
            "--file",
            "y.sql",
        ])
        .unwrap();
        assert_eq!(args.command, ["a", "b"]);
        assert_eq!(args.file, [PathBuf::from("x.sql"), PathBuf::from("y.sql")]);
        assert!(args.quiet);
    }

    #[test]
    fn formats_have_the_names_of_datafusion_cli() {
        for name in ["automatic", "table", "csv", "tsv", "json", "nd-json"] {
            let args = Args::try_parse_from(["dfp", "--format", name]).unwrap();
            assert_eq!(args.format.to_string(), name);
            assert_eq!(OutputFormat::parse(name), Ok(args.format));
            let capitals = Args::try_parse_from(["dfp", "--format", &name.to_uppercase()]);
            assert_eq!(capitals.unwrap().format, args.format);
        }
    }

    #[test]
    fn memory_limits_have_units() {
        assert_eq!(parse_memory_limit("10"), Ok(10));
        assert_eq!(parse_memory_limit("2K"), Ok(2048));
        assert_eq!(parse_memory_limit("3gb"), Ok(3 << 30));
        assert!(
            parse_memory_limit("3 x")
                .unwrap_err()
                .contains("unknown unit 'x'")
        );
        assert!(parse_memory_limit("g").is_err());
        assert!(parse_memory_limit("0").is_err());
        assert!(parse_memory_limit("99999999t").is_err());
    }

    #[test]
    fn max_rows_may_be_unlimited() {
        assert_eq!(MaxRows::parse("7"), Ok(MaxRows(7)));
        assert_eq!(MaxRows::parse("INF"), Ok(MaxRows(usize::MAX)));
        assert!(MaxRows::parse("-1").is_err());
    }

    #[test]
    fn widths_are_shown_as_they_are_set() {
        for text in ["auto", "100", "inf"] {
            assert_eq!(Width::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "7", "wide"] {
            assert!(Width::parse(text).is_err(), "{text}");
        }
    }
}
