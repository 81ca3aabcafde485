//! Tests of layouts.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::common::ScalarValue;

use super::*;

fn parse(data_type: DataType, names: &[&str]) -> ParsedLevel {
    let spec = PartitionSpec::try_new(vec![Field::new("k", data_type, true)]).unwrap();
    let layout = PartitionLayout::hive(&spec);
    layout
        .parse(0, names, |row| format!("t/{}", names[row]))
        .unwrap()
}

#[test]
fn decodes_each_escape_once_and_splits_at_the_first_equals_sign() {
    let cases = [
        ("k=rock%2Froll", "rock/roll"),
        ("k=New Wave", "New Wave"),
        ("k=50%25", "50%"),
        ("k=a%252Fb", "a%2Fb"),
        ("k=dna_0=none", "dna_0=none"),
        ("k==", "="),
        ("k=UTC+2", "UTC+2"),
        ("k=K%C3%B6ln", "Köln"),
        ("k=%", "%"),
        ("k=%2", "%2"),
        ("k=%zz", "%zz"),
        ("k=%FF", "%FF"),
        ("k=", ""),
        ("%6B=x", "x"),
    ];
    let parsed = parse(DataType::Utf8, &cases.map(|(name, _)| name));
    assert!(parsed.mismatches.is_empty());
    let texts: Vec<_> = parsed.texts[0].iter().flatten().collect();
    assert_eq!(texts, cases.map(|(_, text)| text));
}

#[test]
fn spellings_of_one_value_are_equal_and_the_default_name_is_null() {
    let parsed = parse(
        DataType::Int32,
        &["k=6", "k=06", "k=__HIVE_DEFAULT_PARTITION__"],
    );
    let values = parsed.values[0].as_primitive::<Int32Type>();
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(6), Some(6), None]);
    assert!(parsed.mismatches.is_empty());
}

#[test]
fn the_word_null_is_a_string() {
    let parsed = parse(DataType::Utf8, &["k=NULL", "k=null", "k=None"]);
    assert_eq!(parsed.values[0].null_count(), 0);
}

#[test]
fn mismatches_name_column_text_and_path() {
    let parsed = parse(DataType::Int32, &["k=1", "k=abc", "j=1", "k=7"]);
    let errors: Vec<_> = parsed
        .mismatches
        .iter()
        .map(|mismatch| format!("{}: {}", mismatch.row, mismatch.error))
        .collect();
    assert_eq!(
        errors,
        [
            "1: partition column 'k': 'abc' is not a value of type Int32 (in 't/k=abc'); declare another \
             type, or set 'partition.on-mismatch' to 'null' or 'skip'",
            "2: expected a directory 'k=<value>' but found 'j=1' (in 't/j=1'); PARTITIONED BY has the columns \
             of the directories in their order",
        ]
    );
    assert_eq!(parsed.values[0].null_count(), 2);
}

fn two_columns() -> PartitionSpec {
    let fields = [("year", DataType::Int32), ("topic", DataType::Utf8)];
    PartitionSpec::try_new(fields.map(|(name, kind)| Field::new(name, kind, true))).unwrap()
}

#[test]
fn a_template_level_spells_none_one_or_several_columns() {
    let layout = PartitionLayout::template(&two_columns(), "/data/${year}-${topic}/x/").unwrap();
    assert_eq!(layout.levels(), 3);
    assert_eq!(layout.example(), "data/<year>-<topic>/x/");
    let columns: Vec<_> = (0..3).map(|level| layout.columns(level)).collect();
    assert_eq!(columns, [0..0, 0..2, 2..2]);
    assert!(layout.claims(0, "data") && !layout.claims(0, "date") && !layout.claims(3, "x"));
    let parsed = layout
        .parse(1, &["2024-a-b", "2024"], |_| String::new())
        .unwrap();
    assert_eq!(parsed.texts[1].value(0), "a-b");
    assert_eq!(parsed.mismatches.len(), 1);
}

#[test]
fn a_template_names_every_column_in_order() {
    for (template, message) in [
        ("${year}", "add ${topic}"),
        ("${topic}/${year}", "next partition column is 'year'"),
        ("${year}//${topic}", "empty level"),
        ("", "empty level"),
    ] {
        let error = PartitionLayout::template(&two_columns(), template).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn a_name_without_fixed_text_may_be_hidden() {
    let layout = PartitionLayout::directory(&two_columns());
    assert!(!layout.claims(1, "_temporary") && !layout.claims(1, ".x"));
    assert!(layout.claims(1, DEFAULT_PARTITION_NAME));
    let hive = PartitionLayout::hive(&two_columns());
    assert!(hive.claims(1, "topic=_x") && !hive.claims(1, "_topic=x"));
}

#[test]
fn what_is_spelled_is_read_back_or_refused() {
    let spec = two_columns();
    let values = |topic: ScalarValue| {
        PartitionValues::try_new(&spec, vec![ScalarValue::from(7_i32), topic]).unwrap()
    };
    for layout in [
        PartitionLayout::hive(&spec),
        PartitionLayout::directory(&spec),
        PartitionLayout::template(&spec, "${year}/t-${topic}.d").unwrap(),
    ] {
        for topic in [
            "a/b",
            "50%",
            "..",
            "_x",
            "x=y",
            DEFAULT_PARTITION_NAME,
            "東京",
        ] {
            let path = layout.path(&values(topic.into())).unwrap();
            let name = path.split('/').next_back().unwrap();
            let parsed = layout.parse(1, &[name], |_| String::new()).unwrap();
            assert_eq!(
                parsed.texts[0].iter().next().unwrap(),
                Some(topic),
                "{path}"
            );
        }
        let path = layout.path(&values(ScalarValue::Utf8(None))).unwrap();
        assert!(path.contains(DEFAULT_PARTITION_NAME), "{path}");
    }
    let spec =
        PartitionSpec::try_new(["a", "b"].map(|n| Field::new(n, DataType::Utf8, true))).unwrap();
    let layout = PartitionLayout::template(&spec, "${a}-${b}").unwrap();
    let texts = ["1-2", "3"].map(|text| Some(text.to_owned()));
    let error = layout.spell(&texts).unwrap_err().to_string();
    assert!(error.contains("cannot be told apart"), "{error}");
}
