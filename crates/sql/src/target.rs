//! The table that a statement is about.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, ResolvedTableReference, Result, TableReference, plan_err,
};
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, ObjectName};
use datafusion_partitioned_catalog::location_of;
use datafusion_partitioned_core::{
    PartitionCatalog, PartitionLayout, PartitionPredicate, PartitionRegistry, PartitionValues,
};
use datafusion_partitioned_table::{PartitionedSourceProvider, PartitionedTableProvider};
use object_store::path::Path;

use crate::add::{column_name, evaluate};

/// A partitioned table of the session.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: TableReference,
    pub(crate) provider: Arc<dyn TableProvider>,
}

impl Target {
    /// Finds the table; `None` if it is not one of this project.
    ///
    /// # Errors
    /// When there is no such table.
    pub(crate) async fn find(state: &SessionState, name: ObjectName) -> Result<Option<Self>> {
        let normalize = state.config_options().sql_parser.enable_ident_normalization;
        let name = object_name_to_table_reference(name, normalize)?;
        let provider = provider_of(state, &name).await?;
        let target = Self { name, provider };
        Ok(target.partition_catalog().is_some().then_some(target))
    }

    fn partition_catalog(&self) -> Option<&Arc<dyn PartitionCatalog>> {
        catalog_of(self.provider.as_ref())
    }

    /// Where the partitions come from.
    pub(crate) fn catalog(&self) -> Result<&Arc<dyn PartitionCatalog>> {
        match self.partition_catalog() {
            Some(catalog) => Ok(catalog),
            None => plan_err!(
                "table '{}' is not a partitioned table of a connector",
                self.name
            ),
        }
    }

    /// What registers and removes partitions.
    pub(crate) fn registry(&self, change: &str) -> Result<Arc<dyn PartitionRegistry>> {
        let catalog = self.catalog()?;
        match catalog.registry() {
            Some(registry) => Ok(registry),
            None => plan_err!(
                "table '{}': {change} changes a list of registered partitions, but the partitions of \
                 this table are {}; {}",
                self.name,
                catalog.describe(),
                match catalog.describe().starts_with("directories(") {
                    true => {
                        "what is written there is seen without a statement. For such a list, create \
                         the table with the option 'partition.catalog' 'registered'"
                    }
                    false => "make the change there",
                }
            ),
        }
    }

    /// The store of the partitions' files.
    pub(crate) fn store_url(&self) -> Result<&ObjectStoreUrl> {
        match self.provider.downcast_ref::<PartitionedTableProvider>() {
            Some(table) => Ok(table.object_store_url()),
            None => plan_err!("table '{}' does not consist of files", self.name),
        }
    }

    /// The location as a URL, if the table consists of files.
    pub(crate) fn url(&self, location: &Path) -> String {
        match self.store_url() {
            Ok(store) => location_of(store, location),
            Err(_) => location.to_string(),
        }
    }

    /// The conjunction of conditions over the partition columns; `None` without any.
    ///
    /// # Errors
    /// When they are about other columns, or not always the same.
    pub(crate) fn condition(
        &self,
        state: &SessionState,
        conditions: Vec<ast::Expr>,
    ) -> Result<Option<Expr>> {
        let schema = self.partition_schema()?;
        let conditions = conditions.into_iter().map(|condition| {
            let text = condition.to_string();
            if let Some(equality) = self.equality_with_text(state, &condition)? {
                return Ok(equality);
            }
            let parsed = ast::ExprWithAlias {
                expr: condition,
                alias: None,
            };
            let condition = state.create_logical_expr_from_sql_expr(parsed, &schema);
            let checked = condition.and_then(|condition| match condition.get_type(&schema)? {
                _ if condition.is_volatile() => {
                    plan_err!("it is another one each time it is looked at")
                }
                _ if condition.column_refs().is_empty() => {
                    plan_err!("it names none of them; for all partitions, leave PARTITION (..) out")
                }
                DataType::Boolean | DataType::Null => Ok(condition),
                other => plan_err!("it is of type {other}, where a condition is expected"),
            });
            checked.map_err(|error| {
                    let columns = self.column_names().unwrap_or_default();
                    error.context(format!(
                        "table '{}': the condition '{text}' is not one over its partition columns, which \
                         are: {columns}",
                        self.name
                    ))
                })
        });
        Ok(conjunction(conditions.collect::<Result<Vec<_>>>()?))
    }

