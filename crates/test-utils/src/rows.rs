//! Query answers compared as multisets of rows.
//!
//! SQL promises no order, and neither do scans that read partitions as they are found. Dictionary
//! and view arrays count as the values that they hold, so answers of different providers compare.

use std::collections::BTreeMap;
use std::fmt;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::{DataFusionError, Result};

/// How a NULL is shown, which no ordinary text looks like.
const NULL: &str = "<null>";

/// How many rows of each side a difference shows.
const MAX_SHOWN: usize = 20;

/// The rows as sorted lines of the form `1 | x | <null>`.
pub fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = ordered_rows(batches);
    rows.sort();
    rows
}

/// The same lines in the order of the rows, for a query with `ORDER BY`.
pub fn ordered_rows(batches: &[RecordBatch]) -> Vec<String> {
    batches.iter().flat_map(batch_rows).collect()
}

/// Checks that two answers have the same rows, each as often, in any order.
///
/// The error is a [`RowDifference`] inside a [`DataFusionError::External`].
pub fn compare_rows(actual: &[RecordBatch], expected: &[RecordBatch]) -> Result<()> {
    let (actual, expected) = (sorted_rows(actual), sorted_rows(expected));
    if actual == expected {
        return Ok(());
    }
    let difference = RowDifference::new(&actual, &expected);
    Err(DataFusionError::External(Box::new(difference)))
}

/// The rows that one answer has more often than the other.
#[derive(Clone, PartialEq, Eq)]
pub struct RowDifference {
    actual_count: usize,
    expected_count: usize,
    missing: Vec<String>,
    unexpected: Vec<String>,
}

impl RowDifference {
    fn new(actual: &[String], expected: &[String]) -> Self {
        let mut surplus = BTreeMap::<&String, isize>::new();
        for row in actual {
            *surplus.entry(row).or_default() += 1;
        }
        for row in expected {
            *surplus.entry(row).or_default() -= 1;
        }
        let rows_of = |sign: isize| {
            surplus
                .iter()
                .filter(|(_, surplus)| surplus.signum() == sign)
                .flat_map(|(row, surplus)| vec![row.to_string(); surplus.unsigned_abs()])
                .collect()
        };
        Self {
            actual_count: actual.len(),
            expected_count: expected.len(),
            missing: rows_of(-1),
            unexpected: rows_of(1),
        }
    }

    /// Expected rows that are not there.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Rows that are there and were not expected.
    pub fn unexpected(&self) -> &[String] {
        &self.unexpected
    }
}

impl fmt::Display for RowDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (actual, expected) = (self.actual_count, self.expected_count);
        write!(f, "{actual} rows where {expected} were expected")?;
        for (mark, rows) in [('-', &self.missing), ('+', &self.unexpected)] {
            for row in rows.iter().take(MAX_SHOWN) {
                write!(f, "\n{mark} {row}")?;
            }
            if rows.len() > MAX_SHOWN {
                write!(f, "\n{mark} ... and {} more", rows.len() - MAX_SHOWN)?;
            }
        }
        Ok(())
    }
}

/// The same as `Display`: tests print the `Debug` of an error, where escaped lines cannot be read.
impl fmt::Debug for RowDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RowDifference {}

fn batch_rows(batch: &RecordBatch) -> Vec<String> {
    let columns: Vec<_> = batch.columns().iter().map(column_cells).collect();
    (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<_> = columns.iter().map(|cells| cells[row].as_str()).collect();
            cells.join(" | ")
        })
        .collect()
}

fn column_cells(column: &ArrayRef) -> Vec<String> {
    let options = FormatOptions::new().with_null(NULL);
    match ArrayFormatter::try_new(column.as_ref(), &options) {
        Ok(formatter) => (0..column.len())
            .map(|row| formatter.value(row).to_string())
            .collect(),
        // A type without a text form still has a `Debug` form to compare.
        Err(_) => (0..column.len())
            .map(|row| format!("{:?}", column.slice(row, 1)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{DictionaryArray, Int32Array, StringArray};
    use datafusion::arrow::datatypes::Int8Type;

    use super::*;

    #[test]
    fn the_order_of_rows_and_batches_does_not_matter() -> Result<()> {
        let one = [rows(&[(1, Some("a")), (2, None)]), rows(&[(3, Some("c"))])];
        let other = [rows(&[(3, Some("c")), (2, None), (1, Some("a"))])];
        assert_eq!(sorted_rows(&one), ["1 | a", "2 | <null>", "3 | c"]);
        compare_rows(&one, &other)
    }

    #[test]
    fn a_difference_names_missing_and_unexpected_rows() {
        let actual = [rows(&[(1, Some("a")), (2, Some("b")), (2, Some("b"))])];
        let expected = [rows(&[(1, Some("a")), (2, Some("b")), (3, Some("c"))])];
        let error = compare_rows(&actual, &expected).unwrap_err();
        assert_eq!(
            error.to_string(),
            "External error: 3 rows where 3 were expected\n- 3 | c\n+ 2 | b"
        );
    }

    #[test]
    fn a_long_difference_is_cut() {
        let many: Vec<_> = (0..30).map(|n| (n, None)).collect();
        let difference = RowDifference::new(&sorted_rows(&[rows(&many)]), &[]);
        assert_eq!(difference.unexpected().len(), 30);
        assert!(difference.to_string().ends_with("+ ... and 10 more"));
    }

    #[test]
    fn a_dictionary_compares_as_its_values() -> Result<()> {
        let plain: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("x")]));
        let dictionary: DictionaryArray<Int8Type> =
            [Some("x"), None, Some("x")].into_iter().collect();
        compare_rows(
            &[RecordBatch::try_from_iter([("p", plain)])?],
            &[RecordBatch::try_from_iter([(
                "p",
                Arc::new(dictionary) as ArrayRef,
            )])?],
        )
    }

    fn rows(rows: &[(i32, Option<&str>)]) -> RecordBatch {
        let numbers = Int32Array::from_iter_values(rows.iter().map(|row| row.0));
        let texts: StringArray = rows.iter().map(|row| row.1).collect();
        let columns: [(_, ArrayRef); 2] = [("n", Arc::new(numbers)), ("s", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    }
}
