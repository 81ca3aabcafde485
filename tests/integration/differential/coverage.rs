//! Counts what a run has seen, so that one in which nothing happens does not pass.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_partitioned::dynamic_filter::PartitionKeyCollectorExec;
use datafusion_partitioned_test_utils::{node_metric, scan_metric};

use super::settings::Settings;

/// The types of joins that prune.
const JOIN_TYPES: [&str; 6] = [
    "Inner",
    "Left",
    "LeftSemi",
    "RightSemi",
    "LeftAnti",
    "LeftMark",
];

#[derive(Debug, Default)]
pub(super) struct Coverage {
    queries: usize,
    pruned_static: usize,
    pruned_dynamic: usize,
    pruned_by_bounds: usize,
    /// With directories that the listing cache knew.
    pruned_from_cache: usize,
    /// Without `enable_file_stream_work_stealing`, where each output partition lists for itself.
    pruned_without_stealing: usize,
    /// By the type of the join and whether its build side is collected into one partition.
    pruned_by_join: BTreeMap<(String, bool), usize>,
    /// Queries that fail in memory as well.
    pub(super) failing: usize,
    /// Queries that DataFusion alone gets wrong, and why.
    pub(super) upstream: Vec<String>,
}

impl Coverage {
    /// Takes a plan that has been executed with dynamic partition filters.
    pub(super) fn count(&mut self, plan: &Arc<dyn ExecutionPlan>, settings: &Settings) {
        self.queries += 1;
        self.pruned_static += usize::from(scan_metric(plan, "partitions_pruned_static") > 0);
        if scan_metric(plan, "partitions_pruned_dynamic") == 0 {
            return;
        }
        self.pruned_dynamic += 1;
        let overflowed = node_metric(plan, "PartitionKeyCollectorExec", "key_set_overflowed");
        self.pruned_by_bounds += usize::from(overflowed > 0);
        self.pruned_from_cache += usize::from(scan_metric(plan, "list_cache_hits") > 0);
        self.pruned_without_stealing += usize::from(!settings.work_stealing);
        let mut joins = HashSet::new();
        joins_with_filters(plan, &mut joins);
        // Of several joins it is not known which one has pruned.
        if let [join] = &joins.into_iter().collect::<Vec<_>>()[..] {
            *self.pruned_by_join.entry(join.clone()).or_default() += 1;
        }
    }

    pub(super) fn assert_sufficient(&self) {
        let share = |part: usize| part as f64 / self.queries as f64;
        assert!(share(self.failing) < 0.2, "too many queries fail anyway");
        assert!(
            share(self.upstream.len()) < 0.02,
            "DataFusion gets too much wrong"
        );
        assert!(share(self.pruned_static) > 0.1, "too little static pruning");
        assert!(
            share(self.pruned_dynamic) > 0.1,
            "too little dynamic pruning"
        );
        assert!(self.pruned_by_bounds > 0, "no pruning by bounds");
        assert!(
            self.pruned_from_cache > 0,
            "no pruning with the listing cache"
        );
        assert!(
            self.pruned_without_stealing > 0,
            "no pruning without work stealing"
        );
        for join_type in JOIN_TYPES {
            let mut joins = self.pruned_by_join.keys();
            let seen = joins.any(|(other, _)| other == join_type);
            assert!(seen, "no pruning by a {join_type} join");
        }
        for collects in [true, false] {
            let mut joins = self.pruned_by_join.keys();
            let seen = joins.any(|(_, other)| *other == collects);
            assert!(seen, "no pruning where joins collect is {collects}");
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} queries", self.queries)?;
        writeln!(f, "{} with static pruning", self.pruned_static)?;
        writeln!(f, "{} with dynamic pruning", self.pruned_dynamic)?;
        writeln!(f, "{} of these by bounds", self.pruned_by_bounds)?;
        writeln!(f, "{} with the listing cache", self.pruned_from_cache)?;
        writeln!(f, "{} without work stealing", self.pruned_without_stealing)?;
        for ((join_type, collects), count) in &self.pruned_by_join {
            let mode = if *collects {
                "CollectLeft"
            } else {
                "Partitioned"
            };
            writeln!(f, "{count} by {join_type}, {mode}")?;
        }
        writeln!(f, "{} that fail in memory too", self.failing)?;
        writeln!(f, "{} that DataFusion gets wrong", self.upstream.len())?;
        self.upstream
            .iter()
            .try_for_each(|query| writeln!(f, "- {query}"))
    }
}

/// The types of the joins that feed a collector, and whether they collect their build side.
fn joins_with_filters(plan: &Arc<dyn ExecutionPlan>, joins: &mut HashSet<(String, bool)>) {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && feeds_collector(join.left())
    {
        let collects = *join.partition_mode() == PartitionMode::CollectLeft;
        joins.insert((join.join_type().to_string(), collects));
    }
    for child in plan.children() {
        joins_with_filters(child, joins);
    }
}

/// Whether a collector is among the operators that only move rows.
fn feeds_collector(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<PartitionKeyCollectorExec>()
        || (matches!(plan.name(), "RepartitionExec" | "CoalescePartitionsExec")
            && plan.children().into_iter().all(feeds_collector))
}
