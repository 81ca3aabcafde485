//! The shell `dfp`, from its arguments to its output.

use std::sync::Arc;

use datafusion_partitioned_cli::{Input, Outcome, run};
use datafusion_partitioned_test_utils::Lake;

use crate::common::csv_tree;
use datafusion_partitioned_s3_server::{BUCKET, S3Server};

/// Runs the shell with standard input that is no terminal; gives outcome, output and errors.
async fn dfp(arguments: &[&str], input: &str) -> (Outcome, String, String) {
    let (mut output, mut errors) = (vec![], vec![]);
    let arguments = std::iter::once("dfp").chain(arguments.iter().copied());
    let outcome = run(
        arguments,
        Input::Stream(input.as_bytes()),
        &mut output,
        &mut errors,
    )
    .await;
    (
        outcome,
        String::from_utf8(output).unwrap(),
        String::from_utf8(errors).unwrap(),
    )
}

fn create(location: &std::path::Path) -> String {
    format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem');",
        location.display()
    )
}

#[tokio::test]
async fn several_statements_on_the_command_line_and_every_format() {
    let dir = csv_tree(&[("p=1", &[1, 2]), ("p=02", &[3])]);
    let statements = format!("{} SELECT id, p FROM t WHERE p = 2;", create(dir.path()));
    for (format, expected) in [
        ("csv", "id,p\n3,2\n"),
        ("tsv", "id\tp\n3\t2\n"),
        ("nd-json", "{\"id\":3,\"p\":2}\n"),
        ("json", "[{\"id\":3,\"p\":2}]\n"),
    ] {
        let (outcome, output, errors) =
            dfp(&["-q", "--format", format, "-c", &statements], "").await;
        assert_eq!((outcome, errors.as_str()), (Outcome::Success, ""));
        assert_eq!(output, expected, "{format}");
    }
    let (_, output, _) = dfp(&["-c", &statements], "").await;
    assert!(output.contains("| 3  | 2 |"), "{output}");
    assert!(output.contains("1 row"), "{output}");
}

#[tokio::test]
async fn files_come_before_commands_and_share_the_session() {
    let dir = csv_tree(&[("p=1", &[1])]);
    let file = dir.path().join("_setup.sql");
    std::fs::write(&file, create(dir.path())).unwrap();
    let file = file.to_str().unwrap();
    let query = "SELECT count(*) AS n FROM t";
    let (outcome, output, _) = dfp(&["-q", "--format", "csv", "-f", file, "-c", query], "").await;
    assert_eq!((outcome, output.as_str()), (Outcome::Success, "n\n1\n"));
}

#[tokio::test]
async fn standard_input_is_read_when_it_is_no_terminal() {
    let (outcome, output, _) =
        dfp(&["-q", "--format", "csv"], "SELECT 1 AS a;\nSELECT 2 AS b").await;
    assert_eq!(
        (outcome, output.as_str()),
        (Outcome::Success, "a\n1\nb\n2\n")
    );
}

#[tokio::test]
async fn an_error_names_its_statement_and_ends_the_run() {
    let input = "SELECT 1 AS a; SELECT nope; SELECT 2 AS b";
    let (outcome, output, errors) = dfp(&["-q", "--format", "csv"], input).await;
    assert_eq!(outcome, Outcome::Failure);
    assert_eq!(output, "a\n1\n");
    assert!(
        errors.contains("statement 2") && errors.contains("nope"),
        "{errors}"
    );

    let (outcome, _, errors) = dfp(&["--format", "xml"], "").await;
    assert_eq!(outcome, Outcome::Usage);
    assert!(errors.contains("nd-json"), "{errors}");
}

#[tokio::test]
async fn session_options_of_this_project_are_there() {
    let sql =
        "SET partitioned.dynamic_filter.max_keys = 7; SHOW partitioned.dynamic_filter.max_keys";
    let (outcome, output, errors) = dfp(&["-q", "--format", "csv"], sql).await;
    assert_eq!((outcome, errors.as_str()), (Outcome::Success, ""));
    assert!(
        output.contains("partitioned.dynamic_filter.max_keys,7"),
        "{output}"
    );
    let (outcome, _, errors) = dfp(&["-q"], "SET partitioned.dynamic_filter.max_kyes = 7").await;
    assert_eq!(outcome, Outcome::Failure);
    assert!(errors.contains("max_kyes"), "{errors}");
}

