//! The commands of the prompt that are no SQL, `\d` and the like: those of `datafusion-cli`, and some
//! settings more.

use std::fmt::Write;

use datafusion::logical_expr::Documentation;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::connector::did_you_mean;

use crate::args::{MaxRows, OutputFormat, Width};
use crate::print::Printer;

/// A command as it is typed, for help and completion, and what it does.
pub(crate) const COMMANDS: [(&str, &str, &str); 10] = [
    ("\\d", "", "list the tables"),
    ("\\d", "NAME", "list the columns of a table"),
    ("\\h", "", "list the functions"),
    ("\\h", "FUNCTION", "describe a function"),
    ("\\i", "FILE", "run the statements of a file"),
    (
        "\\pset",
        "[NAME [VALUE]]",
        "show or set how results are written: format, maxrows, width",
    ),
    (
        "\\quiet",
        "[on|off]",
        "show or set whether only results are written",
    ),
    (
        "\\timing",
        "[on|off]",
        "show or set whether times are written",
    ),
    ("\\?", "", "this list; also 'help'"),
    ("\\q", "", "leave; also 'quit', 'exit' and Ctrl-D"),
];

/// The table functions of this project, as `\h` shows them.
const TABLE_FUNCTIONS: [(&str, &str); 3] = [
    (
        "partitions",
        "the partitions of a table: columns, number of files, bytes, rows and location\n\n  \
         SELECT * FROM partitions('t') WHERE day > '2024-06-01'\n",
    ),
    (
        "partition_report",
        "what each scan of the last query has done: its filters, and the partitions listed, pruned and \
         scanned\n\n  SELECT * FROM partition_report()\n",
    ),
    (
        "table_options",
        "the options of a connector: key, type, default and what it does\n\n  \
         SELECT * FROM table_options('filesystem')\n",
    ),
];

/// What `\pset` sets.
pub(crate) const SETTINGS: [&str; 3] = ["format", "maxrows", "width"];

/// A command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    ListTables,
    DescribeTable(String),
    ListFunctions,
    DescribeFunction(String),
    Include(String),
    ShowSettings,
    ShowSetting(String),
    Set(String, String),
    Quiet(Option<bool>),
    Timing(Option<bool>),
    Help,
    Quit,
}

impl Command {
    /// The command of a line, or what is wrong with it. `None` for lines of SQL.
    pub(crate) fn parse(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim().trim_end_matches(';').trim_end();
        if ["quit", "exit"]
            .iter()
            .any(|word| line.eq_ignore_ascii_case(word))
        {
            return Some(Ok(Self::Quit));
        }
        if line.eq_ignore_ascii_case("help") || line == "?" {
            return Some(Ok(Self::Help));
        }
        if !line.starts_with('\\') {
            return None;
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim_start();
        Some(match (name, rest) {
            ("\\d", "") => Ok(Self::ListTables),
            ("\\d", table) => Ok(Self::DescribeTable(table.to_owned())),
            ("\\h", "") => Ok(Self::ListFunctions),
            ("\\h", function) => Ok(Self::DescribeFunction(function.to_owned())),
            ("\\i", "") => Err("'\\i' needs the name of a file".to_owned()),
            ("\\i", file) => Ok(Self::Include(file.to_owned())),
            ("\\pset", "") => Ok(Self::ShowSettings),
            ("\\pset", setting) => Ok(match setting.split_once(char::is_whitespace) {
                Some((name, value)) => Self::Set(name.to_owned(), value.trim().to_owned()),
                None => Self::ShowSetting(setting.to_owned()),
            }),
            ("\\quiet", value) => parse_switch(name, value).map(Self::Quiet),
            ("\\timing", value) => parse_switch(name, value).map(Self::Timing),
            ("\\?", "") => Ok(Self::Help),
            ("\\q", "") => Ok(Self::Quit),
            ("\\?" | "\\q", _) => Err(format!("'{name}' takes no arguments")),
            _ => Err(unknown(name)),
        })
    }
}

fn parse_switch(command: &str, value: &str) -> Result<Option<bool>, String> {
    match value.to_lowercase().as_str() {
        "" => Ok(None),
        "true" | "t" | "yes" | "y" | "on" => Ok(Some(true)),
        "false" | "f" | "no" | "n" | "off" => Ok(Some(false)),
        _ => Err(format!("'{command} {value}': expected 'on' or 'off'")),
    }
}

fn unknown(name: &str) -> String {
    let similar = did_you_mean(name, COMMANDS.map(|(known, ..)| known));
    format!("unknown command '{name}'{similar}; '\\?' lists the commands")
}

/// The text of `\?`.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for (name, arguments, description) in COMMANDS {
        let command = format!("{name} {arguments}");
        let _ = writeln!(text, "{command:<24}{description}");
    }
    text.push_str("Everything else is SQL, and ends with ';'. Tab completes, Ctrl-C cancels.\n");
    text
}

