//! DYN: dynamic filters and the rows of queries.

use super::{Case, Sessions, Table, modes};

/// Fact and dimension of the matrix of joins. Each partition has one file, or more, most of them
/// without a row.
fn matrix(files: &[&str]) -> Case {
    let null = "__HIVE_DEFAULT_PARTITION__";
    let mut case = Case::new();
    for (p, id) in [("1", 1), ("2", 2), ("3", 3), (null, 4)] {
        for (number, file) in files.iter().enumerate() {
            let ids = rows!(("id", Int64, [id])).slice(0, usize::from(number == 0));
            case = case.parquet(&format!("T/p={p}/{file}.parquet"), ids);
        }
    }
    for (p, name) in [("2", "b"), ("4", "d"), (null, "z")] {
        for (number, file) in files.iter().enumerate() {
            let names = rows!(("n", Utf8, [name])).slice(0, usize::from(number == 0));
            case = case.parquet(&format!("U/p={p}/{file}.parquet"), names);
        }
    }
    case.table(Table::new("f", "id BIGINT, p INT", "p"))
        .table(Table::new("d", "n TEXT, p INT", "p").at(&["U/"]))
}

async fn check_counts(case: &Sessions, counts: &[(&str, usize)]) {
    for (from, count) in counts {
        let query = format!("SELECT count(*) FROM {from}");
        case.rows(&query, &[&count.to_string()]).await;
    }
}

/// Which side may be filtered depends on the type of the join and on the side that is read first
/// (apache/datafusion #20447 and #17196, duckdb/duckdb #13953, prestodb/presto #18189).
#[tokio::test]
async fn dyn_01_only_sides_that_need_a_match_lose_rows() {
    let one_file = matrix(&["f"]).also(modes::STRATEGIES);
    let many_files = matrix(&["f", "g", "h"]).modes(modes::STRATEGIES);
    for case in [one_file, many_files] {
        let case = case.open().await;
        check_counts(
            &case,
            &[
                ("f JOIN d ON f.p = d.p", 1),
                ("d JOIN f ON f.p = d.p", 1),
                ("f LEFT JOIN d ON f.p = d.p", 4),
                ("d RIGHT JOIN f ON f.p = d.p", 4),
                ("f RIGHT JOIN d ON f.p = d.p", 3),
                ("d LEFT JOIN f ON f.p = d.p", 3),
                ("f FULL JOIN d ON f.p = d.p", 6),
                ("d FULL JOIN f ON f.p = d.p", 6),
                ("f WHERE p IN (SELECT p FROM d)", 1),
                ("f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.p = f.p)", 3),
                ("f WHERE p NOT IN (SELECT p FROM d)", 0),
                ("f JOIN d ON f.p IS NOT DISTINCT FROM d.p", 2),
                ("d JOIN f ON f.p IS NOT DISTINCT FROM d.p", 2),
                ("d WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.p = d.p)", 2),
            ],
        )
        .await;
    }
}

/// Each stream of the build side knows its own keys alone: what they choose is complete only when the
/// last one has ended (apache/datafusion #17188).
#[tokio::test(flavor = "multi_thread")]
async fn dyn_02_keys_of_all_streams_count() {
    let mut case = Case::new();
    for p in 1..=200 {
        case = case.bytes(&format!("T/p={p}/f.csv"), format!("id\n{p}\n"));
    }
    for file in 0..16 {
        let values = (1..=200).filter(|p| p % 16 == file);
        let rows: String = values.map(|p| format!("{p},{p}\n")).collect();
        case = case.bytes(&format!("D/{file:02}.csv"), format!("p,v\n{rows}"));
    }
    let case = case
        .table(Table::new("f", "id BIGINT, p INT", "p").stored_as("CSV"))
        .statement(
            "CREATE EXTERNAL TABLE d (p INT, v INT) STORED AS CSV LOCATION 'memory://lake/D/' \
             OPTIONS ('format.has_header' 'true')",
        )
        .modes(modes::REPEATED)
        .open_broken()
        .await;
    let query = "SELECT count(*), min(f.p), max(f.p) FROM d JOIN f ON f.p = d.p \
                 WHERE d.v = 1 OR d.v = 200";
    case.rows(query, &["2 | 1 | 200"]).await;
    for answer in case.default().ask(query).await {
        assert_eq!(answer.metric("partitions_scanned"), 2);
    }
    case.default().repeat(200, query, &["2 | 1 | 200"]).await;
}

