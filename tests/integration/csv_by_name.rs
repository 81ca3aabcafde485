//! CSV columns by the names in the header of each file.

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{Fault, FaultyStore, RequestKind};
use std::sync::Arc;

use crate::common::{Fixture, modes};

async fn put(fixture: &Fixture, files: &[(&str, &str)]) {
    for (key, text) in files {
        fixture
            .lake
            .put_text(&format!("t/{key}"), text)
            .await
            .unwrap();
    }
}

/// The rows of `query` in every mode, on the same files.
async fn rows_in_all_modes(
    files: &[(&str, &str)],
    columns: &str,
    options: &str,
    query: &str,
) -> Vec<String> {
    let mut answers = vec![];
    for config in modes() {
        let fixture = Fixture::with_config(config);
        put(&fixture, files).await;
        fixture.declare(columns, "CSV", "p", options).await.unwrap();
        answers.push(fixture.rows(query).await);
    }
    assert!(
        answers.windows(2).all(|pair| pair[0] == pair[1]),
        "{answers:?}"
    );
    answers.remove(0)
}

/// DuckDB 12578: filtered counts were smaller than the groups, because positions in files and in the
/// table were mixed up.
#[tokio::test]
async fn prc_06_column_positions_differ_between_files() {
    for config in modes() {
        let fixture = Fixture::with_config(config);
        put(
            &fixture,
            &[
                ("g=3/k=1/f.csv", "a,b\n1,2\n3,4\n"),
                ("g=3/k=2/f.csv", "x,a,b\n9,5,6\n"),
                ("g=4/k=1/f.csv", "b,a\n8,7\n"),
            ],
        )
        .await;
        fixture
            .declare(
                "a INT, b INT, x INT, g INT, k INT",
                "CSV",
                "g, k",
                "'has_header' 'true'",
            )
            .await
            .unwrap();
        let rows = |sql: &'static str| fixture.rows(sql);
        assert_eq!(
            rows("SELECT g, count(*) FROM t GROUP BY g").await,
            ["3 | 3", "4 | 1"]
        );
        assert_eq!(rows("SELECT count(*) FROM t WHERE g = 3").await, ["3"]);
        assert_eq!(
            rows("SELECT a, b, x, k FROM t WHERE g = 3").await,
            ["1 | 2 | <null> | 1", "3 | 4 | <null> | 1", "5 | 6 | 9 | 2"]
        );
        assert_eq!(rows("SELECT g FROM t WHERE a = 7").await, ["4"]);
        assert_eq!(rows("SELECT x FROM t WHERE x IS NOT NULL").await, ["9"]);
        assert_eq!(
            rows("SELECT x, x + a, k, 1 FROM t WHERE b = 6").await,
            ["9 | 14 | 2 | 1"]
        );
    }
}

#[tokio::test]
async fn headers_are_spelled_in_many_ways() {
    let files = [
        ("p=1/bom", "\u{feff}id,name\n1,a\n"),
        ("p=2/crlf", "name,id\r\nb,2\r\n"),
        ("p=3/quoted", "\"na,me\",\"name\",\"id\"\nx,c,3\n"),
        ("p=4/no-end", "name,id\nd,4"),
        ("p=5/case", "Name,ID\ne,5\n"),
        ("p=6/only-header", "name,id\n"),
        ("p=7/only-header-without-end", "name,id"),
        ("p=8/only-newlines", "\n\n"),
        ("p=9/newlines-first", "\n\nname,id\nf,9\n"),
    ];
    assert_eq!(
        rows_in_all_modes(
            &files,
            "id BIGINT, name TEXT, p INT",
            "",
            "SELECT id, name, p FROM t"
        )
        .await,
        [
            "1 | a | 1",
            "2 | b | 2",
            "3 | c | 3",
            "4 | d | 4",
            "5 | e | 5",
            "9 | f | 9"
        ]
    );
}

