//! The shell `dfp`: SQL over partitioned tables from the command line.
//!
//! ```text
//! dfp -c "SELECT 1"                        statements from the command line
//! dfp -f setup.sql -c "SELECT ..."         files first, then commands
//! dfp --format csv < report.sql            standard input, when it is not a terminal
//! dfp                                      a prompt
//! dfp --catalog lake.db -c "CREATE .."     tables that the next run with this file has too
//! ```
//!
//! Each file, command or input may hold several statements. The first one that fails ends the run
//! with a message on standard error and a non-zero exit code; in the prompt it ends nothing. The
//! flags are those of `datafusion-cli`.
//!
//! Everything but the process itself is in [`run()`], so that tests can call it:
//!
//! ```
//! use datafusion_partitioned_cli::{Input, Outcome, run};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (mut output, mut errors) = (vec![], vec![]);
//! let arguments = ["dfp", "--format", "csv"];
//! let input = Input::Stream("SELECT 1 AS a; SELECT 2 AS a".as_bytes());
//!
//! let outcome = run(arguments, input, &mut output, &mut errors).await;
//!
//! assert_eq!(outcome, Outcome::Success);
//! assert_eq!(output, b"a\n1\na\n2\n");
//! # }
//! ```

mod args;
mod command;
mod completion;
mod environment;
mod history;
mod interrupt;
mod layout;
mod print;
mod progress;
mod prompt;
mod query;
mod run;
mod session;
mod shell;
mod storage;

pub use environment::Environment;
pub use run::{Input, Outcome, run, run_in};
