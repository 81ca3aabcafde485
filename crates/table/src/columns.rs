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
    /// The partition columns, in the order of the `PARTITIONED BY` clause.
    pub(crate) partition_columns: Vec<PartitionColumn>,
}

/// A partition column as declared.
#[derive(Debug)]
pub(crate) struct PartitionColumn {
    pub(crate) name: String,
    /// `None` when the statement leaves it to the directories.
    pub(crate) data_type: Option<DataType>,
}

impl DeclaredColumns {
    /// Splits the declared columns by the `PARTITIONED BY` clause. A partition column named there
    /// without a type has the type of the column list, if it is in there.
    pub(crate) fn try_new(command: &CreateExternalTable, config: &ConfigOptions) -> Result<Self> {
        let declared = command.schema.inner();
        if command.table_partition_cols.is_empty() {
            return plan_err!(
                "table '{}' has no partition columns; add PARTITIONED BY (..)",
                command.name
            );
        }
        let mut partition_columns: Vec<PartitionColumn> = vec![];
        for name in &command.table_partition_cols {
            let name = normalize_name(name, config)?;
            if partition_columns.iter().any(|column| column.name == name) {
                return plan_err!(
                    "table '{}': PARTITIONED BY has the column '{name}' twice; remove one",
                    command.name
                );
            }
            let field = declared.field_with_name(&name).ok();
            if let Some(field) = field {
                check_partition_field(field, command)?;
            }
            let data_type = field.map(|field| field.data_type().clone());
            partition_columns.push(PartitionColumn { name, data_type });
        }
        let is_file_column = |name: &str| partition_columns.iter().all(|p| p.name != name);
        let file_schema = with_columns(declared, is_file_column);
        Ok(Self {
            file_schema: (!file_schema.fields().is_empty()).then_some(file_schema),
            partition_columns,
        })
    }

    /// Whether all partition columns have a type.
    pub(crate) fn partition_types_are_known(&self) -> bool {
        let mut columns = self.partition_columns.iter();
        columns.all(|column| column.data_type.is_some())
    }

    /// The partition columns, where those without a type have the type of `undeclared`.
    pub(crate) fn spec(&self, undeclared: impl Fn(usize) -> DataType) -> Result<PartitionSpec> {
        let columns = self.partition_columns.iter().enumerate();
        PartitionSpec::try_new(columns.map(|(index, column)| {
            let data_type = column.data_type.clone();
            let data_type = data_type.unwrap_or_else(|| undeclared(index));
            Field::new(&column.name, data_type, true)
        }))
    }

    /// All partition columns as text.
    pub(crate) fn untyped_spec(&self) -> Result<PartitionSpec> {
        let columns = self.partition_columns.iter();
        PartitionSpec::try_new(columns.map(|column| Field::new(&column.name, DataType::Utf8, true)))
    }
}

/// `spec` with dictionary encoded text columns.
pub(crate) fn with_dictionaries(spec: &PartitionSpec) -> Result<PartitionSpec> {
    PartitionSpec::try_new(spec.fields().iter().map(|field| {
        let field = field.as_ref().clone();
        if !field.data_type().is_string() {
            return field;
        }
        let values = Box::new(DataType::Utf8);
        field.with_data_type(DataType::Dictionary(Box::new(DataType::Int32), values))
    }))
}

fn check_partition_field(field: &Field, command: &CreateExternalTable) -> Result<()> {
    if !has_text(field.data_type()) {
        return plan_err!(
            "partition column '{}' of table '{}' has the type {}, which no directory name spells; use a \
             number, text, a date or a timestamp",
            field.name(),
            command.name,
            field.data_type()
        );
    }
    if !field.is_nullable() {
        return plan_err!(
            "partition column '{}' of table '{}' is NOT NULL, but a directory may stand for NULL; \
             leave NOT NULL out",
            field.name(),
            command.name
        );
    }
    Ok(())
}

fn has_text(data_type: &DataType) -> bool {
    !data_type.is_nested() && can_cast_types(&DataType::Utf8, data_type)
}

/// `schema` without the partition columns: where a file has one too, the path decides.
pub(crate) fn without_columns(schema: &Schema, spec: &PartitionSpec) -> SchemaRef {
    with_columns(schema, |name| spec.column_names().all(|p| p != name))
}

fn with_columns(schema: &Schema, wanted: impl Fn(&str) -> bool) -> SchemaRef {
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .filter(|field| wanted(field.name()))
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
pub(crate) fn text_type(config: &ConfigOptions) -> DataType {
    if config.sql_parser.map_string_types_to_utf8view {
        DataType::Utf8View
    } else {
        DataType::Utf8
    }
}
