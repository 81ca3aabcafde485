//! The domain of keys as a short text, for `EXPLAIN ANALYZE` and reports.

use std::fmt;

use datafusion::common::{Result, ScalarValue};

use super::{KeyBounds, KeyColumn, KeySet, KeyTuples};

/// No value is shown with more characters than these.
const MOST_CHARACTERS: usize = 40;

/// Such as `31 keys: 2021-07-01..2021-07-31`, or `3 keys: 2023..2024 x 1..7` for tuples.
impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuples(tuples) => write_tuples(f, tuples),
            Self::Columns(columns) => {
                for (i, column) in columns.iter().enumerate() {
                    let separator = if i == 0 { "" } else { " x " };
                    write!(f, "{separator}{column}")?;
                }
                Ok(())
            }
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Such as `31 keys: 2021-07-01..2021-07-31`, or without their number when it is not known.
impl fmt::Display for KeyColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values(values) => write_tuples(f, values),
            Self::Bounds(bounds) => write!(f, "{bounds}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Such as `1..7`, or `1..7 and NULL`.
impl fmt::Display for KeyBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.range, self.has_null) {
            (Some((min, max)), _) if min == max => write_value(f, min)?,
            (Some((min, max)), _) => {
                write_value(f, min)?;
                f.write_str("..")?;
                write_value(f, max)?;
            }
            (None, true) => return f.write_str("NULL"),
            (None, false) => return f.write_str("nothing"),
        }
        match self.has_null {
            true => f.write_str(" and NULL"),
            false => Ok(()),
        }
    }
}

fn write_tuples(f: &mut fmt::Formatter<'_>, tuples: &KeyTuples) -> fmt::Result {
    match tuples.len() {
        1 => f.write_str("1 key")?,
        keys => write!(f, "{keys} keys")?,
    }
    if tuples.is_empty() {
        return Ok(());
    }
    // Types without an order have no bounds.
    let columns = tuples.columns().iter().map(KeyBounds::of);
    let Ok(columns) = columns.collect::<Result<Vec<_>>>() else {
        return Ok(());
    };
    for (i, bounds) in columns.iter().enumerate() {
        let separator = if i == 0 { ": " } else { " x " };
        write!(f, "{separator}{bounds}")?;
    }
    Ok(())
}

fn write_value(f: &mut fmt::Formatter<'_>, value: &ScalarValue) -> fmt::Result {
    let text = value.to_string();
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => write!(f, "{}…", &text[..end]),
        None => f.write_str(&text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int32Array, StringArray};

    use super::*;

    #[test]
    fn keys_are_told_by_their_bounds() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), Some(1), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["b", &"x".repeat(50), "b"]));
        let tuples = |columns: &[&ArrayRef]| {
            let columns = columns.iter().map(|column| Arc::clone(column));
            KeyTuples::new(columns.collect())
        };
        let both = KeySet::Tuples(tuples(&[&numbers, &texts]));
        let long = "x".repeat(40);
        assert_eq!(
            both.to_string(),
            format!("3 keys: 1..7 and NULL x b..{long}…")
        );
        let one = KeySet::Tuples(tuples(&[&numbers.slice(0, 1)]));
        assert_eq!(one.to_string(), "1 key: 7");
        let none = KeySet::Tuples(tuples(&[&numbers.slice(0, 0)]));
        assert_eq!(none.to_string(), "0 keys");
        let bounds = KeyBounds::of(&numbers.slice(2, 1)).unwrap();
        let columns = vec![KeyColumn::Bounds(bounds), KeyColumn::Unknown];
        assert_eq!(KeySet::Columns(columns).to_string(), "NULL x unknown");
    }
}
