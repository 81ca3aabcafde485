//! The process around the shell: its arguments, streams and exit code.

use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;

use datafusion_partitioned_cli::{Input, run};

#[tokio::main]
async fn main() -> ExitCode {
    let input = if io::stdin().is_terminal() {
        Input::Terminal
    } else {
        Input::Stream(io::stdin())
    };
    let output = BufWriter::new(io::stdout());
    run(std::env::args_os(), input, output, io::stderr())
        .await
        .into()
}
