//! The process around the shell: its arguments, streams and exit code.

use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use datafusion_partitioned_cli::{Environment, Input, run_in};
use tokio::runtime::{Builder, Runtime};

/// How long the end waits for work that cannot be interrupted, such as reading a slow disk.
const WORK_ENDS_WITHIN: Duration = Duration::from_secs(1);

fn main() -> io::Result<ExitCode> {
    let input = if io::stdin().is_terminal() {
        Input::Terminal
    } else {
        Input::Stream(io::stdin())
    };
    let output = BufWriter::new(io::stdout());
    let workers = Runtime::new()?;
    let environment = Environment {
        workers: Some(workers.handle().clone()),
        ..Environment::of_process()
    };
    let arguments = std::env::args_os();
    let front = Builder::new_current_thread().enable_all().build()?;
    let outcome = front.block_on(run_in(&environment, arguments, input, output, io::stderr()));
    workers.shutdown_timeout(WORK_ENDS_WITHIN);
    Ok(outcome.into())
}
