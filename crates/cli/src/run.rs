//! A run of the shell: where statements come from, and what a failure does.

use std::env;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::environment::Environment;
use crate::prompt::prompt;
use crate::shell::{Shell, ShellError};

/// Where statements come from when the arguments name neither commands nor files.
#[derive(Debug)]
pub enum Input<R> {
    /// A person, who gets a prompt.
    Terminal,
    /// A text, which is read to its end first.
    Stream(R),
}

/// How a run of the shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All statements ran, or nobody reads the output any more.
    Success,
    /// A statement failed, or there was no way to get at the statements.
    Failure,
    /// The arguments are wrong.
    Usage,
    /// Ctrl-C stopped a statement, outside of the prompt.
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::SUCCESS,
            Outcome::Failure => Self::FAILURE,
            Outcome::Usage => Self::from(2),
            // As shells say it of a process that the signal has ended.
            Outcome::Interrupted => Self::from(130),
        }
    }
}

/// Runs the shell with the arguments of a command line, of which the first is the program's name.
///
/// Results go to `output`, and messages about failures to `errors`. A closed pipe behind `output`
/// ends the run quietly. See [`run_in`] for what a process has besides.
pub async fn run<A>(
    arguments: impl IntoIterator<Item = A>,
    input: Input<impl Read + Send>,
    output: impl Write + Send,
    errors: impl Write + Send,
) -> Outcome
where
    A: Into<OsString> + Clone,
{
    run_in(&Environment::default(), arguments, input, output, errors).await
}

/// Like [`run`], in a given environment.
pub async fn run_in<A>(
    environment: &Environment,
    arguments: impl IntoIterator<Item = A>,
    input: Input<impl Read + Send>,
    mut output: impl Write + Send,
    mut errors: impl Write + Send,
) -> Outcome
where
    A: Into<OsString> + Clone,
{
    // Failing to write a message has nowhere left to go, so that those results are dropped here.
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let _ = write!(errors, "{}", error.render());
            return Outcome::Usage;
        }
        Err(help_or_version) => {
            let _ = write!(output, "{}", help_or_version.render());
            let _ = output.flush();
            return Outcome::Success;
        }
    };
    match run_sources(&args, environment, input, output, &mut errors).await {
        Ok(()) | Err(ShellError::OutputClosed) => Outcome::Success,
        Err(ShellError::Interrupted) => {
            let _ = writeln!(errors, "dfp: cancelled");
            Outcome::Interrupted
        }
        Err(error) => {
            let _ = writeln!(errors, "dfp: {error}");
            Outcome::Failure
        }
    }
}

async fn run_sources(
    args: &Args,
    environment: &Environment,
    input: Input<impl Read + Send>,
    output: impl Write + Send,
    errors: &mut (impl Write + Send),
) -> Result<(), ShellError> {
    if let Some(path) = &args.data_path {
        env::set_current_dir(path).map_err(|source| ShellError::DataPath {
            path: path.clone(),
            source,
        })?;
    }
    let mut shell = Shell::try_new(args, environment, output)?;
    let result = run_in_shell(&mut shell, args, environment, input, errors).await;
    shell.write_notes(errors);
    result
}

async fn run_in_shell(
    shell: &mut Shell<impl Write + Send>,
    args: &Args,
    environment: &Environment,
    input: Input<impl Read + Send>,
    errors: &mut (impl Write + Send),
) -> Result<(), ShellError> {
    for path in args.file.iter().chain(&args.rc) {
        shell.execute_file(path).await?;
    }
    for (index, sql) in args.command.iter().enumerate() {
        let origin = format!("command {}", index + 1);
        shell.execute(&origin, sql).await?;
    }
    if !args.file.is_empty() || !args.command.is_empty() {
        return Ok(());
    }
    match input {
        Input::Terminal => {
            if args.rc.is_empty() {
                run_own_file(shell, environment, errors).await?;
            }
            prompt(shell, environment.history.clone(), errors).await
        }
        Input::Stream(mut stream) => {
            let mut sql = String::new();
            stream.read_to_string(&mut sql).map_err(ShellError::Input)?;
            shell.execute("standard input", &sql).await
        }
    }
}

/// Runs `.dfprc` in the home folder, if there is one. What fails in it does not keep anybody from the
/// prompt.
async fn run_own_file(
    shell: &mut Shell<impl Write + Send>,
    environment: &Environment,
    errors: &mut (impl Write + Send),
) -> Result<(), ShellError> {
    let path = environment.home.as_ref().map(|home| home.join(".dfprc"));
    let Some(path) = path.filter(|path| path.exists()) else {
        return Ok(());
    };
    match shell.execute_file(&path).await {
        Err(error) if !matches!(error, ShellError::OutputClosed) => {
            let _ = writeln!(errors, "{error}");
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, ErrorKind};

    use super::*;

    #[tokio::test]
    async fn files_go_before_commands() {
        let path = env::temp_dir().join(format!("dfp-run-{}.sql", std::process::id()));
        fs::write(&path, "CREATE VIEW v AS SELECT 7 AS x").unwrap();
        let file = path.to_str().unwrap();
        let (outcome, output, errors) = run_with(
            &["-c", "SELECT * FROM v", "-f", file, "--format", "csv"],
            "",
        )
        .await;
        fs::remove_file(&path).unwrap();
        assert_eq!(
            (outcome, output.as_str(), errors.as_str()),
            (Outcome::Success, "x\n7\n", "")
        );
    }

    #[tokio::test]
    async fn failure_names_the_statement_and_ends_the_run() {
        let sql = "SELECT 1 AS a;\nSELECT b FROM nowhere;\nSELECT 3 AS c";
        let (outcome, output, errors) = run_with(&["--format", "csv"], sql).await;
        assert_eq!((outcome, output.as_str()), (Outcome::Failure, "a\n1\n"));
        assert!(
            errors.starts_with("dfp: statement 2 of standard input (line 2): "),
            "{errors}"
        );
        assert!(errors.contains("nowhere"), "{errors}");
    }

    #[tokio::test]
    async fn wrong_flags_are_usage_errors_and_help_is_not() {
        let (outcome, output, errors) = run_with(&["--fromat", "csv"], "").await;
        assert_eq!((outcome, output.as_str()), (Outcome::Usage, ""));
        assert!(errors.contains("--format"), "{errors}");

        let (outcome, output, errors) = run_with(&["--version"], "").await;
        assert_eq!((outcome, errors.as_str()), (Outcome::Success, ""));
        assert_eq!(output, concat!("dfp ", env!("CARGO_PKG_VERSION"), "\n"));
    }

    #[tokio::test]
    async fn closed_output_ends_the_run_quietly() {
        for format in ["table", "csv", "tsv", "json", "nd-json"] {
            let mut errors = vec![];
            let arguments = ["dfp", "--format", format, "-c", "SELECT 1; SELECT 2"];
            let outcome = run(
                arguments,
                Input::Stream(io::empty()),
                ClosedPipe,
                &mut errors,
            )
            .await;
            assert_eq!(
                (outcome, errors.as_slice()),
                (Outcome::Success, &[] as &[u8]),
                "{format}"
            );
        }
    }

    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    async fn run_with(arguments: &[&str], input: &str) -> (Outcome, String, String) {
        let (mut output, mut errors) = (vec![], vec![]);
        let arguments = [&["dfp"], arguments].concat();
        let input = Input::Stream(input.as_bytes());
        let outcome = run(arguments, input, &mut output, &mut errors).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (outcome, text(output), text(errors))
    }
}
