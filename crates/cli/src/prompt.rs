//! The prompt: statements typed by a person, over as many lines as they need.

use std::io::{self, Write};

use datafusion::DATAFUSION_VERSION;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::shell::{Shell, ShellError};

const PROMPT: &str = "dfp> ";
const CONTINUATION: &str = "...> ";

/// Runs what is typed until the person leaves. A failing statement ends nothing.
pub(crate) async fn prompt<W: Write + Send>(
    shell: &mut Shell<W>,
    quiet: bool,
    errors: &mut (impl Write + Send),
) -> Result<(), ShellError> {
    let mut history = vec![];
    if !quiet {
        greet(shell.output()).map_err(|_| ShellError::OutputClosed)?;
    }
    loop {
        // The editor catches Ctrl-C as long as it lives. It must not while a statement runs, which
        // could not be ended otherwise.
        let entry = editor(&history)
            .and_then(|mut editor| read_entry(&mut editor, |text| shell.is_complete(text)));
        if let Ok(Entry::Statements(sql)) = &entry {
            history.push(sql.trim_end().to_owned());
        }
        match entry.map_err(ShellError::Terminal)? {
            Entry::Statements(sql) => match shell.execute("the prompt", &sql).await {
                Ok(()) => {}
                Err(ShellError::Statement { source, .. }) => {
                    let _ = writeln!(errors, "{source}");
                }
                Err(error) => return Err(error),
            },
            Entry::Cancelled => {}
            Entry::Unknown(command) => {
                let _ = writeln!(
                    errors,
                    "unknown command '{command}'; statements end with ';', leave with \\q or Ctrl-D. \
                     Try SHOW TABLES; or DESCRIBE t;"
                );
            }
            Entry::Quit => return Ok(()),
        }
    }
}

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Statements(String),
    Cancelled,
    /// A word that is no SQL, as other shells have.
    Unknown(String),
    Quit,
}

/// An editor that knows what was typed before, in this run of the shell.
fn editor(history: &[String]) -> Result<DefaultEditor, ReadlineError> {
    let mut editor = DefaultEditor::new()?;
    for entry in history {
        editor.add_history_entry(entry)?;
    }
    Ok(editor)
}

/// Reads lines until the text is complete.
fn read_entry(
    editor: &mut DefaultEditor,
    is_complete: impl Fn(&str) -> bool,
) -> Result<Entry, ReadlineError> {
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() {
            PROMPT
        } else {
            CONTINUATION
        };
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => return Ok(Entry::Cancelled),
            Err(ReadlineError::Eof) => return Ok(Entry::Quit),
            Err(error) => return Err(error),
        };
        if text.is_empty() && is_quit(&line) {
            return Ok(Entry::Quit);
        }
        if text.is_empty() && is_command(&line) {
            return Ok(Entry::Unknown(line.trim().to_owned()));
        }
        if text.is_empty() && line.trim().is_empty() {
            continue;
        }
        text.push_str(&line);
        text.push('\n');
        if is_complete(&text) {
            return Ok(Entry::Statements(text));
        }
    }
}

fn greet(output: &mut impl Write) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(output, "dfp {version} (DataFusion {DATAFUSION_VERSION})")?;
    writeln!(
        output,
        "End statements with ';', and leave with \\q or Ctrl-D\n"
    )?;
    output.flush()
}

fn is_command(line: &str) -> bool {
    let word = line.trim();
    word.starts_with('\\') || word.eq_ignore_ascii_case("help") || word == "?"
}

fn is_quit(line: &str) -> bool {
    let word = line.trim().trim_end_matches(';').trim_end();
    ["\\q", "quit", "exit"]
        .iter()
        .any(|quit| word.eq_ignore_ascii_case(quit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quitting_has_several_words() {
        for line in ["\\q", "quit", " QUIT; ", "exit"] {
            assert!(is_quit(line), "{line}");
        }
        assert!(!is_quit("SELECT quit"));
    }

    #[test]
    fn commands_of_other_shells_are_no_statements() {
        for line in ["\\d", " \\? ", "help", "HELP", "?"] {
            assert!(is_command(line), "{line}");
        }
        assert!(!is_command("SELECT '\\d'"));
    }
}
