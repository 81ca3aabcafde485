//! Random session options, those of DataFusion that change how a join or a scan works and our own.

use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use proptest::sample::select;

/// What a query runs under.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    partitioned_joins: bool,
    join_reordering: bool,
    pub(super) prefer_hash_join: bool,
    target_partitions: usize,
    batch_size: usize,
    /// Of the Parquet reader.
    pushdown_filters: bool,
    /// DataFusion's own.
    dynamic_filters: bool,
    pub(super) work_stealing: bool,
    /// The smallest file that is split, in bytes.
    split_files_from: usize,
    join_buffer: usize,
    preserve_file_partitions: usize,
    static_pruning: bool,
    list_concurrency: usize,
    list_cache: bool,
    ordered_scan: bool,
    metadata_answers: bool,
    max_keys: usize,
    /// How often the plan is executed.
    pub(super) runs: usize,
}

/// Any settings; what is not the default and has little to do with partitions is rare.
pub(super) fn settings() -> impl Strategy<Value = Settings> {
    let rarely = || proptest::bool::weighted(0.1);
    (
        [(); 5].map(|()| any::<bool>()),
        [(); 10].map(|()| rarely()),
        select(&[1_usize, 2, 8][..]),
        select(&[8192_usize, 1][..]),
        select(&[100_000_usize, 100_000, 2, 0][..]),
    )
        .prop_map(
            |(often, rare, target_partitions, batch_size, max_keys)| Settings {
                partitioned_joins: often[0],
                join_reordering: often[1],
                prefer_hash_join: !rare[0],
                target_partitions,
                batch_size,
                pushdown_filters: often[2],
                dynamic_filters: often[3],
                list_cache: often[4],
                work_stealing: !rare[1],
                split_files_from: if rare[2] { 1 } else { 1 << 20 },
                join_buffer: if rare[3] { 1 << 20 } else { 0 },
                static_pruning: !rare[4],
                max_keys,
                runs: if rare[5] { 2 } else { 1 },
                preserve_file_partitions: usize::from(rare[6]),
                list_concurrency: if rare[7] { 1 } else { 32 },
                ordered_scan: rare[8],
                metadata_answers: !rare[9],
            },
        )
}

impl Settings {
    /// Sets the options of a session. `partition_filters` are the dynamic ones of this project.
    pub(super) fn apply(&self, ctx: &SessionContext, partition_filters: bool) {
        let threshold = if self.partitioned_joins {
            0
        } else {
            usize::MAX
        };
        let options = [
            (
                "datafusion.optimizer.hash_join_single_partition_threshold",
                threshold.to_string(),
            ),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold_rows",
                threshold.to_string(),
            ),
            (
                "datafusion.optimizer.join_reordering",
                self.join_reordering.to_string(),
            ),
            (
                "datafusion.optimizer.prefer_hash_join",
                self.prefer_hash_join.to_string(),
            ),
            (
                "datafusion.optimizer.enable_dynamic_filter_pushdown",
                self.dynamic_filters.to_string(),
            ),
            (
                "datafusion.optimizer.repartition_file_min_size",
                self.split_files_from.to_string(),
            ),
            (
                "datafusion.execution.target_partitions",
                self.target_partitions.to_string(),
            ),
            (
                "datafusion.execution.batch_size",
                self.batch_size.to_string(),
            ),
            (
                "datafusion.execution.parquet.pushdown_filters",
                self.pushdown_filters.to_string(),
            ),
            (
                "datafusion.execution.enable_file_stream_work_stealing",
                self.work_stealing.to_string(),
            ),
            (
                "datafusion.execution.hash_join_buffering_capacity",
                self.join_buffer.to_string(),
            ),
            (
                "datafusion.optimizer.preserve_file_partitions",
                self.preserve_file_partitions.to_string(),
            ),
            (
                "partitioned.list_concurrency",
                self.list_concurrency.to_string(),
            ),
            ("partitioned.ordered_scan", self.ordered_scan.to_string()),
            (
                "partitioned.metadata_answers",
                self.metadata_answers.to_string(),
            ),
            (
                "partitioned.list_cache.ttl",
                if self.list_cache { "1h" } else { "0s" }.to_owned(),
            ),
            (
                "partitioned.static_pruning",
                self.static_pruning.to_string(),
            ),
            (
                "partitioned.dynamic_filter.enabled",
                partition_filters.to_string(),
            ),
            (
                "partitioned.dynamic_filter.max_keys",
                self.max_keys.to_string(),
            ),
        ];
        let state = ctx.state_ref();
        let mut state = state.write();
        for (key, value) in options {
            state
                .config_mut()
                .options_mut()
                .set(key, &value)
                .unwrap_or_else(|error| panic!("{key}: {error}"));
        }
    }
}
