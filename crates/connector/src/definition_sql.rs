//! The text of a `CREATE` statement.

use std::collections::BTreeMap;
use std::fmt::Write;

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::utils::quote_identifier;
use datafusion::common::{Constraint, Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::sql::unparser::Unparser;

use crate::secret::hide_credentials;

/// A statement that has the same meaning as `command`, with `options` instead of its own.
///
/// One without a format or a location has Flink's form, `CREATE TABLE .. WITH (..)`, since
/// `CREATE EXTERNAL TABLE` needs both.
pub(crate) fn create_statement(
    command: &CreateExternalTable,
    options: &BTreeMap<String, String>,
) -> Result<String> {
    let locations: Vec<&String> = command.locations.iter().filter(|l| !l.is_empty()).collect();
    let is_external = !command.file_type.is_empty() && !locations.is_empty();
    let mut sql = String::from(if is_external {
        "CREATE EXTERNAL "
    } else {
        "CREATE "
    });
    if command.temporary {
        sql.push_str("TEMPORARY ");
    }
    // Writing to a string does not fail.
    let _ = write!(sql, "TABLE {}", command.name.to_quoted_string());
    let columns = columns(command)?;
    if !columns.is_empty() {
        let _ = write!(sql, " (\n  {}\n)", columns.join(",\n  "));
    }
    if is_external {
        let _ = write!(sql, "\nSTORED AS {}", command.file_type);
    }
    for order in &command.order_exprs {
        let order = order.iter().map(|sort| {
            let sort = Unparser::default().sort_to_sql(sort)?;
            Ok(sort.to_string())
        });
        let order = order.collect::<Result<Vec<_>>>()?;
        let _ = write!(sql, "\nWITH ORDER ({})", order.join(", "));
    }
    if !command.table_partition_cols.is_empty() {
        let names = command.table_partition_cols.join(", ");
        let _ = write!(sql, "\nPARTITIONED BY ({names})");
    }
    let shown = locations.iter().map(|l| literal(&hide_credentials(l)));
    let shown = shown.collect::<Vec<_>>();
    let mut options: Vec<(String, String)> = options
        .iter()
        .map(|(key, value)| (literal(key), literal(&hide_credentials(value))))
        .collect();
    if is_external {
        let _ = match &shown[..] {
            [location] => write!(sql, "\nLOCATION {location}"),
            several => write!(sql, "\nLOCATION ({})", several.join(", ")),
        };
        let options = options.iter().map(|(key, value)| format!("{key} {value}"));
        let options = options.collect::<Vec<_>>().join(",\n  ");
        let _ = write!(sql, "\nOPTIONS (\n  {options}\n)");
    } else {
        if !command.file_type.is_empty() {
            let format = command.file_type.to_lowercase();
            options.push(("'format'".to_owned(), literal(&format)));
        }
        if let Some(location) = shown.into_iter().next() {
            options.push(("'path'".to_owned(), location));
        }
        options.sort();
        let options = options
            .iter()
            .map(|(key, value)| format!("{key} = {value}"));
        let options = options.collect::<Vec<_>>().join(",\n  ");
        let _ = write!(sql, "\nWITH (\n  {options}\n)");
    }
    Ok(sql)
}

/// The column definitions and the constraints.
fn columns(command: &CreateExternalTable) -> Result<Vec<String>> {
    let fields = command.schema.fields();
    let mut lines = vec![];
    for field in fields {
        let mut line = format!("{} {}", quoted(field.name()), sql_type(command, field)?);
        if !field.is_nullable() {
            line.push_str(" NOT NULL");
        }
        if let Some(default) = command.column_defaults.get(field.name()) {
            let default = Unparser::default().expr_to_sql(default)?;
            let _ = write!(line, " DEFAULT {default}");
        }
        lines.push(line);
    }
    for constraint in command.constraints.iter() {
        let (kind, columns) = match constraint {
            Constraint::PrimaryKey(columns) => ("PRIMARY KEY", columns),
            Constraint::Unique(columns) => ("UNIQUE", columns),
        };
        let names = columns.iter().filter_map(|index| fields.get(*index));
        let names: Vec<String> = names.map(|field| quoted(field.name())).collect();
        lines.push(format!("{kind} ({})", names.join(", ")));
    }
    Ok(lines)
}

fn sql_type(command: &CreateExternalTable, field: &Field) -> Result<String> {
    match type_name(field.data_type()) {
        Some(name) => Ok(name),
        None => plan_err!(
            "table '{}': column '{}' has the type {}, which SQL cannot name",
            command.name,
            field.name(),
            field.data_type()
        ),
    }
}

/// The name of a type in DataFusion's SQL.
fn type_name(data_type: &DataType) -> Option<String> {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::BinaryView => "BYTEA",
        DataType::Date32 => "DATE",
        DataType::Time64(TimeUnit::Nanosecond) => "TIME",
        DataType::Timestamp(unit, zone) => {
            let zone = zone.as_ref().map_or("", |_| " WITH TIME ZONE");
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            return Some(format!("TIMESTAMP({digits}){zone}"));
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => "INTERVAL",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return Some(format!("DECIMAL({precision}, {scale})"));
        }
        DataType::List(item) => return Some(format!("{}[]", type_name(item.data_type())?)),
        DataType::FixedSizeList(item, length) => {
            return Some(format!("{}[{length}]", type_name(item.data_type())?));
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| {
                let data_type = type_name(field.data_type())?;
                Some(format!("{} {data_type}", quoted(field.name())))
            });
            let fields = fields.collect::<Option<Vec<_>>>()?;
            return Some(format!("STRUCT<{}>", fields.join(", ")));
        }
        _ => return None,
    };
    Some(name.to_owned())
}

/// An identifier, in quotes where it would be read as another one without.
fn quoted(name: &str) -> String {
    match is_reserved(&name.to_uppercase()) {
        true => format!("\"{name}\""),
        false => quote_identifier(name).into_owned(),
    }
}

/// Whether a column definition that begins with the word would be read as something else.
fn is_reserved(word: &str) -> bool {
    const CONSTRAINTS: [&str; 8] = [
        "PRIMARY",
        "UNIQUE",
        "FOREIGN",
        "CHECK",
        "CONSTRAINT",
        "INDEX",
        "KEY",
        "FULLTEXT",
    ];
    CONSTRAINTS.contains(&word) || word == "SPATIAL"
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
