//! DEC: decoding of partition keys and values.

use super::{Case, Table};

/// The directory name is a serialised form; the value is what percent-decoding makes of the part
/// behind the first `=` (apache/datafusion #19650).
#[tokio::test]
async fn dec_01_escaped_slash_and_space() {
    let case = Case::new()
        .ids("T/topic=rock%2Froll/f.parquet", &[1])
        .ids("T/topic=New%20Wave/f.parquet", &[2])
        .ids("T/topic=plain/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, topic TEXT", "topic"))
        .open()
        .await;
    let expected = ["1 | rock/roll", "2 | New Wave", "3 | plain"];
    case.ordered("SELECT id, topic FROM t ORDER BY id", &expected)
        .await;
    case.files("SELECT id FROM t WHERE topic = 'rock/roll'", &["1"], 1)
        .await;
}

/// Exactly one decode: a layer too many in either direction changes the value or names a directory
/// that does not exist (duckdb/duckdb-delta #342, datafusion-contrib/datafusion-ducklake #288).
#[tokio::test]
async fn dec_04_literal_percent_sign_survives_one_decode() {
    let case = Case::new()
        .ids("T/v=50%25/f.parquet", &[1])
        .ids("T/v=a%252Fb/f.parquet", &[2])
        .copied(
            "U/",
            "SELECT * FROM (VALUES (1, '50%'), (2, 'a%2Fb')) v(id, v)",
            "v",
        )
        .table(Table::new("t", "id BIGINT, v TEXT", "v"))
        .table(Table::new("written", "id BIGINT, v TEXT", "v").at(&["U/"]))
        .open()
        .await;
    for table in ["t", "written"] {
        let query = format!("SELECT id, v FROM {table} ORDER BY id");
        case.ordered(&query, &["1 | 50%", "2 | a%2Fb"]).await;
        let query = format!("SELECT id FROM {table} WHERE v = 'a%2Fb'");
        case.files(&query, &["2"], 1).await;
        let query = format!("SELECT id FROM {table} WHERE v = 'a/b'");
        case.files(&query, &[], 0).await;
    }
}

/// Only the first `=` separates column and value (StarRocks/starrocks #44774).
#[tokio::test]
async fn dec_05_equals_sign_inside_the_value() {
    let case = Case::new()
        .ids("T/ch=dna_0=none/f.parquet", &[1])
        .ids("T/ch=a%3Db/f.parquet", &[2])
        .ids("T/ch==/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, ch TEXT", "ch"))
        .open()
        .await;
    let expected = ["1 | dna_0=none", "2 | a=b", "3 | ="];
    case.ordered("SELECT id, ch FROM t ORDER BY id", &expected)
        .await;
    case.files("SELECT id FROM t WHERE ch = '='", &["3"], 1)
        .await;
}

/// A plus sign is one: the escapes are those of paths, not of forms (apache/doris #42906).
#[tokio::test]
async fn dec_06_plus_sign_is_not_a_space() {
    let case = Case::new()
        .ids("T/tz=UTC+2/f.parquet", &[1])
        .ids("T/tz=UTC%2B2/f.parquet", &[2])
        .ids("T/tz=UTC 2/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, tz TEXT", "tz"))
        .open()
        .await;
    let query = "SELECT tz, count(*) FROM t GROUP BY tz";
    case.rows(query, &["UTC+2 | 2", "UTC 2 | 1"]).await;
    case.files("SELECT id FROM t WHERE tz = 'UTC+2'", &["1", "2"], 2)
        .await;
}

/// UTF-8 stands raw in the key or escaped byte by byte; both are one value (trinodb/trino #18950,
/// apache/hudi #19752). Two Unicode normal forms of a letter stay two values.
#[tokio::test]
async fn dec_08_non_ascii_values_raw_and_escaped() {
    let case = Case::new()
        .ids("T/town=Köln/f.parquet", &[1])
        .ids("T/town=K%C3%B6ln/f.parquet", &[2])
        .ids("T/town=%E6%9D%B1%E4%BA%AC/f.parquet", &[3])
        .ids("U/town=%C3%A9/f.parquet", &[1])
        .ids("U/town=e\u{301}/f.parquet", &[2])
        .copied("W/", "SELECT 4 AS id, 'Łódź' AS town", "town")
        .table(Table::new("t", "id BIGINT, town TEXT", "town"))
        .table(Table::new("u", "id BIGINT, town TEXT", "town").at(&["U/"]))
        .table(Table::new("written", "id BIGINT, town TEXT", "town").at(&["W/"]))
        .open()
        .await;
    let query = "SELECT town, count(*) FROM t GROUP BY town";
    case.rows(query, &["Köln | 2", "東京 | 1"]).await;
    case.files("SELECT id FROM t WHERE town = 'Köln'", &["1", "2"], 2)
        .await;
    case.files("SELECT id FROM u WHERE town = '\u{e9}'", &["1"], 1)
        .await;
    case.rows("SELECT count(DISTINCT town) FROM u", &["2"])
        .await;
    case.files("SELECT id FROM written WHERE town = 'Łódź'", &["4"], 1)
        .await;
}

/// Names of columns are escaped as values are; a raw name is the same
/// (datafusion-contrib/datafusion-ducklake #267).
#[tokio::test]
async fn dec_10_column_names_that_need_escaping() {
    let columns = "id BIGINT, \"order date\" TEXT, \"a=b\" INT";
    let case = Case::new()
        .ids("T/order%20date=x%2Fy/a%3Db=7/f.parquet", &[1])
        .ids("T/order date=z/a%3db=8/f.parquet", &[2])
        .table(Table::new("t", columns, "\"order date\", \"a=b\""))
        .open()
        .await;
    let query = "SELECT id, \"order date\", \"a=b\" FROM t WHERE \"a=b\" = 7";
    case.files(query, &["1 | x/y | 7"], 1).await;
    let query = "SELECT id, \"a=b\" FROM t WHERE \"order date\" = 'z'";
    case.files(query, &["2 | 8"], 1).await;
}

/// Once listed, a path is a path and no pattern (StarRocks/starrocks #12641, duckdb/duckdb #15722).
#[tokio::test]
async fn dec_11_glob_characters_in_a_value() {
    let case = Case::new()
        .ids("T/g=a[1]/f.parquet", &[1])
        .ids("T/g=a1/f.parquet", &[2])
        .ids("T/g=(z)/f.parquet", &[3])
        .ids("T/g=*/f.parquet", &[4])
        .table(Table::new("t", "id BIGINT, g TEXT", "g"))
        .open()
        .await;
    case.files("SELECT id FROM t WHERE g = 'a[1]'", &["1"], 1)
        .await;
    case.files("SELECT id FROM t WHERE g = '*'", &["4"], 1)
        .await;
    case.rows("SELECT count(*) FROM t", &["4"]).await;
}
