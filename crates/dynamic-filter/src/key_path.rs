//! Follows expressions over the output of a plan down to the partitioned scans they come from.

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::{DynamicPartitionFilter, PartitionScan, rewrite_columns};

use crate::collector::PartitionKeyCollectorExec;

/// Expressions over some plan's output by which its rows are selected, such as the keys of a join's
/// probe side; `None` for one that is no expression over it.
pub(crate) type Keys = Vec<Option<Arc<dyn PhysicalExpr>>>;

/// Given a scan and the keys over its output, the scan that uses them.
pub(crate) type Attach<'a> = &'a mut dyn FnMut(&PartitionScan, &Keys) -> Option<PartitionScan>;

/// A scan that was found, and which keys of the join restrict it.
pub(crate) struct Target {
    /// Indexes of the join's keys, one for each column of the filter.
    pub(crate) keys: Vec<usize>,
    pub(crate) filter: Arc<DynamicPartitionFilter>,
}

/// `plan` with `attach` done to all partitioned scans that some of `keys` restrict; `None` when that
/// changed none.
///
/// Goes only through operators below which dropping rows by their key is the same as dropping them
/// above.
pub(crate) fn attach_to_scans(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &Keys,
    attach: Attach<'_>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if keys.iter().all(Option::is_none) {
        return Ok(None);
    }
    // A limit keeps other rows when some of its input is gone.
    if plan.fetch().is_some() {
        return Ok(None);
    }
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        let scan = exec.data_source().downcast_ref::<PartitionScan>();
        let attached = scan.and_then(|scan| attach(scan, keys));
        return Ok(attached.map(|scan| {
            Arc::new(exec.clone().with_data_source(Arc::new(scan))) as Arc<dyn ExecutionPlan>
        }));
    }
    let child_keys = keys_of_children(plan, keys);
    let mut children: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
    let mut attached = false;
    for (child, keys) in children.iter_mut().zip(&child_keys) {
        if let Some(new_child) = attach_to_scans(child, keys, attach)? {
            *child = new_child;
            attached = true;
        }
    }
    if !attached {
        return Ok(None);
    }
    replace_children_if_necessary(Arc::clone(plan), children).map(Some)
}

/// `scan` with a dynamic filter on those of `keys` that partition columns decide, which is added to
/// `targets`.
pub(crate) fn attach_dynamic_filter(
    scan: &PartitionScan,
    keys: &Keys,
    targets: &mut Vec<Target>,
) -> Option<PartitionScan> {
    let (keys, exprs): (Vec<usize>, Vec<_>) = keys
        .iter()
        .enumerate()
        .filter_map(|(key, expr)| Some((key, scan.filter_key(expr.as_ref()?)?)))
        .unzip();
    if keys.is_empty() {
        return None;
    }
    let filter = Arc::new(DynamicPartitionFilter::new(exprs));
    let scan = scan.with_dynamic_filter(Arc::clone(&filter));
    targets.push(Target { keys, filter });
    Some(scan)
}

/// The keys over the output of each child; no child is returned for operators that are not known
/// to be safe.
fn keys_of_children(plan: &Arc<dyn ExecutionPlan>, keys: &Keys) -> Vec<Keys> {
    if plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<PartitionKeyCollectorExec>()
        || plan.is::<UnionExec>()
    {
        vec![keys.clone(); plan.children().len()]
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        vec![match filter.projection() {
            None => keys.clone(),
            Some(projection) => rewrite(keys, &|column| {
                input_column(filter.input(), *projection.get(column)?)
            }),
        }]
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        vec![rewrite(keys, &|column| {
            projection
                .expr()
                .get(column)
                .map(|projected| Arc::clone(&projected.expr))
        })]
    } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        keys_of_join_sides(join, keys)
    } else {
        vec![]
    }
}

/// The keys within the two sides of another join: each only where the join's output rows are a
/// selection of that side's rows.
fn keys_of_join_sides(join: &HashJoinExec, keys: &Keys) -> Vec<Keys> {
    let (selects_left, selects_right) = match join.join_type() {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (true, false)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (false, true)
        }
        JoinType::Full => (false, false),
    };
    // What the join returns before its own projection: the left columns, unless it is a semi,
    // anti or mark join of the right side, then the right ones, and for mark joins the mark.
    let left_columns = match join.join_type() {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
        _ => join.left().schema().fields().len(),
    };
    let joined = |column: usize| match &join.projection {
        None => Some(column),
        Some(projection) => projection.get(column).copied(),
    };
    let left = rewrite(keys, &|column| {
        let column = joined(column).filter(|column| selects_left && *column < left_columns)?;
        input_column(join.left(), column)
    });
    let right = rewrite(keys, &|column| {
        let column = joined(column)
            .filter(|_| selects_right)?
            .checked_sub(left_columns)?;
        input_column(join.right(), column)
    });
    vec![left, right]
}

fn rewrite(keys: &Keys, replacement: &dyn Fn(usize) -> Option<Arc<dyn PhysicalExpr>>) -> Keys {
    keys.iter()
        .map(|key| rewrite_columns(key.as_ref()?, replacement))
        .collect()
}

/// Column `index` of `input`, if there is one.
fn input_column(input: &Arc<dyn ExecutionPlan>, index: usize) -> Option<Arc<dyn PhysicalExpr>> {
    let schema = input.schema();
    let field = schema.fields().get(index)?;
    Some(Arc::new(Column::new(field.name(), index)))
}
