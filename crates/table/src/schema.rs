//! The columns of several files as those of one table.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::Session;
use datafusion::common::{Result, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_partitioned_catalog::url_of;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectMeta;

use crate::files::described_columns;
use crate::format::TableFormat;
use crate::widening::widens_to;

/// The columns of `files`, by name, in the order in which they first appear. Where types differ, the
/// one that holds the values of all files; see [`common_type`].
///
/// # Errors
/// When a file cannot be read, has a name twice, or has a type that does not go with those of others.
pub(crate) async fn infer_schema(
    session: &dyn Session,
    format: &TableFormat,
    store_url: &ObjectStoreUrl,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let store = session.runtime_env().object_store(store_url)?;
    let store = format
        .options
        .store_for_inference(store, format.format.as_ref());
    let concurrency = session.config_options().execution.meta_fetch_concurrency;
    let infer = |file: ObjectMeta| {
        let store = &store;
        async move {
            let url = url_of(store_url, &file.location);
            let described = described_columns(format.format.as_ref(), store, &file.location);
            let schema = match described.await {
                Ok(Some(schema)) => Ok(schema),
                Ok(None) => format.format.infer_schema(session, store, &[file]).await,
                Err(error) => Err(error),
            };
            match schema {
                Ok(schema) => Ok((url, schema)),
                Err(error) => Err(error.context(format!("cannot infer the columns of '{url}'"))),
            }
        }
        .boxed()
    };
    let mut schemas = stream::iter(files.to_vec())
        .map(infer)
        .buffered(concurrency.get());
    let mut merged = MergedSchema::new(format.is_csv());
    while let Some((url, schema)) = schemas.try_next().await? {
        merged.add(&url, &schema)?;
    }
    Ok(Arc::new(merged.into_schema()))
}

struct MergedSchema {
    /// With the first file that has the column.
    columns: Vec<(FieldRef, String)>,
    is_csv: bool,
}

impl MergedSchema {
    fn new(is_csv: bool) -> Self {
        Self {
            columns: vec![],
            is_csv,
        }
    }

    fn add(&mut self, url: &str, schema: &Schema) -> Result<()> {
        for (index, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            if schema.fields()[..index].iter().any(|f| f.name() == name) {
                return exec_err!(
                    "column '{name}' is twice in '{url}'; declare the columns of the table, and \
                     leave this one out"
                );
            }
            // Another file may lack the column.
            let field = Arc::new(field.as_ref().clone().with_nullable(true));
            let known = self.columns.iter_mut().find(|(f, _)| f.name() == name);
            let Some((known, first)) = known else {
                self.columns.push((field, url.to_owned()));
                continue;
            };
            let (a, b) = (known.data_type(), field.data_type());
            let Some(common) = common_type(a, b, self.is_csv) else {
                return exec_err!(
                    "column '{name}' is {a} in '{first}' and {b} in '{url}', and no type holds the \
                     values of both; declare the columns of the table"
                );
            };
            *known = Arc::new(known.as_ref().clone().with_data_type(common));
        }
        Ok(())
    }

    /// A column without any value has the type of text, which every value has.
    fn into_schema(self) -> Schema {
        let fields = self.columns.into_iter().map(|(field, _)| {
            if field.data_type() == &DataType::Null {
                Arc::new(Field::new(field.name(), DataType::Utf8, true))
            } else {
                field
            }
        });
        Schema::new(fields.collect::<Vec<_>>())
    }
}

/// The type that holds the values of two types, see [`widens_to`]: one of both, or else a wider integer
/// or decimal. In CSV files, whose values are text, it is `DOUBLE` for other numbers, and text for all
/// else.
fn common_type(a: &DataType, b: &DataType, is_csv: bool) -> Option<DataType> {
    let holds_both = |data_type: &DataType| widens_to(a, data_type) && widens_to(b, data_type);
    let kinds_differ = a.is_string() != b.is_string();
    let is_null = *a == DataType::Null || *b == DataType::Null;
    if kinds_differ && !is_null {
        // Would hold both, but more likely one of the files is wrong.
        return is_csv.then_some(DataType::Utf8);
    }
    let wider = [
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Decimal128(20, 0),
    ];
    let candidates = [b.clone(), a.clone()].into_iter().chain(wider);
    let exact = candidates.chain(decimal(a, b)).find(holds_both);
    let temporal = [
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ];
    exact
        .or_else(|| temporal.into_iter().find(holds_both))
        .or_else(|| match is_csv {
            true if a.is_numeric() && b.is_numeric() => Some(DataType::Float64),
            true => Some(DataType::Utf8),
            false => None,
        })
}

/// A decimal with the digits of two decimals.
fn decimal(a: &DataType, b: &DataType) -> Option<DataType> {
    let (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) = (a, b) else {
        return None;
    };
    let before = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
    let scale = *s.max(t);
    let precision = u8::try_from(before + i16::from(scale)).ok()?;
    (precision <= 38).then_some(DataType::Decimal128(precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_type_holds_both_and_does_not_depend_on_the_order() {
        use DataType::{
            Boolean, Date32, Decimal128, Float32, Float64, Int32, Int64, Null, UInt32, Utf8,
        };
        let cases = [
            (Int32, Int64, Some(Int64), Some(Int64)),
            (Int32, UInt32, Some(Int64), Some(Int64)),
            (Float32, Float64, Some(Float64), Some(Float64)),
            (Null, Date32, Some(Date32), Some(Date32)),
            (
                Decimal128(6, 2),
                Decimal128(7, 4),
                Some(Decimal128(8, 4)),
                Some(Decimal128(8, 4)),
            ),
            (Int64, Float64, None, Some(Float64)),
            (Int64, Utf8, None, Some(Utf8)),
            (Boolean, Int64, None, Some(Utf8)),
        ];
        for (a, b, typed, csv) in cases {
            assert_eq!(common_type(&a, &b, false), typed, "{a} and {b}");
            assert_eq!(common_type(&b, &a, false), typed, "{b} and {a}");
            assert_eq!(common_type(&a, &b, true), csv, "{a} and {b} in CSV");
            assert_eq!(common_type(&b, &a, true), csv, "{b} and {a} in CSV");
        }
    }
}
