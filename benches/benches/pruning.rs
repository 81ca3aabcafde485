//! How close pruning comes to a table that never had the other partitions.
//!
//! `cargo bench --workspace --bench pruning` measures queries that need one, three days, one hour of each
//! day and all of 10,008 partitions, and joins that need 31 of 1,825, each read by this project,
//! by DataFusion's `ListingTable`, and by the oracle: `ListingTable` over exactly the needed
//! partitions. A join that needs all 1,825 is read with and without dynamic filters. The lakes are Parquet files in a temporary directory. This project and the oracle take
//! turns, since their ratios are wanted: what criterion measures one after the other meets different moods of
//! the machine.
//!
//! Arguments, all optional, behind `--`: `--runs 15 --hourly-days 417 --days 1825 --rows 100
//! --only "1 of 10008"`. `--only` leaves out the cases whose names do not contain the text.

#![expect(
    clippy::print_stdout,
    reason = "a measurement program prints its figures"
)]

use std::fmt::Display;
use std::str::FromStr;

use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion_partitioned_benches::{Caches, Case, Sizes, markdown_table, measure};
use datafusion_partitioned_test_utils::Lake;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let Arguments { runs, sizes, only } = arguments;

    let directory = tempfile::tempdir()?;
    let lake = Lake::local(directory.path())?;
    let mut cases = Vec::from(Case::hourly(&lake, sizes).await?);
    cases.extend(Case::joins(&lake, sizes).await?);

    let mut measured = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&only)) {
        for caches in [Caches::Cold, Caches::Warm] {
            let measurements = measure(case, caches, &lake, runs).await?;
            measured.push((case.name.clone(), caches, measurements));
        }
    }
    println!(
        "Medians of {runs} runs, {} rows in each partition, {} threads:\n\n{}",
        sizes.rows,
        std::thread::available_parallelism()?,
        markdown_table(&measured)
    );
    Ok(())
}

struct Arguments {
    runs: usize,
    sizes: Sizes,
    only: String,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut parsed = Self {
            runs: 15,
            sizes: Sizes {
                hourly_days: 417,
                days: 1_825,
                rows: 100,
            },
            only: String::new(),
        };
        while let Some(name) = arguments.next() {
            // From cargo.
            if name == "--bench" {
                continue;
            }
            let value = arguments.next();
            match name.as_str() {
                "--runs" => parsed.runs = number(&name, value, 1)?,
                // Three days in the middle are asked for.
                "--hourly-days" => parsed.sizes.hourly_days = number(&name, value, 6)?,
                // The month that the joins ask for must be among the days.
                "--days" => parsed.sizes.days = number(&name, value, 62)?,
                "--only" => parsed.only = value.unwrap_or_default(),
                "--rows" => parsed.sizes.rows = number(&name, value, 1)?,
                _ => {
                    return exec_err!(
                        "unknown argument {name}; expected one of --runs, --hourly-days, --days, --rows, --only"
                    );
                }
            }
        }
        Ok(parsed)
    }
}

fn number<T>(name: &str, value: Option<String>, least: T) -> Result<T>
where
    T: Copy + Display + FromStr + PartialOrd,
{
    let value = value.unwrap_or_default();
    let number = value.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| {
        exec_datafusion_err!("{name} needs a number of {least} or more, found {value:?}")
    })
}