    /// `column = 'text'` for a column that is no text: the text is read as that of a directory, as for a new partition.
    fn equality_with_text(
        &self,
        state: &SessionState,
        condition: &ast::Expr,
    ) -> Result<Option<Expr>> {
        let ast::Expr::BinaryOp { left, op, right } = condition else {
            return Ok(None);
        };
        let (ast::Expr::Identifier(column), ast::Expr::Value(value)) =
            (left.as_ref(), right.as_ref())
        else {
            return Ok(None);
        };
        let name = column_name(state, column);
        let spec = self.catalog()?.spec();
        let field = spec.fields().iter().find(|field| *field.name() == name);
        let Some(field) = field.filter(|field| !field.data_type().is_string()) else {
            return Ok(None);
        };
        if *op != BinaryOperator::Eq || !matches!(value.value, ast::Value::SingleQuotedString(_)) {
            return Ok(None);
        }
        let value = evaluate(state, field, right.as_ref().clone());
        let value = value
            .map_err(|error| error.context(format!("table '{}': column '{name}'", self.name)))?;
        Ok(Some(
            Expr::from(Column::new_unqualified(name)).eq(lit(value)),
        ))
    }

    /// What satisfies a condition.
    pub(crate) fn predicate(
        &self,
        state: &SessionState,
        condition: Option<Expr>,
    ) -> Result<PartitionPredicate> {
        let all = PartitionPredicate::all(self.catalog()?.spec());
        let Some(condition) = condition else {
            return Ok(all);
        };
        let schema = Arc::new(self.partition_schema()?);
        let condition = simplified(state, condition, &schema)?;
        let condition = state.create_physical_expr(condition, &schema)?;
        Ok(all.with_filter(&condition))
    }

    pub(crate) fn partition_schema(&self) -> Result<DFSchema> {
        let schema = self.catalog()?.spec().schema();
        DFSchema::try_from(schema.as_ref().clone())
    }

    pub(crate) fn column_names(&self) -> Result<String> {
        let names: Vec<&str> = self.catalog()?.spec().column_names().collect();
        Ok(names.join(", "))
    }

    /// A partition as Hive would write its path, `day=2024-06-01/hour=7`.
    pub(crate) fn partition_name(&self, values: &PartitionValues) -> Result<String> {
        PartitionLayout::hive(self.catalog()?.spec()).path(values)
    }
}

/// The expression with types that fit, and with what the time of the statement makes constant, such as `now()`.
pub(crate) fn simplified(state: &SessionState, expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(schema))
        .with_config_options(Arc::clone(state.config_options()))
        .with_current_time()
        .build();
    let simplifier = ExprSimplifier::new(context);
    let expr = simplifier.coerce(expr, schema)?;
    simplifier.simplify(expr)
}

/// Where the partitions of a table come from; `None` if it is not one of this project.
pub(crate) fn catalog_of(provider: &dyn TableProvider) -> Option<&Arc<dyn PartitionCatalog>> {
    if let Some(table) = provider.downcast_ref::<PartitionedTableProvider>() {
        return Some(table.catalog());
    }
    let table = provider.downcast_ref::<PartitionedSourceProvider>();
    table.map(PartitionedSourceProvider::catalog)
}

/// The table of a name.
///
/// # Errors
/// When there is none.
pub(crate) async fn provider_of(
    state: &SessionState,
    name: &TableReference,
) -> Result<Arc<dyn TableProvider>> {
    let schema = state.schema_for_ref(name.clone())?;
    match schema.table(name.table()).await? {
        Some(provider) => Ok(provider),
        None => plan_err!("table '{name}' not found"),
    }
}

/// The name with its catalog and its schema.
pub(crate) fn resolved(state: &SessionState, name: &TableReference) -> ResolvedTableReference {
    let defaults = &state.config_options().catalog;
    let name = name.clone();
    name.resolve(&defaults.default_catalog, &defaults.default_schema)
}
