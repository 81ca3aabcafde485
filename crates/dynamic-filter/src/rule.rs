//! The optimizer rule [`InsertDynamicPartitionFilter`].

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::{Comparison, DynamicPartitionFilter, PartitionedOptions};

use crate::collector::{KeyMatching, PartitionKeyCollectorExec};
use crate::early::StartEarlyExec;
use crate::join::{Condition, Join, Side};
use crate::key_path::{Target, attach_dynamic_filters, attach_to_scans};
use crate::producer::Producer;
use crate::unsafe_filters::without_own_filter;

/// Connects joins to the partitioned scans of one side, from which they leave out what finds no
/// match on the other.
///
/// | join | keys come from | go to | when |
/// |---|---|---|---|
/// | hash join | the build side, left | the probe side, right | the build side is read first |
/// | nested-loop join | the left side | the right side | the left side is read first |
/// | sort-merge join | the smaller side | the other | [`StartEarlyExec`] runs the sort of the smaller side first, and the scan waits for it |
///
/// The side that keys go to must not be preserved: rows of it that find no match must have no part in
/// the result. So an inner or semi join qualifies, and an outer, anti or mark join by the side that
/// it does not return whole. Of equal keys the tuples are collected, of comparisons such as
/// `t.day BETWEEN d.first AND d.last` the bounds.
///
/// Some of these conditions must depend on partition columns alone, also through projections,
/// renames, casts, filters, unions, repartitioning, sorts, groups that have the key in common,
/// windows that are partitioned by it, and other joins, also across the equality of their keys:
/// `a.k = b.k AND b.k = c.k` lets `c` choose partitions of `a` and of `b`.
///
/// A side that is a whole table, with no fewer rows than there are partitions, chooses none.
///
/// ```text
/// HashJoinExec: on=[(d_date_sk, ss_sold_date_sk)]     HashJoinExec: on=[(d_date_sk, ss_sold_date_sk)]
///   CoalescePartitionsExec                              CoalescePartitionsExec
///     FilterExec: d_moy = 7                               PartitionKeyCollectorExec: keys=[d_date_sk]
///                                                           FilterExec: d_moy = 7
///   DataSourceExec: store_sales                         DataSourceExec: store_sales, dynamic_filters=[(ss_sold_date_sk)]
/// ```
///
/// It must run before the last `FilterPushdown`, whose filters pass the nodes that it adds. The
/// session option `partitioned.dynamic_filter.enabled` switches it off.
#[derive(Debug, Default)]
pub struct InsertDynamicPartitionFilter;

