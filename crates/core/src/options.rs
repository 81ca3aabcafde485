//! The session options of this project, all under the prefix `partitioned.`.

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::{config_namespace, extensions_options};

config_namespace! {
    /// Options of dynamic partition filters: `partitioned.dynamic_filter.*`.
    pub struct DynamicFilterOptions {
        /// Whether joins push the keys of their build side into the partitioned scan of their
        /// probe side. Default: true
        pub enabled: bool, default = true

        /// How many distinct key tuples a filter keeps exactly. A build side with more of them
        /// is described by the smallest and largest value of each key column instead, which
        /// prunes less. 0 keeps no tuples at all. Default: 100000
        pub max_keys: usize, default = 100_000
    }
}

extensions_options! {
    /// The session options of `datafusion-partitioned`, set by `SET partitioned.<key> = <value>`.
    pub struct PartitionedOptions {
        /// The connector for `CREATE EXTERNAL TABLE ... PARTITIONED BY` statements without the
        /// option 'connector'. Empty leaves them to DataFusion. Default: empty
        pub default_connector: String, default = String::new()

        /// Whether filters on partition columns choose partitions. When it is off every partition
        /// is read and its rows are filtered. Default: true
        pub static_pruning: bool, default = true

        /// How many LIST requests one scan keeps in flight. 0 counts as 1. Default: 32
        pub list_concurrency: usize, default = 32

        /// Dynamic partition filters
        pub dynamic_filter: DynamicFilterOptions, default = DynamicFilterOptions::default()
    }
}

impl ConfigExtension for PartitionedOptions {
    const PREFIX: &'static str = "partitioned";
}

impl PartitionedOptions {
    /// The options of a session, or the defaults when the session has none.
    pub fn from_config(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_keys_can_be_set_and_are_listed() {
        let mut config = ConfigOptions::new();
        config.extensions.insert(PartitionedOptions::default());
        config
            .set("partitioned.dynamic_filter.enabled", "false")
            .unwrap();
        config.set("partitioned.list_concurrency", "4").unwrap();

        let options = PartitionedOptions::from_config(&config);
        assert!(!options.dynamic_filter.enabled);
        assert_eq!(options.list_concurrency, 4);

        let keys: Vec<_> = config
            .extensions
            .iter()
            .flat_map(|(_, e)| e.entries())
            .collect();
        assert!(keys.iter().any(|e| e.key == "dynamic_filter.max_keys"));
        assert!(
            config
                .set("partitioned.dynamic_filter.max_kyes", "1")
                .is_err()
        );
    }
}