#[tokio::test]
async fn a_very_long_header_is_read_to_its_end() {
    let padding = "x".repeat(100);
    let names: Vec<_> = (0..200).map(|n| format!("{padding}{n}")).collect();
    let values: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    let (names, values) = (names.join(","), values.join(","));
    assert_eq!(
        rows_in_all_modes(
            &[("p=1/f", &format!("{names}\n{values}\n{values}\n"))],
            &format!("{padding}199 BIGINT, {padding}0 BIGINT, p INT"),
            "",
            &format!("SELECT sum({padding}199), sum({padding}0), count(*) FROM t")
        )
        .await,
        ["398 | 0 | 2"]
    );
}

#[tokio::test]
async fn a_file_in_pieces_has_one_header() {
    let mut config = SessionConfig::new().with_target_partitions(4);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let fixture = Fixture::with_config(config);
    let lines: String = (1..=10_000).map(|n| format!("x,{n}\n")).collect();
    put(&fixture, &[("p=1/f.csv", &format!("unused,id\n{lines}"))]).await;
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", "")
        .await
        .unwrap();
    assert_eq!(
        fixture
            .rows("SELECT count(*), sum(id), max(p) FROM t")
            .await,
        ["10000 | 50005000 | 1"]
    );
    let log = fixture.take_requests();
    let headers: Vec<_> = log
        .lines()
        .filter(|line| line.ends_with("(bytes=0-4095)"))
        .collect();
    assert_eq!(headers.len(), 1, "{log}");
}

#[tokio::test]
async fn a_whole_file_is_requested_once() {
    let fixture = Fixture::new();
    put(&fixture, &[("p=1/f", "id\n1\n"), ("p=2/f", "x,id\n1,2\n")]).await;
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", "")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["1", "2"]);
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=1/f
    GET /t/p=2/f
    LIST /t/
    ");
}

#[tokio::test]
async fn local_files_go_by_name_too() {
    let dir = tempfile::tempdir().unwrap();
    for (p, text) in [(1, "id,name\n1,a\n"), (2, "name,x,id\nb,0,2\n")] {
        std::fs::create_dir(dir.path().join(format!("p={p}"))).unwrap();
        std::fs::write(dir.path().join(format!("p={p}/f")), text).unwrap();
    }
    for config in modes() {
        let fixture = Fixture::with_config(config);
        let sql = format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, name TEXT, p INT) STORED AS CSV \
             PARTITIONED BY (p) LOCATION '{}/' OPTIONS ('connector' 'filesystem')",
            dir.path().display()
        );
        fixture.run(&sql).await.unwrap();
        assert_eq!(
            fixture.rows("SELECT id, name, p FROM t").await,
            ["1 | a | 1", "2 | b | 2"]
        );
    }
}

#[tokio::test]
async fn other_delimiters_quotes_and_comments() {
    assert_eq!(
        rows_in_all_modes(
            &[("p=1/f", "# made by hand\nname;id\n'a;b';1\n# no row\nc;2\n")],
            "id BIGINT, name TEXT, p INT",
            "'delimiter' ';', 'quote' '''', 'comment' '#'",
            "SELECT id, name FROM t"
        )
        .await,
        ["1 | a;b", "2 | c"]
    );
    assert_eq!(
        rows_in_all_modes(
            &[("p=1/f", "\"na\nme\",id\n\"a\nb\",1\n")],
            "id BIGINT, \"na\nme\" TEXT, p INT",
            "'newlines_in_values' 'true'",
            "SELECT id, \"na\nme\" = 'a\nb' FROM t"
        )
        .await,
        ["1 | true"]
    );
}

#[tokio::test]
async fn the_option_goes_back_to_positions() {
    let files = [("p=1/f", "b,a\n1,2\n")];
    let query = "SELECT a, b FROM t";
    let columns = "a INT, b INT, p INT";
    assert_eq!(
        rows_in_all_modes(&files, columns, "", query).await,
        ["2 | 1"]
    );
    let option = "'csv.match-by' 'position'";
    assert_eq!(
        rows_in_all_modes(&files, columns, option, query).await,
        ["1 | 2"]
    );
    let files = [("p=1/f", "1,2\n")];
    let option = "'has_header' 'false'";
    assert_eq!(
        rows_in_all_modes(&files, columns, option, query).await,
        ["1 | 2"]
    );
}

