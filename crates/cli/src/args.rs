//! The flags of the shell, which are those of `datafusion-cli`.

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

    /// Keep the definitions of tables and views, and registered partitions, in this file, which is made if it is
    /// not there
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,

    /// How to write results
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,

    /// Write results only: no row counts, times and greeting
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The most rows of a result in the format `table`, or `inf` for all
    #[arg(long, value_name = "ROWS", default_value = "40", value_parser = parse_max_rows)]
    pub(crate) maxrows: usize,

    /// The most memory for running statements, in bytes or as in 512k, 100m or 8g [default: no
    /// limit]
    #[arg(short, long, value_name = "BYTES", value_parser = parse_memory_limit)]
    pub(crate) memory_limit: Option<usize>,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table drawn with characters
    #[default]
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

fn parse_max_rows(text: &str) -> Result<usize, String> {
    match text.to_lowercase().as_str() {
        "inf" | "infinite" | "none" => Ok(usize::MAX),
        number => number
            .parse()
            .map_err(|_| "expected a number of rows, or 'inf' for all".to_owned()),
    }
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
        for name in ["table", "csv", "tsv", "json", "nd-json"] {
            Args::try_parse_from(["dfp", "--format", name]).unwrap();
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
        assert_eq!(parse_max_rows("7"), Ok(7));
        assert_eq!(parse_max_rows("INF"), Ok(usize::MAX));
        assert!(parse_max_rows("-1").is_err());
    }
}
