//! The session that runs statements one after the other, and the place where their results go.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Instant;

use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use datafusion_partitioned::sql::{
    ParsedStatement, Statement, execute, is_complete, parse_statements,
};
use rustyline::error::ReadlineError;

use crate::args::Args;
use crate::print::Printer;
use crate::session::create_session;
use crate::storage::open_buckets;

/// A session together with the place where results go.
pub(crate) struct Shell<W> {
    context: SessionContext,
    printer: Printer,
    output: Output<W>,
}

impl<W: Write + Send> Shell<W> {
    /// Starts a session as the flags ask for.
    pub(crate) fn try_new(args: &Args, output: W) -> Result<Self, ShellError> {
        Ok(Self {
            context: create_session(args).map_err(ShellError::Session)?,
            printer: Printer::new(args),
            output: Output {
                inner: output,
                closed: false,
            },
        })
    }

    /// Runs the statements of a text up to the first that fails.
    ///
    /// The origin of the text and the position in it are all that an error shows of the statement:
    /// the statement itself can contain credentials.
    pub(crate) async fn execute(&mut self, origin: &str, sql: &str) -> Result<(), ShellError> {
        let config = self.context.copied_config();
        let statements = parse_statements(sql, &config.options().sql_parser);
        for (index, ParsedStatement { line, statement }) in statements.into_iter().enumerate() {
            let result = match statement {
                Ok(statement) => self.execute_statement(statement).await,
                Err(error) => Err(error),
            };
            result.map_err(|source| match self.output.closed {
                true => ShellError::OutputClosed,
                false => ShellError::Statement {
                    number: index + 1,
                    origin: origin.to_owned(),
                    line,
                    source,
                },
            })?;
        }
        Ok(())
    }

    async fn execute_statement(&mut self, mut statement: Statement) -> Result<()> {
        let started = Instant::now();
        if let Statement::DataFusion(statement) = &mut statement {
            open_buckets(&mut statement.statement, &self.context.runtime_env())?;
        }
        let frame = execute(&self.context, statement).await?;
        let rows = frame.execute_stream().await?;
        let config = self.context.copied_config();
        let format = &config.options().format;
        self.printer
            .print(rows, format, started, &mut self.output)
            .await
    }

    /// Whether the text ends where a statement ends.
    pub(crate) fn is_complete(&self, sql: &str) -> bool {
        is_complete(sql, &self.context.copied_config().options().sql_parser)
    }

    /// The place where results go.
    pub(crate) fn output(&mut self) -> &mut impl Write {
        &mut self.output
    }
}

/// Why the shell stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    #[error("cannot start the session: {0}")]
    Session(DataFusionError),

    #[error("cannot read the file '{}': {source}", path.display())]
    File { path: PathBuf, source: io::Error },

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
