//! Properties of directory names, for arbitrary texts. What random filters choose is in
//! `differential/pruning.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::{col, lit};
use datafusion_partitioned::core::{DEFAULT_PARTITION_NAME, escape_path_name, unescape_path_name};
use datafusion_partitioned_test_utils::{scan_metric, sorted_rows};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::common::{Fixture, property_config};
use crate::parse_path;

/// Texts in which characters that mean something in paths, escapes or SQL are frequent.
fn text() -> impl Strategy<Value = String> {
    let special = [
        '%', '%', '/', '=', '_', '.', '*', '[', '\\', '\'', '"', '+', ' ', '?', '#', '\0', '\n',
        '\u{7f}', '\u{85}', 'A', 'f', '2', '5', 'é', '\u{301}', '東',
    ];
    let character = prop_oneof![3 => select(special.to_vec()), 1 => any::<char>()];
    let words = [DEFAULT_PARTITION_NAME, "..", ".", "%2F", "NULL", ""];
    prop_oneof![
        8 => vec(character, 0..12).prop_map(String::from_iter),
        1 => select(words.to_vec()).prop_map(str::to_owned),
    ]
}

/// Names of directories and templates, or what looks like them.
fn name() -> impl Strategy<Value = String> {
    let prefix = select(
        &[
            "",
            "a=",
            "b=",
            "%61=",
            "x-",
            "${a}/${b}",
            "${a}-${b}",
            "y${a}/",
        ][..],
    );
    (prefix, text()).prop_map(|(prefix, text)| format!("{prefix}{text}"))
}

#[test]
fn unescaping_undoes_escaping() {
    let result = TestRunner::new(property_config(2000)).run(&text(), |text| {
        let escaped = escape_path_name(&text);
        prop_assert_eq!(unescape_path_name(&escaped), text.as_str());
        prop_assert!(
            !escaped.contains(['/', '=']) && !escaped.chars().any(|c| c.is_ascii_control())
        );
        Ok(())
    });
    result.unwrap();
}

#[test]
fn paths_of_any_kind_are_parsed() {
    let texts = vec(name(), 1..8).prop_map(|names| names.join("\n"));
    let result = TestRunner::new(property_config(500)).run(&texts, |text| {
        parse_path::check(&text);
        Ok(())
    });
    result.unwrap();
}

/// Each byte as an escape: another spelling of the same text.
fn escaped_throughout(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Directories for arbitrary texts, in two spellings: all rows have their text, and a filter finds
/// exactly its own.
#[test]
fn a_directory_of_any_text_is_found_by_its_value() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let texts = vec(text(), 1..6).prop_filter("spells NULL", |texts| {
        texts.iter().all(|text| text != DEFAULT_PARTITION_NAME)
    });
    let result = TestRunner::new(property_config(60)).run(&texts, |texts| {
        runtime
            .block_on(check_directories(&texts))
            .map_err(TestCaseError::fail)
    });
    result.unwrap();
}

async fn check_directories(texts: &[String]) -> Result<(), String> {
    let fixture = Fixture::new();
    let mut texts_by_name = BTreeMap::new();
    for text in texts {
        for name in [
            escape_path_name(text).into_owned(),
            escaped_throughout(text),
        ] {
            texts_by_name.insert(name, text);
        }
    }
    let mut ids = BTreeMap::<&String, Vec<String>>::new();
    for (id, (name, text)) in (1..).zip(&texts_by_name) {
        fixture.put_ids(&format!("t/p={name}/f.csv"), &[id]).await;
        ids.entry(text).or_default().push(id.to_string());
    }
    fixture.create("t", "p TEXT").await;

    let table = async || fixture.ctx.table("t").await;
    let all = table().await.and_then(|t| t.select_columns(&["id", "p"]));
    let all = sorted_rows(&all.unwrap().collect().await.unwrap());
    let expected = ids.iter().flat_map(|(text, ids)| {
        let row = move |id: &String| format!("{id} | {text}");
        ids.iter().map(row)
    });
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    if all != expected {
        return Err(format!("{all:?} instead of {expected:?}"));
    }
    for (text, ids) in &ids {
        let filtered = table()
            .await
            .and_then(|t| t.filter(col("p").eq(lit(*text))));
        let filtered = filtered.and_then(|t| t.select_columns(&["id"])).unwrap();
        let plan = filtered.create_physical_plan().await.unwrap();
        let rows = collect(Arc::clone(&plan), fixture.ctx.task_ctx()).await;
        let mut rows = sorted_rows(&rows.unwrap());
        rows.sort();
        let mut ids = ids.clone();
        ids.sort();
        let files = scan_metric(&plan, "files_scanned");
        if rows != ids || files != ids.len() {
            return Err(format!(
                "{text:?}: {rows:?} of {files} files instead of {ids:?}"
            ));
        }
    }
    Ok(())
}