#[tokio::test]
async fn what_names_cannot_decide_is_an_error_that_names_the_file() {
    for (text, message) in [
        (
            "x,y\n1,2\n",
            "the header 'x,y' has none of the columns of the table (id, name)",
        ),
        ("1,a\n2,b\n", "has_header"),
        (
            "id,name,id\n1,a,2\n",
            "the header has the column 'id' more than once",
        ),
        (
            "ID,Id\n1,2\n",
            "the header has the column 'id' more than once",
        ),
        ("name,id\na,1,2\n", "incorrect number of fields"),
        ("name,id\na,b\n", "'b'"),
    ] {
        let fixture = Fixture::new();
        put(
            &fixture,
            &[("p=1/f.csv", text), ("p=2/f.csv", "id,name\n1,a\n")],
        )
        .await;
        fixture
            .declare("id BIGINT, name TEXT, p INT", "CSV", "p", "")
            .await
            .unwrap();
        for sql in ["SELECT id, name FROM t", "SELECT id FROM t WHERE p = 1"] {
            let error = fixture.error(sql).await;
            assert!(error.contains(message), "{error}");
            assert!(error.contains("'memory://lake/t/p=1/f.csv'"), "{error}");
        }
        assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 2").await, ["1"]);
    }
    let error = Fixture::new()
        .declare(
            "id INT, p INT",
            "CSV",
            "p",
            "'csv.match-by' 'name', 'has_header' 'false'",
        )
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no header"), "{error}");
    let error = Fixture::new()
        .declare("id INT, p INT", "CSV", "p", "'csv.match-by' 'nmae'")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("name or position"), "{error}");
}

#[tokio::test]
async fn a_missing_column_that_must_not_be_null_is_an_error() {
    let fixture = Fixture::new();
    put(&fixture, &[("p=1/f", "id\n1\n")]).await;
    fixture
        .declare("id BIGINT, name TEXT NOT NULL, p INT", "CSV", "p", "")
        .await
        .unwrap();
    let error = fixture.error("SELECT id, name FROM t").await;
    assert!(
        error.contains("'name'") && error.contains("/t/p=1/f'"),
        "{error}"
    );
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["1"]);
}

#[tokio::test]
async fn the_directory_decides_about_a_partition_column_in_the_files() {
    for config in modes() {
        let fixture = Fixture::with_config(config);
        put(
            &fixture,
            &[("p=1/f", "p,id\n7,1\n"), ("p=2/f", "id,p\n2,8\n")],
        )
        .await;
        for columns in ["id BIGINT, p INT", ""] {
            fixture.declare(columns, "CSV", "p", "").await.unwrap();
            assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | 1", "2 | 2"]);
            assert_eq!(fixture.rows("SELECT id FROM t WHERE p = 2").await, ["2"]);
            assert_eq!(fixture.rows("SELECT id FROM t WHERE p > 2").await.len(), 0);
        }
    }
}

#[tokio::test]
async fn a_failing_request_for_a_header_is_an_error() {
    let mut config = SessionConfig::new().with_target_partitions(4);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    for config in [config, SessionConfig::new()] {
        let fixture = Fixture::with_config(config);
        put(&fixture, &[("p=1/f", "id\n1\n2\n3\n4\n5\n6\n7\n8\n")]).await;
        fixture
            .declare("id BIGINT, p INT", "CSV", "p", "")
            .await
            .unwrap();
        let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
        faulty.inject(Fault::fail(|request| request.kind == RequestKind::Get));
        fixture
            .lake
            .clone()
            .with_store(Arc::new(faulty))
            .register(&fixture.ctx);
        let error = fixture.error("SELECT id FROM t").await;
        assert!(
            error.contains("cannot read 'memory://lake/t/p=1/f'"),
            "{error}"
        );
    }
}
