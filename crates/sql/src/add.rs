//! `ALTER TABLE .. ADD PARTITION`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::cast::as_string_array;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{self, Ident};
use datafusion_partitioned_core::{Partition, PartitionValues, parse_values};
use datafusion_partitioned_table::parse_location;
use object_store::path::Path;

use crate::change::{Change, ChangedPartition};
use crate::statement::{NewPartition, PartitionStatement};
use crate::target::{Target, simplified};

/// Registers partitions.
#[derive(Debug)]
pub(crate) struct AddPartitions {
    target: Target,
    statement: String,
    partitions: Vec<Partition>,
    if_not_exists: bool,
}

impl AddPartitions {
    /// Reads the values and the locations.
    ///
    /// # Errors
    /// When they do not fit the table, and when its partitions cannot be registered.
    pub(crate) fn try_new(
        target: Target,
        state: &SessionState,
        statement: &PartitionStatement,
        if_not_exists: bool,
        partitions: Vec<NewPartition>,
    ) -> Result<Self> {
        let registry = target.registry("ADD PARTITION")?;
        let partitions = partitions.into_iter().map(|new| {
            let values = partition_values(&target, state, new.values)?;
            let is_empty = |value: &ScalarValue| matches!(value.try_as_str(), Some(Some("")));
            let location = match new.location {
                Some(location) => location_path(&target, &location)?,
                None if values.values().iter().any(is_empty) => {
                    return plan_err!(
                        "table '{}': a directory's name for empty text is the one for NULL; add LOCATION '..'",
                        target.name
                    );
                }
                None => match registry.default_location(&values)? {
                    Some(location) => location,
                    None => {
                        return plan_err!(
                            "table '{}': the place of a new partition is not known; add LOCATION '..'",
                            target.name
                        );
                    }
                },
            };
            Ok(Partition::new(values, location))
        });
        Ok(Self {
            partitions: partitions.collect::<Result<_>>()?,
            statement: statement.to_string(),
            if_not_exists,
            target,
        })
    }
}

#[async_trait]
impl Change for AddPartitions {
    fn describe(&self) -> String {
        self.statement.clone()
    }

    async fn make(&self, _state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let registry = self.target.registry("ADD PARTITION")?;
        let added = registry.add(self.partitions.clone(), self.if_not_exists);
        changed(&self.target, "added", &added.await?)
    }
}

/// The rows for partitions with which the same happened.
pub(crate) fn changed(
    target: &Target,
    change: &'static str,
    partitions: &[Partition],
) -> Result<Vec<ChangedPartition>> {
    let rows = partitions.iter().map(|partition| {
        Ok(ChangedPartition {
            change,
            partition: Some(target.partition_name(&partition.values)?),
            location: target.url(&partition.source.location),
        })
    });
    rows.collect()
}

/// The values that equalities give to all partition columns.
fn partition_values(
    target: &Target,
    state: &SessionState,
    equalities: Vec<ast::Expr>,
) -> Result<PartitionValues> {
    let spec = target.catalog()?.spec();
    let mut values: Vec<Option<ScalarValue>> = vec![None; spec.len()];
    for equality in equalities {
        let ast::Expr::BinaryOp { left, right, .. } = equality else {
            return plan_err!("a partition has values, as in PARTITION (day = '2024-06-01')");
        };
        let ast::Expr::Identifier(column) = *left else {
            return plan_err!(
                "table '{}': '{left}' is no partition column; they are: {}",
                target.name,
                target.column_names()?
            );
        };
        let name = column_name(state, &column);
        let Some(index) = spec.column_names().position(|column| column == name) else {
            return plan_err!(
                "table '{}': '{name}' is no partition column; they are: {}",
                target.name,
                target.column_names()?
            );
        };
        let value = evaluate(state, &spec.fields()[index], *right)
            .map_err(|error| error.context(format!("table '{}': column '{name}'", target.name)))?;
        if values[index].replace(value).is_some() {
            return plan_err!("table '{}': column '{name}' has two values", target.name);
        }
    }
    let named = values.into_iter().zip(spec.column_names());
    let values = named.map(|(value, column)| {
        value.ok_or_else(|| {
            plan_datafusion_err!(
                "table '{}': the partition has no value for the column '{column}'; give one for each \
                 of: {}",
                target.name,
                target.column_names().unwrap_or_default()
            )
        })
    });
    PartitionValues::try_new(spec, values.collect::<Result<_>>()?)
}

/// The name that an identifier means.
pub(crate) fn column_name(state: &SessionState, column: &Ident) -> String {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    match column.quote_style {
        None if normalize => column.value.to_lowercase(),
        _ => column.value.clone(),
    }
}

/// The constant as a value of the column. A text is read as that of a directory would be.
pub(crate) fn evaluate(
    state: &SessionState,
    column: &Field,
    constant: ast::Expr,
) -> Result<ScalarValue> {
    let text = constant.to_string();
    let schema = Arc::new(DFSchema::empty());
    let parsed = ast::ExprWithAlias {
        expr: constant,
        alias: None,
    };
    let expression = state
        .create_logical_expr_from_sql_expr(parsed, &schema)
        .map_err(|error| error.context(format!("{text} is no constant")))?;
    let given = state.create_physical_expr(simplified(state, expression, &schema)?, &schema)?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options)?;
    let given = ScalarValue::try_from_array(&given.evaluate(&row)?.into_array(1)?, 0)?;
    let data_type = column.data_type();
    let is_no_value = || plan_err!("{text} is no value of the type {data_type}");
    if given.is_null() {
        return ScalarValue::try_new_null(data_type);
    }
    if given.data_type().is_string() {
        let texts = given.cast_to(&DataType::Utf8)?.to_array()?;
        let parsed = parse_values(column, as_string_array(&texts)?)?;
        return match parsed.mismatches[..] {
            [] => ScalarValue::try_from_array(&parsed.values, 0),
            _ => is_no_value(),
        };
    }
    if data_type.is_temporal() && !given.data_type().is_temporal() {
        return plan_err!(
            "{text} is a number, and the column is of the type {data_type}; write the value in quotes"
        );
    }
    let value = given.cast_to(data_type)?;
    match value.cast_to(&given.data_type())? == given {
        true => Ok(value),
        false => is_no_value(),
    }
}

/// The path of a location in the store of the table.
fn location_path(target: &Target, location: &str) -> Result<Path> {
    // Of a directory, whose name need not end with a slash.
    let directory = format!("{}/", location.trim_end_matches('/'));
    let url = parse_location(&target.name, &directory)?;
    let store = target.store_url()?;
    if url.object_store() != *store {
        return plan_err!(
            "table '{}': LOCATION is in the store '{}', but the files of the table are in '{store}'; \
             all partitions of a table are in one store",
            target.name,
            url.object_store()
        );
    }
    Ok(url.prefix().clone())
}
