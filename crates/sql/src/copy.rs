//! `COPY .. TO .. PARTITIONED BY`, through the sink of partitioned tables.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::quote_identifier;
use datafusion::common::{Constraints, Result, TableReference, config_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{CreateExternalTable, LogicalPlan};
use datafusion_partitioned_connector::{CONNECTOR, create_table};

use crate::create::registry;
use crate::create_as::{columns_of, insert_into};
use crate::location::NewDirectory;

/// What the table is called in messages.
const TARGET: &str = "target of COPY";

/// DataFusion's option, for one statement.
const KEEP_PARTITION_COLUMNS: &str = "execution.keep_partition_by_columns";

/// Makes of each `COPY` with partition columns an `INSERT` into a table at its target, also where its plan is asked for.
///
/// # Errors
/// When there is no such table, as for a partition column that the query does not have.
pub(crate) async fn copies_into_tables(
    state: &SessionState,
    plan: LogicalPlan,
) -> Result<(LogicalPlan, Option<NewDirectory>)> {
    let mut found = None;
    plan.apply(|node| {
        if let LogicalPlan::Copy(copy) = node
            && !copy.partition_by.is_empty()
        {
            found = Some(copy.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(copy) = found else {
        return Ok((plan, None));
    };
    let command = command(state, &copy)?;
    let directory = NewDirectory::make(&command.locations)?;
    let table = create_table(state, &command, &registry(state)?).await?;
    let query = Arc::unwrap_or_clone(copy.input);
    let insert = insert_into(TableReference::bare(TARGET), table, query)?;
    let replaced = plan.transform_down(|node| match node {
        LogicalPlan::Copy(_) => Ok(Transformed::yes(insert.clone())),
        other => Ok(Transformed::no(other)),
    })?;
    Ok((replaced.data, directory))
}

/// The statement that makes the table.
fn command(state: &SessionState, copy: &CopyTo) -> Result<CreateExternalTable> {
    let schema = copy.input.schema();
    let mut keep = state.config_options().execution.keep_partition_by_columns;
    let mut options: HashMap<String, String> = HashMap::new();
    for (key, value) in &copy.options {
        if key == KEEP_PARTITION_COLUMNS {
            keep = match value.trim() {
                "true" => true,
                "false" => false,
                other => {
                    return config_err!("option '{key}': expected true or false, not '{other}'");
                }
            };
        } else {
            options.insert(key.clone(), value.clone());
        }
    }
    if keep {
        options.insert("sink.keep-partition-columns".to_owned(), "true".to_owned());
    }
    options.insert(CONNECTOR.key().to_owned(), "filesystem".to_owned());
    let schema = columns_of(schema)?;
    // DataFusion has found the columns of these names.
    let partition_by = copy.partition_by.iter();
    let partition_by = partition_by.map(|name| quote_identifier(name).into_owned());
    Ok(CreateExternalTable {
        schema: Arc::new(schema),
        name: TableReference::bare(TARGET),
        locations: vec![copy.output_url.clone()],
        file_type: copy.file_type.get_ext().to_uppercase(),
        table_partition_cols: partition_by.collect(),
        if_not_exists: false,
        or_replace: false,
        temporary: true,
        definition: None,
        order_exprs: vec![],
        unbounded: false,
        options,
        constraints: Constraints::default(),
        column_defaults: HashMap::new(),
    })
}
