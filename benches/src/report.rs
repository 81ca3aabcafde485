//! The report of a measurement program, as Markdown.

use std::time::Duration;

use crate::case::Provider;
use crate::measure::{Caches, Measurement};

/// One table row for each provider of each measured case.
pub fn markdown_table(measured: &[(String, Caches, Vec<Measurement>)]) -> String {
    let mut table = String::from(
        "| query | caches | provider | median ms | fastest to slowest | x oracle | LIST requests |\n\
         |---|---|---|--:|--:|--:|--:|\n",
    );
    for (case, caches, measurements) in measured {
        let oracle = measurements
            .iter()
            .find(|measurement| measurement.provider == Provider::Oracle);
        for measurement in measurements {
            let ratio = oracle.map_or(f64::NAN, |oracle| {
                measurement.median.as_secs_f64() / oracle.median.as_secs_f64()
            });
            let (fastest, slowest) = measurement.range;
            table += &format!(
                "| {case} | {} | {} | {:.2} | {:.2} to {:.2} | {ratio:.2} | {} |\n",
                caches.label(),
                measurement.provider.label(),
                milliseconds(measurement.median),
                milliseconds(fastest),
                milliseconds(slowest),
                measurement.list_requests,
            );
        }
    }
    table
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
