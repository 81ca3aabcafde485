//! Columns whose type differs between files and the table.
//!
//! A file's column may be narrower than the table's, so that each of its values has exactly one
//! counterpart. Everything else is an error that names the column, when the file is read and not before:
//!
//! | in the file | in the table |
//! |---|---|
//! | signed integer | a signed integer of at least as many bits |
//! | unsigned integer | an unsigned one of at least as many bits, a signed one of more |
//! | integer | `DECIMAL` with as many digits; `REAL` up to 16 bits, `DOUBLE` up to 32 |
//! | `DECIMAL(p, s)` | `DECIMAL` with at least as many digits before and behind the point; with `s` 0 an integer that holds them |
//! | `REAL` | `DOUBLE` |
//! | `DATE` | `TIMESTAMP` |
//! | `TIMESTAMP`, `TIME` | the same in a finer unit; time zones are converted |
//! | numbers, booleans, dates, times, `BYTEA` | text |
//! | text, bytes, dictionaries | the same in another encoding |
//! | structs, lists, maps | the same, with these rules for what is in them; fields go by name |
//!
//! Text is never parsed, and nothing is rounded or truncated. (CSV and JSON have no types of their own:
//! their values are parsed as the type of the table.)

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Fields, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};

/// DataFusion's adapter of expressions to the columns of a file, less the casts that could change a
/// value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideningAdapterFactory;

impl PhysicalExprAdapterFactory for WideningAdapterFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let inner = DefaultPhysicalExprAdapterFactory.create(
            Arc::clone(&logical_file_schema),
            Arc::clone(&physical_file_schema),
        )?;
        Ok(Arc::new(WideningAdapter {
            inner,
            table: logical_file_schema,
            file: physical_file_schema,
        }))
    }
}

#[derive(Debug)]
struct WideningAdapter {
    inner: Arc<dyn PhysicalExprAdapter>,
    table: SchemaRef,
    file: SchemaRef,
}

impl PhysicalExprAdapter for WideningAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        expr.apply(|expr| {
            if let Some(column) = expr.downcast_ref::<Column>() {
                self.check(column.name())?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.inner.rewrite(expr)
    }
}

impl WideningAdapter {
    fn check(&self, name: &str) -> Result<()> {
        let (Ok(table), Ok(file)) = (
            self.table.field_with_name(name),
            self.file.field_with_name(name),
        ) else {
            return Ok(());
        };
        if widens_to(file.data_type(), table.data_type()) {
            return Ok(());
        }
        exec_err!(
            "column '{name}' has the type {} in the file, which does not always fit into {}, its \
             type in the table; declare the column with a type that holds the values of all files, \
             or leave this file out",
            file.data_type(),
            table.data_type()
        )
    }
}

/// Whether each value of type `file` is exactly one value of type `table`.
pub(crate) fn widens_to(file: &DataType, table: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Dictionary, FixedSizeBinary, FixedSizeList,
        Float16, Float32, Float64, LargeBinary, LargeList, LargeListView, List, ListView, Map,
        Null, RunEndEncoded, Struct, Time32, Time64, Timestamp,
    };
    let is_binary = |data_type: &DataType| {
        matches!(
            data_type,
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
        )
    };
    match (file, table) {
        _ if file == table => true,
        (Null, _) => true,
        (Dictionary(_, file), table) => widens_to(file, table),
        (file, Dictionary(_, table)) => widens_to(file, table),
        (RunEndEncoded(_, file), table) => widens_to(file.data_type(), table),
        (file, table) if table.is_string() => {
            file.is_string()
                || is_binary(file)
                || file.is_numeric()
                || file.is_temporal()
                || *file == Boolean
        }
        (file, Binary | LargeBinary | BinaryView) => is_binary(file) || file.is_string(),
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Date32, Date64) | (Date64, Date32) | (Date32 | Date64, Timestamp(..)) => true,
        (Timestamp(file, _), Timestamp(table, _))
        | (Time32(file) | Time64(file), Time32(table) | Time64(table)) => {
            per_second(*file) <= per_second(*table)
        }
        (
            List(file)
            | LargeList(file)
            | ListView(file)
            | LargeListView(file)
            | FixedSizeList(file, _),
            List(table) | LargeList(table) | ListView(table) | LargeListView(table),
        ) => widens_to(file.data_type(), table.data_type()),
        (Struct(file), Struct(table)) => fields_widen(file, table),
        (Map(file, _), Map(table, _)) => match (file.data_type(), table.data_type()) {
            (Struct(file), Struct(table)) => {
                file.len() == table.len()
                    && file
                        .iter()
                        .zip(table)
                        .all(|(file, table)| widens_to(file.data_type(), table.data_type()))
            }
            _ => false,
        },
        (file, table) => numbers_widen(file, table),
    }
}

