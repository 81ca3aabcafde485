//! The session that runs statements one after the other, and the place where their results go.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned::sql::{ParsedStatement, Statement, parse_statements};
use rustyline::error::ReadlineError;
use tokio::select;

use crate::args::Args;
use crate::command::Command;
use crate::environment::Environment;
use crate::interrupt::Interrupts;
use crate::print::Printer;
use crate::progress::Progress;
use crate::query::Query;
use crate::session::create_session;
use crate::storage::{names_connector, open_buckets, with_advice};

/// A session together with the place where results go.
pub(crate) struct Shell<W> {
    context: SessionContext,
    printer: Printer,
    output: Output<W>,
    environment: Environment,
    interrupts: Interrupts,
    /// Whether tables are those of a catalog file.
    has_catalog_file: bool,
    notes: Vec<String>,
}

/// How a statement ended that did not fail.
enum Ended {
    Completed,
    Interrupted,
}

impl<W: Write + Send> Shell<W> {
    /// Starts a session as the flags ask for.
    pub(crate) fn try_new(
        args: &Args,
        environment: &Environment,
        output: W,
    ) -> Result<Self, ShellError> {
        Ok(Self {
            context: create_session(args).map_err(ShellError::Session)?,
            printer: Printer::new(args, environment),
            output: Output {
                inner: output,
                closed: false,
            },
            environment: environment.clone(),
            interrupts: Interrupts::default(),
            has_catalog_file: args.catalog.is_some(),
            notes: vec![],
        })
    }

    /// Runs the statements of a file.
    pub(crate) async fn execute_file(&mut self, path: &Path) -> Result<(), ShellError> {
        let sql = fs::read_to_string(path).map_err(|source| ShellError::File {
            path: path.to_owned(),
            source,
        })?;
        self.execute(&path.display().to_string(), &sql).await
    }

    /// Runs the statements of a text up to the first that fails, or that Ctrl-C stops.
    ///
    /// The origin of the text and the position in it are all that an error shows of the statement:
    /// the statement itself can contain credentials.
    pub(crate) async fn execute(&mut self, origin: &str, sql: &str) -> Result<(), ShellError> {
        // Some editors begin a file with this mark.
        let sql = sql.strip_prefix('\u{feff}').unwrap_or(sql);
        let config = self.context.copied_config();
        let statements = parse_statements(sql, &config.options().sql_parser);
        for (index, parsed) in statements.into_iter().enumerate() {
            let hide = parsed.hide_secrets();
            let ParsedStatement {
                line, statement, ..
            } = parsed;
            let result = match statement {
                Ok(statement) => self.execute_statement(statement).await,
                Err(error) => Err(as_command(sql, line).unwrap_or(error)),
            };
            let ended = result
                .map_err(hide)
                .map_err(with_advice)
                .map_err(|source| match self.output.closed {
                    true => ShellError::OutputClosed,
                    false => ShellError::Statement {
                        number: index + 1,
                        origin: origin.to_owned(),
                        line,
                        source,
                    },
                })?;
            if let Ended::Interrupted = ended {
                return Err(ShellError::Interrupted);
            }
        }
        Ok(())
    }

