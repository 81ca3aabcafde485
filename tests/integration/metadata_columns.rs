//! Columns that describe the file of a row: `file.path`, `file.name`, `file.size`,
//! `file.modification-time`.

use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::{FileKind, scan_metric};

use crate::common::{Fixture, NULL, modes};

const ALL: &str = "'metadata.columns' 'file.path, file.name, file.size, file.modification-time'";

async fn lake(kind: FileKind, config: SessionConfig) -> Fixture {
    let fixture = Fixture::with_config(config);
    for (p, name) in [("1", "a"), ("1", "b"), (NULL, "a")] {
        let key = format!("t/p={p}/{name}.{}", kind.extension());
        fixture
            .put_query(
                &key,
                kind,
                "SELECT CAST(1 AS BIGINT) AS id UNION ALL SELECT 2",
            )
            .await;
    }
    fixture
        .declare("id BIGINT, p INT", kind, "p", ALL)
        .await
        .unwrap();
    fixture
}

#[tokio::test]
async fn every_format_has_them_in_every_mode() {
    for kind in FileKind::ALL {
        for config in modes() {
            let fixture = lake(kind, config).await;
            let e = kind.extension();
            let path = format!("memory://lake/t/p=1/a.{e}");
            assert_eq!(
                fixture
                    .rows("SELECT \"file.name\", p, count(*) FROM t GROUP BY 1, 2")
                    .await,
                [
                    format!("a.{e} | 1 | 2"),
                    format!("a.{e} | <null> | 2"),
                    format!("b.{e} | 1 | 2"),
                ]
            );
            for filter in [
                format!("\"file.path\" = '{path}'"),
                format!("\"file.name\" = 'a.{e}' AND p = 1"),
                format!("p = 1 AND \"file.path\" LIKE '%a.{e}' AND \"file.size\" > 0"),
                format!("(p = 1 AND \"file.name\" LIKE 'a%') OR \"file.path\" = '{path}'"),
            ] {
                let sql = format!("SELECT id, \"file.path\" FROM t WHERE {filter}");
                assert_eq!(
                    fixture.rows(&sql).await,
                    [format!("1 | {path}"), format!("2 | {path}")],
                    "{kind:?}: {filter}"
                );
            }
            assert_eq!(
                fixture
                    .rows("SELECT count(*) FROM t WHERE \"file.name\" = CAST(id AS TEXT)")
                    .await,
                ["0"]
            );
        }
    }
}

#[tokio::test]
async fn they_come_last_and_have_their_types() {
    let fixture = lake(FileKind::Csv, SessionConfig::new()).await;
    let schema = fixture
        .ctx
        .table("t")
        .await
        .unwrap()
        .schema()
        .as_arrow()
        .clone();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    assert_eq!(
        columns,
        [
            "id Int64",
            "p Int32",
            "file.path Utf8",
            "file.name Utf8",
            "file.size Int64",
            "file.modification-time Timestamp(ms, \"UTC\")",
        ]
    );
    let rows = fixture
        .rows(
            "SELECT id, p, \"file.size\" FROM t WHERE \"file.modification-time\" \
             BETWEEN now() - INTERVAL '1 hour' AND now() + INTERVAL '1 hour'",
        )
        .await;
    assert_eq!(rows.len(), 6);
    // "id\n1\n2\n"
    assert_eq!(rows[0], "1 | 1 | 7");
}

#[tokio::test]
async fn they_do_not_take_part_in_the_choice_of_partitions() {
    let fixture = lake(FileKind::Csv, SessionConfig::new()).await;
    let (rows, plan) = fixture
        .analyze("SELECT id FROM t WHERE p = 1 AND \"file.name\" = 'b.csv'")
        .await;
    assert_eq!(rows, ["1", "2"]);
    assert_eq!(scan_metric(&plan, "partitions_scanned"), 1);
    for pruning in ["true", "false"] {
        fixture
            .run(&format!("SET partitioned.static_pruning = {pruning}"))
            .await
            .unwrap();
        assert_eq!(
            fixture
                .rows("SELECT count(*) FROM t WHERE p IS NULL OR \"file.name\" = 'b.csv'")
                .await,
            ["4"]
        );
        assert_eq!(
            fixture
                .rows("SELECT t.id FROM t JOIN (VALUES ('a.csv', 1)) AS v(n, p) ON \"file.name\" = n AND t.p = v.p")
                .await,
            ["1", "2"]
        );
    }
}

#[tokio::test]
async fn a_filter_on_them_opens_no_other_file() {
    for kind in [FileKind::Parquet, FileKind::Csv] {
        let fixture = lake(kind, SessionConfig::new()).await;
        let name = format!("b.{}", kind.extension());
        let (rows, plan) = fixture
            .analyze(&format!("SELECT id FROM t WHERE \"file.name\" = '{name}'"))
            .await;
        assert_eq!(rows, ["1", "2"]);
        assert_eq!(scan_metric(&plan, "files_scanned"), 1);
        assert!(fixture.requests.mentioning("/a.").is_empty());
        // The filter is not evaluated for files without rows, and fails for those with.
        let error = fixture
            .error("SELECT id FROM t WHERE 1 / (\"file.size\" * 0) = 1")
            .await;
        assert!(error.contains("ivide by zero"), "{error}");
    }
}

#[tokio::test]
async fn names_are_checked_when_the_table_is_made() {
    let fixture = Fixture::new();
    for (columns, by, option, message) in [
        (
            "id BIGINT, p INT",
            "p",
            "file.owner",
            "invalid value 'file.owner' for option 'metadata.columns'",
        ),
        (
            "id BIGINT, p INT",
            "p",
            "file.size,file.size",
            "named twice",
        ),
        (
            "\"file.size\" BIGINT, p INT",
            "p",
            "file.size",
            "'file.size' has the name of another column",
        ),
        (
            "id BIGINT, \"file.size\" INT",
            "\"file.size\"",
            "file.size",
            "'file.size' has the name of another column",
        ),
    ] {
        let option = format!("'metadata.columns' '{option}'");
        let error = fixture
            .declare(columns, "CSV", by, &option)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    fixture.put_ids("t/p=1/f", &[1]).await;
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", "'metadata.columns' ''")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | 1"]);
}
