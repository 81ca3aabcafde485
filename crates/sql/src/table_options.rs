//! The table function `table_options('connector')`: what a connector can be told.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::Expr;
use datafusion_partitioned_connector::{ConnectorRegistry, OptionDescription};

/// `table_options('filesystem')`: one row for each option of a connector.
///
/// | column | |
/// |---|---|
/// | `key` | a `*` stands for a name |
/// | `type` | such as `string`, `boolean`, `integer`, `duration`, `memory size`, `enum`, `list` |
/// | `default` | what is used when the option is not given; NULL for nothing |
/// | `required`, `secret` | whether it must be given, and whether its value is hidden |
/// | `description` | what it does |
/// | `other_keys` | further keys for the same, separated by commas |
#[derive(Debug)]
pub struct TableOptionsFunction;

impl TableOptionsFunction {
    /// The name of the function.
    pub const NAME: &'static str = "table_options";
}

impl TableFunctionImpl for TableOptionsFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let registry = args.session().config().get_extension::<ConnectorRegistry>();
        let registry = registry.unwrap_or_default();
        let [Expr::Literal(ScalarValue::Utf8(Some(identifier)), _)] = args.exprs() else {
            return plan_err!(
                "table_options() takes the identifier of a connector as text, one of: '{}'",
                registry.identifiers().join("', '")
            );
        };
        let connector = registry.find(identifier);
        let connector = connector.map_err(|error| plan_datafusion_err!("{error}"))?;
        let batch = rows(&connector.options())?;
        Ok(Arc::new(MemTable::try_new(
            batch.schema(),
            vec![vec![batch]],
        )?))
    }
}

fn rows(options: &[OptionDescription]) -> Result<RecordBatch> {
    let text = |value: &dyn Fn(&OptionDescription) -> Option<String>| -> ArrayRef {
        Arc::new(options.iter().map(value).collect::<StringArray>())
    };
    let flag = |value: &dyn Fn(&OptionDescription) -> bool| -> ArrayRef {
        Arc::new(BooleanArray::from_iter(
            options.iter().map(|o| Some(value(o))),
        ))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", text(&|option| Some(option.key().to_owned()))),
        ("type", text(&|option| Some(option.type_name().to_owned()))),
        (
            "default",
            text(&|option| option.default_text().map(str::to_owned)),
        ),
        ("required", flag(&OptionDescription::is_required)),
        ("secret", flag(&OptionDescription::is_secret)),
        (
            "description",
            text(&|option| Some(option.description().to_owned())),
        ),
        (
            "other_keys",
            text(&|option| {
                let keys: Vec<&str> = option.keys().skip(1).collect();
                (!keys.is_empty()).then(|| keys.join(", "))
            }),
        ),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )?)
}
