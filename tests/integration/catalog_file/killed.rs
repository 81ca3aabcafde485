//! Two processes that change one catalog file and are killed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use datafusion::common::ScalarValue;

use super::partitions::{add, catalog, create};
use super::{Home, Session};

/// The variables that make [`process`] work.
const FILE: &str = "DFP_TEST_CATALOG_FILE";
const NAME: &str = "DFP_TEST_CATALOG_NAME";

/// As many partitions are added by one statement.
const BATCH: usize = 20;

/// Is run as a process of its own: changes the file until it is killed, and says what it has done.
#[tokio::test]
async fn process() {
    let (Ok(file), Ok(name)) = (std::env::var(FILE), std::env::var(NAME)) else {
        return;
    };
    let session = Session::new(&PathBuf::from(file)).unwrap();
    let say = |what: &str| {
        let mut output = std::io::stdout();
        writeln!(output, "\nsaid {what}").unwrap();
        output.flush().unwrap();
    };
    for n in 0.. {
        let table = format!("{name}_{n}");
        session.rows(&create("", &table, "p INT", "p")).await;
        say(&format!("{table} created"));
        for batch in 0..2 {
            let texts: Vec<_> = (0..BATCH).map(|n| format!("{batch}/{n}")).collect();
            let values = (batch * BATCH..).map(|p| ScalarValue::from(p as i32));
            let partitions: Vec<_> = values.zip(texts.iter().map(String::as_str)).collect();
            add(&session, &table, &partitions).await.unwrap();
            say(&format!("{table} {}", (batch + 1) * BATCH));
        }
        session
            .rows(&create("OR REPLACE", "shared", "p INT", "p"))
            .await;
        let view = format!("CREATE OR REPLACE VIEW newest AS SELECT count(*) AS n FROM {table}");
        session.rows(&view).await;
        if n % 3 == 2 {
            say(&format!("{table} dropping"));
            session.rows(&format!("DROP TABLE {table}")).await;
            say(&format!("{table} dropped"));
        }
    }
}

fn start(home: &Home, name: &str) -> Child {
    let test = "catalog_file::killed::process";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args([test, "--exact", "--nocapture"]);
    let command = command.env(FILE, home.file()).env(NAME, name);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The last thing that a process said of each table.
fn said(output: impl BufRead) -> HashMap<String, String> {
    let mut last = HashMap::new();
    for line in output.lines().map_while(Result::ok) {
        let words: Vec<_> = line.split(' ').collect();
        if let ["said", table, what] = words[..] {
            last.insert(table.to_owned(), what.to_owned());
        }
    }
    last
}

#[tokio::test]
async fn no_definition_is_lost_or_half_when_processes_are_killed() {
    let home = Home::new();
    let mut expected: HashMap<String, String> = HashMap::new();
    let started = Instant::now();
    let mut round = 0;
    // Each round has both processes at work for a while of another length.
    while round < 6 || expected.is_empty() && started.elapsed() < Duration::from_secs(60) {
        let names = ["a", "b"].map(|name| format!("{name}{round}"));
        let readers = names.clone().map(|name| {
            let mut child = start(&home, &name);
            let output = BufReader::new(child.stdout.take().unwrap());
            (child, thread::spawn(move || said(output)))
        });
        thread::sleep(Duration::from_millis(400 + 137 * round));
        for (mut child, reader) in readers {
            let ended = child.try_wait().unwrap();
            assert_eq!(ended, None, "a process failed before it was killed");
            child.kill().unwrap();
            child.wait().unwrap();
            expected.extend(reader.join().unwrap());
        }
        round += 1;

        let session = home.session();
        let check = "PRAGMA integrity_check";
        let check: String = home
            .connection()
            .query_row(check, [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
        let tables =
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
        let tables = session.rows(tables).await;
        for (table, what) in &expected {
            match what.as_str() {
                "dropped" => assert!(!tables.contains(table), "{table} is there again"),
                "dropping" => {}
                _ => assert!(tables.contains(table), "{table} is lost"),
            }
        }
        let has_replaced = expected.values().any(|what| what == "dropped");
        assert!(!has_replaced || tables.contains(&"shared".to_owned()));
        assert!(!has_replaced || tables.contains(&"newest".to_owned()));
        for table in tables.iter().filter(|table| *table != "newest") {
            let described = catalog(&session, table).await;
            let described = described.unwrap_or_else(|error| panic!("{table}: {error}"));
            assert_eq!(described.spec().len(), 1);
            let count = "SELECT count(*) FROM partitions, tables WHERE table_id = id AND name = ?1";
            let count = home
                .connection()
                .query_row(count, [table], |row| row.get(0));
            let count: i64 = count.unwrap();
            let at_least: i64 = expected
                .get(table)
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            assert_eq!(count % BATCH as i64, 0, "half of the partitions of {table}");
            assert!(count >= at_least, "{table} has {count} of {at_least}");
        }
        let orphans =
            "SELECT count(*) FROM partitions WHERE table_id NOT IN (SELECT id FROM tables)";
        let orphans: i64 = home
            .connection()
            .query_row(orphans, [], |row| row.get(0))
            .unwrap();
        assert_eq!(orphans, 0);
    }
    assert!(expected.len() > 2, "{expected:?}");
}