    async fn execute_statement(&mut self, mut statement: Statement) -> Result<Ended> {
        let started = Instant::now();
        if self.environment.catches_interrupts {
            self.interrupts.listen()?;
        }
        if let Statement::DataFusion(statement) = &mut statement {
            open_buckets(&mut statement.statement, &self.context.runtime_env())?;
        }
        let config = self.context.copied_config();
        let format = &config.options().format;
        let table = match self.has_catalog_file && !self.printer.quiet {
            true => table_in_memory(&statement, &self.context),
            false => None,
        };
        let progress = match self.environment.errors_are_terminal && !self.printer.quiet {
            true => Progress::of_next_query(&self.context),
            false => Progress::hidden(),
        };
        let workers = self.environment.workers.clone();
        let mut query = Query::start(&self.context, statement, workers);
        let rows = query.rows();
        let printed = async {
            let answer = query.answer().await?;
            let output = &mut self.output;
            let printed = self
                .printer
                .print(answer, format, started, &progress, output);
            printed.await
        };
        let ended = select! {
            biased;
            () = self.interrupts.next() => None,
            printed = Box::pin(printed) => Some(printed),
            never = progress.show(&rows) => match never {},
        };
        progress.end();
        match ended {
            Some(printed) => printed.map(|()| {
                self.notes.extend(table.map(|table| {
                    format!(
                        "note: '{table}' is in memory only; the catalog file keeps tables of connectors, views and schemas"
                    )
                }));
                Ended::Completed
            }),
            None => {
                select! {
                    () = query.cancel() => {}
                    // Whoever presses it again does not want to wait.
                    () = self.interrupts.next() => {}
                }
                self.output.flush()?;
                Ok(Ended::Interrupted)
            }
        }
    }

    /// Ctrl-C stops the next statement only if it is pressed from now on.
    pub(crate) fn forget_interrupts(&self) {
        self.interrupts.forget();
    }

    /// Writes what is worth to be known of the statements that have run.
    pub(crate) fn write_notes(&mut self, errors: &mut impl Write) {
        for note in self.notes.drain(..) {
            let _ = writeln!(errors, "{note}");
        }
    }

    /// The session that runs the statements.
    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// How results are written.
    pub(crate) fn printer(&mut self) -> &mut Printer {
        &mut self.printer
    }

    /// The place where results go.
    pub(crate) fn output(&mut self) -> &mut impl Write {
        &mut self.output
    }
}

/// What is wrong with a line that is no SQL, but a command of the prompt.
fn as_command(sql: &str, line: u64) -> Option<DataFusionError> {
    let line = sql
        .lines()
        .nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let name = line.split_whitespace().next()?;
    Command::parse(line).is_some().then(|| plan_datafusion_err!(
        "'{name}' is a command of the prompt; SQL has SHOW TABLES, DESCRIBE t and SHOW FUNCTIONS"
    ))
}

/// What a statement makes that no catalog file keeps.
fn table_in_memory(statement: &Statement, context: &SessionContext) -> Option<String> {
    let Statement::DataFusion(statement) = statement else {
        return None;
    };
    match &statement.statement {
        parser::Statement::CreateExternalTable(create) => {
            let config = context.copied_config();
            let options = PartitionedOptions::from_config(config.options());
            let has_default =
                !options.default_connector.is_empty() && !create.table_partition_cols.is_empty();
            let is_kept = has_default || names_connector(&create.options);
            (!is_kept && !create.temporary && !create.if_not_exists)
                .then(|| create.name.to_string())
        }
        parser::Statement::Statement(statement) => match statement.as_ref() {
            ast::Statement::CreateTable(create) => {
                (!create.temporary && !create.if_not_exists).then(|| create.name.to_string())
            }
            ast::Statement::CreateDatabase { db_name, .. } => Some(db_name.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Why the shell stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    #[error("cannot start the session: {0}")]
    Session(DataFusionError),

    #[error("cannot read the file '{}': {source}", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error("cannot use '{}' as the folder of the data: {source}", path.display())]
    DataPath { path: PathBuf, source: io::Error },

    #[error("cannot read standard input: {0}")]
    Input(io::Error),

    #[error("cannot use the terminal: {0}")]
    Terminal(ReadlineError),

    #[error("statement {number} of {origin} (line {line}): {source}")]
    Statement {
        number: usize,
        origin: String,
        line: u64,
        source: DataFusionError,
    },

    #[error("cancelled")]
    Interrupted,

    #[error("nobody reads the output")]
    OutputClosed,
}

/// A writer that remembers that nobody reads what is written, because not all errors that pass
/// through the writers of formats keep their kind.
struct Output<W> {
    inner: W,
    closed: bool,
}

impl<W> Output<W> {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.closed |= error.kind() == ErrorKind::BrokenPipe;
        }
        result
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.watch(result)
    }
}
