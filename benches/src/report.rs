//! The report of a measurement program, as Markdown.

use std::time::Duration;

use crate::measure::{Caches, Measurement};

/// One table row for each provider of each measured case, with its ratio to the second provider.
pub fn markdown_table(measured: &[(String, Caches, Vec<Measurement>)]) -> String {
    let mut table = String::from(
        "| query | caches | provider | median ms | fastest to slowest | x second | LIST requests |\n\
         |---|---|---|--:|--:|--:|--:|\n",
    );
    for (case, caches, measurements) in measured {
        for measurement in measurements {
            let ratio = measurements.get(1).map_or(f64::NAN, |yardstick| {
                measurement.median.as_secs_f64() / yardstick.median.as_secs_f64()
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
