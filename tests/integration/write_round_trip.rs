//! What is written is what is read, for random tables: their types, values, formats and options.
//!
//! A model, which is a list of rows, says what `INSERT INTO` and `INSERT OVERWRITE` make of a table. Rows are read by a
//! session that has not written them, and compared with their types and in all bits.
//!
//! The seed is fixed. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` choose more and other cases.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::core::DEFAULT_PARTITION_NAME;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::Lake;
use futures::TryStreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::common::{assert_mentions, property_config};

/// Without `PROPTEST_CASES`.
const CASES: u32 = 120;

/// Names of local files have 255 bytes, and an escape has three for each byte of a character.
const CHARACTERS: usize = 18;

type Row = Vec<ScalarValue>;

/// A table and what is done to it. The first column of the files is `id`; that of a row is its number.
#[derive(Debug, Clone)]
struct Case {
    is_local: bool,
    format: &'static str,
    options: BTreeMap<String, String>,
    file_types: Vec<DataType>,
    partition_types: Vec<DataType>,
    appended: Vec<Row>,
    /// Each replaces the partitions of its rows.
    overwritten: Vec<Row>,
    /// Through `DataFrame::write_table` instead of SQL.
    as_frame: bool,
}

fn partition_type() -> impl Strategy<Value = DataType> {
    use DataType::{
        Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, UInt8,
        UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
    let numbers = vec![
        Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Date32,
    ];
    prop_oneof![
        3 => select(numbers),
        1 => select(vec![Decimal128(5, 0), Decimal128(10, 4), Decimal128(38, 10)]),
        2 => timestamp_type(),
        4 => select(vec![Utf8, LargeUtf8, Utf8View, dictionary]),
    ]
}

fn timestamp_type() -> impl Strategy<Value = DataType> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let unit = select(vec![Second, Millisecond, Microsecond, Nanosecond]);
    let zone = select(&[None, Some("UTC"), Some("+00:00"), Some("-05:30")][..]);
    (unit, zone).prop_map(|(unit, zone)| DataType::Timestamp(unit, zone.map(Arc::from)))
}

/// What a format can hold in all bits.
fn file_type(format: &'static str) -> BoxedStrategy<DataType> {
    use DataType::{Boolean, Date32, Float64, Int32, Int64, UInt64, Utf8, Utf8View};
    match format {
        "PARQUET" => partition_type()
            .prop_filter("a dictionary", |t| !matches!(t, DataType::Dictionary(..)))
            .boxed(),
        _ => select(vec![
            Boolean, Int32, Int64, UInt64, Float64, Date32, Utf8, Utf8View,
        ])
        .boxed(),
    }
}

/// Texts in which characters are frequent that mean something in paths, escapes or files.
fn text() -> BoxedStrategy<String> {
    let special = [
        '%', '/', '=', ':', '"', '\\', '.', ' ', '\'', '*', '?', '#', '[', ']', '{', '}', '^', '~',
        '|', '&', '+', ',', ';', '\0', '\t', '\n', '\r', '\u{7f}', '\u{85}', '\u{a0}', '\u{feff}',
        '2', '5', 'F', 'é', 'e', '\u{301}', '東', '🙂', '\u{202e}', '_',
    ];
    let ascii = (0..128_u8).prop_map(char::from);
    let character = prop_oneof![
        4 => select(special.to_vec()),
        2 => ascii,
        1 => any::<char>(),
    ];
    let words = [
        "..",
        ".",
        "/",
        "//",
        "../..",
        "a/../b",
        "%",
        "%2F",
        "%2f",
        "%25",
        "%252F",
        "%2",
        "%zz",
        "a=b",
        "p0=x",
        "=",
        " ",
        "  lead",
        "trail  ",
        "NULL",
        "null",
        "true",
        "1",
        "01",
        "-0",
        "NaN",
        "2024-06-01",
        "\u{e9}",
        "e\u{301}",
        "_x",
        ".hid",
        "_commits",
        "_temporary",
        "a.parquet",
        ".x.pending",
        "CON",
        "~",
        "\\",
        "\"",
        "\"\"",
        "a\"b",
        "'",
        DEFAULT_PARTITION_NAME,
        "__hive_default_partition__",
        "%5F_HIVE_DEFAULT_PARTITION__",
    ];
    let long = (150..240_usize).prop_map(|length| "z".repeat(length));
    prop_oneof![
        8 => vec(character, 1..=CHARACTERS).prop_map(String::from_iter),
        4 => select(words.to_vec()).prop_map(str::to_owned),
        1 => long,
    ]
    .boxed()
}

