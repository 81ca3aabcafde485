//! What must hold for directory names of any kind. Called with random input by the property tests
//! and, with input that a fuzzer finds, by `fuzz/fuzz_targets/parse_path.rs`.

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion_partitioned::core::{PartitionLayout, PartitionSpec};

/// Checks a layout template, the first line of `text`, and directory names, the others.
pub(crate) fn check(text: &str) {
    let (template, names) = text.split_once('\n').unwrap_or(("${a}/${b}", text));
    let names: Vec<&str> = names.split('\n').collect();
    for data_type in [
        DataType::Utf8,
        DataType::Int32,
        DataType::Boolean,
        DataType::Date32,
        DataType::Decimal128(9, 2),
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ] {
        let columns = ["a", "b"].map(|name| Field::new(name, data_type.clone(), true));
        let Ok(spec) = PartitionSpec::try_new(columns) else {
            unreachable!("two names");
        };
        let template = PartitionLayout::template(&spec, template).ok();
        let layouts = [
            PartitionLayout::hive(&spec),
            PartitionLayout::directory(&spec),
        ];
        for layout in layouts.iter().chain(&template) {
            check_reading(layout, &names);
            check_writing(layout, &names);
        }
    }
}

/// A name is a value, NULL, or a mismatch.
fn check_reading(layout: &PartitionLayout, names: &[&str]) {
    for level in 0..layout.levels() {
        let parsed = layout.parse(level, names, |row| names[row].to_owned());
        let Ok(parsed) = parsed else {
            panic!("{}: {parsed:?}", layout.example());
        };
        let is_mismatch = |row| parsed.mismatches.iter().any(|mismatch| mismatch.row == row);
        assert_eq!(parsed.texts.len(), layout.columns(level).len());
        for (texts, values) in parsed.texts.iter().zip(&parsed.values) {
            assert_eq!((texts.len(), values.len()), (names.len(), names.len()));
            for (row, name) in names.iter().enumerate() {
                let is_lost = texts.is_valid(row) && values.is_null(row);
                assert!(!is_lost || is_mismatch(row), "{name}");
                assert!(texts.is_valid(row) || values.is_null(row), "{name}");
            }
        }
        for name in names {
            layout.claims(level, name);
        }
    }
}

/// A path that spells two texts is read as these texts, and none of its names would be skipped.
fn check_writing(layout: &PartitionLayout, texts: &[&str]) {
    for pair in texts.windows(2) {
        let texts: Vec<_> = pair.iter().map(|text| Some((*text).to_owned())).collect();
        // A template may not tell them apart.
        let Ok(path) = layout.spell(&texts) else {
            continue;
        };
        let names: Vec<&str> = path.split('/').collect();
        assert_eq!(names.len(), layout.levels(), "{path}");
        for (level, name) in names.iter().enumerate() {
            assert!(
                !name.starts_with(['_', '.']) || layout.claims(level, name),
                "{path}"
            );
            let Ok(parsed) = layout.parse(level, &[name], |_| path.clone()) else {
                panic!("{path}");
            };
            for (column, found) in layout.columns(level).zip(&parsed.texts) {
                // The empty text has no spelling but that of NULL.
                let written = texts[column].as_deref().filter(|text| !text.is_empty());
                let found = found.is_valid(0).then(|| found.value(0));
                assert_eq!(found, written, "{path}");
            }
        }
    }
}
