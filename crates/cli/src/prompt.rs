//! The prompt: statements and commands typed by a person, over as many lines as they need.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use datafusion::DATAFUSION_VERSION;
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History};
use rustyline::{CompletionType, Config, Editor};

use crate::command::{self, Command};
use crate::completion::SqlHelper;
use crate::history::{HistoryFile, MAX_ENTRIES};
use crate::shell::{Shell, ShellError};

const PROMPT: &str = "dfp> ";

/// The tables of the session, without those that describe it.
const LIST_TABLES: &str = "SELECT table_catalog, table_schema, table_name, table_type \
     FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2, 3";

/// For lists where the width of the terminal is not known.
const USUAL_WIDTH: usize = 80;

/// Runs what is typed until the person leaves. A failing statement ends nothing.
pub(crate) async fn prompt<W: Write + Send>(
    shell: &mut Shell<W>,
    history: Option<PathBuf>,
    errors: &mut (impl Write + Send),
) -> Result<(), ShellError> {
    let config = config().map_err(ShellError::Terminal)?;
    let mut file = history.map(|path| HistoryFile::new(path, config.clone()));
    let mut history = known_entries(&config, &mut file, errors);
    shell.printer().max_rows_by = "\\pset maxrows";
    if !shell.printer().quiet {
        greet(shell.output()).map_err(|_| ShellError::OutputClosed)?;
    }
    loop {
        // The editor takes Ctrl-C for itself as long as it lives, and must not while statements run.
        let entry = editor(&config, &history, shell).and_then(|mut editor| editor.readline(PROMPT));
        let entry = match entry {
            Ok(entry) => entry,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(ShellError::Terminal(error)),
        };
        if entry.trim().is_empty() {
            continue;
        }
        let _ = history.add(entry.trim());
        if let Some(Err(error)) = file.as_ref().map(|file| file.add(entry.trim())) {
            give_up(&mut file, &error, errors);
        }
        shell.forget_interrupts();
        let result = match Command::parse(&entry) {
            Some(Ok(Command::Quit)) => return Ok(()),
            Some(Ok(command)) => run_command(shell, command, errors).await,
            Some(Err(message)) => {
                let _ = writeln!(errors, "{message}");
                Ok(())
            }
            None => shell.execute("the prompt", &entry).await,
        };
        shell.write_notes(errors);
        match result {
            Ok(()) => {}
            Err(ShellError::Statement { source, .. }) => {
                let _ = writeln!(errors, "{source}");
            }
            // Behind the characters `^C`.
            Err(ShellError::Interrupted) => {
                let _ = writeln!(errors, "\ncancelled");
            }
            Err(error @ ShellError::File { .. }) => {
                let _ = writeln!(errors, "{error}");
            }
            Err(error) => return Err(error),
        }
    }
}

fn config() -> Result<Config, ReadlineError> {
    let builder = Config::builder().max_history_size(MAX_ENTRIES)?;
    let builder = builder.history_ignore_dups(true)?;
    Ok(builder.completion_type(CompletionType::List).build())
}

/// What was typed before. A history that cannot be read is no reason not to start.
fn known_entries(
    config: &Config,
    file: &mut Option<HistoryFile>,
    errors: &mut impl Write,
) -> FileHistory {
    match file.as_ref().map(HistoryFile::load) {
        Some(Ok(history)) => return history,
        Some(Err(error)) => give_up(file, &error, errors),
        None => {}
    }
    FileHistory::with_config(config)
}

fn editor<W: Write + Send>(
    config: &Config,
    history: &FileHistory,
    shell: &Shell<W>,
) -> Result<Editor<SqlHelper, FileHistory>, ReadlineError> {
    let mut entries = FileHistory::with_config(config);
    for entry in history.iter() {
        entries.add(entry)?;
    }
    let mut editor = Editor::with_history(config.clone(), entries)?;
    editor.set_helper(Some(SqlHelper::new(shell.context().clone())));
    Ok(editor)
}

fn give_up(file: &mut Option<HistoryFile>, error: &ReadlineError, errors: &mut impl Write) {
    if let Some(file) = file.take() {
        let path = file.path().display();
        let _ = writeln!(errors, "cannot keep the history in '{path}': {error}");
    }
}

async fn run_command<W: Write + Send>(
    shell: &mut Shell<W>,
    command: Command,
    errors: &mut (impl Write + Send),
) -> Result<(), ShellError> {
    let reply = match command {
        Command::ListTables => return shell.execute("\\d", LIST_TABLES).await,
        Command::DescribeTable(name) => {
            return shell.execute("\\d", &format!("DESCRIBE {name}")).await;
        }
        Command::Include(path) => return shell.execute_file(Path::new(&path)).await,
        Command::ListFunctions => {
            let width = shell.printer().columns().unwrap_or(USUAL_WIDTH);
            Ok(command::in_columns(
                &command::functions(shell.context()),
                width,
            ))
        }
        Command::DescribeFunction(name) => command::describe_function(shell.context(), &name),
        Command::ShowSettings => {
            let printer = shell.printer();
            let settings = command::SETTINGS.iter();
            settings
                .map(|name| Ok(format!("{name} is {}\n", command::setting(printer, name)?)))
                .collect()
        }
        Command::ShowSetting(name) => {
            command::setting(shell.printer(), &name).map(|value| format!("{name} is {value}\n"))
        }
        Command::Set(name, value) => {
            command::set(shell.printer(), &name, &value).map(|()| format!("{name} is {value}\n"))
        }
        Command::Quiet(value) => {
            let printer = shell.printer();
            if let Some(quiet) = value {
                printer.quiet = quiet;
                printer.timing = !quiet;
            }
            Ok(format!("quiet is {}\n", on_or_off(printer.quiet)))
        }
        Command::Timing(value) => {
            let printer = shell.printer();
            printer.timing = value.unwrap_or(printer.timing);
            Ok(format!("timing is {}\n", on_or_off(printer.timing)))
        }
        Command::Help => Ok(command::help()),
        Command::Quit => return Ok(()),
    };
    match reply {
        Ok(text) => {
            let output = shell.output();
            let written = output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush());
            written.map_err(|_| ShellError::OutputClosed)
        }
        Err(message) => {
            let _ = writeln!(errors, "{message}");
            Ok(())
        }
    }
}

fn on_or_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

fn greet(output: &mut impl Write) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(output, "dfp {version} (DataFusion {DATAFUSION_VERSION})")?;
    writeln!(
        output,
        "End statements with ';'. \\? lists commands, \\q or Ctrl-D leaves\n"
    )?;
    output.flush()
}