/// A text that a CSV file without line breaks in its values can hold.
fn is_line(text: &str) -> bool {
    !text.contains(['\n', '\r'])
}

/// Values of a type; NULL now and then.
fn value(data_type: &DataType, texts: BoxedStrategy<String>) -> BoxedStrategy<ScalarValue> {
    let null = ScalarValue::try_from(data_type).unwrap();
    let value = match data_type {
        DataType::Boolean => any::<bool>().prop_map(ScalarValue::from).boxed(),
        DataType::Int8 => any::<i8>().prop_map(ScalarValue::from).boxed(),
        DataType::Int16 => any::<i16>().prop_map(ScalarValue::from).boxed(),
        DataType::Int32 => any::<i32>().prop_map(ScalarValue::from).boxed(),
        DataType::Int64 => any::<i64>().prop_map(ScalarValue::from).boxed(),
        DataType::UInt8 => any::<u8>().prop_map(ScalarValue::from).boxed(),
        DataType::UInt16 => any::<u16>().prop_map(ScalarValue::from).boxed(),
        DataType::UInt32 => any::<u32>().prop_map(ScalarValue::from).boxed(),
        DataType::UInt64 => any::<u64>().prop_map(ScalarValue::from).boxed(),
        DataType::Float32 => {
            let special = [
                0.0,
                -0.0,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::NAN,
                0.1,
                f32::MIN_POSITIVE,
            ];
            let any = prop_oneof![any::<f32>(), select(special.to_vec())];
            any.prop_map(ScalarValue::from).boxed()
        }
        DataType::Float64 => {
            let special = [
                0.0,
                -0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                0.1,
                1e300,
            ];
            let any = prop_oneof![any::<f64>(), select(special.to_vec())];
            any.prop_map(ScalarValue::from).boxed()
        }
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            let limit = 10_i128.pow(u32::from(precision));
            let any = prop_oneof![(1 - limit)..limit, -1000..1000_i128];
            any.prop_map(move |value| ScalarValue::Decimal128(Some(value), precision, scale))
                .boxed()
        }
        // The years 1 to 9999.
        DataType::Date32 => (-719_162..=2_932_896_i32)
            .prop_map(|days| ScalarValue::Date32(Some(days)))
            .boxed(),
        DataType::Timestamp(unit, zone) => timestamp(*unit, zone.clone()),
        DataType::Utf8 => texts.prop_map(|t| ScalarValue::Utf8(Some(t))).boxed(),
        DataType::LargeUtf8 => texts.prop_map(|t| ScalarValue::LargeUtf8(Some(t))).boxed(),
        DataType::Utf8View => texts.prop_map(|t| ScalarValue::Utf8View(Some(t))).boxed(),
        DataType::Dictionary(key, _) => {
            let key = key.clone();
            let text =
                move |t| ScalarValue::Dictionary(key.clone(), Box::new(ScalarValue::Utf8(Some(t))));
            texts.prop_map(text).boxed()
        }
        other => panic!("no values of {other}"),
    };
    prop_oneof![7 => value, 1 => Just(null)].boxed()
}

