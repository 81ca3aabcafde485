//! `ALTER TABLE .. ADD PARTITION`.

use async_trait::async_trait;
use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, cast};
use datafusion::sql::sqlparser::ast::{self, Ident};
use datafusion_partitioned_core::{Partition, PartitionValues};

use crate::change::{Change, ChangedPartition};
use crate::statement::{NewPartition, PartitionStatement};
use crate::target::Target;

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
            let location = match new.location {
                Some(location) => location_path(&target, &location)?,
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

fn column_name(state: &SessionState, column: &Ident) -> String {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    match column.quote_style {
        None if normalize => column.value.to_lowercase(),
        _ => column.value.clone(),
    }
}

/// The constant as a value of the column.
fn evaluate(state: &SessionState, column: &Field, constant: ast::Expr) -> Result<ScalarValue> {
    let text = constant.to_string();
    let schema = DFSchema::empty();
    let parsed = ast::ExprWithAlias {
        expr: constant,
        alias: None,
    };
    let expression: Expr = state
        .create_logical_expr_from_sql_expr(parsed, &schema)
        .map_err(|error| error.context(format!("'{text}' is no constant")))?;
    let value = cast(expression, column.data_type().clone());
    let value = state.create_physical_expr(value, &schema)?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options)?;
    let value = value.evaluate(&row)?.into_array(1)?;
    debug_assert_eq!(value.len(), 1);
    ScalarValue::try_from_array(&value, 0)
}

/// The path of a location in the store of the table.
fn location_path(target: &Target, location: &str) -> Result<object_store::path::Path> {
    // Of a directory, whose name need not end with a slash.
    let directory = format!("{}/", location.trim_end_matches('/'));
    let url = ListingTableUrl::parse(&directory)?;
    let store = target.store_url()?;
    if url.object_store() != *store {
        return plan_err!(
            "table '{}': LOCATION is in the store '{}', but the files of the table are in '{store}'; \
             all partitions of a table are in one store",
            target.name,
            url.object_store()
        );
    }
    if url.get_glob().is_some() {
        return plan_err!(
            "table '{}': LOCATION '{location}' is a pattern; give the directory of the partition",
            target.name
        );
    }
    Ok(url.prefix().clone())
}
