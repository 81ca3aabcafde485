//! The session options of this project, all under the prefix `partitioned.`.

use std::any::Any;
use std::fmt::Display;
use std::time::Duration;

use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions, Visit,
};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_namespace};

use crate::suggestion::did_you_mean;
use crate::units::{ByteSize, TimeSpan};

config_namespace! {
    /// Options of dynamic partition filters: `partitioned.dynamic_filter.*`.
    pub struct DynamicFilterOptions {
        /// Whether partitions are chosen by what only becomes known while the query runs: the keys of
        /// one side of a join, and the dynamic filters of DataFusion's own operators. Default: true
        pub enabled: bool, default = true

        /// How many distinct key tuples a filter keeps exactly. When there are more, it keeps the
        /// values of each key column by itself, and of a column with more values than this the
        /// smallest and the largest, which prunes less. 0 keeps bounds alone. Default: 100000
        pub max_keys: usize, default = 100_000

        /// How many bytes the exact keys of a filter may take, such as `512K` or `32M`, before it
        /// keeps less, as with `max_keys`. Default: 32M
        pub max_bytes: ByteSize, default = ByteSize::new(32 << 20)

        /// How long a scan waits for keys that are still being collected, such as `500ms` or `10s`,
        /// where the operators that collect them run by themselves. After that it reads what the keys
        /// known by then leave. 0 does not wait. Default: 10s
        pub wait: TimeSpan, default = TimeSpan::new(Duration::from_secs(10))
    }
}

config_namespace! {
    /// Options of the listing cache: `partitioned.list_cache.*`.
    pub struct ListCacheOptions {
        /// How old a remembered listing may be to be used instead of a request, such as `30s`,
        /// `5m` or `1h`. Files that have come or gone since then are not noticed, so that an answer
        /// can be out of date. 0 neither uses nor remembers listings. Default: 0s
        pub ttl: TimeSpan, default = TimeSpan::default()

        /// How many bytes the remembered listings of the session may take, such as `512K`, `100M`
        /// or `2G`. The least recently used ones give way; a listing that is larger by itself is
        /// not remembered. Default: 64M
        pub limit: ByteSize, default = ByteSize::new(64 << 20)
    }
}

config_namespace! {
    /// The session options of `datafusion-partitioned`, set by `SET partitioned.<key> = <value>`
    /// and shown by `SHOW partitioned.<key>`.
    pub struct PartitionedOptions {
        /// The connector for `CREATE EXTERNAL TABLE ... PARTITIONED BY` statements without the
        /// option 'connector'. Empty leaves them to DataFusion. Default: empty
        pub default_connector: String, default = String::new()

        /// Whether filters on partition columns choose partitions. When it is off every partition
        /// is read and its rows are filtered. Default: true
        pub static_pruning: bool, default = true

        /// Whether queries that only need to know which values partition columns have read no more
        /// than one row of each: `min`, `max`, `DISTINCT` and the like; and whether rows are counted
        /// without opening partitions whose number of rows the catalog knows. Default: true
        pub metadata_answers: bool, default = true

        /// Whether every scan reads its partitions in ascending order of the partition columns,
        /// NULL last, up to the first of floating point numbers, so that operators on a prefix of these
        /// columns find their input sorted. Off, a scan does so only for an ORDER BY. Default: false
        pub ordered_scan: bool, default = false

        /// How many LIST requests one scan keeps in flight. 0 counts as 1. Default: 32
        pub list_concurrency: usize, default = 32

        /// The listing cache
        pub list_cache: ListCacheOptions, default = ListCacheOptions::default()

        /// Dynamic partition filters
        pub dynamic_filter: DynamicFilterOptions, default = DynamicFilterOptions::default()
    }
}

impl ConfigExtension for PartitionedOptions {
    const PREFIX: &'static str = "partitioned";
}

impl ExtensionOptions for PartitionedOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        ConfigField::set(self, key, value).map_err(|error| self.set_error(key, value, &error))
    }

    /// The options with their prefix, without which `SHOW` does not find them.
    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Entries(vec![]);
        self.visit(&mut entries, Self::PREFIX, "");
        entries.0
    }
}

impl PartitionedOptions {
    /// The options of a session, or the defaults when the session has none.
    pub fn from_config(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Names the option that could not be set, and what it should have been.
    fn set_error(&self, key: &str, value: &str, error: &DataFusionError) -> DataFusionError {
        let key = format!("{}.{key}", Self::PREFIX);
        let entries = self.entries();
        let Some(entry) = entries.iter().find(|entry| entry.key == key) else {
            let known = entries.iter().map(|entry| entry.key.as_str());
            return config_datafusion_err!(
                "unknown option '{key}'{}; SHOW ALL lists the options",
                did_you_mean(&key, known)
            );
        };
        let current = entry.value.as_deref().unwrap_or_default();
        if current.parse::<bool>().is_ok() {
            config_datafusion_err!(
                "invalid value '{value}' for option '{key}'; expected true or false"
            )
        } else if current.parse::<usize>().is_ok() {
            config_datafusion_err!(
                "invalid value '{value}' for option '{key}'; expected an integer from 0"
            )
        } else {
            config_datafusion_err!("option '{key}': {}", error.message())
        }
    }
}

struct Entries(Vec<ConfigEntry>);

impl Visit for Entries {
    fn some<V: Display>(&mut self, key: &str, value: V, description: &'static str) {
        self.0.push(ConfigEntry {
            key: key.to_owned(),
            value: Some(value.to_string()),
            description,
        });
    }

    fn none(&mut self, key: &str, description: &'static str) {
        self.0.push(ConfigEntry {
            key: key.to_owned(),
            value: None,
            description,
        });
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

        let entries = options.entries();
        let entry = entries
            .iter()
            .find(|e| e.key == "partitioned.dynamic_filter.enabled");
        assert_eq!(entry.unwrap().value.as_deref(), Some("false"));
        assert!(
            entries
                .iter()
                .all(|entry| entry.key.starts_with("partitioned."))
        );
    }

    #[test]
    fn mistakes_name_the_option_and_what_is_expected() {
        let mut config = ConfigOptions::new();
        config.extensions.insert(PartitionedOptions::default());
        for (key, value, message) in [
            (
                "static_prunning",
                "false",
                "unknown option 'partitioned.static_prunning' (did you mean \
                 'partitioned.static_pruning'?); SHOW ALL lists the options",
            ),
            (
                "static_pruning",
                "maybe",
                "invalid value 'maybe' for option 'partitioned.static_pruning'; expected true or false",
            ),
            (
                "list_concurrency",
                "-1",
                "invalid value '-1' for option 'partitioned.list_concurrency'; expected an integer from 0",
            ),
            (
                "dynamic_filter.wait",
                "soon",
                "option 'partitioned.dynamic_filter.wait': 'soon' is not a duration",
            ),
        ] {
            let key = format!("partitioned.{key}");
            let error = config.set(&key, value).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