/// Sets what `\pset NAME VALUE` asks for.
pub(crate) fn set(printer: &mut Printer, name: &str, value: &str) -> Result<(), String> {
    let result = match name {
        "format" => OutputFormat::parse(value).map(|format| printer.format = format),
        "maxrows" => MaxRows::parse(value).map(|rows| printer.max_rows = rows),
        "width" => Width::parse(value).map(|width| printer.width = width),
        _ => return Err(unknown_setting(name)),
    };
    result.map_err(|expected| format!("'{value}' is no value of '{name}'; {expected}"))
}

/// The value of a setting.
pub(crate) fn setting(printer: &Printer, name: &str) -> Result<String, String> {
    match name {
        "format" => Ok(printer.format.to_string()),
        "maxrows" => Ok(printer.max_rows.to_string()),
        "width" => Ok(printer.width.to_string()),
        _ => Err(unknown_setting(name)),
    }
}

fn unknown_setting(name: &str) -> String {
    let names = SETTINGS.join(", ");
    format!("unknown setting '{name}'; expected one of: {names}")
}

/// The names of all functions.
pub(crate) fn functions(context: &SessionContext) -> Vec<String> {
    let state = context.state();
    let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
    names.extend(state.aggregate_functions().keys().cloned());
    names.extend(state.window_functions().keys().cloned());
    names.extend(state.table_functions().keys().cloned());
    names.sort_unstable();
    names.dedup();
    names
}

/// What is known about a function.
pub(crate) fn describe_function(context: &SessionContext, name: &str) -> Result<String, String> {
    let name = name.trim_end_matches("()").to_lowercase();
    let state = context.state();
    let scalar = state.scalar_functions().get(&name);
    let aggregate = state.aggregate_functions().get(&name);
    let window = state.window_functions().get(&name);
    let documentation = scalar
        .and_then(|function| function.documentation())
        .or_else(|| aggregate.and_then(|function| function.documentation()))
        .or_else(|| window.and_then(|function| function.documentation()));
    let mut table_functions = TABLE_FUNCTIONS.iter();
    if let Some((_, text)) = table_functions.find(|(known, _)| *known == name) {
        return Ok(format!("{name}: {text}"));
    }
    match documentation {
        Some(documentation) => Ok(describe(&name, documentation)),
        None if functions(context).contains(&name) => Ok(format!("{name} has no documentation\n")),
        None => Err(format!(
            "unknown function '{name}'; '\\h' lists the functions"
        )),
    }
}

