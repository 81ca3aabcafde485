//! Options as a table for people.

use std::fmt::Write;

use crate::OptionDescription;

/// A Markdown table of options, in their order: key, type, default, and what the option does.
pub fn option_table(options: &[OptionDescription]) -> String {
    let mut table = String::from("| key | type | default | |\n|---|---|---|---|\n");
    for option in options {
        let default = match option.default_text() {
            Some("") => "empty".to_owned(),
            Some(text) => format!("`{text}`"),
            None if option.is_required() => "required".to_owned(),
            None => String::new(),
        };
        let mut description = option.description().to_owned();
        let others: Vec<String> = option
            .keys()
            .skip(1)
            .map(|key| format!("`{key}`"))
            .collect();
        if !others.is_empty() {
            let _ = write!(description, "; also {}", others.join(", "));
        }
        let description = description.replace('|', "\\|");
        let (key, kind) = (option.key(), option.type_name());
        let _ = writeln!(table, "| `{key}` | {kind} | {default} | {description} |");
    }
    table
}