fn timestamp(unit: TimeUnit, zone: Option<Arc<str>>) -> BoxedStrategy<ScalarValue> {
    let (of_second, seconds) = match unit {
        TimeUnit::Second => (1, -62_135_596_800..=253_402_300_799_i64),
        TimeUnit::Millisecond => (1000, -62_135_596_800..=253_402_300_799),
        TimeUnit::Microsecond => (1_000_000, -62_135_596_800..=253_402_300_799),
        TimeUnit::Nanosecond => (1_000_000_000, -9_223_372_000..=9_223_372_000),
    };
    let seconds = prop_oneof![seconds, -100_000..100_000_i64];
    let parts = (seconds, prop_oneof![Just(0), 0..of_second]);
    let timestamp = parts.prop_map(move |(seconds, fraction)| {
        let (value, zone) = (Some(seconds * of_second + fraction), zone.clone());
        match unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
        }
    });
    timestamp.boxed()
}

/// Values of a column of the files that come back from a format.
fn file_value(format: &str, data_type: &DataType) -> BoxedStrategy<ScalarValue> {
    let texts = match format {
        "CSV" => text()
            .prop_filter("a line break", |text| is_line(text))
            .boxed(),
        _ => text(),
    };
    let value = value(data_type, texts);
    match format {
        // No number in JSON.
        "JSON" => value
            .prop_filter(
                "no number",
                |value| !matches!(value, ScalarValue::Float64(Some(value)) if !value.is_finite()),
            )
            .boxed(),
        _ => value,
    }
}

fn options() -> impl Strategy<Value = BTreeMap<String, String>> {
    let max_open = proptest::option::weighted(0.5, 0..4_usize);
    let row_count = proptest::option::weighted(0.3, 1..4_usize);
    let layout = proptest::option::weighted(0.2, Just("directory"));
    (max_open, row_count, layout).prop_map(|(max_open, row_count, layout)| {
        let options = [
            ("sink.max-open-partitions", max_open.map(|n| n.to_string())),
            (
                "sink.rolling-policy.row-count",
                row_count.map(|n| n.to_string()),
            ),
            ("partition.layout", layout.map(str::to_owned)),
        ];
        let given = options.into_iter();
        given
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    })
}

fn case() -> impl Strategy<Value = Case> {
    let format = select(&["PARQUET", "PARQUET", "CSV", "JSON"][..]);
    let types = format.prop_flat_map(|format| {
        let files = vec(file_type(format), 0..=2);
        (Just(format), files, vec(partition_type(), 1..=3))
    });
    let table = types.prop_flat_map(|(format, file_types, partition_types)| {
        // A few values of each partition column, so that partitions have several rows.
        let pools: Vec<_> = partition_types
            .iter()
            .map(|data_type| vec(value(data_type, text()), 1..5))
            .collect();
        let columns = file_types.iter();
        let files: Vec<_> = columns
            .map(|data_type| file_value(format, data_type))
            .collect();
        let picks = vec(any::<Index>(), partition_types.len());
        let rows = vec((files, picks), 0..16);
        let types = (Just(format), Just(file_types), Just(partition_types));
        (types, pools, rows.clone(), rows)
    });
    let modes = (any::<bool>(), any::<bool>(), options());
    // Some values are of the second statement alone, and some of the first.
    let halves = subsequence(vec![0, 1, 2, 3], 1..=4);
    (table, modes, halves).prop_map(|(table, (is_local, as_frame, options), halves)| {
        let ((format, file_types, partition_types), pools, appended, overwritten) = table;
        let with_values = |rows: Vec<(Row, Vec<Index>)>, few: bool| -> Vec<Row> {
            let row = |(files, picks): (Row, Vec<Index>)| -> Row {
                let picked = pools.iter().zip(picks).map(|(pool, pick)| match few {
                    true => pool[halves[pick.index(halves.len())] % pool.len()].clone(),
                    false => pick.get(pool).clone(),
                });
                files.into_iter().chain(picked).collect()
            };
            rows.into_iter().map(row).collect()
        };
        Case {
            is_local,
            format,
            options,
            appended: with_values(appended, false),
            overwritten: with_values(overwritten, true),
            file_types,
            partition_types,
            as_frame,
        }
    })
}

