//! Statements that are not this project's mean exactly what they mean to DataFusion: random ones are parsed by both.

use datafusion::common::config::SqlParserOptions;
use datafusion::sql::parser::DFParserBuilder;
use datafusion_partitioned::sql::{Statement, parse_statements};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::property_config;

/// Parts of which statements are put together, those of this project's statements among them.
const WORDS: [&str; 96] = [
    "SELECT",
    "FROM",
    "WHERE",
    "t",
    "u",
    "a",
    "b",
    "1",
    "2.5",
    "'x'",
    "'it''s'",
    "\"Q\"",
    "(",
    ")",
    ",",
    "*",
    "=",
    "<",
    ">",
    "+",
    "-",
    "/",
    ".",
    ";",
    "AND",
    "OR",
    "NOT",
    "NULL",
    "AS",
    "JOIN",
    "ON",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "UNION",
    "ALL",
    "WITH",
    "VALUES",
    "INSERT",
    "INTO",
    "CREATE",
    "TABLE",
    "VIEW",
    "EXTERNAL",
    "OR",
    "REPLACE",
    "IF",
    "EXISTS",
    "STORED",
    "CSV",
    "PARQUET",
    "LOCATION",
    "PARTITIONED",
    "OPTIONS",
    "'k'",
    "'v'",
    "'connector'",
    "INT",
    "DROP",
    "ALTER",
    "ADD",
    "COLUMN",
    "RENAME",
    "TO",
    "SHOW",
    "TABLES",
    "PARTITIONS",
    "PARTITION",
    "FUNCTIONS",
    "COLUMNS",
    "EXPLAIN",
    "ANALYZE",
    "VERBOSE",
    "FORMAT",
    "TREE",
    "COPY",
    "SET",
    "RESET",
    "DESCRIBE",
    "TRUNCATE",
    "REFRESH",
    "MSCK",
    "REPAIR",
    "SYNC",
    "PURGE",
    "TEMPORARY",
    "-- note\n",
    "/* note */",
    "/*+ HINT(t) */",
    "[",
    "]",
    "::",
    "INTERVAL",
    "CASE",
    "END",
];

/// Statements as people write them, of which parts are exchanged, left out and doubled.
const STATEMENTS: [&str; 22] = [
    "SELECT a, count(*) FROM t JOIN u ON t.a = u.b WHERE a > 1 GROUP BY a ORDER BY a LIMIT 3",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x UNION ALL SELECT 2",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL)",
    "CREATE TABLE t AS SELECT 1 AS a",
    "CREATE TABLE t (a INT, b VARCHAR DEFAULT 'x', PRIMARY KEY (a))",
    "CREATE OR REPLACE VIEW v AS SELECT * FROM t",
    "CREATE EXTERNAL TABLE t (a INT) STORED AS CSV PARTITIONED BY (a) LOCATION 'x' OPTIONS ('k' 'v')",
    "CREATE UNBOUNDED EXTERNAL TABLE t STORED AS PARQUET LOCATION ('x', 'y') WITH ORDER (a DESC)",
    "COPY (SELECT 1) TO 'x.csv' STORED AS CSV PARTITIONED BY (a) OPTIONS ('k' 'v')",
    "DROP TABLE IF EXISTS t",
    "SHOW TABLES; SHOW COLUMNS FROM t; SHOW ALL",
    "SHOW PARTITIONS",
    "EXPLAIN ANALYZE VERBOSE SELECT 1",
    "EXPLAIN (FORMAT TREE, ANALYZE) SELECT * FROM t",
    "EXPLAIN FORMAT TREE INSERT INTO t VALUES (1)",
    "DESCRIBE t; SET x.y = 'z'; RESET x.y",
    "ALTER TABLE t ADD COLUMN a INT, RENAME TO u",
    "PREPARE p AS SELECT $1; EXECUTE p(1); DEALLOCATE p",
    "DELETE FROM t WHERE a IN (SELECT b FROM u); UPDATE t SET a = 1",
    "SELECT /*+ HINT */ a FROM t /* OPTIONS('k'='v') */ -- end",
    "CREATE FUNCTION f(INT) RETURNS INT RETURN $1 + 1",
    "BEGIN; COMMIT",
];