/// A filter on columns of an operator is one on other columns of the scan: by name and by number they
/// may be taken for one another (apache/datafusion #20285, #20109 and #21065).
#[tokio::test]
async fn dyn_04_renamed_and_moved_columns() {
    let file = |a, b, c| rows!(("a", Int32, [a]), ("b", Int32, [b]), ("c", Int32, [c]));
    let case = Case::new()
        .parquet("T/p=1/f.parquet", file(1, 2, 3))
        .parquet("T/p=2/f.parquet", file(2, 1, 9))
        .table(Table::new("t", "a INT, b INT, c INT, p INT", "p"))
        .also(modes::STRATEGIES)
        .open()
        .await;
    let query = "SELECT c FROM t WHERE b IS NOT NULL ORDER BY a LIMIT 1";
    case.rows(query, &["3"]).await;
    let swapped = "(SELECT c, p AS q, a AS p FROM t WHERE b < 5) x";
    let query = format!("SELECT x.c FROM {swapped} JOIN (VALUES (2)) v(p) ON x.p = v.p");
    case.rows(&query, &["9"]).await;
    let query = format!("SELECT x.c FROM {swapped} JOIN (VALUES (1)) v(q) ON x.q = v.q");
    case.rows(&query, &["3"]).await;
}

/// One NULL in the subquery makes every `NOT IN` unknown: the keys must not leave it out
/// (apache/datafusion #23103).
#[tokio::test]
async fn dyn_06_not_in_sees_the_null_of_the_subquery() {
    let file = || rows!(("v", Int32, [0]));
    let case = Case::new()
        .parquet("U/k=1/f.parquet", file())
        .parquet("U/k=2/f.parquet", file())
        .parquet("U/k=__HIVE_DEFAULT_PARTITION__/f.parquet", file())
        .table(Table::new("s", "v INT, k BIGINT", "k").at(&["U/"]))
        .statement("CREATE TABLE o AS SELECT column1 AS x FROM (VALUES (1), (3))")
        .also(modes::STRATEGIES)
        .open()
        .await;
    case.rows("SELECT x FROM o WHERE x NOT IN (SELECT k FROM s)", &[])
        .await;
    let query = "SELECT x FROM o WHERE x NOT IN (SELECT k FROM s WHERE k IS NOT NULL)";
    case.rows(query, &["3"]).await;
    case.rows("SELECT x FROM o WHERE x IN (SELECT k FROM s)", &["1"])
        .await;
}

/// A filter above an anti join is one on its output side alone (apache/datafusion #24002,
/// Eventual-Inc/Daft #6150).
#[tokio::test]
async fn dyn_08_filters_above_an_anti_join() {
    let case = Case::new()
        .ids("T/p=1/f.parquet", &[1])
        .ids("T/p=2/f.parquet", &[2])
        .ids("U/p=2/f.parquet", &[9])
        .table(Table::new("a", "id BIGINT, p INT", "p"))
        .table(Table::new("b", "id BIGINT, p INT", "p").at(&["U/"]))
        .also(modes::STRATEGIES)
        .open()
        .await;
    let anti = "(SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.p = a.p)) s";
    for (rest, expected) in [
        ("WHERE s.p = 2", &[][..]),
        ("WHERE s.p = 1", &["1"]),
        ("WHERE 1 = 0", &[]),
        ("JOIN (VALUES (1)) v(p) ON s.p = v.p", &["1"]),
        ("JOIN (VALUES (2)) v(p) ON s.p = v.p", &[]),
    ] {
        case.rows(&format!("SELECT s.id FROM {anti} {rest}"), expected)
            .await;
    }
}

