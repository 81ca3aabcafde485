//! COL: partition columns and columns of the files, evolution of schemas, names.

use std::sync::Arc;

use datafusion::arrow::array::{DictionaryArray, Int64Array, LargeStringArray, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;

use super::{Case, Sessions, Table};

/// Files may have the partition column too: there is one column, and the directory decides
/// (apache/datafusion #17420, apache/datafusion-python #1018, pola-rs/polars #12036).
#[tokio::test]
async fn col_01_partition_column_stored_in_the_files_too() {
    let case = Case::new()
        .parquet(
            "T/g=a/f.parquet",
            rows!(("id", Int64, [1]), ("g", Utf8, ["a"])),
        )
        .parquet(
            "T/g=b/f.parquet",
            rows!(("id", Int64, [2]), ("g", Utf8, ["b"])),
        )
        // What a file says about itself does not count.
        .parquet(
            "U/g=c/f.parquet",
            rows!(("id", Int64, [3]), ("g", Utf8, ["a"])),
        )
        .table(Table::new("t", "", "g"))
        .table(Table::new("declared", "id BIGINT, g TEXT", "g"))
        .table(Table::new("u", "", "g").at(&["U/"]))
        .open()
        .await;
    for table in ["t", "declared"] {
        let query = format!("DESCRIBE {table}");
        let columns = ["id | Int64 | YES", "g | Utf8View | YES"];
        case.ordered(&query, &columns).await;
        let query = format!("SELECT * FROM {table} ORDER BY id");
        case.ordered(&query, &["1 | a", "2 | b"]).await;
        let query = format!("SELECT id FROM {table} WHERE g = 'b'");
        case.files(&query, &["2"], 1).await;
        case.rows(&format!("SELECT count(*) FROM {table}"), &["2"])
            .await;
    }
    case.rows("SELECT id FROM u WHERE g = 'c'", &["3"]).await;
    case.rows("SELECT id FROM u WHERE g = 'a'", &[]).await;
}

/// The same with another type in each file (spiceai/spiceai #8514).
#[tokio::test]
async fn col_02_partition_column_in_the_files_with_another_type() {
    let large = LargeStringArray::from(vec!["2024-01-01"]);
    let dictionary: DictionaryArray<Int32Type> = ["2024-01-02"].into_iter().collect();
    let file = |id: i64, d| {
        let id = Arc::new(Int64Array::from(vec![id])) as _;
        RecordBatch::try_from_iter([("id", id), ("d", d)]).unwrap()
    };
    let case = Case::new()
        .parquet("T/d=2024-01-01/f.parquet", file(1, Arc::new(large)))
        .parquet("T/d=2024-01-02/f.parquet", file(2, Arc::new(dictionary)))
        .table(Table::new("t", "", "d"))
        .table(Table::new("u", "id BIGINT, d DATE", "d"))
        .open()
        .await;
    for table in ["t", "u"] {
        let query = format!("SELECT id, d FROM {table} ORDER BY id");
        case.ordered(&query, &["1 | 2024-01-01", "2 | 2024-01-02"])
            .await;
    }
    let query = "SELECT id FROM u WHERE d > DATE '2024-01-01'";
    case.files(query, &["2"], 1).await;
}

/// A column that old partitions lack is NULL there, whichever of them is listed, looked at or read
/// first (apache/datafusion #1527 and #14755, duckdb/duckdb #16859).
#[tokio::test]
async fn col_05_column_added_later() {
    for case in [Case::new(), Case::listed_backwards()] {
        let case = added_column(case, "1", "2")
            .table(Table::new("t", "", "m"))
            .table(Table::new("sampled", "", "m").option("schema.sample", "all"))
            .table(Table::new("declared", "id BIGINT, extra INT, m INT", "m"))
            .open()
            .await;
        for table in ["t", "sampled", "declared"] {
            check_added_column(&case, table, "1").await;
        }
    }
}

/// A column that the last partition by path lacks is found when all of them are looked at.
#[tokio::test]
async fn col_05_column_of_a_partition_that_comes_first_by_path() {
    for case in [Case::new(), Case::listed_backwards()] {
        let case = added_column(case, "2", "1")
            .table(Table::new("last", "", "m"))
            .table(Table::new("sampled", "", "m").option("schema.sample", "all"))
            .table(Table::new("declared", "id BIGINT, extra INT, m INT", "m"))
            .open()
            .await;
        for table in ["sampled", "declared"] {
            check_added_column(&case, table, "2").await;
        }
        // Unless told otherwise, inference looks at the last partition by path.
        case.ordered("SELECT * FROM last ORDER BY id", &["1 | 2", "2 | 1"])
            .await;
        case.fails("SELECT id, extra FROM last", &["extra"]).await;
    }
}

async fn check_added_column(case: &Sessions, table: &str, old: &str) {
    let query = format!("SELECT id, extra FROM {table} ORDER BY id");
    case.ordered(&query, &["1 | <null>", "2 | 20"]).await;
    let query = format!("SELECT extra FROM {table} WHERE m = {old}");
    case.files(&query, &["<null>"], 1).await;
    let query = format!("SELECT id FROM {table} WHERE extra = 20");
    case.rows(&query, &["2"]).await;
    let query = format!("SELECT id FROM {table} WHERE extra IS NULL");
    case.rows(&query, &["1"]).await;
}

fn added_column(case: Case, old: &str, new: &str) -> Case {
    case.ids(&format!("T/m={old}/f.parquet"), &[1]).parquet(
        &format!("T/m={new}/f.parquet"),
        rows!(("id", Int64, [2]), ("extra", Int32, [20])),
    )
}

/// Columns are read by name (prestodb/presto #8911 and #12212, trinodb/trino #1558).
#[tokio::test]
async fn col_07_columns_in_another_order() {
    let case = Case::new()
        .parquet(
            "T/m=1/f.parquet",
            rows!(
                ("a", Utf8, ["a1"]),
                ("b", Utf8, ["b1"]),
                ("c", Utf8, ["c1"])
            ),
        )
        .parquet(
            "T/m=2/f.parquet",
            rows!(("c", Utf8, ["c2"]), ("a", Utf8, ["a2"])),
        )
        .table(Table::new("t", "a TEXT, b TEXT, c TEXT, m INT", "m"))
        .open()
        .await;
    let query = "SELECT a, b, c, m FROM t ORDER BY m";
    case.ordered(query, &["a1 | b1 | c1 | 1", "a2 | <null> | c2 | 2"])
        .await;
    case.rows("SELECT m FROM t WHERE c = 'c2'", &["2"]).await;
}

/// Widening works; a text that is no number is an error that names partition and column, when that
/// partition is read (trinodb/trino #137, prestodb/presto #8510).
#[tokio::test]
async fn col_08_column_type_changed_between_partitions() {
    let case = Case::new()
        .parquet("T/m=1/f.parquet", rows!(("x", Int32, [1])))
        .parquet("T/m=2/f.parquet", rows!(("x", Int64, [5_000_000_000])))
        .parquet("T/m=3/f.parquet", rows!(("x", Utf8, ["oops"])))
        .table(Table::new("t", "x BIGINT, m INT", "m"))
        .open_broken()
        .await;
    // Without pruning the third partition is read as well.
    let texts = ["m=3", "'x'"];
    for (query, expected) in [
        ("SELECT sum(x) FROM t WHERE m < 3", "5000000001"),
        (
            "SELECT x FROM t WHERE x > 4000000000 AND m < 3",
            "5000000000",
        ),
    ] {
        case.rows_where_pruned(query, &[expected]).await;
        case.fails_where_not_pruned(query, &texts).await;
    }
    case.fails("SELECT x FROM t", &texts).await;
}

/// A number that could be too large for the column is as wrong as a text.
#[tokio::test]
async fn col_08_narrowing_is_an_error() {
    let case = Case::new()
        .parquet(
            "T/m=1/f.parquet",
            rows!(("y", Int32, [1]), ("x", Int32, [1])),
        )
        // Columns go by name: it is not the first one that does not fit.
        .parquet(
            "T/m=2/f.parquet",
            rows!(("x", Int64, [2]), ("y", Int32, [2])),
        )
        .table(Table::new("t", "x INT, y INT, m INT", "m"))
        .open_broken()
        .await;
    case.rows_where_pruned("SELECT x FROM t WHERE m = 1", &["1"])
        .await;
    case.rows("SELECT y FROM t", &["1", "2"]).await;
    let texts = ["m=2", "'x'", "Int64", "Int32"];
    case.fails("SELECT x FROM t", &texts).await;
    case.fails("SELECT y FROM t WHERE x = 2", &texts).await;
}

/// Other widenings than that of integers.
#[tokio::test]
async fn col_08_floats_and_decimals_widen() {
    use datafusion::arrow::array::{ArrayRef, Decimal128Array};
    let decimal = |value: i128| {
        let array = Decimal128Array::from(vec![value]).with_precision_and_scale(6, 0);
        Arc::new(array.unwrap()) as ArrayRef
    };
    let case = Case::new()
        .parquet("T/m=1/f.parquet", rows!(("f", Float32, [1.5])))
        .parquet("T/m=2/f.parquet", rows!(("f", Float64, [2.25])))
        .parquet(
            "U/m=1/f.parquet",
            RecordBatch::try_from_iter([("d", decimal(123_456))]).unwrap(),
        )
        .table(Table::new("t", "f DOUBLE, m INT", "m"))
        .table(Table::new("u", "d DECIMAL(8,0), m INT", "m").at(&["U/"]))
        .open()
        .await;
    case.rows("SELECT sum(f) FROM t", &["3.75"]).await;
    case.rows("SELECT m FROM t WHERE f < 2", &["1"]).await;
    case.rows("SELECT d FROM u WHERE d > 100000", &["123456"])
        .await;
}

/// Names of directories are case-sensitive. A column declared in another case is an error, never an
/// empty table (apache/hive #1003, apache/spark #24886).
#[tokio::test]
async fn col_09_case_of_names() {
    let case = Case::new()
        .ids("T/Year=2024/f.parquet", &[1])
        .table(Table::new("a", "id BIGINT, \"Year\" INT", "\"Year\""))
        .open()
        .await;
    case.files("SELECT id FROM a WHERE \"Year\" = 2024", &["1"], 1)
        .await;

    let case = Case::new()
        .ids("T/Year=2024/f.parquet", &[1])
        .table(Table::new("b", "id BIGINT, year INT", "year"))
        .open_broken()
        .await;
    let texts = ["'year=<value>'", "'Year=2024'", "T/Year=2024"];
    case.fails("SELECT id FROM b WHERE YEAR = 2024", &texts)
        .await;
    case.fails("SELECT id FROM b", &texts).await;
    case.fails("SELECT count(*) FROM b", &texts).await;
}

/// A filter on a file column with a partition column in the output (ClickHouse/ClickHouse #107380).
#[tokio::test]
async fn col_11_filter_on_a_file_column_while_a_partition_column_is_projected() {
    let csv = "name,age\nu,20\nv,30\n";
    let json = "{\"name\":\"u\",\"age\":20}\n{\"name\":\"v\",\"age\":30}\n";
    let columns = "name TEXT, age INT, d DATE";
    let case = Case::new()
        .parquet(
            "T/d=2026-01-01/f.parquet",
            rows!(("name", Utf8, ["u", "v"]), ("age", Int32, [20, 30])),
        )
        .bytes("U/d=2026-01-01/f.csv", csv)
        .bytes("W/d=2026-01-01/f.json", json)
        .table(Table::new("parquet", columns, "d"))
        .table(Table::new("csv", columns, "d").stored_as("CSV").at(&["U/"]))
        .table(
            Table::new("json", columns, "d")
                .stored_as("JSON")
                .at(&["W/"]),
        )
        .open()
        .await;
    for table in ["parquet", "csv", "json"] {
        let query = format!("SELECT d, age FROM {table} WHERE age > 20");
        case.rows(&query, &["2026-01-01 | 30"]).await;
        let query = format!("SELECT d FROM {table} WHERE name = 'u' AND age > 0");
        case.rows(&query, &["2026-01-01"]).await;
    }
}
