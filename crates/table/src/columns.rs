//! The columns of a `CREATE EXTERNAL TABLE` statement: which belong to the files, which to the
//! partitions.

use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_partitioned_core::PartitionSpec;

/// The columns that a statement declares.
#[derive(Debug)]
pub(crate) struct DeclaredColumns {
    /// The file columns, or `None` when the statement leaves them to the files.
    pub(crate) file_schema: Option<SchemaRef>,
    pub(crate) spec: PartitionSpec,
}

impl DeclaredColumns {
    /// Splits the declared columns by the `PARTITIONED BY` clause.
    ///
    /// A partition column named there without a type has the type of the column list. Where the
    /// statement has no column list, it is text.
    pub(crate) fn try_new(command: &CreateExternalTable, config: &ConfigOptions) -> Result<Self> {
        let declared = command.schema.inner();
        let names = command
            .table_partition_cols
            .iter()
            .map(|name| normalize_name(name, config))
            .collect::<Result<Vec<_>>>()?;
        if names.is_empty() {
            return plan_err!(
                "table '{}' has no partition columns; add PARTITIONED BY (..)",
                command.name
            );
        }
        let partition_fields = names
            .iter()
            .map(|name| match declared.field_with_name(name) {
                Ok(field) => Ok(field.clone()),
                Err(_) if declared.fields().is_empty() => {
                    Ok(Field::new(name, text_type(config), true))
                }
                Err(_) => {
                    let known: Vec<_> = declared
                        .fields()
                        .iter()
                        .map(|f| f.name().as_str())
                        .collect();
                    plan_err!(
                        "partition column '{name}' of table '{}' is not among its columns ({}); \
                         declare it there, or write PARTITIONED BY ({name} <type>)",
                        command.name,
                        known.join(", ")
                    )
                }
            })
            .collect::<Result<Vec<_>>>()?;
        if let Some(field) = partition_fields
            .iter()
            .find(|field| !has_text(field.data_type()))
        {
            return plan_err!(
                "partition column '{}' of table '{}' has the type {}, which no directory name spells",
                field.name(),
                command.name,
                field.data_type()
            );
        }
        if let Some(field) = partition_fields.iter().find(|field| !field.is_nullable()) {
            return plan_err!(
                "partition column '{}' of table '{}' is NOT NULL, but a directory may stand for NULL; \
                 leave NOT NULL out",
                field.name(),
                command.name
            );
        }
        let spec = PartitionSpec::try_new(partition_fields)?;
        let file_schema = without_columns(declared, &spec);
        Ok(Self {
            file_schema: (!file_schema.fields().is_empty()).then_some(file_schema),
            spec,
        })
    }
}

fn has_text(data_type: &DataType) -> bool {
    !data_type.is_nested() && can_cast_types(&DataType::Utf8, data_type)
}

/// `schema` without the partition columns: where a file has one too, the path decides.
pub(crate) fn without_columns(schema: &Schema, spec: &PartitionSpec) -> SchemaRef {
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .filter(|field| !spec.column_names().any(|name| name == field.name()))
        .cloned()
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A name of the `PARTITIONED BY` clause arrives as it was written; the other columns are already
/// in the case that the session uses.
fn normalize_name(name: &str, config: &ConfigOptions) -> Result<String> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(name);
    let ident = parser
        .as_mut()
        .ok()
        .and_then(|parser| parser.parse_identifier().ok());
    Ok(match ident {
        Some(ident) if ident.quote_style.is_some() => ident.value,
        Some(ident) if config.sql_parser.enable_ident_normalization => {
            ident.value.to_ascii_lowercase()
        }
        _ => name.to_owned(),
    })
}

/// The type that the session gives to SQL's `TEXT`.
fn text_type(config: &ConfigOptions) -> DataType {
    if config.sql_parser.map_string_types_to_utf8view {
        DataType::Utf8View
    } else {
        DataType::Utf8
    }
}