/// Groups of the probe side are whole however many streams compute them (duckdb/duckdb #22075,
/// apache/datafusion #21065). The second query has keys that choose partitions too.
#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn dyn_10_grouped_probe_sides_in_many_streams() {
    let edges = || (0..2000_i64).map(|i| (i * 7 % 500, (i * 31 + i / 500) % 500));
    let mut case = Case::new();
    for file in 0..16 {
        let (part, half) = (file / 2, file % 2);
        let own = edges().filter(|(a, b)| a % 8 == part && b % 2 == half);
        let rows: String = own.map(|(a, b)| format!("{a},{b}\n")).collect();
        case = case.bytes(&format!("T/h={part}/{half}.csv"), format!("a,b\n{rows}"));
    }
    let case = case
        .table(Table::new("e", "a BIGINT, b BIGINT, h BIGINT", "h").stored_as("CSV"))
        .modes(modes::REPEATED)
        .open_broken()
        .await;
    let mut w = 0;
    for (a, b) in edges() {
        let pairs = edges().filter(|(a2, _)| *a2 == b).count();
        w += pairs * edges().filter(|(_, b3)| *b3 == a).count();
    }
    let expected = w.to_string();
    let by_columns = "WITH c2 AS (SELECT e1.a, e1.b, count(*) w FROM e e1 JOIN e e2 \
                      ON e1.b = e2.a GROUP BY e1.a, e1.b) \
                      SELECT sum(c2.w) FROM c2 JOIN e ON e.b = c2.a";
    let by_partitions = "WITH c2 AS (SELECT e1.a, e1.b, e1.h, count(*) w FROM e e1 JOIN e e2 \
                         ON e1.b = e2.a AND e1.b % 8 = e2.h GROUP BY e1.a, e1.b, e1.h) \
                         SELECT sum(c2.w) FROM c2 JOIN e ON e.b = c2.a AND e.b % 8 = c2.h";
    for (query, times) in [(by_columns, 40), (by_partitions, 20)] {
        case.rows(query, &[&expected]).await;
        case.default().repeat(times, query, &[&expected]).await;
    }
}

/// Tuples, structs, and keys that are partition columns only in part (apache/spark #29475).
#[tokio::test]
async fn dyn_14_composite_keys() {
    let case = Case::new()
        .ids("T/a=1/b=x/f.parquet", &[1])
        .ids("T/a=1/b=y/f.parquet", &[2])
        .ids("T/a=2/b=x/f.parquet", &[3])
        .table(Table::new("f", "id BIGINT, a BIGINT, b TEXT", "a, b"))
        .statement(
            "CREATE TABLE d AS SELECT column1 AS a, column2 AS b FROM (VALUES (1, 'y'), (2, 'x'))",
        )
        .also(modes::STRATEGIES)
        .open()
        .await;
    for query in [
        "SELECT id FROM f JOIN d ON f.a = d.a AND f.b = d.b",
        "SELECT id FROM d JOIN f ON f.a = d.a AND f.b = d.b",
        "SELECT id FROM f JOIN d ON struct(f.a, f.b) = struct(d.a, d.b)",
        "SELECT id FROM f JOIN d ON named_struct('k', f.a, 'l', f.b) = named_struct('k', d.a, 'l', d.b)",
        "SELECT id FROM f WHERE struct(a, b) IN (SELECT struct(a, b) FROM d)",
        "SELECT id FROM f JOIN d ON f.a = d.a AND f.id > d.a",
    ] {
        case.rows(query, &["2", "3"]).await;
    }
}

