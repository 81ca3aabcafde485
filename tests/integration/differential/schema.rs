//! Random star schemas: two partitioned tables and two dimensions with the same columns.
//!
//! | table | columns | as partitioned table | as reference |
//! |---|---|---|---|
//! | `f`, `g` | `id, x, s, p0..` | hive directories of Parquet or CSV files | in memory |
//! | `d`, `e` | `id, x, s, p0..` | in memory | in memory |
//!
//! All key columns take their values from a handful of texts for each type, NULL included, so that
//! joins find matches, duplicates and misses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::{DEFAULT_PARTITION_NAME, escape_path_name};
use datafusion_partitioned_test_utils::{FileKind, Lake, sorted_rows};
use object_store::path::PathPart;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// The most partition columns that a table has.
pub(super) const MAX_KEYS: usize = 3;

/// The tables of a schema, by the order of [`Dataset::tables`].
pub(super) const TABLES: [&str; 4] = ["f", "g", "d", "e"];

/// The type of a partition column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyType {
    Int,
    BigInt,
    Text,
    Date,
    Boolean,
    Decimal,
    Double,
}

impl KeyType {
    const ALL: [Self; 7] = [
        Self::Int,
        Self::BigInt,
        Self::Text,
        Self::Date,
        Self::Boolean,
        Self::Decimal,
        Self::Double,
    ];

    /// Texts of the values, each with another spelling of the same value for a directory name.
    fn values(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Int => &[
                ("1", "01"),
                ("2", "2"),
                ("0", "00"),
                ("-1", "-01"),
                ("10", "0010"),
            ],
            Self::BigInt => &[
                ("7", "07"),
                ("1", "1"),
                ("9000000000", "09000000000"),
                ("-7", "-7"),
            ],
            Self::Text => &[
                ("a", "a"),
                ("a/b", "a/b"),
                ("x=y", "x=y"),
                ("50%", "50%"),
                ("A", "A"),
                ("%41", "%41"),
                ("_h", "_h"),
                ("it's", "it's"),
                ("1", "1"),
                ("01", "01"),
                ("ü b", "ü b"),
                ("NULL", "NULL"),
            ],
            Self::Date => &[
                ("2024-02-29", "20240229"),
                ("1970-01-01", "1970-01-01"),
                ("1969-12-31", "19691231"),
                ("2024-03-01", "2024-03-01"),
            ],
            Self::Boolean => &[("true", "TRUE"), ("false", "f")],
            Self::Decimal => &[
                ("1.10", "1.1"),
                ("-0.50", "-.5"),
                ("2.00", "2"),
                ("12345678.90", "12345678.9"),
            ],
            Self::Double => &[
                ("0.0", "0"),
                ("-0.0", "-0"),
                ("1.5", "15e-1"),
                ("NaN", "nan"),
                ("1", "1.0"),
                ("-inf", "-Infinity"),
            ],
        }
    }

    fn value(self, index: u8) -> (&'static str, &'static str) {
        let values = self.values();
        values[usize::from(index) % values.len()]
    }

    /// As `CREATE EXTERNAL TABLE` spells it.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Int => "INT",
            Self::BigInt => "BIGINT",
            Self::Text => "TEXT",
            Self::Date => "DATE",
            Self::Boolean => "BOOLEAN",
            Self::Decimal => "DECIMAL(10, 2)",
            Self::Double => "DOUBLE",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Text => DataType::Utf8View,
            Self::Date => DataType::Date32,
            Self::Boolean => DataType::Boolean,
            Self::Decimal => DataType::Decimal128(10, 2),
            Self::Double => DataType::Float64,
        }
    }

    /// A type that a dimension can have instead, so that joins cast one side.
    fn related_data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::BigInt => DataType::Decimal128(20, 1),
            Self::Text => DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            Self::Date => DataType::Date64,
            Self::Boolean => DataType::Boolean,
            Self::Decimal => DataType::Decimal128(14, 3),
            Self::Double => DataType::Float32,
        }
    }

    /// Whether values of the two types can be compared without a cast in the query.
    pub(super) fn compares_with(self, other: Self) -> bool {
        let is_number = |t| matches!(t, Self::Int | Self::BigInt | Self::Decimal | Self::Double);
        self == other || (is_number(self) && is_number(other))
    }

    /// An SQL literal of this type.
    pub(super) fn literal(self, index: u8) -> String {
        let (text, other) = self.value(index);
        match self {
            // A number that is coerced to the column's type, one way or the other.
            Self::Int | Self::BigInt => text.to_owned(),
            Self::Decimal if index % 2 == 0 => text.to_owned(),
            Self::Text => format!("'{}'", text.replace('\'', "''")),
            Self::Date => format!("DATE '{text}'"),
            Self::Boolean => text.to_owned(),
            Self::Decimal | Self::Double => format!("CAST('{other}' AS {})", self.sql()),
        }
    }
}

