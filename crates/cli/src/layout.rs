//! Tables that fit the screen, and what is written instead of those that do not.
//!
//! One rule: a table that needs more columns than there are is written as records, with a line for
//! each value; of a plan, only its text is written, with long lines broken.

use std::fmt::Write;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::common::Result;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::query::AnswerKind;

/// By how much the rest of a broken line is further to the right.
const HANGING_INDENT: usize = 4;
/// The least that a value gets, however long the names of the columns are.
const LEAST_VALUE_WIDTH: usize = 10;

/// A result as text that takes `width` columns, if that can be done. Ends with a line break.
pub(crate) fn layout(
    batches: &[RecordBatch],
    kind: AnswerKind,
    width: Option<usize>,
    options: &FormatOptions<'_>,
) -> Result<String> {
    let mut text = pretty_format_batches_with_options(batches, options)?.to_string();
    text.push('\n');
    match width {
        Some(width) if text.lines().any(|line| line.width() > width) => match kind {
            AnswerKind::Plan => plans(batches, width, options),
            _ => records(batches, width, options),
        },
        _ => Ok(text),
    }
}

fn records(batches: &[RecordBatch], width: usize, options: &FormatOptions<'_>) -> Result<String> {
    let schema = batches.first().map(RecordBatch::schema);
    let names: Vec<String> = schema
        .iter()
        .flat_map(|schema| schema.fields().iter().map(|field| field.name().clone()))
        .collect();
    let name_width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let value_width = width.saturating_sub(name_width + 3).max(LEAST_VALUE_WIDTH);
    let mut text = String::new();
    let mut number = 0;
    for batch in batches {
        for row in values(batch, options)? {
            number += 1;
            let title = format!("-[ record {number} ]");
            let _ = writeln!(text, "{title:-<0$}", width.min(40));
            for (name, value) in names.iter().zip(row) {
                let mut name = name.as_str();
                for line in value
                    .split('\n')
                    .flat_map(|line| broken(line, value_width, 0))
                {
                    let padding = name_width - name.width();
                    let line = format!("{name}{:padding$} | {line}", "");
                    let _ = writeln!(text, "{}", line.trim_end());
                    name = "";
                }
            }
        }
    }
    Ok(text)
}

/// The texts in the last column, each below what the other columns say.
fn plans(batches: &[RecordBatch], width: usize, options: &FormatOptions<'_>) -> Result<String> {
    let mut text = String::new();
    for batch in batches {
        for mut row in values(batch, options)? {
            let plan = row.pop().unwrap_or_default();
            if !text.is_empty() {
                text.push('\n');
            }
            if !row.is_empty() {
                let _ = writeln!(text, "{}:", row.join(" "));
            }
            for line in plan.trim_end().split('\n') {
                for line in broken_plan_line(line, width) {
                    let _ = writeln!(text, "{line}");
                }
            }
        }
    }
    Ok(text)
}

/// The rows of a batch as texts.
fn values(batch: &RecordBatch, options: &FormatOptions<'_>) -> Result<Vec<Vec<String>>> {
    let columns = batch.columns().iter();
    let columns: Vec<_> = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), options))
        .collect::<Result<_, _>>()?;
    let rows = (0..batch.num_rows()).map(|row| {
        let values = columns
            .iter()
            .map(|column| column.value(row).try_to_string());
        Ok(values.collect::<Result<_, _>>()?)
    });
    rows.collect()
}

/// Metrics begin on a line of their own if those of an operator do not fit behind it.
fn broken_plan_line(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let hanging = (indent + HANGING_INDENT).min(width / 2);
    match line.split_once(", metrics=[") {
        Some((operator, metrics)) if line.width() > width => {
            let mut lines = broken(&format!("{operator},"), width, hanging);
            let metrics = format!("{:hanging$}metrics=[{metrics}", "");
            lines.extend(broken(&metrics, width, hanging));
            lines
        }
        _ => broken(line, width, hanging),
    }
}

/// A line as lines of at most `width` columns. It is broken behind a comma if possible, else behind a
/// word, else anywhere; all lines but the first begin with `indent` spaces.
fn broken(line: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![];
    let mut rest = line;
    let mut start = String::new();
    while start.width() + rest.width() > width {
        let end = fitting(rest, width - start.width());
        let fits = &rest[..end];
        // Not within the indentation, which would leave an empty line.
        let content = fits.len() - fits.trim_start().len();
        let behind = |pattern| {
            let position = fits.rfind(pattern).filter(|position| *position > content);
            position.map(|position| position + 1)
        };
        let end = behind(", ").or_else(|| behind(" ")).unwrap_or(end);
        lines.push(format!("{start}{}", rest[..end].trim_end()));
        rest = rest[end..].trim_start();
        start = " ".repeat(indent);
    }
    lines.push(start + rest);
    lines
}

/// How many bytes of the text take at most `width` columns: one character at least.
fn fitting(text: &str, width: usize) -> usize {
    let mut taken = 0;
    for (position, character) in text.char_indices() {
        taken += character.width().unwrap_or(0);
        if taken > width && position > 0 {
            return position;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn tables_that_fit_are_tables() {
        let text = layout_of(&[("a", "1"), ("b", "x")], AnswerKind::Rows, Some(9));
        assert_eq!(
            text,
            "+---+---+\n| a | b |\n+---+---+\n| 1 | x |\n+---+---+\n"
        );
        let wide = "x".repeat(300);
        let text = layout_of(&[("a", &wide)], AnswerKind::Rows, None);
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn wide_rows_are_records() {
        let columns = [
            ("id", "1"),
            ("text", "one, two, three, four, five"),
            ("n", "a\nb"),
        ];
        let text = layout_of(&columns, AnswerKind::Rows, Some(24));
        assert_eq!(
            text,
            "-[ record 1 ]-----------\n\
             id   | 1\n\
             text | one, two, three,\n     \
                  | four, five\n\
             n    | a\n     \
                  | b\n"
        );
    }

    #[test]
    fn wide_plans_are_text_with_metrics_on_lines_of_their_own() {
        let plan = "SortExec: expr=[a]\n  \
                    Scan: files, metrics=[rows=1, bytes=2, time=3]";
        let text = layout_of(
            &[("plan_type", "Plan with Metrics"), ("plan", plan)],
            AnswerKind::Plan,
            Some(30),
        );
        assert_eq!(
            text,
            "Plan with Metrics:\n\
             SortExec: expr=[a]\n  \
               Scan: files,\n      \
                   metrics=[rows=1,\n      \
                   bytes=2, time=3]\n"
        );
    }

    #[test]
    fn lines_are_broken_at_the_best_place_within_the_width() {
        assert_eq!(broken("", 5, 2), [""]);
        assert_eq!(broken("a, b c, d", 8, 2), ["a, b c,", "  d"]);
        assert_eq!(broken("ab cd ef", 6, 0), ["ab cd", "ef"]);
        assert_eq!(broken("abcdefgh", 3, 1), ["abc", " de", " fg", " h"]);
        // Each of these takes two columns.
        assert_eq!(broken("東京都", 4, 0), ["東京", "都"]);
        assert_eq!(
            broken("    abcdefgh", 6, 5),
            [
                "    ab", "     c", "     d", "     e", "     f", "     g", "     h"
            ]
        );
    }

    fn layout_of(columns: &[(&str, &str)], kind: AnswerKind, width: Option<usize>) -> String {
        let columns = columns.iter().map(|(name, value)| {
            let values: ArrayRef = Arc::new(StringArray::from(vec![*value]));
            (*name, values)
        });
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        layout(&[batch], kind, width, &FormatOptions::default()).unwrap()
    }
}
