//! The text of a partition value and the value of a text.
//!
//! Both directions use arrow's casts between `Utf8` and the column's type:
//!
//! | type | read | written |
//! |---|---|---|
//! | text | as it stands | as it stands |
//! | `BOOLEAN` | `true`/`false` and arrow's other spellings | `true`, `false` |
//! | integers, floats | `7`, `007`, `-1`, `1.5`, `1e3` | shortest decimal |
//! | `DECIMAL(p, s)` | by value: `1.1` and `1.10` are equal | with `s` digits |
//! | `DATE` | ISO, `2024-06-01` | ISO |
//! | `TIMESTAMP` | date and time with a blank or `T`, a date alone; no session time zone is applied | blank-separated |

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};

use crate::error::PartitionError;

/// The typed values of `texts`, one for each row; NULL stays NULL.
///
/// `path_of` names where the text of a row was found, for error messages.
///
/// # Errors
/// [`PartitionError::Value`] for the first text that is not a value of the field's type.
pub fn parse_values(
    field: &Field,
    texts: &StringArray,
    path_of: impl Fn(usize) -> String,
) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: true,
        format_options: FormatOptions::default(),
    };
    let values = cast_with_options(texts, field.data_type(), &options)?;
    let lost = (0..texts.len()).find(|&row| texts.is_valid(row) && values.is_null(row));
    match lost {
        None => Ok(values),
        Some(row) => Err(PartitionError::Value {
            column: field.name().clone(),
            text: texts.value(row).to_owned(),
            data_type: field.data_type().clone(),
            path: path_of(row),
        }
        .into()),
    }
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
        DataType::Dictionary(_, values) => {
            datafusion::arrow::compute::cast(&array, values.as_ref())?
        }
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
    use datafusion::arrow::datatypes::TimeUnit;

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
            let array = parse_values(&field, &StringArray::from(vec![text.as_str()]), |_| {
                String::new()
            })
            .unwrap();
            let back = ScalarValue::try_from_array(&array, 0).unwrap();
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
        let array = parse_values(&field, &texts, |_| String::new()).unwrap();
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
    fn null_has_no_text() {
        assert_eq!(value_to_text(&ScalarValue::Int32(None)).unwrap(), None);
    }
}
