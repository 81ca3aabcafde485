//! A pseudo-terminal with `dfp` in it, and a screen that shows what a person would see.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;

pub(crate) const ENTER: &str = "\r";
pub(crate) const TAB: &str = "\t";
pub(crate) const UP: &str = "\x1b[A";
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";

const LINES: u16 = 60;
const COLUMNS: u16 = 100;

/// For anything to happen, on a machine with a lot else to do.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process on a terminal of 100 columns.
pub(crate) struct Terminal {
    parser: vt100::Parser,
    output: Receiver<Vec<u8>>,
    input: Box<dyn Write + Send>,
    process: Box<dyn Child + Send + Sync>,
    /// Open as long as the process may use the terminal.
    _master: Box<dyn MasterPty + Send>,
    _home: Option<TempDir>,
}

impl Terminal {
    /// `dfp` that has come to its prompt, in a home folder of its own.
    pub(crate) fn prompt() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut terminal = Self::start(&[], home.path());
        terminal._home = Some(home);
        terminal.wait_for_prompt();
        terminal
    }

    /// `dfp` with these arguments.
    pub(crate) fn start(arguments: &[&str], home: &Path) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dfp"));
        command.args(arguments);
        Self::run(command, home)
    }

    /// A command of the system's shell, in which `$DFP` is the program.
    pub(crate) fn shell(text: &str) -> Self {
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", text]);
        Self::run(command, Path::new("/nowhere"))
    }

    fn run(mut command: CommandBuilder, home: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear();
        command.env("PATH", path);
        command.env("HOME", home);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env("DFP", env!("CARGO_BIN_EXE_dfp"));
        command.cwd("/");
        let size = PtySize {
            rows: LINES,
            cols: COLUMNS,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let process = pair.slave.spawn_command(command).unwrap();
        let input = pair.master.take_writer().unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            parser: new_screen(),
            output,
            input,
            process,
            _master: pair.master,
            _home: None,
        }
    }

    /// Types.
    pub(crate) fn send(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// What is on the screen, without spaces at the ends of lines.
    pub(crate) fn screen(&self) -> String {
        let lines = self.parser.screen().rows(0, COLUMNS);
        let lines: Vec<_> = lines.map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned() + "\n"
    }

    /// Whether a line has not fitted on the screen.
    pub(crate) fn is_wrapped(&self) -> bool {
        (0..LINES).any(|line| self.parser.screen().row_wrapped(line))
    }

    /// Forgets what is on the screen.
    pub(crate) fn clear(&mut self) {
        self.parser = new_screen();
    }

    /// Waits for a text to be on the screen, and returns the screen then.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits for an empty prompt in the last line.
    pub(crate) fn wait_for_prompt(&mut self) -> String {
        self.wait_until("the prompt", |screen| screen.ends_with("dfp>\n"))
    }

    /// Waits for the screen to be like that.
    pub(crate) fn wait_until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("waited for {what}: {error}; on the screen is\n{screen}"),
            }
        }
    }

    /// Waits for the end of the process.
    pub(crate) fn exit_code(&mut self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(bytes) = self
            .output
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            self.parser.process(&bytes);
        }
        self.process.wait().unwrap().exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

fn new_screen() -> vt100::Parser {
    let size = |number| NonZeroU16::new(number).unwrap();
    vt100::Parser::new(size(LINES), size(COLUMNS), 0)
}

/// A table in a folder.
pub(crate) struct Lake(TempDir);

/// Partitions `p=1/`, `p=2/`, .. with one row each.
pub(crate) fn lake(partitions: usize) -> Lake {
    let directory = tempfile::tempdir().unwrap();
    for partition in 1..=partitions {
        let folder = directory.path().join(format!("p={partition}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("data.csv"), format!("id\n{partition}\n")).unwrap();
    }
    Lake(directory)
}

impl Lake {
    /// The statement that makes it the table `lake`.
    pub(crate) fn create(&self) -> String {
        format!(
            "CREATE EXTERNAL TABLE lake (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
             LOCATION '{}' OPTIONS ('connector' 'filesystem');",
            self.0.path().display()
        )
    }
}
