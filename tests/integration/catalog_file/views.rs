//! Views in the catalog file.

use datafusion_partitioned::catalog_sql::SqliteCatalog;

use super::{Home, create};
use crate::common::csv_tree;

#[tokio::test]
async fn a_view_reads_the_tables_that_there_are() {
    let home = Home::new();
    let [first, second] = [[1], [2]].map(|ids| csv_tree(&[("p=1", &ids)]));
    let session = home.session();
    session.rows(&create("", "t", first.path())).await;
    session
        .rows("CREATE VIEW v (n, q) AS SELECT id + 1, p FROM t")
        .await;
    session
        .rows("CREATE VIEW w AS SELECT sum(n) AS n FROM v GROUP BY q")
        .await;
    assert_eq!(session.rows("SELECT n FROM w").await, ["2"]);
    let other = home.session();
    other.rows(&create("OR REPLACE", "t", second.path())).await;
    assert_eq!(session.rows("SELECT n FROM w").await, ["3"]);
    other.rows("DROP TABLE t").await;
    session
        .fails("SELECT n FROM w", &["'w'", "'v'", "public.t' not found"])
        .await;
    session.rows("DROP VIEW v").await;
    session.rows("DROP VIEW w").await;
}

#[tokio::test]
async fn a_view_is_replaced_and_does_not_refer_to_itself() {
    let home = Home::new();
    let session = home.session();
    session.rows("CREATE VIEW v AS SELECT 1 AS n").await;
    session
        .rows("CREATE OR REPLACE VIEW v AS SELECT 2 AS n")
        .await;
    session.rows("CREATE VIEW w AS SELECT n FROM v").await;
    let itself = "CREATE OR REPLACE VIEW v AS SELECT n + 1 AS n FROM public.v";
    session
        .fails(itself, &["view 'v' would refer to itself"])
        .await;
    assert_eq!(home.session().rows("SELECT n FROM w").await, ["2"]);
    session
        .rows("CREATE OR REPLACE VIEW v AS SELECT n FROM w")
        .await;
    session
        .fails("SELECT n FROM v", &["refers to itself: v -> w -> v"])
        .await;
    session.rows("DROP VIEW v").await;
    session
        .fails("CREATE VIEW w AS SELECT 1", &["already exists"])
        .await;
}

#[tokio::test]
async fn the_text_of_a_view_is_read_in_its_dialect() {
    let home = Home::new();
    let session = home.session();
    session
        .rows("SET datafusion.sql_parser.dialect = 'mysql'")
        .await;
    session
        .rows("CREATE VIEW v AS SELECT 'a' AS `Odd name`")
        .await;
    let other = home.session();
    assert_eq!(other.rows("SELECT \"Odd name\" FROM v").await, ["a"]);
}

#[tokio::test]
async fn a_view_means_what_it_meant_in_its_session() {
    let home = Home::new();
    let session = home.session();
    session.rows("CREATE SCHEMA s").await;
    session.rows("CREATE VIEW t AS SELECT 1 AS n").await;
    session.rows("CREATE VIEW s.t AS SELECT 2 AS n").await;
    session
        .rows("SET datafusion.catalog.default_schema = 's'")
        .await;
    session
        .rows("SET datafusion.execution.time_zone = '+02:00'")
        .await;
    session
        .rows(
            "CREATE VIEW public.v AS SELECT n, \
             arrow_typeof(CAST('2024-06-01' AS TIMESTAMP WITH TIME ZONE)) AS zone FROM t",
        )
        .await;
    let other = home.session();
    let rows = other.rows("SELECT n, zone FROM v").await;
    assert_eq!(rows, ["2 | Timestamp(ns, \"+02:00\")"]);
    let twice = "CREATE OR REPLACE VIEW w AS SELECT x.n, y.n FROM public.t AS x, s.t AS y";
    session.fails(twice, &["two columns 'n'"]).await;
    for path in ["", ":memory:"] {
        assert!(SqliteCatalog::open(path).is_err());
    }
}
