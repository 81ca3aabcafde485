//! The modes in which the answer of a query must be the same.

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;

/// A session with some options set.
#[derive(Debug)]
pub(super) struct Mode {
    pub(super) name: &'static str,
    options: &'static [(&'static str, &'static str)],
    /// Whether partitions come from a catalog with their locations, and not from directories.
    pub(super) catalog_backed: bool,
    /// Asks only queries with one of these words; all when there are none.
    words: &'static [&'static str],
    /// Whether filters choose partitions.
    pub(super) prunes: bool,
    /// Whether queries are asked with cold and with warm caches, and the laws are checked.
    pub(super) asks_twice: bool,
    /// Whether the listing cache is on: then a warm query lists nothing.
    pub(super) remembers_listings: bool,
}

const DEFAULT: Mode = Mode {
    name: "default",
    options: &[],
    catalog_backed: false,
    words: &[],
    prunes: true,
    asks_twice: false,
    remembers_listings: false,
};

const UNPRUNED: (&str, &str) = ("partitioned.static_pruning", "false");
const NO_KEYS: (&str, &str) = ("partitioned.dynamic_filter.enabled", "false");
const NO_JOIN_FILTER: (&str, &str) = (
    "datafusion.optimizer.enable_join_dynamic_filter_pushdown",
    "false",
);
const NO_TOPK_FILTER: (&str, &str) = (
    "datafusion.optimizer.enable_topk_dynamic_filter_pushdown",
    "false",
);
const NO_AGGREGATE_FILTER: (&str, &str) = (
    "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown",
    "false",
);
const ROW_FILTERS: (&str, &str) = ("datafusion.execution.parquet.pushdown_filters", "true");
const ONE_STREAM: (&str, &str) = ("datafusion.execution.target_partitions", "1");
const MANY_STREAMS: (&str, &str) = ("datafusion.execution.target_partitions", "16");
const SMALL_BATCHES: (&str, &str) = ("datafusion.execution.batch_size", "1");
const LIST_CACHE: (&str, &str) = ("partitioned.list_cache.ttl", "1h");
const NO_STATISTICS: (&str, &str) = ("datafusion.execution.collect_statistics", "false");

const COLLECTED: (&str, &str) = (
    "datafusion.optimizer.hash_join_single_partition_threshold",
    "1000000000000",
);
const COLLECTED_ROWS: (&str, &str) = (
    "datafusion.optimizer.hash_join_single_partition_threshold_rows",
    "1000000000000",
);
const PARTITIONED: (&str, &str) = (
    "datafusion.optimizer.hash_join_single_partition_threshold",
    "0",
);
const PARTITIONED_ROWS: (&str, &str) = (
    "datafusion.optimizer.hash_join_single_partition_threshold_rows",
    "0",
);
const SORT_MERGE: (&str, &str) = ("datafusion.optimizer.prefer_hash_join", "false");
const AS_WRITTEN: (&str, &str) = ("datafusion.optimizer.join_reordering", "false");
const BOUNDS: (&str, &str) = ("partitioned.dynamic_filter.max_keys", "0");

/// What queries with joins have one of.
const JOINS: &[&str] = &["JOIN", "IN (SELECT", "EXISTS"];

const REMEMBERING: Mode = Mode {
    name: "list cache on",
    options: &[LIST_CACHE],
    asks_twice: true,
    remembers_listings: true,
    ..DEFAULT
};

/// Each switch alone, and some combinations.
pub(super) const ALL: &[Mode] = &[
    Mode {
        asks_twice: true,
        ..DEFAULT
    },
    Mode {
        name: "static pruning off",
        options: &[UNPRUNED],
        prunes: false,
        ..DEFAULT
    },
    Mode {
        name: "dynamic filters off",
        options: &[NO_KEYS],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "dynamic filters of joins off",
        options: &[NO_JOIN_FILTER],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "dynamic filters of TopK off",
        options: &[NO_TOPK_FILTER],
        words: &["LIMIT"],
        ..DEFAULT
    },
    Mode {
        name: "dynamic filters of aggregates off",
        options: &[NO_AGGREGATE_FILTER],
        words: &["min(", "max("],
        ..DEFAULT
    },
    Mode {
        name: "row filters on",
        options: &[ROW_FILTERS],
        ..DEFAULT
    },
    Mode {
        name: "one stream",
        options: &[ONE_STREAM],
        ..DEFAULT
    },
    Mode {
        name: "16 streams",
        options: &[MANY_STREAMS],
        ..DEFAULT
    },
    Mode {
        name: "batches of one row",
        options: &[SMALL_BATCHES],
        ..DEFAULT
    },
    Mode {
        name: "statistics off",
        options: &[NO_STATISTICS],
        ..DEFAULT
    },
    REMEMBERING,
    Mode {
        name: "catalog",
        catalog_backed: true,
        asks_twice: true,
        ..DEFAULT
    },
    Mode {
        name: "catalog, row filters on, batches of one row, one stream",
        options: &[ROW_FILTERS, SMALL_BATCHES, ONE_STREAM],
        catalog_backed: true,
        ..DEFAULT
    },
    Mode {
        name: "everything off, row filters on, batches of one row, 16 streams",
        options: &[
            UNPRUNED,
            NO_KEYS,
            NO_JOIN_FILTER,
            NO_TOPK_FILTER,
            NO_AGGREGATE_FILTER,
            ROW_FILTERS,
            SMALL_BATCHES,
            MANY_STREAMS,
            NO_STATISTICS,
        ],
        prunes: false,
        ..DEFAULT
    },
];

