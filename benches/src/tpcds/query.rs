//! The texts of the queries, which are fetched and not part of this repository, see
//! `benches/fetch-tpcds-queries.sh`.

use std::fs;
use std::path::Path;

use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;

/// The number of queries.
const QUERIES: u8 = 99;

/// What a text needs before DataFusion takes it: query, text to replace, replacement.
const REWRITES: [(u8, &str, &str); 0] = [];

/// A query of TPC-DS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its number, from 1.
    pub number: u8,
    /// Its text for DataFusion.
    pub text: String,
}

/// Reads the queries of these numbers from `q01.sql` to `q99.sql` in a directory, all when there are
/// none.
pub fn load_queries(directory: &Path, only: &[u8]) -> Result<Vec<Query>> {
    let numbers = (1..=QUERIES).filter(|number| only.is_empty() || only.contains(number));
    numbers.map(|number| load(directory, number)).collect()
}

fn load(directory: &Path, number: u8) -> Result<Query> {
    let path = directory.join(format!("q{number:02}.sql"));
    let mut text = fs::read_to_string(&path).map_err(|error| {
        exec_datafusion_err!(
            "{}: {error}; benches/fetch-tpcds-queries.sh fetches the queries",
            path.display()
        )
    })?;
    for (_, from, to) in REWRITES.iter().filter(|rewrite| rewrite.0 == number) {
        if !text.contains(from) {
            return exec_err!(
                "{} does not contain '{from}', which is rewritten for DataFusion; \
                 benches/fetch-tpcds-queries.sh fetches the expected text",
                path.display()
            );
        }
        text = text.replace(from, to);
    }
    Ok(Query { number, text })
}