impl Case {
    fn schema(&self) -> SchemaRef {
        let id = Field::new("id", DataType::Int64, true);
        let files = self.file_types.iter().enumerate();
        let files = files.map(|(index, t)| Field::new(format!("f{index}"), t.clone(), true));
        let partitions = self.partition_types.iter().enumerate();
        let partitions =
            partitions.map(|(index, t)| Field::new(format!("p{index}"), t.clone(), true));
        let fields = std::iter::once(id).chain(files).chain(partitions);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// A session that knows the table `t`.
    async fn session(&self, lake: &Lake) -> Result<SessionContext> {
        let config = SessionConfig::new().with_target_partitions(2);
        let context = SessionContext::new_with_config(config).with_partitioned();
        lake.register(&context);
        let names = (0..self.partition_types.len()).map(|index| format!("p{index}"));
        let mut options: HashMap<_, _> = self.options.clone().into_iter().collect();
        options.insert("connector".to_owned(), "filesystem".to_owned());
        if self.format == "CSV" {
            options.insert("has_header".to_owned(), "true".to_owned());
        }
        let schema = Arc::new(DFSchema::try_from(self.schema())?);
        let create = CreateExternalTable::builder("t", lake.location("t/"), self.format, schema)
            .with_partition_cols(names.collect())
            .with_options(options)
            .build();
        let create = LogicalPlan::Ddl(DdlStatement::CreateExternalTable(Box::new(create)));
        context.execute_logical_plan(create).await?;
        Ok(context)
    }

    /// Rows whose ids begin with `first`.
    fn batch(&self, rows: &[Row], first: i64) -> Result<RecordBatch> {
        let schema = self.schema();
        let ids = (first..).take(rows.len()).map(ScalarValue::from);
        let mut columns = vec![array(ids.collect(), &DataType::Int64)?];
        for (index, field) in schema.fields().iter().skip(1).enumerate() {
            let values = rows.iter().map(|row| row[index].clone());
            columns.push(array(values.collect(), field.data_type())?);
        }
        Ok(RecordBatch::try_new(schema, columns)?)
    }

    async fn write(&self, lake: &Lake, batch: RecordBatch, overwrites: bool) -> Result<()> {
        let context = self.session(lake).await?;
        // In two batches, of which the rows of a partition may be in both.
        let middle = batch.num_rows() / 2;
        let batches = vec![
            batch.slice(0, middle),
            batch.slice(middle, batch.num_rows() - middle),
        ];
        let source = MemTable::try_new(batch.schema(), vec![batches])?;
        context.register_table("source", Arc::new(source))?;
        if self.as_frame {
            let operation = match overwrites {
                true => InsertOp::Overwrite,
                false => InsertOp::Append,
            };
            let options = DataFrameWriteOptions::new().with_insert_operation(operation);
            let frame = context.table("source").await?;
            frame.write_table("t", options).await?;
        } else {
            let verb = if overwrites { "OVERWRITE" } else { "INTO" };
            let insert = format!("INSERT {verb} t SELECT * FROM source");
            context.sql(&insert).await?.collect().await?;
        }
        Ok(())
    }

    async fn read(&self, lake: &Lake) -> Result<Vec<String>> {
        let context = self.session(lake).await?;
        let batches = context.sql("SELECT * FROM t").await?.collect().await?;
        let mut rows = vec![];
        for batch in &batches {
            let (found, declared) = (batch.schema(), self.schema());
            let types = |schema: &SchemaRef| -> Vec<DataType> {
                schema
                    .fields()
                    .iter()
                    .map(|f| f.data_type().clone())
                    .collect()
            };
            assert_eq!(types(&found), types(&declared));
            for row in 0..batch.num_rows() {
                rows.push(described(&row_of(batch, row)?));
            }
        }
        rows.sort();
        Ok(rows)
    }
}

fn array(
    values: Vec<ScalarValue>,
    data_type: &DataType,
) -> Result<datafusion::arrow::array::ArrayRef> {
    match values.is_empty() {
        true => Ok(datafusion::arrow::array::new_empty_array(data_type)),
        false => ScalarValue::iter_to_array(values),
    }
}

fn row_of(batch: &RecordBatch, row: usize) -> Result<Row> {
    let columns = batch.columns().iter();
    columns
        .map(|column| ScalarValue::try_from_array(column, row))
        .collect()
}

/// A row as a text in which no two values of a type are the same, -0.0 and 0.0 included.
fn described(row: &[ScalarValue]) -> String {
    format!("{row:?}")
}

async fn check(case: &Case) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let lake = match case.is_local {
        false => Lake::in_memory().unwrap(),
        true => Lake::local(directory.path()).unwrap(),
    };
    if case.is_local {
        std::fs::create_dir(directory.path().join("t")).unwrap();
    }
    let text = |error: datafusion::error::DataFusionError| error.strip_backtrace();
    let first_partition = 1 + case.file_types.len();
    let mut model: Vec<Row> = vec![];
    for (rows, first, overwrites) in [
        (&case.appended, 0, false),
        (&case.overwritten, 100, true),
        (&case.appended, 200, false),
    ] {
        let batch = case.batch(rows, first).map_err(text)?;
        let rows = (0..batch.num_rows()).map(|row| row_of(&batch, row).unwrap());
        let rows: Vec<Row> = rows.collect();
        if overwrites {
            let key = |row: &Row| described(&row[first_partition..]);
            let replaced: BTreeSet<_> = rows.iter().map(key).collect();
            model.retain(|row| !replaced.contains(&key(row)));
        }
        model.extend(rows);
        case.write(&lake, batch, overwrites).await.map_err(text)?;
        let found = case.read(&lake).await.map_err(text)?;
        let mut expected: Vec<_> = model.iter().map(|row| described(row)).collect();
        expected.sort();
        if found != expected {
            let missing: Vec<_> = expected.iter().filter(|row| !found.contains(row)).collect();
            let surplus: Vec<_> = found.iter().filter(|row| !expected.contains(row)).collect();
            return Err(format!(
                "of the rows with ids from {first}: {} instead of {} rows, missing {missing:#?}, surplus {surplus:#?}",
                found.len(),
                expected.len()
            ));
        }
    }
    Ok(())
}

