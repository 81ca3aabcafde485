//! Keys and defaults that a statement declares, for a table whose columns are in another order.

use std::collections::HashMap;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Constraint, Constraints, Result, plan_err};
use datafusion::logical_expr::{CreateExternalTable, Expr};

/// What the files cannot tell about the columns of a table.
#[derive(Debug, Default)]
pub(crate) struct ColumnRules {
    /// Keys. Nobody checks them; DataFusion believes them when it plans.
    pub(crate) constraints: Constraints,
    /// Values for columns that an `INSERT` leaves out.
    pub(crate) defaults: HashMap<String, Expr>,
}

impl ColumnRules {
    /// Those of a statement, for a table with the columns of `schema`.
    ///
    /// # Errors
    /// When the table has no such column.
    pub(crate) fn try_new(command: &CreateExternalTable, schema: &Schema) -> Result<Self> {
        let place = |index: &usize| {
            let name = command.schema.field(*index).name();
            match schema.index_of(name) {
                Ok(index) => Ok(index),
                Err(_) => plan_err!(
                    "table '{}': the key names '{name}', which is no column",
                    command.name
                ),
            }
        };
        let places = |columns: &[usize]| columns.iter().map(place).collect::<Result<Vec<_>>>();
        let constraints = command.constraints.iter().map(|constraint| {
            Ok(match constraint {
                Constraint::PrimaryKey(columns) => Constraint::PrimaryKey(places(columns)?),
                Constraint::Unique(columns) => Constraint::Unique(places(columns)?),
            })
        });
        let constraints = constraints.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            constraints: Constraints::new_unverified(constraints),
            defaults: command.column_defaults.clone(),
        })
    }
}