/// A literal is no partition column, and each branch of a union has columns of its own (apache/spark
/// #35878 and #39460, trinodb/trino #2659).
#[tokio::test]
async fn dyn_15_unions_and_constants_as_keys() {
    let file = |x| rows!(("x", Int32, [x]));
    let case = Case::new()
        .parquet("T/s=1/f.parquet", file(1))
        .parquet("T/s=4/f.parquet", file(2))
        .parquet("U/s=4/f.parquet", file(3))
        .parquet("U/s=5/f.parquet", file(4))
        .table(Table::new("f1", "x INT, s BIGINT", "s"))
        .table(Table::new("f2", "x INT, s BIGINT", "s").at(&["U/"]))
        .statement("CREATE TABLE d AS SELECT column1 AS s FROM (VALUES (4))")
        .also(modes::STRATEGIES)
        .open()
        .await;
    for (rows, expected) in [
        (
            "SELECT 4 AS s, x FROM f1 UNION ALL SELECT s, x FROM f2",
            &["1", "2", "3"][..],
        ),
        (
            "SELECT s, x FROM f1 UNION ALL SELECT x + 1 AS s, x FROM f2",
            &["2", "3"],
        ),
        ("SELECT 5 AS s, x FROM f1", &[]),
    ] {
        let query = format!("SELECT u.x FROM ({rows}) u JOIN d ON u.s = d.s");
        case.rows(&query, expected).await;
    }
    let several = "SELECT f1.x, f2.x FROM f1 JOIN d ON f1.s = d.s JOIN f2 ON f2.s = d.s \
                   JOIN (VALUES (2), (4)) v(s) ON f1.s = v.s";
    case.rows(several, &["2 | 3"]).await;
}

/// A stream that has seen nothing knows no bound, which is not the smallest one (apache/datafusion
/// #25147 and #20267).
#[tokio::test]
async fn dyn_17_extremes_of_files_without_the_column() {
    for backwards in [false, true] {
        let case = match backwards {
            false => Case::new(),
            true => Case::listed_backwards(),
        };
        let file = |id, x| rows!(("id", Int64, [id]), ("x", Int32, [x]));
        let case = case
            .ids("T/m=1/f.parquet", &[1])
            .parquet("T/m=2/f.parquet", file(2, -5))
            .parquet("T/m=3/f.parquet", file(3, 80))
            .table(Table::new("t", "id BIGINT, x INT, m INT", "m"))
            .open()
            .await;
        for (query, expected) in [
            ("SELECT min(x), max(x) FROM t", "-5 | 80"),
            ("SELECT min(x) FROM t WHERE m <> 3", "-5"),
            ("SELECT max(m), min(x) FROM t", "3 | -5"),
        ] {
            case.rows(query, &[expected]).await;
        }
    }
}

/// The filter of a sort with a limit compares as the sort does: NULL, NaN and ties included
/// (ClickHouse/ClickHouse #114812 and #116705, apache/datafusion #25239, duckdb/duckdb #19744).
#[tokio::test]
async fn dyn_18_limits_of_null_and_nan() {
    let file = |k: &[Option<f64>]| rows!(("k", Float64, k.to_vec()));
    let case = Case::new()
        .parquet("T/p=1/f.parquet", file(&[Some(5.0), Some(6.0)]))
        .parquet("T/p=2/f.parquet", file(&[Some(f64::NAN)]))
        .parquet("T/p=3/f.parquet", file(&[None]))
        .parquet("T/p=4/f.parquet", file(&[Some(5.0)]))
        .table(Table::new("t", "k DOUBLE, p INT", "p"))
        .open()
        .await;
    for (order, expected) in [
        ("k ASC NULLS FIRST LIMIT 1", &["<null> | 3"][..]),
        ("k DESC NULLS LAST LIMIT 1", &["NaN | 2"]),
        ("k, p DESC LIMIT 2", &["5.0 | 4", "5.0 | 1"]),
    ] {
        let query = format!("SELECT k, p FROM t ORDER BY {order}");
        case.ordered(&query, expected).await;
    }
    case.ordered("SELECT p FROM t ORDER BY p DESC LIMIT 2", &["4", "3"])
        .await;
    // The first two are equal.
    let query = "SELECT k, p FROM t ORDER BY k IS NULL, k LIMIT 4";
    case.rows(query, &["5.0 | 1", "5.0 | 4", "6.0 | 1", "NaN | 2"])
        .await;
}

