//! The option reference, made of the definitions of the options.

use std::fmt::Write;

use datafusion::common::config::ExtensionOptions;
use datafusion_partitioned_connector::{Connector, option_table};
use datafusion_partitioned_core::PartitionedOptions;
use datafusion_partitioned_table::FilesystemConnector;

/// The text of `docs/options.md`: the table options of the connector `filesystem`, and the session options.
///
/// ```
/// let reference = datafusion_partitioned::option_reference();
/// assert!(reference.contains("| `partition.layout` | string | `hive` |"));
/// assert!(reference.contains("| `partitioned.list_concurrency` | `32` |"));
/// ```
pub fn option_reference() -> String {
    let mut text = String::from(
        "# Options\n\n<!-- Made by `cargo run --locked --example option_reference`; a test compares. -->\n\n\
         ## Table options of the connector `filesystem`\n\n\
         In `OPTIONS ('key' 'value')` of `CREATE EXTERNAL TABLE`, or `WITH ('key' = 'value')` of `CREATE TABLE`. A `*` \
         stands for the name of a partition column. Other options are those of the format; they may have its name in \
         front, as in `csv.has_header`. `SELECT * FROM table_options('filesystem')` shows the same.\n\n",
    );
    text.push_str(&option_table(&FilesystemConnector.options()));
    text.push_str(
        "\n## Session options\n\nWith `SET key = value`; `SHOW key` shows one.\n\n| key | default | |\n|---|---|---|\n",
    );
    let mut entries = PartitionedOptions::default().entries();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    for entry in entries {
        let default = match entry.value.as_deref() {
            None | Some("") => "empty".to_owned(),
            Some(value) => format!("`{value}`"),
        };
        let words = entry.description.split_whitespace().collect::<Vec<_>>();
        let description = words.join(" ");
        let description = match description.split_once(" Default: ") {
            Some((before, _)) => before.to_owned(),
            None => description,
        };
        let key = &entry.key;
        let prefix = if key.starts_with("partitioned.") {
            ""
        } else {
            "partitioned."
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{prefix}{key}` | {default} | {description} |");
    }
    text
}
