//! PRC: pruning that changes the answer.

use super::{Case, Table};

/// Values are compared as what they are, not as the texts of directories (apache/fluss #3322).
#[tokio::test]
async fn prc_01_numbers_are_not_compared_as_text() {
    let case = Case::new()
        .ids("T/p=2/f.parquet", &[1])
        .ids("T/p=10/f.parquet", &[2])
        .ids("T/p=-3/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .table(Table::new("s", "id BIGINT, p TEXT", "p"))
        .open()
        .await;
    case.files("SELECT id FROM t WHERE p > 2", &["2"], 1).await;
    case.files("SELECT id FROM t WHERE p < 0", &["3"], 1).await;
    case.files("SELECT id FROM t WHERE p BETWEEN 3 AND 20", &["2"], 1)
        .await;
    case.rows("SELECT max(p) FROM t", &["10"]).await;
    case.files("SELECT id FROM s WHERE p > '2'", &[], 0).await;
}

/// Conditions on partition columns alone stay with the partitions, whatever their form and whatever
/// the spelling of the directory (apache/paimon-rust #811).
#[tokio::test]
async fn prc_05_boolean_columns_and_functions() {
    let case = Case::new()
        .ids("T/dt=b/active=true/f.parquet", &[1])
        .ids("T/dt=a/active=false/f.parquet", &[2])
        .ids("T/dt=c/active=TRUE/f.parquet", &[3])
        .table(Table::new(
            "t",
            "id BIGINT, dt TEXT, active BOOLEAN",
            "dt, active",
        ))
        .open()
        .await;
    for (filter, expected) in [
        ("active", &["1", "3"][..]),
        ("active = true", &["1", "3"]),
        ("NOT active", &["2"]),
        ("active IS TRUE", &["1", "3"]),
        ("upper(dt) = 'B'", &["1"]),
        ("active AND id > 0", &["1", "3"]),
        ("active <> false", &["1", "3"]),
    ] {
        let query = format!("SELECT id FROM t WHERE {filter}");
        case.files(&query, expected, expected.len()).await;
    }
}

/// Files whose columns are in another order are read by name, or refused: values never shift into
/// other columns (duckdb/duckdb #12578).
#[tokio::test]
async fn prc_06_csv_columns_differ_between_files() {
    let columns = "a INT, b INT, x INT, g INT, k INT";
    let case = Case::new()
        .bytes("T/g=3/k=1/f.csv", "a,b\n1,2\n3,4\n")
        .bytes("T/g=3/k=2/f.csv", "x,a,b\n9,5,6\n")
        .bytes("T/g=4/k=1/f.csv", "b,a\n8,7\n")
        .table(
            Table::new("t", columns, "g, k")
                .stored_as("CSV")
                .option("has_header", "true"),
        )
        .open()
        .await;
    let query = "SELECT g, count(*) FROM t GROUP BY g ORDER BY g";
    case.ordered(query, &["3 | 3", "4 | 1"]).await;
    case.rows("SELECT count(*) FROM t WHERE g = 3", &["3"])
        .await;
    let query = "SELECT a, b, x, k FROM t WHERE g = 3 ORDER BY a";
    let expected = ["1 | 2 | <null> | 1", "3 | 4 | <null> | 1", "5 | 6 | 9 | 2"];
    case.ordered(query, &expected).await;
    case.rows("SELECT g FROM t WHERE a = 7", &["4"]).await;
}

/// A condition on the side of an outer join that may be missing is none on its table
/// (apache/datafusion #13211, StarRocks/starrocks #78946).
#[tokio::test]
async fn prc_07_predicates_above_outer_joins() {
    let text = |n: &str| rows!(("n", Utf8, [n]));
    let case = Case::new()
        .ids("T/p=1/f.parquet", &[1])
        .ids("T/p=2/f.parquet", &[2])
        .ids("T/p=__HIVE_DEFAULT_PARTITION__/f.parquet", &[3])
        .parquet("U/p=2/f.parquet", text("two"))
        .parquet("U/p=9/f.parquet", text("nine"))
        .table(Table::new("f", "id BIGINT, p INT", "p"))
        .table(Table::new("d", "n TEXT, p INT", "p").at(&["U/"]))
        .open()
        .await;
    for (query, expected) in [
        (
            "SELECT f.id FROM f LEFT JOIN d ON f.p = d.p WHERE d.p IS NULL ORDER BY 1",
            &["1", "3"][..],
        ),
        (
            "SELECT f.id, d.n FROM f LEFT JOIN d ON f.p = d.p AND d.p > 5 ORDER BY 1",
            &["1 | <null>", "2 | <null>", "3 | <null>"],
        ),
        (
            "SELECT f.id FROM f LEFT JOIN d ON f.p = d.p WHERE d.p > 1",
            &["2"],
        ),
        (
            "SELECT f.id FROM f LEFT JOIN d ON f.p = d.p AND f.p = 1 ORDER BY 1",
            &["1", "2", "3"],
        ),
        (
            "SELECT f.id FROM f LEFT JOIN d ON f.p = d.p WHERE coalesce(d.p, 9) = 9 ORDER BY 1",
            &["1", "3"],
        ),
    ] {
        case.ordered(query, expected).await;
    }
}