fn describe(name: &str, documentation: &Documentation) -> String {
    let Documentation {
        description,
        syntax_example,
        sql_example,
        arguments,
        alternative_syntax,
        related_udfs,
        ..
    } = documentation;
    let mut text = format!("{name}: {}\n\n  {syntax_example}\n", description.trim());
    for syntax in alternative_syntax.iter().flatten() {
        let _ = writeln!(text, "  {syntax}");
    }
    for (index, (argument, meaning)) in arguments.iter().flatten().enumerate() {
        let separator = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{separator}  {argument}: {meaning}");
    }
    if let Some(example) = sql_example {
        let lines = example.lines().filter(|line| !line.starts_with("```"));
        let lines: Vec<_> = lines.map(|line| format!("  {line}")).collect();
        let _ = writeln!(text, "\n{}", lines.join("\n"));
    }
    if let Some(related) = related_udfs {
        let _ = writeln!(text, "\n  see also: {}", related.join(", "));
    }
    text
}

/// Names in columns, from top to bottom.
pub(crate) fn in_columns(names: &[String], width: usize) -> String {
    let longest = names.iter().map(String::len).max().unwrap_or(0);
    let columns = (width / (longest + 2)).max(1);
    let lines = names.len().div_ceil(columns);
    let mut text = String::new();
    for line in 0..lines {
        let cells = names.iter().skip(line).step_by(lines);
        let cells: String = cells
            .map(|name| format!("{name:<0$}", longest + 2))
            .collect();
        let _ = writeln!(text, "{}", cells.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_datafusion_cli() {
        let parse = |line: &str| Command::parse(line).unwrap().unwrap();
        assert_eq!(parse("\\d"), Command::ListTables);
        assert_eq!(
            parse(" \\d  a.b ;"),
            Command::DescribeTable("a.b".to_owned())
        );
        assert_eq!(
            parse("\\h abs"),
            Command::DescribeFunction("abs".to_owned())
        );
        assert_eq!(parse("\\i a b.sql"), Command::Include("a b.sql".to_owned()));
        assert_eq!(parse("\\quiet true"), Command::Quiet(Some(true)));
        assert_eq!(parse("\\timing"), Command::Timing(None));
        let set = Command::Set("format".to_owned(), "csv".to_owned());
        assert_eq!(parse("\\pset format  csv"), set);
        for line in ["\\q", "quit", " QUIT; ", "exit"] {
            assert_eq!(parse(line), Command::Quit, "{line}");
        }
        for line in ["\\?", "help", "?"] {
            assert_eq!(parse(line), Command::Help, "{line}");
        }
        for line in ["SELECT '\\d'", "SELECT quit", ""] {
            assert_eq!(Command::parse(line), None, "{line}");
        }
    }

    #[test]
    fn mistakes_name_the_way_out() {
        let error = |line: &str| Command::parse(line).unwrap().unwrap_err();
        assert_eq!(
            error("\\timng on"),
            "unknown command '\\timng' (did you mean '\\timing'?); '\\?' lists the commands"
        );
        assert_eq!(
            error("\\x"),
            "unknown command '\\x'; '\\?' lists the commands"
        );
        assert_eq!(
            error("\\quiet maybe"),
            "'\\quiet maybe': expected 'on' or 'off'"
        );
        assert_eq!(error("\\i"), "'\\i' needs the name of a file");
    }

    #[test]
    fn functions_are_listed_and_described() {
        let context = SessionContext::new();
        let names = functions(&context);
        let text = in_columns(&names, 100);
        assert!(
            text.contains("date_trunc") && text.lines().all(|line| line.len() <= 100),
            "{text}"
        );
        let text = describe_function(&context, "ABS").unwrap();
        assert!(
            text.starts_with("abs: ") && text.contains("abs(numeric_expression)"),
            "{text}"
        );
        let text = describe_function(&context, "partitions").unwrap();
        assert!(text.contains("FROM partitions('t')"), "{text}");
        let error = describe_function(&context, "abz").unwrap_err();
        assert!(error.contains("unknown function 'abz'"), "{error}");
    }

    #[test]
    fn names_go_from_top_to_bottom() {
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(in_columns(&names, 9), "a  c  e\nb  d\n");
        assert_eq!(in_columns(&[], 9), "");
    }
}