/// The strategies of joins, each with one, some and many streams. The first side is the build side in
/// those "as written".
pub(super) const STRATEGIES: &[Mode] = &[
    Mode {
        name: "collected builds, one stream",
        options: &[COLLECTED, COLLECTED_ROWS, ONE_STREAM],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "collected builds",
        options: &[COLLECTED, COLLECTED_ROWS],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "collected builds as written, 16 streams, row filters on",
        options: &[
            COLLECTED,
            COLLECTED_ROWS,
            AS_WRITTEN,
            MANY_STREAMS,
            ROW_FILTERS,
        ],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "collected builds, bounds of keys alone",
        options: &[COLLECTED, COLLECTED_ROWS, BOUNDS],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "partitioned joins",
        options: &[PARTITIONED, PARTITIONED_ROWS],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "partitioned joins as written, row filters on, batches of one row",
        options: &[
            PARTITIONED,
            PARTITIONED_ROWS,
            AS_WRITTEN,
            ROW_FILTERS,
            SMALL_BATCHES,
        ],
        words: JOINS,
        ..DEFAULT
    },
    PARTITIONED_JOINS,
    Mode {
        name: "sort-merge joins, one stream",
        options: &[SORT_MERGE, ONE_STREAM],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "sort-merge joins",
        options: &[SORT_MERGE],
        words: JOINS,
        ..DEFAULT
    },
    Mode {
        name: "sort-merge joins, bounds of keys alone, 16 streams, batches of one row",
        options: &[SORT_MERGE, BOUNDS, MANY_STREAMS, SMALL_BATCHES],
        words: JOINS,
        ..DEFAULT
    },
];

/// For queries that are repeated: many streams first, then what they are compared with.
pub(super) const REPEATED: &[Mode] = &[
    PARTITIONED_JOINS,
    Mode {
        name: "one stream",
        options: &[ONE_STREAM],
        ..DEFAULT
    },
    Mode {
        name: "dynamic filters off, 16 streams",
        options: &[NO_KEYS, NO_JOIN_FILTER, MANY_STREAMS],
        ..DEFAULT
    },
    Mode {
        name: "sort-merge joins, 16 streams",
        options: &[SORT_MERGE, MANY_STREAMS],
        ..DEFAULT
    },
];

/// Many streams on both sides of each join.
const PARTITIONED_JOINS: Mode = Mode {
    name: "partitioned joins, 16 streams",
    options: &[PARTITIONED, PARTITIONED_ROWS, MANY_STREAMS],
    words: JOINS,
    ..DEFAULT
};

/// For trees with very many rows: all but the last one, which reads all of them one by one.
pub(super) const MANY_ROWS: &[Mode] = ALL.split_at(ALL.len() - 1).0;

/// For trees that take long to read in any way: listed, and remembered.
pub(super) const FEW: &[Mode] = &[DEFAULT, REMEMBERING];

/// For large trees: those that read few of their files, each in another way.
pub(super) const PRUNING: &[Mode] = &[
    DEFAULT,
    Mode {
        name: "row filters on, one stream",
        options: &[ROW_FILTERS, ONE_STREAM],
        ..DEFAULT
    },
    REMEMBERING,
    Mode {
        name: "catalog",
        catalog_backed: true,
        ..DEFAULT
    },
];

impl Mode {
    /// Whether the answer of a query could be another one in this mode than by default.
    pub(super) fn concerns(&self, sql: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| sql.contains(word))
    }

    /// Whether the keys of joins choose partitions.
    pub(super) fn filters_by_keys(&self) -> bool {
        !self.options.contains(&NO_KEYS)
    }

    /// Whether keys of joins are kept one by one, as far as there are few of them.
    pub(super) fn keeps_keys(&self) -> bool {
        !self.options.contains(&BOUNDS)
    }

    pub(super) fn session(&self) -> SessionContext {
        let config = SessionConfig::new()
            .with_target_partitions(3)
            .with_information_schema(true);
        let ctx = SessionContext::new_with_config(config).with_partitioned();
        let state = ctx.state_ref();
        let mut state = state.write();
        for (key, value) in self.options {
            let options = state.config_mut().options_mut();
            options
                .set(key, value)
                .unwrap_or_else(|error| panic!("{key}: {error}"));
        }
        drop(state);
        ctx
    }
}
