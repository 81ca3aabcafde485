//! The optimizer rule [`InsertDynamicPartitionFilter`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_partitioned_core::{DynamicPartitionFilter, PartitionedOptions};

use crate::collector::PartitionKeyCollectorExec;
use crate::key_path::{Keys, Target, attach_dynamic_filter, attach_to_scans};

/// Connects hash joins to the partitioned scans of their probe side.
///
/// A join qualifies when it returns no probe row that finds no match (inner, left, left semi, right
/// semi, left anti and left mark joins, null-aware ones excepted) and some of its probe keys depend
/// on partition columns alone, also through projections, renames, casts, filters, unions,
/// repartitioning and other joins.
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
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(None);
    };
    let (_, returns_only_matching_probe_rows) = join.join_type().on_lr_is_preserved();
    if !returns_only_matching_probe_rows || join.null_aware {
        return Ok(None);
    }
    if has_collector(join.left()) {
        return Ok(None);
    }
    let mut targets = vec![];
    let probe = attach_to_scans(join.right(), &probe_keys(join)?, &mut |scan, keys| {
        attach_dynamic_filter(scan, keys, &mut targets)
    })?;
    let Some(probe) = probe else {
        return Ok(None);
    };
    let covers_all_scans = targets.len() == count_leaves(join.right())
        && targets
            .iter()
            .all(|target| target.keys.len() == join.on().len());
    let build = group_by_keys(targets).into_iter().try_fold(
        Arc::clone(join.left()),
        |build, (keys, filters)| {
            let keys = keys
                .iter()
                .map(|key| Arc::clone(&join.on()[*key].0))
                .collect::<Vec<_>>();
            insert_collector(&build, &|input| {
                Arc::new(PartitionKeyCollectorExec::new(
                    input,
                    keys.clone(),
                    join.null_equality(),
                    filters.clone(),
                ))
            })
        },
    )?;
    let connected = replace_children_if_necessary(Arc::clone(plan), vec![build, probe])?;
    if covers_all_scans {
        without_own_filter(&connected).map(Some)
    } else {
        Ok(Some(connected))
    }
}

/// The join `plan` with a filter of DataFusion's kind that no scan knows, so that it neither makes
/// one nor computes it. Where all scans of the probe side have partition filters on all keys,
/// another filter on the same keys would only be evaluated for each file in vain, and hold up the
/// join until all partitions of its build side are read.
fn without_own_filter(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(Arc::clone(plan));
    };
    let keys = join
        .on()
        .iter()
        .map(|(_, probe_key)| Arc::clone(probe_key))
        .collect();
    let unused = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
    Ok(Arc::new(
        join.builder().build()?.with_dynamic_filter_expr(unused)?,
    ))
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
        || (moves_rows(plan) && plan.children().into_iter().any(has_collector))
}

/// The probe side of each pair of the join's keys, where both sides have the same type, so that
/// equal values have equal representations.
fn probe_keys(join: &HashJoinExec) -> Result<Keys> {
    let (build, probe) = (join.left().schema(), join.right().schema());
    join.on()
        .iter()
        .map(
            |(build_key, probe_key): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
                let same_type = build_key.data_type(&build)? == probe_key.data_type(&probe)?;
                Ok(same_type.then(|| Arc::clone(probe_key)))
            },
        )
        .collect()
}

/// One entry for each distinct list of keys: scans that want the same tuples share a collector.
fn group_by_keys(targets: Vec<Target>) -> Vec<(Vec<usize>, Vec<Arc<DynamicPartitionFilter>>)> {
    let mut groups: Vec<(Vec<usize>, Vec<Arc<DynamicPartitionFilter>>)> = vec![];
    for Target { keys, filter } in targets {
        match groups.iter_mut().find(|(group, _)| *group == keys) {
            Some((_, filters)) => filters.push(filter),
            None => groups.push((keys, vec![filter])),
        }
    }
    groups
}

/// `plan` with a collector below the operators that only move rows between partitions. Below them
/// its keys are complete as soon as anything of the build side is; above a repartitioning only
/// when all of its partitions have been read.
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
    (plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>()) && plan.fetch().is_none()
}
