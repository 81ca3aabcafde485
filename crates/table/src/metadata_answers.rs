//! [`MetadataAnswers`]: aggregates that only ask which values partition columns have.
//!
//! ```text
//!   AggregateExec: mode=Partial, aggr=[max(day), count(DISTINCT region)]
//!     DataSourceExec: partitions=..
//!                                          becomes
//!   AggregateExec: mode=Partial, aggr=[max(day), count(DISTINCT region)]
//!     DataSourceExec: partitions=.., rows_needed=one of each [day, region]
//! ```
//!
//! The aggregate stays, and gets fewer rows. It returns the same because it does not care how often
//! it sees a row, and because every row that it gets is one of the table: directories and statistics
//! prove no row, so the scan opens files until it has found one.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::functions_aggregate::approx_distinct::ApproxDistinct;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::{PartitionScan, PartitionedOptions, RowsNeeded, rewrite_columns};

/// Lets scans below aggregates over partition columns return single rows.
///
/// | aggregate | rows needed |
/// |---|---|
/// | `min` and `max` of partition columns, no `GROUP BY`, no `FILTER` | one of the smallest, one of the largest value |
/// | `min`, `max`, `bool_and`, `bool_or`, `approx_distinct`, and `count`, `sum`, `avg` with `DISTINCT`, of expressions over partition columns; `GROUP BY` such expressions; `SELECT DISTINCT` | one for each combination of the columns that occur |
/// | anything else, or anything that mentions a file column | all |
///
/// Follows projections, repartitions and `UNION ALL` down to scans. Other nodes, filters on file
/// columns and limits among them, end the search. Switched off by `partitioned.metadata_answers`.
///
/// It belongs before `EnsureRequirements`: it takes the order away from scans.
#[derive(Debug)]
pub struct MetadataAnswers;

impl PhysicalOptimizerRule for MetadataAnswers {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !PartitionedOptions::from_config(config).metadata_answers {
            return Ok(plan);
        }
        plan.transform_up(|plan| {
            let question = plan
                .downcast_ref::<AggregateExec>()
                .and_then(|aggregate| Some((aggregate.input(), Question::of(aggregate)?)));
            let narrowed = match question {
                Some((input, question)) => question.narrow(input)?,
                None => None,
            };
            Ok(match narrowed {
                Some(input) => Transformed::yes(replace_children_if_necessary(plan, vec![input])?),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "MetadataAnswers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What an aggregate asks about its input.
struct Question {
    /// The aggregate depends on which tuples of these occur, and on nothing else.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The direction in which the first value of each expression decides, if only that does.
    extremes: Option<Vec<SortOptions>>,
}

impl Question {
    /// `None` when the aggregate cares about more than the occurrence of values.
    fn of(aggregate: &AggregateExec) -> Option<Self> {
        let functions = aggregate.aggr_expr();
        if aggregate.mode().input_mode() != AggregateInputMode::Raw
            || !functions.iter().all(|f| ignores_duplicates(f))
        {
            return None;
        }
        let groups = aggregate.group_expr().input_exprs();
        let filters: Vec<_> = aggregate.filter_expr().iter().flatten().cloned().collect();
        let arguments = functions.iter().map(|function| function.expressions());
        let mut extremes = None;
        let is_global = aggregate.group_expr().is_true_no_grouping() && !functions.is_empty();
        if is_global && filters.is_empty() {
            extremes = functions.iter().map(|f| extreme(f)).collect();
        }
        Some(Self {
            exprs: arguments.flatten().chain(groups).chain(filters).collect(),
            extremes,
        })
    }

    /// `plan` with fewer rows, when there is a scan below that can leave some out.
    fn narrow(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            let scan = source.data_source().downcast_ref::<PartitionScan>();
            return Ok(scan.and_then(|scan| {
                let scan = scan.with_rows_needed(self.rows_needed(scan)?);
                Some(DataSourceExec::from_data_source(scan) as _)
            }));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let input = |index: usize| Some(Arc::clone(&projection.expr().get(index)?.expr));
            let exprs = self.exprs.iter().map(|expr| rewrite_columns(expr, &input));
            let Some(exprs) = exprs.collect() else {
                return Ok(None);
            };
            let extremes = self.extremes.clone();
            return Self { exprs, extremes }.narrow_children(plan);
        }
        let coalesce = plan.downcast_ref::<CoalescePartitionsExec>();
        let passes_all_rows = plan.is::<RepartitionExec>()
            || plan.is::<CooperativeExec>()
            || plan.is::<UnionExec>()
            || coalesce.is_some_and(|coalesce| coalesce.fetch().is_none());
        if passes_all_rows {
            return self.narrow_children(plan);
        }
        Ok(None)
    }

    fn narrow_children(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut is_narrowed = false;
        let children = plan
            .children()
            .into_iter()
            .map(|child| {
                let narrowed = self.narrow(child)?;
                is_narrowed |= narrowed.is_some();
                Ok(narrowed.unwrap_or_else(|| Arc::clone(child)))
            })
            .collect::<Result<Vec<_>>>()?;
        if !is_narrowed {
            return Ok(None);
        }
        replace_children_if_necessary(Arc::clone(plan), children).map(Some)
    }

    fn rows_needed(&self, scan: &PartitionScan) -> Option<RowsNeeded> {
        if *scan.rows_needed() != RowsNeeded::All || scan.has_limit() {
            return None;
        }
        if let Some(extremes) = &self.extremes {
            let columns = self.exprs.iter().zip(extremes).map(|(expr, options)| {
                let column = scan.partition_column(expr)?;
                let data_type = scan.catalog().spec().fields()[column].data_type();
                is_sorted_as_compared(data_type).then_some((column, *options))
            });
            if let Some(columns) = columns.collect() {
                return Some(RowsNeeded::First(columns));
            }
        }
        let columns = self
            .exprs
            .iter()
            .try_fold(BTreeSet::new(), |mut all, expr| {
                all.append(&mut scan.partition_columns_of(expr)?);
                Some(all)
            })?;
        Some(RowsNeeded::OnePerGroup(columns.into_iter().collect()))
    }
}

/// Whether the function returns the same however often its argument has a value. Only of functions
/// that DataFusion brings along: what others do with DISTINCT cannot be known.
fn ignores_duplicates(function: &AggregateFunctionExpr) -> bool {
    let inner = function.fun().inner();
    let always = inner.is::<Min>()
        || inner.is::<Max>()
        || inner.is::<BoolAnd>()
        || inner.is::<BoolOr>()
        || inner.is::<ApproxDistinct>();
    let distinct = inner.is::<Count>() || inner.is::<Sum>() || inner.is::<Avg>();
    function.order_bys().is_empty() && (always || (distinct && function.is_distinct()))
}

/// The direction in which the first value that is not NULL is the result, for `min` and `max`.
fn extreme(function: &AggregateFunctionExpr) -> Option<SortOptions> {
    let inner = function.fun().inner();
    (inner.is::<Min>() || inner.is::<Max>()).then(|| SortOptions {
        descending: inner.is::<Max>(),
        nulls_first: false,
    })
}

/// Whether `min` and `max` of the type are the ends of its sort order. Of floating point numbers
/// that is not certain, because of NaN.
fn is_sorted_as_compared(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_sorted_as_compared(values),
        DataType::Boolean
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => true,
        other => other.is_integer(),
    }
}