/// A build side without rows is not one whose keys are not known yet (trinodb/trino #9917,
/// duckdb/duckdb #21757).
#[tokio::test]
async fn dyn_19_empty_build_sides() {
    let none = rows!(("n", Utf8, ["none"])).slice(0, 0);
    let case = matrix(&["f"])
        .parquet("V/p=2/f.parquet", none)
        // A file without rows, and no file at all.
        .table(Table::new("d0", "n TEXT, p INT", "p").at(&["V/"]))
        .table(Table::new("d1", "n TEXT, p INT", "p").at(&["W/"]))
        .also(modes::STRATEGIES)
        .open()
        .await;
    check_counts(
        &case,
        &[
            ("f JOIN d0 ON f.p = d0.p", 0),
            ("d0 JOIN f ON f.p = d0.p", 0),
            ("f LEFT JOIN d0 ON f.p = d0.p", 4),
            ("d0 LEFT JOIN f ON f.p = d0.p", 0),
            ("f FULL JOIN d0 ON f.p = d0.p", 4),
            ("f WHERE NOT EXISTS (SELECT 1 FROM d0 WHERE d0.p = f.p)", 4),
            ("f WHERE p NOT IN (SELECT p FROM d0)", 4),
            (
                "f JOIN (SELECT * FROM d WHERE n = 'none') e ON f.p = e.p",
                0,
            ),
            ("f JOIN d1 ON f.p = d1.p", 0),
            ("f LEFT JOIN d1 ON f.p = d1.p", 4),
            ("f WHERE p NOT IN (SELECT p FROM d1)", 4),
        ],
    )
    .await;
    for empty in ["d0", "d1"] {
        let query = format!("SELECT count(*) FROM f JOIN {empty} e ON f.p = e.p");
        let requests = case.requests(&query).await;
        let opened = requests.iter().filter(|r| r.starts_with("GET /T/"));
        assert_eq!(opened.count(), 0, "{query}: {requests:?}");
    }
}

/// Only equal keys are sets of values; all other conditions are evaluated as they are, for anti joins
/// too (apache/datafusion #2842, trinodb/trino #2659).
///
/// The columns of such conditions are in the results, since `SortMergeJoinExec` takes others for them
/// where they are not.
#[tokio::test]
async fn dyn_20_other_conditions() {
    let file = |v| rows!(("v", Int32, [v]));
    let case = Case::new()
        .parquet("T/p=1/f.parquet", file(2))
        .parquet("T/p=3/f.parquet", file(4))
        .parquet("U/p=1/f.parquet", file(2))
        .parquet("U/p=3/f.parquet", file(9))
        .table(Table::new("a", "v INT, p INT", "p"))
        .table(Table::new("b", "v INT, p INT", "p").at(&["U/"]))
        .also(modes::STRATEGIES)
        .open()
        .await;
    for (query, expected) in [
        (
            "SELECT p FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.p = a.p AND b.v <> a.v)",
            &["1"][..],
        ),
        (
            "SELECT p FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.p = a.p AND b.v <> a.v)",
            &["3"],
        ),
        ("SELECT a.p, b.p FROM a JOIN b ON a.p < b.p", &["1 | 3"]),
        ("SELECT a.p, b.p FROM b JOIN a ON a.p < b.p", &["1 | 3"]),
        (
            "SELECT a.p, b.p FROM a JOIN b ON a.p = b.p OR a.v = b.v",
            &["1 | 1", "3 | 3"],
        ),
        (
            "SELECT a.p, a.v, b.p, b.v FROM a LEFT JOIN b ON a.p = b.p AND a.v < b.v",
            &["1 | 2 | <null> | <null>", "3 | 4 | 3 | 9"],
        ),
        (
            "SELECT a.p, a.v, b.p, b.v FROM b RIGHT JOIN a ON a.p = b.p AND a.v < b.v",
            &["1 | 2 | <null> | <null>", "3 | 4 | 3 | 9"],
        ),
    ] {
        case.rows(query, expected).await;
    }
}
