//! What surrounds a run of the shell besides its arguments and streams.

use std::env;
use std::io::{IsTerminal, stderr, stdout};
use std::path::PathBuf;

use tokio::runtime::Handle;

/// What surrounds a run of the shell. The default is nothing at all: no terminal, no home, and nobody
/// who presses Ctrl-C.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Whether the output is the process's, and that a terminal. Results are fitted to its width.
    pub output_is_terminal: bool,
    /// Whether messages about errors go to the process's standard error, and that is a terminal. It
    /// shows the progress of long queries.
    pub errors_are_terminal: bool,
    /// Where a prompt looks for `.dfprc`.
    pub home: Option<PathBuf>,
    /// The file with what was typed before.
    pub history: Option<PathBuf>,
    /// Whether Ctrl-C stops the statement that runs. Otherwise it does what it does to the process.
    pub catches_interrupts: bool,
    /// Where statements run. By default where the shell does; but a runtime whose threads are all busy
    /// with a query notices neither Ctrl-C nor the time.
    pub workers: Option<Handle>,
}

impl Environment {
    /// The environment of this process. The history is in the file that the variable `DFP_HISTORY`
    /// names, nowhere if that is empty, and in `.dfp_history` in the home folder if it is not set.
    pub fn of_process() -> Self {
        let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let history = match env::var_os("DFP_HISTORY") {
            Some(name) => Some(PathBuf::from(name)).filter(|path| !path.as_os_str().is_empty()),
            None => home.as_ref().map(|home| home.join(".dfp_history")),
        };
        Self {
            output_is_terminal: stdout().is_terminal(),
            errors_are_terminal: stderr().is_terminal(),
            home,
            history,
            catches_interrupts: true,
            workers: None,
        }
    }
}
