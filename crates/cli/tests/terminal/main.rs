//! The program `dfp` on a terminal, as a person uses it.

#[cfg(test)]
mod terminal;

use std::fs;
use std::path::Path;

use terminal::{CTRL_C, CTRL_D, ENTER, TAB, Terminal, UP, lake};

/// Takes longer than any test.
const ENDLESS: &str = "SELECT sum(a.value * b.value) FROM range(0, 100000000) AS a \
                       CROSS JOIN range(0, 1000000) AS b WHERE a.value + b.value <> 7";

#[test]
fn an_entry_takes_as_many_lines_as_it_needs() {
    let mut terminal = Terminal::prompt();
    terminal.send(&format!("SELECT 1 +{ENTER}"));
    terminal.send(&format!("  1 AS two -- not yet;{ENTER}"));
    terminal.wait_for("-- not yet;\n");
    assert!(!terminal.screen().contains("fetched"));
    terminal.send(&format!(";{ENTER}"));
    let screen = terminal.wait_for("1 row(s) fetched.");
    assert!(screen.contains("| two |\n+-----+\n| 2   |"), "{screen}");
    terminal.wait_for_prompt();

    // All of its lines come back, and Ctrl-C clears them.
    terminal.send(UP);
    terminal.wait_until("the entry again", |screen| {
        screen.matches("-- not yet;").count() == 2
    });
    terminal.send(CTRL_C);
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn ctrl_c_cancels_the_query_and_not_the_shell() {
    let mut terminal = Terminal::prompt();
    for _ in 0..2 {
        terminal.send(&format!("{ENDLESS};{ENTER}"));
        terminal.wait_for("s, 0 rows");
        terminal.send(CTRL_C);
        let screen = terminal.wait_for("cancelled");
        assert!(!screen.contains("0 rows"), "{screen}");
        terminal.wait_for_prompt();
        terminal.send(&format!("\\pset{ENTER}"));
        terminal.wait_for("format is automatic");
        terminal.wait_for_prompt();
        terminal.clear();
    }
    terminal.send(&format!("SELECT 6 * 7 AS answer;{ENTER}"));
    terminal.wait_for("| 42     |");
    terminal.wait_for_prompt();
    terminal.send(&format!("\\q{ENTER}"));
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn progress_is_shown_and_leaves_nothing_behind() {
    let lake = lake(200);
    let mut terminal = Terminal::prompt();
    terminal.send(&format!("{}{ENTER}", lake.create()));
    terminal.wait_for("0 row(s) fetched.");
    terminal.wait_for_prompt();
    // As many rows as it takes to see it.
    let mut numbers = 10_000_u64;
    loop {
        terminal.clear();
        terminal.send(&format!(
            "SELECT count(*) AS n FROM range(0, {numbers}) AS r CROSS JOIN lake \
             WHERE r.value + id <> -1;{ENTER}"
        ));
        let screen = terminal.wait_until("progress or a result", |screen| {
            screen.contains(" files, ") || screen.contains("fetched")
        });
        if screen.contains("fetched") {
            terminal.wait_for_prompt();
            numbers *= 4;
            continue;
        }
        assert!(screen.contains("of 200 files, "), "{screen}");
        let screen = terminal.wait_for("1 row(s) fetched.");
        assert!(
            screen.contains(&format!("| {} |", numbers * 200)),
            "{screen}"
        );
        assert!(!screen.contains("files"), "{screen}");
        break;
    }
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn progress_does_not_get_into_the_output() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let command = format!(
        "exec \"$DFP\" --format csv -c 'SELECT 1 AS a; {ENDLESS}' > '{}'",
        output.display()
    );
    let mut terminal = Terminal::shell(&command);
    terminal.wait_for("s, 0 rows");
    terminal.send(CTRL_C);
    let screen = terminal.wait_for("dfp: cancelled");
    assert!(!screen.contains("0 rows"), "{screen}");
    assert_eq!(terminal.exit_code(), 130);
    let output = fs::read_to_string(output).unwrap();
    assert_eq!(output, "a\n1\nsum(a.value * b.value)\n");
}

#[test]
fn exit_codes_say_how_it_ended() {
    for (arguments, code) in [
        (["-c", "SELECT 1"], 0),
        (["-c", "SELECT nope"], 1),
        (["-f", "/nowhere.sql"], 1),
        (["--format", "xml"], 2),
        (["--rc", "/nowhere.sql"], 1),
    ] {
        let mut terminal = Terminal::start(&arguments, Path::new("/nowhere"));
        assert_eq!(terminal.exit_code(), code, "{arguments:?}");
    }
    let mut terminal = Terminal::start(&["-c", ENDLESS], Path::new("/nowhere"));
    terminal.wait_for("s, 0 rows");
    terminal.send(CTRL_C);
    assert_eq!(terminal.exit_code(), 130);
}

#[test]
fn tab_completes_tables_columns_keywords_and_commands() {
    let mut terminal = Terminal::prompt();
    terminal.send(&format!(
        "CREATE TABLE sales (amount INT) AS VALUES (5);{ENTER}"
    ));
    terminal.wait_for("row(s) fetched.");
    terminal.wait_for_prompt();
    terminal.clear();
    terminal.send(&format!("SELECT 1 FROM sal{TAB} WHER{TAB} amo{TAB} > 1;"));
    terminal.wait_for("dfp> SELECT 1 FROM sales WHERE amount > 1;");
    terminal.send(ENTER);
    terminal.wait_for("1 row(s) fetched.");
    terminal.wait_for_prompt();
    terminal.clear();
    terminal.send(&format!("\\tim{TAB}{ENTER}"));
    terminal.wait_for("timing is on");
    terminal.wait_for_prompt();
    // Several candidates are listed.
    terminal.send(&format!("\\pset format {TAB}{TAB}"));
    terminal.wait_for("automatic");
    terminal.send(CTRL_C);
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn commands_describe_and_set() {
    let mut terminal = Terminal::prompt();
    terminal.send(&format!(
        "CREATE TABLE sales (amount INT) AS VALUES (5);{ENTER}"
    ));
    terminal.wait_for("row(s) fetched.");
    for (command, reply) in [
        (
            "\\d",
            "| datafusion    | public       | sales      | BASE TABLE |",
        ),
        ("\\d sales", "| amount      | Int32     | YES         |"),
        ("\\h abs", "abs(numeric_expression)"),
        (
            "\\h abz",
            "unknown function 'abz'; '\\h' lists the functions",
        ),
        ("\\?", "\\pset [NAME [VALUE]]"),
        (
            "\\quit on",
            "unknown command '\\quit' (did you mean '\\quiet'?); '\\?' lists",
        ),
        ("\\d nowhere", "table 'datafusion.public.nowhere' not found"),
        ("\\i nowhere.sql", "cannot read the file 'nowhere.sql'"),
        ("\\pset maxrows 1", "maxrows is 1"),
        (
            "SELECT * FROM range(0, 3);",
            "(First 1 displayed. Use \\pset maxrows to adjust)",
        ),
        ("\\quiet on", "quiet is on"),
        (
            "\\pset format xml",
            "'xml' is no value of 'format'; expected one of: automatic",
        ),
        ("\\pset format csv", "format is csv"),
        ("SELECT amount FROM sales;", "\namount\n5\n"),
    ] {
        terminal.wait_for_prompt();
        terminal.clear();
        terminal.send(&format!("{command}{ENTER}"));
        terminal.wait_for(reply);
    }
    terminal.wait_for_prompt();
    terminal.send(&format!("exit{ENTER}"));
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn the_home_folder_has_history_without_secrets_and_statements_for_the_start() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join(".dfprc"),
        "CREATE VIEW v AS SELECT 'from the start' AS x",
    )
    .unwrap();
    let mut terminal = Terminal::start(&[], home.path());
    terminal.wait_for_prompt();
    terminal.send(&format!("SELECT x FROM v;{ENTER}"));
    terminal.wait_for("| from the start |");
    terminal.wait_for_prompt();
    terminal.send(&format!("SELECT 1 AS \"secret-one\";{ENTER}"));
    terminal.wait_for("| secret-one |");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);

    let history = fs::read_to_string(home.path().join(".dfp_history")).unwrap();
    assert!(history.contains("SELECT x FROM v;"), "{history}");
    assert!(!history.contains("secret"), "{history}");

    let mut terminal = Terminal::start(&["--quiet"], home.path());
    terminal.wait_for_prompt();
    terminal.send(UP);
    terminal.wait_for("dfp> SELECT x FROM v;");
    terminal.send(CTRL_C);
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn plans_and_reports_fit_the_terminal() {
    let lake = lake(3);
    let mut terminal = Terminal::prompt();
    terminal.send(&format!("{}{ENTER}", lake.create()));
    terminal.wait_for("0 row(s) fetched.");
    for (statement, shown) in [
        (
            "EXPLAIN ANALYZE SELECT p, sum(id) FROM lake WHERE p > 1 GROUP BY p;",
            "metrics=[",
        ),
        (
            "SELECT * FROM partition_report();",
            "partitions_scanned        | 2",
        ),
    ] {
        terminal.wait_for_prompt();
        terminal.clear();
        terminal.send(&format!("{statement}{ENTER}"));
        let screen = terminal.wait_for("row(s) fetched.");
        assert!(screen.contains(shown), "{screen}");
        assert!(!terminal.is_wrapped(), "{screen}");
    }
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}