/// A row of any of the tables. Keys are indexes of values, `None` is NULL.
#[derive(Debug, Clone)]
pub(super) struct Row {
    x: Option<i32>,
    s: Option<&'static str>,
    keys: [Option<u8>; MAX_KEYS],
    /// Which of several files of its partition holds the row, and how the directory is spelled.
    file: u8,
}

/// The tables of one test case.
#[derive(Debug, Clone)]
pub(super) struct Dataset {
    pub(super) types: Vec<KeyType>,
    kinds: [FileKind; 2],
    related_types: bool,
    rows: [Vec<Row>; 4],
}

/// Any dataset.
pub(super) fn dataset() -> impl Strategy<Value = Dataset> {
    let kind = select(&[FileKind::Parquet, FileKind::Csv][..]);
    (
        vec(select(&KeyType::ALL[..]), 1..=MAX_KEYS),
        [kind.clone(), kind],
        any::<bool>(),
        (0..=60_usize, any::<[u8; MAX_KEYS]>()),
    )
        .prop_flat_map(|(types, kinds, related_types, (facts, bases))| {
            let rows = |max| vec(row(bases), 0..=max);
            (
                Just(types),
                Just(kinds),
                Just(related_types),
                (rows(facts), rows(20), rows(20), rows(8)),
            )
        })
        .prop_map(|(types, kinds, related_types, (f, g, d, e))| Dataset {
            types,
            kinds,
            related_types,
            rows: [f, g, d, e],
        })
}

/// Keys of four neighbouring values from `bases` on.
fn row(bases: [u8; MAX_KEYS]) -> impl Strategy<Value = Row> {
    let key = |base: u8| prop_oneof![1 => Just(None), 6 => (0..4_u8).prop_map(move |n| Some(base.wrapping_add(n)))];
    (
        prop_oneof![1 => Just(None), 5 => (0..4_i32).prop_map(Some)],
        select(&[Some("k"), Some("l"), Some("a"), Some("1,\"2"), None][..]),
        bases.map(key),
        0..4_u8,
    )
        .prop_map(|(x, s, keys, file)| Row { x, s, keys, file })
}

impl Dataset {
    /// The tables with their rows in memory.
    pub(super) fn tables(&self) -> Result<[RecordBatch; 4]> {
        Ok([
            self.batch(0)?,
            self.batch(1)?,
            self.batch(2)?,
            self.batch(3)?,
        ])
    }

    /// Registers all tables in memory.
    pub(super) fn register_reference(&self, ctx: &SessionContext) -> Result<()> {
        for (name, batch) in TABLES.iter().zip(self.tables()?) {
            register(ctx, name, &batch)?;
        }
        Ok(())
    }

    /// Registers `f` and `g` as partitioned tables in `lake`, the others in memory.
    pub(super) async fn register_partitioned(
        &self,
        ctx: &SessionContext,
        lake: &Lake,
    ) -> Result<()> {
        lake.register(ctx);
        for (table, (name, batch)) in TABLES.iter().zip(self.tables()?).enumerate() {
            let Some(kind) = self.kinds.get(table) else {
                register(ctx, name, &batch)?;
                continue;
            };
            for (key, rows) in self.files(table) {
                let rows =
                    take_record_batch(&batch.project(&[0, 1, 2])?, &UInt32Array::from(rows))?;
                let extension = kind.extension();
                lake.put(&format!("{name}/{key}.{extension}"), *kind, &rows)
                    .await?;
            }
            let types = self.types.iter().enumerate();
            let columns: String = types
                .clone()
                .map(|(i, key_type)| format!(", p{i} {}", key_type.sql()))
                .collect();
            let names: Vec<_> = types.map(|(i, _)| format!("p{i}")).collect();
            let sql = format!(
                "CREATE EXTERNAL TABLE {name} (id BIGINT, x INT, s TEXT{columns}) \
                 STORED AS {kind} PARTITIONED BY ({}) LOCATION '{}' \
                 OPTIONS ('connector' 'filesystem')",
                names.join(", "),
                lake.location(&format!("{name}/"))
            );
            ctx.sql(&sql).await?;
        }
        Ok(())
    }

