//! Follows expressions over the output of a plan down to the partitioned scans they come from.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::{
    Comparison, DynamicPartitionFilter, FilterKey, PartitionScan, rewrite_columns,
};

use crate::collector::PartitionKeyCollectorExec;
use crate::early::StartEarlyExec;
use crate::join::{Condition, Join, Side, column, tells_equal_values};

/// Expressions over some plan's output by which its rows are selected, such as the keys of a join's
/// probe side; `None` for one that is no expression over it.
pub(crate) type Keys = Vec<Option<Arc<dyn PhysicalExpr>>>;

/// Given a scan and the keys over its output, the scan that uses them.
pub(crate) type Attach<'a> = &'a mut dyn FnMut(&PartitionScan, &Keys) -> Option<PartitionScan>;

/// A filter on a scan that was found.
pub(crate) struct Target {
    /// Indexes of conditions, one for each key of the filter. All of them say that something is equal,
    /// or none does.
    pub(crate) conditions: Vec<usize>,
    pub(crate) filter: Arc<DynamicPartitionFilter>,
}

impl Target {
    pub(crate) fn is_equality(&self) -> bool {
        let mut keys = self.filter.keys().iter();
        keys.all(|key| key.comparison == Comparison::Equal)
    }
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

/// `scan` with dynamic filters on those of `keys` that partition columns decide, one for each of
/// `conditions`. The filters are added to `targets`.
pub(crate) fn attach_dynamic_filters(
    scan: &PartitionScan,
    keys: &Keys,
    conditions: &[Condition],
    targets: &mut Vec<Target>,
) -> Option<PartitionScan> {
    let before = targets.len();
    let mut attached = scan.clone();
    for are_equal in [true, false] {
        let (conditions, keys): (Vec<usize>, Vec<_>) = keys
            .iter()
            .zip(conditions)
            .enumerate()
            .filter(|(_, (_, c))| (c.comparison == Comparison::Equal) == are_equal)
            .filter_map(|(index, (expr, condition))| {
                let key = FilterKey {
                    expr: scan.filter_key(expr.as_ref()?)?,
                    comparison: condition.comparison,
                };
                Some((index, key))
            })
            .unzip();
        if !keys.is_empty() {
            let filter = Arc::new(DynamicPartitionFilter::new(keys));
            attached = attached.with_dynamic_filter(Arc::clone(&filter));
            targets.push(Target { conditions, filter });
        }
    }
    (targets.len() > before).then_some(attached)
}

/// The keys over the output of each child; no child is returned for operators that are not known
/// to be safe.
fn keys_of_children(plan: &Arc<dyn ExecutionPlan>, keys: &Keys) -> Vec<Keys> {
    if plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<BufferExec>()
        || plan.is::<PartitionKeyCollectorExec>()
        || plan.is::<StartEarlyExec>()
        || plan.is::<UnionExec>()
        || plan.is::<InterleaveExec>()
    {
        vec![keys.clone(); plan.children().len()]
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        vec![match filter.projection() {
            None => keys.clone(),
            Some(projection) => rewrite(keys, &|index| column(&schema, *projection.get(index)?)),
        }]
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        vec![rewrite(keys, &|index| {
            let projected = projection.expr().get(index);
            projected.map(|projected| Arc::clone(&projected.expr))
        })]
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        vec![keys_of_groups(aggregate, &of_equal_rows(plan, keys))]
    } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        let partitions = window.window_expr().iter().map(|w| w.partition_by());
        vec![keys_of_windows(
            window.input(),
            partitions,
            &of_equal_rows(plan, keys),
        )]
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        let partitions = window.window_expr().iter().map(|w| w.partition_by());
        vec![keys_of_windows(
            window.input(),
            partitions,
            &of_equal_rows(plan, keys),
        )]
    } else if let Some(join) = Join::of(plan) {
        keys_of_join_sides(&join, keys)
    } else {
        vec![]
    }
}

/// The keys over `plan` that are the same for rows which `plan` takes for equal.
fn of_equal_rows(plan: &Arc<dyn ExecutionPlan>, keys: &Keys) -> Keys {
    let schema = plan.schema();
    let keys = keys.iter().cloned();
    keys.map(|key| key.filter(|key| tells_equal_values(key, &schema)))
        .collect()
}

/// Below an aggregate: whole groups are dropped, by what their rows have in common. Not below one
/// with grouping sets, which makes NULL of it, or with a limit, which would keep other groups.
fn keys_of_groups(aggregate: &AggregateExec, keys: &Keys) -> Keys {
    let groups = aggregate.group_expr();
    if groups.has_grouping_set() || aggregate.limit_options().is_some() {
        return vec![None; keys.len()];
    }
    let groups = groups.input_exprs();
    rewrite(keys, &|index| groups.get(index).cloned())
}

/// Below window functions: whole partitions of each of them are dropped.
fn keys_of_windows<'a>(
    input: &Arc<dyn ExecutionPlan>,
    partitions: impl Iterator<Item = &'a [Arc<dyn PhysicalExpr>]>,
    keys: &Keys,
) -> Keys {
    let partitions: Vec<_> = partitions.collect();
    let schema = input.schema();
    rewrite(keys, &|index| {
        let column = column(&schema, index)?;
        let is_common = partitions.iter().all(|by| by.contains(&column));
        is_common.then_some(column)
    })
}

/// The keys within the two sides of another join: each where the join's result is made of rows of
/// that side, and in terms of the other side where the join's own keys are equal to it. Rows that
/// are left out there could only match such rows as are left out here.
fn keys_of_join_sides(join: &Join<'_>, keys: &Keys) -> Vec<Keys> {
    let own = |side: Side| {
        if !join.returns_rows_of(side) {
            return vec![None; keys.len()];
        }
        rewrite(keys, &|index| join.input_column(side, index))
    };
    let (left, right) = (own(Side::Left), own(Side::Right));
    let with_other = |own: &Keys, other: &Keys, side: Side| -> Keys {
        own.iter()
            .zip(other)
            .map(|(own, other)| match own {
                Some(own) => Some(Arc::clone(own)),
                None if join.is_null_aware => None,
                None => join.across(other.as_ref()?, side.other()),
            })
            .collect()
    };
    vec![
        with_other(&left, &right, Side::Left),
        with_other(&right, &left, Side::Right),
    ]
}

/// Keys without columns say nothing about what is below.
fn rewrite(keys: &Keys, replacement: &dyn Fn(usize) -> Option<Arc<dyn PhysicalExpr>>) -> Keys {
    let rewrite = |key: &Option<Arc<dyn PhysicalExpr>>| {
        let key = rewrite_columns(key.as_ref()?, replacement)?;
        (!collect_columns(&key).is_empty()).then_some(key)
    };
    keys.iter().map(rewrite).collect()
}