#[test]
fn what_is_written_is_what_is_read() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = TestRunner::new(property_config(CASES)).run(&case(), |case| {
        runtime.block_on(check(&case)).map_err(TestCaseError::fail)
    });
    result.unwrap();
}

/// It would be read as NULL.
#[tokio::test]
async fn empty_text_of_every_type_is_refused() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    for data_type in [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary,
    ] {
        for as_frame in [false, true] {
            let case = Case {
                is_local: false,
                format: "CSV",
                options: BTreeMap::new(),
                file_types: vec![],
                partition_types: vec![data_type.clone()],
                appended: vec![],
                overwritten: vec![],
                as_frame,
            };
            let lake = Lake::in_memory().unwrap();
            let values =
                ["x", ""].map(|text| vec![ScalarValue::from(text).cast_to(&data_type).unwrap()]);
            let batch = case.batch(&values, 0).unwrap();
            for overwrites in [false, true] {
                let written = case.write(&lake, batch.clone(), overwrites).await;
                let error = written.unwrap_err().strip_backtrace();
                assert_mentions(&error, &["partition column 'p0'", "empty text"]);
            }
            let objects: Vec<_> = lake.store().list(None).try_collect().await.unwrap();
            // What tells readers to look for statements that replace files.
            let keys = objects.iter().map(|object| object.location.as_ref());
            let keys: Vec<&str> = keys
                .filter(|key| !key.ends_with("/0.overwritten"))
                .collect();
            assert!(keys.is_empty(), "{keys:?}");
        }
    }
}