    fn batch(&self, table: usize) -> Result<RecordBatch> {
        let rows = &self.rows[table];
        let ids = (0..rows.len()).map(|row| (1000 * table + row) as i64);
        let mut columns: Vec<(String, ArrayRef)> = vec![
            ("id".to_owned(), Arc::new(ids.collect::<Int64Array>())),
            (
                "x".to_owned(),
                Arc::new(rows.iter().map(|row| row.x).collect::<Int32Array>()),
            ),
            (
                "s".to_owned(),
                cast(
                    &rows.iter().map(|row| row.s).collect::<StringArray>(),
                    &DataType::Utf8View,
                )?,
            ),
        ];
        for (i, key_type) in self.types.iter().enumerate() {
            let keys = rows
                .iter()
                .map(|row| row.keys[i].map(|key| key_type.value(key).0));
            let keys = keys.collect::<StringArray>();
            let is_dimension = table >= self.kinds.len();
            let keys = if is_dimension && self.related_types {
                // By way of the column's type, since not every type can be parsed.
                cast(
                    &cast(&keys, &key_type.data_type())?,
                    &key_type.related_data_type(),
                )?
            } else {
                cast(&keys, &key_type.data_type())?
            };
            columns.push((format!("p{i}"), keys));
        }
        let fields: Vec<_> = columns
            .iter()
            .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
            .collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }

    /// The rows of each file of a partitioned table, by its key without the extension.
    fn files(&self, table: usize) -> BTreeMap<String, Vec<u32>> {
        let mut files = BTreeMap::<String, Vec<u32>>::new();
        for (row, index) in self.rows[table].iter().zip(0..) {
            let mut key = String::new();
            for (i, key_type) in self.types.iter().enumerate() {
                key.push_str(&segment(&format!("p{i}"), *key_type, row.keys[i], row.file));
                key.push('/');
            }
            key.push_str(&format!("part-{}", row.file % 2));
            files.entry(key).or_default().push(index);
        }
        files
    }
}

/// The name of a directory. Half of the files lie in directories with other spellings and escapes.
fn segment(name: &str, key_type: KeyType, key: Option<u8>, file: u8) -> String {
    let Some(key) = key else {
        return format!("{name}={DEFAULT_PARTITION_NAME}");
    };
    let (text, other) = key_type.value(key);
    if file < 2 {
        format!("{name}={}", escape_path_name(text))
    } else {
        PathPart::from(format!("{name}={other}"))
            .as_ref()
            .to_owned()
    }
}

/// Registers rows in memory, in two partitions of two batches each.
fn register(ctx: &SessionContext, name: &str, rows: &RecordBatch) -> Result<()> {
    let quarter = rows.num_rows().div_ceil(4);
    let slice = |n: usize| {
        let start = (n * quarter).min(rows.num_rows());
        rows.slice(start, quarter.min(rows.num_rows() - start))
    };
    let partitions = vec![vec![slice(0), slice(1)], vec![slice(2), slice(3)]];
    let table = MemTable::try_new(rows.schema(), partitions)?;
    ctx.register_table(name, Arc::new(table)).map(drop)
}

/// The rows of all tables, to reproduce a failure.
impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<_> = self.types.iter().map(|key_type| key_type.sql()).collect();
        writeln!(
            f,
            "keys: {types:?}, f, g: {:?}, related: {}",
            self.kinds, self.related_types
        )?;
        for (table, (name, rows)) in TABLES.iter().zip(&self.rows).enumerate() {
            writeln!(
                f,
                "{name}: {:#?}",
                sorted_rows(&[self.batch(table).map_err(|_| fmt::Error)?])
            )?;
            if table < self.kinds.len() && !rows.is_empty() {
                writeln!(f, "{:#?}", self.files(table))?;
            }
        }
        Ok(())
    }
}
