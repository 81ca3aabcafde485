//! A process that writes to a table of local files and is killed: afterwards a reader sees exactly what the statements
//! have written that were committed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::ordered_rows;

/// The variables that make [`process`] work.
const TABLE: &str = "DFP_TEST_WRITTEN_TABLE";
const FIRST: &str = "DFP_TEST_FIRST_STATEMENT";

/// How often the process is killed.
const ROUNDS: u64 = 200;

/// The rows of each statement, in as many partitions as there are hundreds.
const ROWS: i64 = 2000;

async fn session(table: &Path) -> SessionContext {
    let context = SessionContext::new().with_partitioned();
    let create = format!(
        "CREATE EXTERNAL TABLE t (statement BIGINT, id BIGINT, p BIGINT) STORED AS PARQUET PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        table.display()
    );
    context.sql(&create).await.unwrap();
    context
}

/// Statements with even numbers replace all rows, the others add some.
fn statement(number: i64) -> String {
    let verb = if number % 2 == 0 { "OVERWRITE" } else { "INTO" };
    format!(
        "INSERT {verb} t SELECT {number}, value, value % {} FROM range(0, {ROWS})",
        ROWS / 100
    )
}

/// Is run as a process of its own: writes until it is killed, and says which statement has ended.
#[tokio::test]
async fn process() {
    let (Ok(table), Ok(first)) = (std::env::var(TABLE), std::env::var(FIRST)) else {
        return;
    };
    let context = session(&PathBuf::from(table)).await;
    for number in first.parse().unwrap().. {
        context
            .sql(&statement(number))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        let mut output = std::io::stdout();
        writeln!(output, "\nended {number}").unwrap();
        output.flush().unwrap();
    }
}

fn start(table: &Path, first: i64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["killed_writer::process", "--exact", "--nocapture"]);
    let command = command.env(TABLE, table).env(FIRST, first.to_string());
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The statements of which there are rows, each with the number of these.
async fn found(table: &Path) -> Result<Vec<String>> {
    let context = session(table).await;
    let sql = "SELECT statement, count(*), count(DISTINCT id) FROM t GROUP BY statement ORDER BY statement";
    Ok(ordered_rows(&context.sql(sql).await?.collect().await?))
}

/// What there is when all statements up to one have been committed.
fn state(number: i64) -> Vec<String> {
    let first = number - number.rem_euclid(2);
    let rows = (first..=number).filter(|number| *number >= 0);
    rows.map(|number| format!("{number} | {ROWS} | {ROWS}"))
        .collect()
}

#[tokio::test]
async fn readers_see_whole_statements_when_a_writer_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let (mut committed, mut unfinished) = (-1, 0);
    for round in 0..ROUNDS {
        let mut child = start(table, committed + 1);
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = output.lines().map_while(std::result::Result::ok);
            let ended = lines.filter_map(|line| line.strip_prefix("ended ")?.parse::<i64>().ok());
            ended.for_each(|number| sender.send(number).unwrap_or_default());
        });
        // When it is at work, and at another time in each round.
        let first = ended.recv_timeout(Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis((round * 7919) % 200));
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it failed before it was killed"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        committed = ended.iter().last().unwrap_or(first.unwrap());

        let commits = table.join("_commits");
        let left = std::fs::read_dir(&commits).into_iter().flatten();
        let is_record = |path: PathBuf| path.extension().is_some_and(|ext| ext == "json");
        unfinished += usize::from(left.flatten().any(|entry| is_record(entry.path())));
        // Whoever knows that the writer is dead need not wait for its lock to grow old.
        let _ = std::fs::remove_file(commits.join("overwrite.lock"));
        let found = found(table).await.unwrap();
        match found {
            _ if found == state(committed) => {}
            _ if found == state(committed + 1) => committed += 1,
            _ => panic!("round {round}, {committed} had ended: {found:?}"),
        }
    }
    assert!(committed >= ROUNDS as i64 - 1, "{committed}");
    println!("{unfinished} of {ROUNDS} rounds ended within a commit");
}