fn statements() -> impl Strategy<Value = String> {
    let mutated = (
        select(&STATEMENTS[..]),
        prop::collection::vec(
            (any::<prop::sample::Index>(), 0..4, select(&WORDS[..])),
            0..3,
        ),
    );
    let mutated = mutated.prop_map(|(statement, changes)| {
        let mut words: Vec<&str> = statement.split_inclusive([' ', '(', ')', ',']).collect();
        for (index, change, word) in changes {
            let index = index.index(words.len());
            match change {
                0 => words[index] = word,
                1 => drop(words.remove(index)),
                2 => words.insert(index, word),
                _ => words.insert(index, words[index]),
            }
            if words.is_empty() {
                break;
            }
        }
        words.join(" ")
    });
    let random = prop::collection::vec(select(&WORDS[..]), 0..12).prop_map(|words| words.join(" "));
    prop_oneof![3 => mutated, 1 => random, 1 => ".{0,40}"]
}

/// What DataFusion makes of a text: its statements, or what it says about the first mistake.
fn by_datafusion(sql: &str, options: &SqlParserOptions) -> Result<Vec<String>, String> {
    let parser = DFParserBuilder::new(sql)
        .with_recursion_limit(options.recursion_limit.get())
        .build();
    let statements = parser.and_then(|mut parser| parser.parse_statements());
    match statements {
        Ok(statements) => Ok(statements.iter().map(|s| format!("{s:?}")).collect()),
        Err(error) => Err(error.strip_backtrace()),
    }
}

proptest! {
    #![proptest_config(property_config(2000))]

    #[test]
    fn other_statements_are_datafusions(sql in statements()) {
        let options = SqlParserOptions::default();
        let mut statements = vec![];
        let mut mistake = None;
        let mut is_own = false;
        for parsed in parse_statements(&sql, &options) {
            match parsed.statement {
                Ok(Statement::DataFusion(statement)) => {
                    prop_assert!(statement.hints.is_empty());
                    let text = format!("{:?}", statement.statement);
                    // Flink's spelling becomes DataFusion's.
                    is_own |= sql.contains("'connector'") && text.starts_with("CreateExternalTable");
                    statements.push(text);
                }
                Ok(_) => is_own = true,
                Err(error) => mistake = Some(error.strip_backtrace()),
            }
        }
        let expected = by_datafusion(&sql, &options);
        if is_own {
            return Ok(());
        }
        match (expected, mistake) {
            (Ok(expected), None) => prop_assert_eq!(statements, expected),
            (Err(expected), Some(mistake)) => {
                let own = ["MSCK", "REFRESH", "TRUNCATE", "SHOW", "ALTER"];
                let is_own = own.iter().any(|word| sql.contains(word))
                    || sql.contains("'connector'")
                    || is_external_table_as(&sql);
                // Behind the advice, if there is any.
                let is_same = mistake == expected || mistake.ends_with(&format!("caused by\n{expected}"));
                prop_assert!(is_own || is_same, "{}\n{}", mistake, expected);
            }
            (expected, mistake) => {
                let own = ["MSCK", "REFRESH", "TRUNCATE", "PARTITION", "'connector'"];
                let is_own = own.iter().any(|word| sql.contains(word)) || is_external_table_as(&sql);
                prop_assert!(is_own, "{:?} {:?}", expected, mistake);
            }
        }
    }
}

/// `CREATE EXTERNAL TABLE .. AS` a query, which DataFusion does not have.
fn is_external_table_as(sql: &str) -> bool {
    let words: Vec<&str> = sql.split_whitespace().collect();
    let queries = ["SELECT", "WITH", "VALUES", "TABLE", "FROM", "("];
    let begins = |word: &str| queries.iter().any(|query| word.starts_with(query));
    let is_as = |pair: &[&str]| pair[0] == "AS" && begins(pair[1]);
    words.contains(&"EXTERNAL") && words.windows(2).any(is_as)
}

/// The statements of the blocks ```sql of a page.
fn sql_blocks(page: &str) -> Vec<&str> {
    let blocks = page.split("\n```sql\n").skip(1);
    blocks
        .filter_map(|rest| rest.split("\n```").next())
        .collect()
}

#[test]
fn the_statements_of_the_documentation_are_understood() {
    for page in [
        include_str!("../../README.md"),
        include_str!("../../docs/guide.md"),
    ] {
        let blocks = sql_blocks(page);
        assert!(!blocks.is_empty());
        for sql in blocks {
            for parsed in parse_statements(sql, &SqlParserOptions::default()) {
                let line = parsed.line;
                assert!(
                    parsed.statement.is_ok(),
                    "{sql}\nline {line}: {:?}",
                    parsed.statement
                );
            }
        }
    }
}