impl PhysicalOptimizerRule for InsertDynamicPartitionFilter {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !PartitionedOptions::from_config(config)
            .dynamic_filter
            .enabled
        {
            return Ok(plan);
        }
        plan.transform_up(|plan| {
            Ok(match connect(&plan)? {
                Some(connected) => Transformed::yes(connected),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "InsertDynamicPartitionFilter"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join `plan` with dynamic filters, if it is one that can have some.
fn connect(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = Join::of(plan) else {
        return Ok(None);
    };
    if has_collector(join.left) || has_collector(join.right) {
        return Ok(None);
    }
    let [left, right] = [Side::Left, Side::Right].map(|side| Producer::of(join.input(side)));
    if join.reads_left_first {
        return connect_side(plan, &join, Side::Right, &left);
    }
    // Without a sort nothing would read a side to its end before the join does.
    let by_left = || match is_sorted_here(join.left) {
        true => connect_side(plan, &join, Side::Right, &left),
        false => Ok(None),
    };
    let by_right = || match is_sorted_here(join.right) {
        true => connect_side(plan, &join, Side::Left, &right),
        false => Ok(None),
    };
    match (by_left()?, by_right()?) {
        (Some(by_left), Some(by_right)) => Ok(Some(match right.is_smaller_than(&left) {
            true => by_right,
            false => by_left,
        })),
        (by_left, by_right) => Ok(by_left.or(by_right)),
    }
}

/// `plan`, which is `join`, with the scans of its side `consumer` connected to the other one.
fn connect_side(
    plan: &Arc<dyn ExecutionPlan>,
    join: &Join<'_>,
    consumer: Side,
    producer: &Producer,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !join.needs_match(consumer) {
        return Ok(None);
    }
    let mut conditions = join.conditions(consumer);
    if join.is_null_aware {
        conditions.retain(|c| c.comparison == Comparison::Equal);
    }
    let keys = conditions.iter().map(|c| Some(Arc::clone(&c.consumer)));
    let mut targets = vec![];
    let consumed = attach_to_scans(join.input(consumer), &keys.collect(), &mut |scan, keys| {
        let may_prune = producer.may_prune(scan);
        may_prune
            .then(|| attach_dynamic_filters(scan, keys, &conditions, &mut targets))
            .flatten()
    })?;
    let Some(consumed) = consumed else {
        return Ok(None);
    };
    let covering = targets
        .iter()
        .filter(|target| target.is_equality() && target.conditions.len() == join.keys());
    let covers_all_scans = covering.count() == count_leaves(join.input(consumer));
    let filters: Vec<_> = targets.iter().map(|t| Arc::clone(&t.filter)).collect();
    let mut produced = Arc::clone(join.input(consumer.other()));
    for (indexes, filters) in group_by_conditions(targets) {
        let collected: Vec<&Condition> = indexes.iter().map(|index| &conditions[*index]).collect();
        produced = insert_collector(&produced, &|input| {
            Arc::new(PartitionKeyCollectorExec::new(
                input,
                collected.iter().map(|c| Arc::clone(&c.producer)).collect(),
                matching(join, &collected),
                filters.clone(),
            ))
        })?;
    }
    if !join.reads_left_first {
        produced = Arc::new(StartEarlyExec::new(produced, filters));
    }
    let children = match consumer {
        Side::Left => vec![consumed, produced],
        Side::Right => vec![produced, consumed],
    };
    let connected = replace_children_if_necessary(Arc::clone(plan), children)?;
    // Where all scans have partition filters on all keys, another filter on the same keys would only be
    // evaluated for each file in vain, and hold up the join until all partitions of its build side
    // are read.
    if covers_all_scans {
        without_own_filter(&connected).map(Some)
    } else {
        Ok(Some(connected))
    }
}

/// How `join` compares the collected keys.
fn matching(join: &Join<'_>, collected: &[&Condition]) -> KeyMatching {
    let is_range = |c: &&Condition| c.comparison != Comparison::Equal;
    if collected.iter().any(is_range) {
        KeyMatching::Range
    } else if join.is_null_aware {
        KeyMatching::NotIn
    } else if join.null_equality == NullEquality::NullEqualsNull {
        KeyMatching::NotDistinct
    } else {
        KeyMatching::Equal
    }
}

fn count_leaves(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let children = plan.children();
    if children.is_empty() {
        1
    } else {
        children.into_iter().map(count_leaves).sum()
    }
}

/// Whether the rule has been here before.
fn has_collector(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<PartitionKeyCollectorExec>()
        || plan.is::<StartEarlyExec>()
        || (moves_rows(plan) && plan.children().into_iter().any(has_collector))
}

/// One entry for each distinct list of conditions: scans that want the same keys share a collector.
fn group_by_conditions(
    targets: Vec<Target>,
) -> Vec<(Vec<usize>, Vec<Arc<DynamicPartitionFilter>>)> {
    let mut groups: Vec<(Vec<usize>, Vec<Arc<DynamicPartitionFilter>>)> = vec![];
    for Target { conditions, filter } in targets {
        match groups.iter_mut().find(|(group, _)| *group == conditions) {
            Some((_, filters)) => filters.push(filter),
            None => groups.push((conditions, vec![filter])),
        }
    }
    groups
}

/// `plan` with a collector below the operators that only move rows, between partitions or within
/// them. Below them its keys are complete as soon as anything of the side is; above a repartitioning
/// only when all of its partitions have been read.
fn insert_collector(
    plan: &Arc<dyn ExecutionPlan>,
    collector: &dyn Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if moves_rows(plan) {
        let [input] = plan.children()[..] else {
            return Ok(collector(Arc::clone(plan)));
        };
        let input = insert_collector(input, collector)?;
        return replace_children_if_necessary(Arc::clone(plan), vec![input]);
    }
    Ok(collector(Arc::clone(plan)))
}

fn moves_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_mover = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>();
    is_mover && plan.fetch().is_none()
}

/// Whether a sort is among the operators at the top of `plan` that only move rows.
fn is_sorted_here(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut inputs = plan.children().into_iter();
    moves_rows(plan) && (plan.is::<SortExec>() || inputs.any(is_sorted_here))
}