#[tokio::test]
async fn a_default_connector_needs_no_options() {
    let dir = csv_tree(&[("p=1", &[1]), ("p=01", &[2])]);
    let create = create(dir.path()).replace(" OPTIONS ('connector' 'filesystem')", "");
    let sql = format!(
        "SET partitioned.default_connector = 'filesystem'; {create} SELECT id FROM t WHERE p = 1 ORDER BY id"
    );
    let (_, output, errors) = dfp(&["-q", "--format", "csv"], &sql).await;
    assert_eq!((output.as_str(), errors.as_str()), ("id\n1\n2\n", ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_locations_and_no_secret_in_the_output() {
    let server = S3Server::start().await.unwrap();
    let store = Arc::new(server.client().unwrap());
    let lake = Lake::new(&format!("s3://{BUCKET}/"), store).unwrap();
    for p in 1..=3 {
        lake.put_text(&format!("t/p={p}/f.csv"), &format!("id\n{p}\n"))
            .await
            .unwrap();
    }
    server.clear();
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION 's3://{BUCKET}/t/' OPTIONS ('connector' 'filesystem', {}); \
         SELECT id FROM t WHERE p = 2; SHOW CREATE TABLE t; EXPLAIN SELECT * FROM t",
        server.shell_options()
    );
    let (outcome, output, errors) = dfp(&["-q", "--format", "csv", "-c", &sql], "").await;
    assert_eq!((outcome, errors.as_str()), (Outcome::Success, ""));
    assert!(output.starts_with("id\n2\n"), "{output}");
    assert!(!output.contains("integration-secret"), "{output}");
    assert!(server.mentioning("p=1/").is_empty());

    let wrong = sql.replace("integration-secret", "wrong");
    let (outcome, output, errors) = dfp(&["-q", "-c", &wrong], "").await;
    assert_eq!(outcome, Outcome::Failure);
    assert!(
        errors.contains("cannot list the partitions in 's3://"),
        "{errors}"
    );
    assert!(!format!("{output}{errors}").contains("wrong"), "{errors}");
}

#[tokio::test]
async fn plans_and_reports_are_readable_at_100_columns() {
    let dir = csv_tree(&[("p=1", &[1, 2]), ("p=2", &[3]), ("p=3", &[4])]);
    let sql = format!(
        "{} EXPLAIN ANALYZE SELECT p, sum(id) FROM t WHERE p > 1 GROUP BY p ORDER BY p; \
         SELECT * FROM partition_report()",
        create(dir.path())
    );
    let (_, output, errors) = dfp(&["-q", "--width", "100", "-c", &sql], "").await;
    assert_eq!(errors, "");
    for line in output.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for expected in [
        "Plan with Metrics:\n",
        "\n-[ record 1 ]-",
        "\npartition_filters         | p@0 > 1\n",
        "\npartitions_scanned        | 2\n",
    ] {
        assert!(output.contains(expected), "{expected} in\n{output}");
    }
    // Metrics begin on a line of their own, further to the right than their operator.
    let scan = output.find("DataSourceExec").unwrap();
    let metrics = output[scan..]
        .lines()
        .find(|line| line.trim().starts_with("metrics=["));
    assert!(metrics.unwrap().starts_with("    "), "{output}");

    // Without a width, which only a terminal has by itself, everything is a table.
    let (_, output, _) = dfp(&["-q", "-c", &sql], "").await;
    assert!(
        output.lines().all(|line| line.starts_with(['+', '|'])),
        "{output}"
    );
}

#[tokio::test]
async fn batch_size_is_that_of_the_session() {
    let sql = "SHOW datafusion.execution.batch_size";
    let (_, output, _) = dfp(&["-q", "-b", "77", "--format", "csv", "-c", sql], "").await;
    assert!(output.contains(",77\n"), "{output}");
    let (outcome, _, errors) = dfp(&["-b", "0"], "").await;
    assert_eq!(outcome, Outcome::Usage);
    assert!(errors.contains("at least 1"), "{errors}");
}

#[tokio::test]
async fn startup_files_run_before_standard_input() {
    let dir = csv_tree(&[("p=1", &[1])]);
    let file = dir.path().join("_rc.sql");
    std::fs::write(&file, create(dir.path())).unwrap();
    let arguments = ["-q", "--format", "csv", "--rc", file.to_str().unwrap()];
    let (_, output, errors) = dfp(&arguments, "SELECT id FROM t").await;
    assert_eq!((output.as_str(), errors.as_str()), ("id\n1\n", ""));
}

#[tokio::test]
async fn commands_of_the_prompt_are_no_statements() {
    for input in ["\\d", "SELECT 1;\n  \\d t\nSELECT 2;", "\\pset format csv"] {
        let (outcome, _, errors) = dfp(&["-q"], input).await;
        assert_eq!(outcome, Outcome::Failure);
        assert!(
            errors.contains("is a command of the prompt; SQL has SHOW TABLES"),
            "{errors}"
        );
    }
    let (outcome, _, errors) = dfp(&["-c", "help"], "").await;
    assert_eq!(outcome, Outcome::Failure);
    assert!(
        errors.contains("'help' is a command of the prompt"),
        "{errors}"
    );
}

#[tokio::test]
async fn files_may_begin_with_a_byte_order_mark() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mark.sql");
    std::fs::write(&file, "\u{feff}SELECT 1 AS a").unwrap();
    let file = file.to_str().unwrap();
    let (outcome, output, errors) = dfp(&["--format", "CSV", "-f", file], "").await;
    assert_eq!((outcome, errors.as_str()), (Outcome::Success, ""));
    assert_eq!(output, "a\n1\n");
}

#[tokio::test]
async fn tables_that_no_catalog_file_keeps_are_noted() {
    let dir = csv_tree(&[("p=1", &[1])]);
    let lake = tempfile::tempdir().unwrap();
    let file = lake.path().join("tables.db");
    let file = file.to_str().unwrap();
    let kept = create(dir.path());
    let (_, _, errors) = dfp(&["--catalog", file, "-c", &kept], "").await;
    assert_eq!(errors, "");
    let made = "CREATE TABLE m AS SELECT 1 AS a";
    let (_, _, errors) = dfp(&["--catalog", file, "-c", made], "").await;
    assert_eq!(
        errors,
        "note: 'm' is in memory only; the catalog file keeps tables of connectors, views and schemas\n"
    );
    let (_, _, errors) = dfp(&["-q", "--catalog", file, "-c", made], "").await;
    assert_eq!(errors, "");
    let (_, _, errors) = dfp(&["-c", made], "").await;
    assert_eq!(errors, "");
}

#[tokio::test]
async fn locations_elsewhere_are_refused() {
    let sql = "CREATE EXTERNAL TABLE t (id INT, p INT) STORED AS CSV PARTITIONED BY (p) \
               LOCATION 'gs://lake/t' OPTIONS ('connector' 'filesystem')";
    let (_, _, errors) = dfp(&["-c", sql], "").await;
    assert!(
        errors.contains("begins with 'gs://', but the shell reads local paths and s3:// only"),
        "{errors}"
    );
}
