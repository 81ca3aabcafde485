//! The text of a partition value and the value of a text.
//!
//! Both directions use arrow's casts between `Utf8` and the column's type:
//!
//! | type | read | written |
//! |---|---|---|
//! | text | as it stands | as it stands |
//! | `BOOLEAN` | `true`/`false` and arrow's other spellings | `true`, `false` |
//! | integers, floats | `7`, `007`, `-1`, `1.5`, `1e3` | shortest decimal |
//! | `DECIMAL(p, s)` | by value: `1.1` and `1.10` are equal; `1.999` is no `DECIMAL(5, 2)` | with `s` digits |
//! | `DATE` | ISO, `2024-06-01` | ISO |
//! | `TIMESTAMP` | date and time with a blank or `T`, a date alone; no session time zone is applied | blank-separated |

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StringArray};
use datafusion::arrow::compute::kernels::cmp::neq;
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options, nullif};
use datafusion::arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Field, TimeUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};

/// The values that texts spell, and where they spell none.
#[derive(Debug)]
pub struct ParsedValues {
    /// One value for each text; NULL for NULL and for what is no value of the type.
    pub values: ArrayRef,
    /// The rows whose text is no value of the type, in order.
    pub mismatches: Vec<usize>,
}

/// The typed values of `texts`, one for each row.
///
/// # Errors
/// When no text can be cast to the field's type.
pub fn parse_values(field: &Field, texts: &StringArray) -> Result<ParsedValues> {
    let options = CastOptions {
        safe: true,
        format_options: FormatOptions::default(),
    };
    let (data_type, dictionary) = match field.data_type() {
        DataType::Dictionary(_, values) => (values.as_ref(), Some(field.data_type())),
        data_type => (data_type, None),
    };
    let mut values = cast_with_options(texts, data_type, &options)?;
    let changed = changed_values(texts, &values, &options)?;
    let is_changed = |row: usize| {
        changed
            .as_ref()
            .is_some_and(|c| c.is_valid(row) && c.value(row))
    };
    let mismatches: Vec<usize> = if values.null_count() == texts.null_count() && changed.is_none() {
        vec![]
    } else {
        (0..texts.len())
            .filter(|row| texts.is_valid(*row) && (values.is_null(*row) || is_changed(*row)))
            .collect()
    };
    if !mismatches.is_empty() {
        let mut is_mismatch = vec![false; texts.len()];
        for row in &mismatches {
            is_mismatch[*row] = true;
        }
        values = nullif(&values, &BooleanArray::from(is_mismatch))?;
    }
    if let Some(dictionary) = dictionary {
        values = cast(&values, dictionary)?;
    }
    Ok(ParsedValues { values, mismatches })
}

/// True for texts that a cast has rounded or cut off: `1.999` as `DECIMAL(5, 2)`, a time of day as
/// `DATE`. Such a type has a wider one, in which text and value differ.
fn changed_values(
    texts: &StringArray,
    values: &ArrayRef,
    options: &CastOptions<'_>,
) -> Result<Option<BooleanArray>> {
    let wider = match values.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => {
            DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale.saturating_add(20))
        }
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => return Ok(None),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
        _ => return Ok(None),
    };
    let exact = cast_with_options(texts, &wider, options)?;
    let values = cast_with_options(values, &wider, options)?;
    Ok(Some(neq(&exact, &values)?))
}

/// The text of a value before any escaping; `None` for NULL.
///
/// # Errors
/// When the type has no text form.
pub fn value_to_text(value: &ScalarValue) -> Result<Option<String>> {
    if value.is_null() {
        return Ok(None);
    }
    let array = value.to_array()?;
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => cast(&array, values.as_ref())?,
        _ => array,
    };
    let format = FormatOptions::default()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
    let formatter = ArrayFormatter::try_new(array.as_ref(), &format)?;
    Ok(Some(formatter.value(0).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_a_round_trip() {
        let values = [
            ScalarValue::Boolean(Some(true)),
            ScalarValue::Int8(Some(-8)),
            ScalarValue::Int16(Some(-16)),
            ScalarValue::Int32(Some(-32)),
            ScalarValue::Int64(Some(i64::MIN)),
            ScalarValue::UInt8(Some(8)),
            ScalarValue::UInt16(Some(16)),
            ScalarValue::UInt32(Some(32)),
            ScalarValue::UInt64(Some(u64::MAX)),
            ScalarValue::Float32(Some(1.5)),
            ScalarValue::Float64(Some(-0.1)),
            ScalarValue::Decimal128(Some(110), 5, 2),
            ScalarValue::Date32(Some(19_875)),
            ScalarValue::Date64(Some(86_400_000)),
            ScalarValue::TimestampSecond(Some(1_711_852_200), None),
            ScalarValue::TimestampMillisecond(Some(1_711_852_200_123), None),
            ScalarValue::TimestampMicrosecond(Some(1_711_852_200_123_456), None),
            ScalarValue::TimestampNanosecond(Some(1_711_852_200_123_456_789), None),
            ScalarValue::TimestampMicrosecond(Some(1_711_852_200_000_000), Some("+02:00".into())),
            ScalarValue::Utf8(Some("it's 50%".to_owned())),
            ScalarValue::Utf8View(Some("x".to_owned())),
            ScalarValue::LargeUtf8(Some(String::new())),
            ScalarValue::Dictionary(
                Box::new(DataType::UInt16),
                Box::new(ScalarValue::Utf8(Some("d".to_owned()))),
            ),
        ];
        for value in values {
            let text = value_to_text(&value).unwrap().unwrap();
            let field = Field::new("c", value.data_type(), true);
            let parsed = parse_values(&field, &StringArray::from(vec![text.as_str()])).unwrap();
            assert!(parsed.mismatches.is_empty(), "{text}");
            let back = ScalarValue::try_from_array(&parsed.values, 0).unwrap();
            assert_eq!(back, value, "through '{text}'");
        }
    }

    #[test]
    fn a_timestamp_is_wall_clock_time_with_several_spellings() {
        let field = Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true);
        let texts = StringArray::from(vec![
            "2024-01-15 00:00:00",
            "2024-01-15T00:00:00",
            "2024-01-15T00:00:00.000000Z",
            "2024-01-15",
        ]);
        let array = parse_values(&field, &texts).unwrap().values;
        let first = ScalarValue::try_from_array(&array, 0).unwrap();
        for row in 1..array.len() {
            assert_eq!(ScalarValue::try_from_array(&array, row).unwrap(), first);
        }
        assert_eq!(
            value_to_text(&first).unwrap().unwrap(),
            "2024-01-15 00:00:00"
        );
    }

    #[test]
    fn a_text_that_the_type_would_change_is_refused() {
        let cases = [
            (DataType::Decimal128(5, 2), "1.999", "1.900"),
            (DataType::Date32, "2024-06-01T10:00:00", "2024-06-01"),
            (
                DataType::Timestamp(TimeUnit::Second, None),
                "2024-06-01 10:00:00.5",
                "2024-06-01",
            ),
            (DataType::Int8, "300", "30"),
        ];
        for (data_type, changed, kept) in cases {
            let field = Field::new("c", data_type, true);
            let texts = StringArray::from(vec![changed, kept]);
            let parsed = parse_values(&field, &texts).unwrap();
            assert_eq!(parsed.mismatches, [0], "{changed}");
            assert!(parsed.values.is_null(0) && parsed.values.is_valid(1));
        }
    }

    #[test]
    fn null_has_no_text() {
        assert_eq!(value_to_text(&ScalarValue::Int32(None)).unwrap(), None);
    }
}