fn fields_widen(file: &Fields, table: &Fields) -> bool {
    table.iter().all(|table| match file.find(table.name()) {
        Some((_, file)) => widens_to(file.data_type(), table.data_type()),
        None => table.is_nullable(),
    })
}

fn numbers_widen(file: &DataType, table: &DataType) -> bool {
    if let (Some(file), Some(table)) = (integer(file), integer(table)) {
        return match (file.is_signed, table.is_signed) {
            (true, false) => false,
            (false, true) => file.bits < table.bits,
            _ => file.bits <= table.bits,
        };
    }
    match (integer(file), table) {
        (Some(file), DataType::Float32) => return file.bits <= 16,
        (Some(file), DataType::Float64) => return file.bits <= 32,
        _ => {}
    }
    let Some((before, behind)) = most_digits(file) else {
        return false;
    };
    match (integer(table), decimal_digits(table)) {
        (Some(integer), _) => integer.is_signed && behind <= 0 && before < integer.digits(),
        (None, Some((most_before, most_behind))) => before <= most_before && behind <= most_behind,
        (None, None) => false,
    }
}

struct Integer {
    is_signed: bool,
    bits: u8,
}

fn integer(data_type: &DataType) -> Option<Integer> {
    let bits = data_type
        .is_integer()
        .then(|| data_type.primitive_width())??;
    Some(Integer {
        is_signed: data_type.is_signed_integer(),
        bits: u8::try_from(bits * 8).ok()?,
    })
}

impl Integer {
    /// The digits of the largest value.
    fn digits(&self) -> i16 {
        match (self.bits, self.is_signed) {
            (8, _) => 3,
            (16, _) => 5,
            (32, _) => 10,
            (_, true) => 19,
            (_, false) => 20,
        }
    }
}

/// The most digits before and behind the point that a value of an integer or decimal type has.
fn most_digits(data_type: &DataType) -> Option<(i16, i16)> {
    let integer = integer(data_type).map(|integer| (integer.digits(), 0));
    integer.or_else(|| decimal_digits(data_type))
}

fn decimal_digits(data_type: &DataType) -> Option<(i16, i16)> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    let (Decimal32(precision, scale)
    | Decimal64(precision, scale)
    | Decimal128(precision, scale)
    | Decimal256(precision, scale)) = data_type
    else {
        return None;
    };
    let (precision, scale) = (i16::from(*precision), i16::from(*scale));
    Some((precision - scale, scale))
}

/// Units in a second, as a measure of how fine a unit is.
fn per_second(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_of_a_narrower_type_fits() {
        use DataType::{
            Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8,
            Timestamp, UInt32, UInt64, Utf8, Utf8View,
        };
        let ms = |tz: Option<&str>| Timestamp(TimeUnit::Millisecond, tz.map(Into::into));
        let ns = Timestamp(TimeUnit::Nanosecond, None);
        let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
        let widening = [
            (Int32, Int64),
            (UInt32, Int64),
            (Int16, Float32),
            (Int32, Float64),
            (Float32, Float64),
            (Decimal128(6, 0), Decimal128(8, 0)),
            (Decimal128(6, 2), Decimal128(8, 4)),
            (Decimal128(9, 0), Int32),
            (Int32, Decimal128(10, 0)),
            (Int64, Decimal128(19, 0)),
            (Date32, ns.clone()),
            (ms(Some("UTC")), ns.clone()),
            (Utf8, Utf8View),
            (dictionary.clone(), LargeUtf8),
            (Utf8, dictionary.clone()),
            (Int64, Utf8),
            (Boolean, Utf8View),
        ];
        for (file, table) in widening {
            assert!(widens_to(&file, &table), "{file} to {table}");
            let is_text = |t: &DataType| t.is_string() || *t == dictionary;
            if !(is_text(&file) && is_text(&table)) {
                assert!(!widens_to(&table, &file), "{table} to {file}");
            }
        }
        let never = [
            (Int64, Float64),
            (Float64, Int64),
            (UInt64, Int64),
            (Int8, UInt64),
            (Decimal128(10, 0), Int32),
            (Decimal128(10, 2), Int64),
            (Decimal128(6, 2), Decimal128(7, 4)),
            (Boolean, Int32),
            (Utf8, Date32),
            (ns, Date32),
        ];
        for (file, table) in never {
            assert!(!widens_to(&file, &table), "{file} to {table}");
        }
    }
}
