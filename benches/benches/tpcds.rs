//! The 99 queries of TPC-DS over facts that are partitioned by their date keys.
//!
//! `benches/fetch-tpcds-queries.sh`, then `cargo bench --workspace --bench tpcds -- --scale 1` sends each
//! query to this project with dynamic filters and without, and to DataFusion over the same rows in
//! flat files, and compares the rows. It prints a Markdown table with the partitions that the facts
//! have, and those that were listed and opened. It fails when a query has other rows than over flat
//! files, or fails or does not end where that one does. What DataFusion does not answer from flat
//! files is reported with the reason.
//!
//! | argument | default | |
//! |---|---|---|
//! | `--scale` | `0.01`, the smallest | 1 has 2.9 million `store_sales` and takes about 1 GB on disk |
//! | `--queries` | `target/tpcds-queries` | the directory of the fetched queries |
//! | `--lake` | `target/tpcds-lake` | the directory of the tables, which are generated when they are not there |
//! | `--only` | all | numbers of queries, such as `3,7` |
//! | `--timeout` | `600` | seconds for a run of a query |
//! | `--memory` | `8` | GiB for the operators of a setting |
//! | `--target-partitions` | cores | output partitions of scans and joins |
//! | `--times` | | measures this project and `ListingTable`, with and without DataFusion's dynamic filters |
//! | `--runs` | `5` | runs of each for the median |
//! | `--caches` | `warm` | `cold` measures each run in a new session |
//!
//! Relative directories start at the root of the checkout.

#![expect(
    clippy::print_stdout,
    reason = "a measurement program prints its figures"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion_partitioned_benches::Caches;
use datafusion_partitioned_benches::tpcds::{
    Checked, Checker, Limits, Timer, Times, Verdict, load_queries, tpcds_lake,
};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let queries = load_queries(&arguments.queries, &arguments.only)?;
    let lake = tpcds_lake(&arguments.lake, arguments.scale, |table, written| {
        let (name, rows, partitions) = (table.name(), written.rows, written.partitions);
        println!("wrote {name}: {rows} rows, {partitions} partitions");
    })
    .await?;
    let limits = arguments.limits;
    let checker = Checker::new(&lake, limits).await?;
    let timer = match arguments.times {
        true => Some(Timer::new(&lake, arguments.caches, limits).await?),
        false => None,
    };

    print_head(&arguments);
    let mut remarks = Vec::new();
    let (mut different, mut slower) = (0, Vec::new());
    for query in &queries {
        let checked = checker.check(query).await;
        let times = match &timer {
            Some(timer) if checked.rows.is_some() => {
                Some(timer.measure(query, arguments.runs).await)
            }
            _ => None,
        };
        print_row(query.number, &checked, times.as_ref());
        match &checked.verdict {
            Verdict::Equal => (),
            Verdict::Different(text) => {
                different += 1;
                remarks.push(format!("Query {} differs: {text}", query.number));
            }
            Verdict::Unsupported(text) => {
                remarks.push(format!("Query {} is not answered: {text}", query.number));
            }
        }
        match times {
            Some(Ok(times)) if times.ratio() > 1.05 => slower.push(query.number.to_string()),
            Some(Err(error)) => {
                let error = error.strip_backtrace();
                remarks.push(format!("Query {} was not measured: {error}", query.number));
            }
            _ => (),
        }
    }

    println!("\n{} queries, {different} differ.", queries.len());
    if timer.is_some() {
        println!(
            "More than 1.05 of the better ListingTable: {}.",
            slower.join(", ")
        );
    }
    for remark in remarks {
        println!("\n{remark}");
    }
    Ok(match different {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn print_head(arguments: &Arguments) {
    let (scale, runs, caches) = (arguments.scale, arguments.runs, arguments.caches.label());
    let (head, rule) = match arguments.times {
        true => (
            " this project ms | ListingTable ms | without its filters ms | x better |",
            "--:|--:|--:|--:|",
        ),
        false => ("", ""),
    };
    match arguments.times {
        true => println!("Scale {scale}, medians of {runs} runs with {caches} caches:\n"),
        false => println!("Scale {scale}:\n"),
    }
    println!("| query | rows | answers | partitions there | listed | opened |{head}");
    println!("|--:|--:|---|--:|--:|--:|{rule}");
}

fn print_row(number: u8, checked: &Checked, times: Option<&Result<Times>>) {
    let rows = checked
        .rows
        .map_or_else(String::new, |rows| rows.to_string());
    let verdict = match checked.verdict {
        Verdict::Equal => "equal",
        Verdict::Different(_) => "**different**",
        Verdict::Unsupported(_) => "none",
    };
    let partitions = checked.partitions;
    let (there, listed, opened) = (partitions.there, partitions.listed, partitions.opened);
    let times = match times {
        None => String::new(),
        Some(Err(_)) => " | | | |".to_owned(),
        Some(Ok(times)) => format!(
            " {:.1} | {:.1} | {:.1} | {:.2} |",
            milliseconds(times.partitioned),
            milliseconds(times.listing),
            milliseconds(times.listing_without_filters),
            times.ratio()
        ),
    };
    println!("| {number} | {rows} | {verdict} | {there} | {listed} | {opened} |{times}");
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

struct Arguments {
    scale: f64,
    queries: PathBuf,
    lake: PathBuf,
    only: Vec<u8>,
    limits: Limits,
    times: bool,
    runs: usize,
    caches: Caches,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().unwrap_or(package);
        let mut parsed = Self {
            scale: 0.01,
            queries: root.join("target/tpcds-queries"),
            lake: root.join("target/tpcds-lake"),
            only: Vec::new(),
            limits: Limits {
                time: Duration::from_secs(600),
                memory: 8 << 30,
                target_partitions: None,
            },
            times: false,
            runs: 5,
            caches: Caches::Warm,
        };
        while let Some(name) = arguments.next() {
            match name.as_str() {
                // From cargo.
                "--bench" => continue,
                "--times" => {
                    parsed.times = true;
                    continue;
                }
                _ => (),
            }
            let value = arguments.next().unwrap_or_default();
            match name.as_str() {
                "--scale" => parsed.scale = positive(&name, &value)?,
                "--queries" => parsed.queries = root.join(value),
                "--lake" => parsed.lake = root.join(value),
                "--only" => {
                    let numbers = value
                        .split(',')
                        .map(|number| positive(&name, number.trim()));
                    parsed.only = numbers.collect::<Result<_>>()?;
                }
                "--timeout" => parsed.limits.time = Duration::from_secs(positive(&name, &value)?),
                "--memory" => parsed.limits.memory = positive::<usize>(&name, &value)? << 30,
                "--target-partitions" => {
                    parsed.limits.target_partitions = Some(positive(&name, &value)?);
                }
                "--runs" => parsed.runs = positive(&name, &value)?,
                "--caches" => {
                    let all = [Caches::Cold, Caches::Warm];
                    let caches = all.into_iter().find(|caches| caches.label() == value);
                    parsed.caches = caches.ok_or_else(|| {
                        exec_datafusion_err!("--caches needs cold or warm, found {value:?}")
                    })?;
                }
                _ => {
                    return exec_err!(
                        "unknown argument {name}; expected one of --scale, --queries, --lake, --only, \
                         --timeout, --memory, --target-partitions, --times, --runs, --caches"
                    );
                }
            }
        }
        Ok(parsed)
    }
}

fn positive<T: FromStr + Default + PartialOrd>(name: &str, value: &str) -> Result<T> {
    let number = value.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| exec_datafusion_err!("{name} needs a number above 0, found {value:?}"))
}
