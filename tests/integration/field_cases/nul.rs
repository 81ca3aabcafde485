//! NUL: NULL, empty text, the name of the default partition.

use super::{Case, Table};
use crate::common::NULL;

/// The default name is no text, and is not cast for an INT column (duckdb/duckdb #20512,
/// apache/datafusion #18083).
#[tokio::test]
async fn nul_01_default_partition_name_is_null() {
    let case = Case::new()
        .ids(&format!("T/p={NULL}/f.parquet"), &[1])
        .ids("T/p=5/f.parquet", &[2])
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .open()
        .await;
    case.ordered("SELECT id, p FROM t ORDER BY id", &["1 | <null>", "2 | 5"])
        .await;
    case.files("SELECT id FROM t WHERE p IS NULL", &["1"], 1)
        .await;
    case.files("SELECT id FROM t WHERE p IS NOT NULL", &["2"], 1)
        .await;
}

/// `IS NULL` finds what `GROUP BY` shows: the column is nullable, and statistics of files say
/// nothing about it (prestodb/presto #1864, duckdb/duckdb #12921, apache/paimon #8438).
#[tokio::test]
async fn nul_02_is_null_is_not_pruned_away() {
    let case = Case::new()
        .ids(&format!("T/p={NULL}/f.parquet"), &[1, 2])
        .ids("T/p=a/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, p TEXT", "p"))
        .open()
        .await;
    let query = "SELECT p, count(*) FROM t GROUP BY p";
    case.rows(query, &["<null> | 2", "a | 1"]).await;
    for filter in [
        "p IS NULL",
        "p IS NOT DISTINCT FROM NULL",
        "coalesce(p, 'none') = 'none'",
    ] {
        case.rows(&format!("SELECT count(*) FROM t WHERE {filter}"), &["2"])
            .await;
        let query = format!("SELECT id FROM t WHERE {filter}");
        case.files(&query, &["1", "2"], 1).await;
    }
    let query = "SELECT is_nullable FROM information_schema.columns \
                 WHERE table_name = 't' AND column_name = 'p'";
    case.rows(query, &["YES"]).await;
}

/// Only the default name is NULL; people are called Null (duckdb/duckdb #24309).
#[tokio::test]
async fn nul_05_the_word_null_is_text() {
    let case = Case::new()
        .ids("T/c=NULL/f.parquet", &[1])
        .ids("T/c=null/f.parquet", &[2])
        .ids("T/c=None/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, c TEXT", "c"))
        .open()
        .await;
    case.files("SELECT id FROM t WHERE c = 'NULL'", &["1"], 1)
        .await;
    case.rows("SELECT count(*) FROM t WHERE c IS NULL", &["0"])
        .await;
}
