//! Which filters choose partitions.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, Volatility};
use datafusion_partitioned_core::PartitionSpec;

use crate::metadata::MetadataColumn;

/// What a filter can do for the choice of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterUse {
    /// Decides about whole partitions: nothing of it is left for the rows.
    Decides,
    /// Depends on rows too; its part about partition columns can drop partitions.
    Narrows,
    /// Says nothing about partitions.
    None,
}

impl FilterUse {
    pub(crate) fn of(filter: &Expr, spec: &PartitionSpec) -> Self {
        if !is_deterministic(filter) {
            return Self::None;
        }
        let (mut partition, mut other) = (false, false);
        for column in filter.column_refs() {
            if spec.column_names().any(|name| name == column.name) {
                partition = true;
            } else {
                other = true;
            }
        }
        match (partition, other) {
            (_, false) => Self::Decides,
            (true, true) => Self::Narrows,
            (false, true) => Self::None,
        }
    }

    pub(crate) fn pushdown(self) -> TableProviderFilterPushDown {
        match self {
            Self::Decides => TableProviderFilterPushDown::Exact,
            // Inexact, so that the format may still use it and the rows are filtered above.
            Self::Narrows | Self::None => TableProviderFilterPushDown::Inexact,
        }
    }
}

/// Whether the filter has one answer for a file: it says something about its metadata columns, and
/// nothing about columns in it.
pub(crate) fn decides_about_files(
    filter: &Expr,
    spec: &PartitionSpec,
    metadata_columns: &[MetadataColumn],
) -> bool {
    let is_metadata = |name: &str| metadata_columns.iter().any(|column| column.name() == name);
    let columns = filter.column_refs();
    let mut names = columns.iter().map(|column| column.name.as_str());
    is_deterministic(filter)
        && names.clone().any(is_metadata)
        && names.all(|name| is_metadata(name) || spec.column_names().any(|column| column == name))
}

/// Whether the filter has one answer for a partition for the whole query: no subqueries, outer
/// references or parameters, and functions that depend on their arguments alone. Functions such as
/// `now()` have been replaced by their value before filters reach a table.
fn is_deterministic(filter: &Expr) -> bool {
    let mut deterministic = true;
    let visited: Result<TreeNodeRecursion> = filter.apply(|expr| {
        deterministic &= match expr {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::BinaryExpr(_)
            | Expr::Like(_)
            | Expr::SimilarTo(_)
            | Expr::Not(_)
            | Expr::IsNotNull(_)
            | Expr::IsNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Negative(_)
            | Expr::Between(_)
            | Expr::Case(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::InList(_) => true,
            Expr::ScalarFunction(ScalarFunction { func, .. }) => {
                func.signature().volatility == Volatility::Immutable
            }
            _ => false,
        };
        Ok(if deterministic {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    visited.is_ok() && deterministic
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::functions::expr_fn::{random, substr};
    use datafusion::logical_expr::{col, lit, placeholder};

    use super::*;

    #[test]
    fn only_filters_on_partition_columns_alone_decide() {
        let spec = PartitionSpec::try_new([Field::new("day", DataType::Utf8, true)]).unwrap();
        let use_of = |filter: &Expr| FilterUse::of(filter, &spec);
        assert_eq!(use_of(&col("day").eq(lit("x"))), FilterUse::Decides);
        assert_eq!(
            use_of(&substr(col("t.day"), lit(1)).eq(lit("x"))),
            FilterUse::Decides
        );
        assert_eq!(use_of(&lit(false)), FilterUse::Decides);
        assert_eq!(
            use_of(&col("day").eq(lit("x")).or(col("amount").gt(lit(1)))),
            FilterUse::Narrows
        );
        assert_eq!(use_of(&col("amount").gt(lit(1))), FilterUse::None);
        assert_eq!(use_of(&col("day").eq(placeholder("$1"))), FilterUse::None);
        assert_eq!(use_of(&random().gt(lit(0.5))), FilterUse::None);
    }
}
