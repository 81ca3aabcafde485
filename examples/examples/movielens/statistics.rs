//! The statistics that Alink prints of a table, and those that its chapter shows.

use std::fmt::Write as _;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

/// The statistics of one column. Those of numbers are absent for a column that is not a number, and
/// for one without values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnStatistics {
    pub(crate) column: String,
    /// All rows, with or without a value.
    pub(crate) count: i64,
    /// Rows without a value.
    pub(crate) missing: i64,
    /// Sum, mean, sample variance, smallest and largest value.
    pub(crate) numbers: Option<[f64; 5]>,
}

impl ColumnStatistics {
    /// A line of the table, numbers with up to four decimals, as Alink prints them.
    fn cells(&self) -> [String; 8] {
        let [sum, mean, variance, min, max] = match self.numbers {
            Some(numbers) => numbers.map(number),
            None => [(); 5].map(|()| "NaN".to_owned()),
        };
        let (count, missing) = (self.count.to_string(), self.missing.to_string());
        let column = self.column.clone();
        [column, count, missing, sum, mean, variance, min, max]
    }
}

/// The statistics of the columns of a table of ratings.
pub(crate) async fn statistics(ctx: &SessionContext, table: &str) -> Result<Vec<ColumnStatistics>> {
    // One scan: a row becomes one row for each column. The time is not a number.
    let batches = ctx
        .sql(&format!(
            "WITH cells AS (
                 SELECT unnest(make_array(
                     named_struct('place', 1, 'name', 'user_id',
                         'missing', user_id IS NULL, 'number', CAST(user_id AS DOUBLE)),
                     named_struct('place', 2, 'name', 'item_id',
                         'missing', item_id IS NULL, 'number', CAST(item_id AS DOUBLE)),
                     named_struct('place', 3, 'name', 'rating',
                         'missing', rating IS NULL, 'number', rating),
                     named_struct('place', 4, 'name', 'ts',
                         'missing', ts IS NULL, 'number', CAST(NULL AS DOUBLE))
                 )) AS cell
                 FROM {table}
             )
             SELECT
                 cell['name'] AS name,
                 count(*) AS count,
                 count(*) FILTER (WHERE cell['missing']) AS missing,
                 sum(cell['number']) AS sum,
                 avg(cell['number']) AS mean,
                 var_samp(cell['number']) AS variance,
                 min(cell['number']) AS min,
                 max(cell['number']) AS max
             FROM cells
             GROUP BY cell['place'], cell['name']
             ORDER BY cell['place']"
        ))
        .await?
        .collect()
        .await?;

    let mut statistics = Vec::new();
    for batch in &batches {
        let names = cast(batch.column(0), &DataType::Utf8)?;
        let counts = [1, 2].map(|index| batch.column(index).as_primitive::<Int64Type>());
        let numbers =
            [3, 4, 5, 6, 7].map(|index| batch.column(index).as_primitive::<Float64Type>());
        for row in 0..batch.num_rows() {
            let is_number = numbers.iter().all(|column| column.is_valid(row));
            statistics.push(ColumnStatistics {
                column: names.as_string::<i32>().value(row).to_owned(),
                count: counts[0].value(row),
                missing: counts[1].value(row),
                numbers: is_number.then(|| numbers.map(|column| column.value(row))),
            });
        }
    }
    Ok(statistics)
}

/// The statistics of MovieLens 100k in Alink's chapter, which has them for three selections.
pub(crate) fn chapter_statistics(partitions: Option<&str>) -> Option<Vec<ColumnStatistics>> {
    let (count, user_id, item_id, rating) = match partitions {
        None => (
            100_000,
            [46_248_475.0, 462.4848, 71083.249, 1.0, 943.0],
            [42_553_013.0, 425.5301, 109427.5525, 1.0, 1682.0],
            [352_986.0, 3.5299, 1.2671, 1.0, 5.0],
        ),
        Some("year='1997'") => (
            52_604,
            [24_228_648.0, 460.5857, 73330.1483, 1.0, 943.0],
            [21_680_120.0, 412.1382, 106729.2902, 1.0, 1682.0],
            [187_718.0, 3.5685, 1.2213, 1.0, 5.0],
        ),
        Some("year='1997' AND month>='10'") => (
            46_493,
            [21_567_932.0, 463.8963, 72816.402, 1.0, 939.0],
            [19_225_958.0, 413.5237, 106324.0118, 1.0, 1682.0],
            [166_044.0, 3.5714, 1.2245, 1.0, 5.0],
        ),
        Some(_) => return None,
    };
    let columns = [
        ("user_id", Some(user_id)),
        ("item_id", Some(item_id)),
        ("rating", Some(rating)),
        ("ts", None),
    ];
    let statistics = columns.map(|(column, numbers)| ColumnStatistics {
        column: column.to_owned(),
        count,
        missing: 0,
        numbers,
    });
    Some(statistics.to_vec())
}

/// Checks that statistics print as expected, that is to four decimals.
pub(crate) fn check(actual: &[ColumnStatistics], expected: &[ColumnStatistics]) -> Result<()> {
    let (actual, expected) = (table(actual), table(expected));
    if actual != expected {
        return exec_err!("the statistics are\n{actual}\nwhere these were expected\n{expected}");
    }
    Ok(())
}

/// The statistics as text, one line for each column.
pub(crate) fn table(statistics: &[ColumnStatistics]) -> String {
    let head = [
        "colName", "count", "missing", "sum", "mean", "variance", "min", "max",
    ];
    let lines: Vec<_> = std::iter::once(head.map(str::to_owned))
        .chain(statistics.iter().map(ColumnStatistics::cells))
        .collect();
    let widths: [usize; 8] = std::array::from_fn(|index| {
        let widths = lines.iter().map(|line| line[index].len());
        widths.max().unwrap_or_default()
    });
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        if number == 1 {
            for width in widths {
                let _ = write!(text, "|{:-<width$}", "");
            }
            text.push_str("|\n");
        }
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(text, "|{cell:>width$}");
        }
        text.push_str("|\n");
    }
    text.pop();
    text
}

fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
