//! Random star schemas: two partitioned tables and two dimensions with the same columns.
//!
//! | table | columns | under test | reference |
//! |---|---|---|---|
//! | `f` | `f_id, f_x, f_s, f_p0, ..` | hive directories of Parquet or CSV files | in memory |
//! | `g` | `g_id, g_x, g_s, g_p0, ..` | the same | in memory |
//! | `d`, `e` | likewise | in memory | in memory |
//!
//! All key columns take their values from a handful of texts for each type, NULL included, so that
//! joins find matches, duplicates and misses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray, UInt32Array,
};
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::{DEFAULT_PARTITION_NAME, escape_path_name};
use datafusion_partitioned_test_utils::{FileKind, Lake, sorted_rows};
use object_store::path::PathPart;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// The most partition columns that a table has.
pub(super) const MAX_KEYS: usize = 3;

/// The tables of a schema, by the order of [`Dataset::tables`].
pub(super) const TABLES: [&str; 4] = ["f", "g", "d", "e"];

/// The columns that are not keys, without the name of their table in front.
pub(super) const COLUMNS: [&str; 3] = ["id", "x", "s"];

/// The type of a partition column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyType {
    Int,
    BigInt,
    Text,
    Date,
    Timestamp,
    Boolean,
    Decimal,
    Double,
}

impl KeyType {
    const ALL: [Self; 8] = [
        Self::Int,
        Self::BigInt,
        Self::Text,
        Self::Date,
        Self::Timestamp,
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
            Self::Timestamp => &[
                ("2024-02-29 00:00:00", "2024-02-29"),
                ("2024-02-29 12:30:00.5", "2024-02-29T12:30:00.500"),
                ("1969-12-31 23:59:59", "1969-12-31T23:59:59Z"),
                ("1970-01-01 00:00:00", "1970-01-01 00:00:00"),
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

    /// As `CREATE EXTERNAL TABLE` spells it.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Int => "INT",
            Self::BigInt => "BIGINT",
            Self::Text => "TEXT",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
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
            Self::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
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
            Self::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, None),
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
}

/// A row of any of the tables.
#[derive(Debug, Clone)]
struct Row {
    x: Option<i32>,
    s: Option<&'static str>,
    /// Numbers of values, counted from the first one that the dataset uses. `None` is NULL.
    keys: [Option<u8>; MAX_KEYS],
    /// Which of several files of its partition holds the row, and how the directory is spelled.
    file: u8,
}

/// The tables of one test case.
#[derive(Debug, Clone)]
pub(super) struct Dataset {
    pub(super) types: Vec<KeyType>,
    /// The number of the first value of each key column.
    first_values: [u8; MAX_KEYS],
    kinds: [FileKind; 2],
    /// Whether the dimensions have keys of other types, so that joins cast one side.
    related_types: bool,
    rows: [Vec<Row>; 4],
}

/// Any dataset.
pub(super) fn dataset() -> impl Strategy<Value = Dataset> {
    let kind = select(&[FileKind::Parquet, FileKind::Csv][..]);
    (
        vec(select(&KeyType::ALL[..]), 1..=MAX_KEYS),
        any::<[u8; MAX_KEYS]>(),
        [kind.clone(), kind],
        any::<bool>(),
        [rows(60), rows(20), rows(20), rows(8)],
    )
        .prop_map(
            |(types, first_values, kinds, related_types, rows)| Dataset {
                types,
                first_values,
                kinds,
                related_types,
                rows,
            },
        )
}

fn rows(max: usize) -> impl Strategy<Value = Vec<Row>> {
    let key = || option::weighted(0.85, 0..4_u8);
    let row = (
        option::weighted(0.85, 0..4_i32),
        select(&[Some("k"), Some("l"), Some("a"), Some("1,\"2"), None][..]),
        [key(), key(), key()],
        0..4_u8,
    );
    vec(
        row.prop_map(|(x, s, keys, file)| Row { x, s, keys, file }),
        0..=max,
    )
}

impl Dataset {
    /// Registers all tables in memory.
    pub(super) fn register_reference(&self, ctx: &SessionContext) -> Result<()> {
        (0..TABLES.len()).try_for_each(|table| register(ctx, TABLES[table], &self.batch(table)?))
    }

    /// Registers `f` and `g` as partitioned tables in `lake`, the others in memory.
    pub(super) async fn register_partitioned(
        &self,
        ctx: &SessionContext,
        lake: &Lake,
    ) -> Result<()> {
        lake.register(ctx);
        for (table, name) in TABLES.iter().enumerate() {
            let batch = self.batch(table)?;
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
                .map(|(i, key_type)| format!(", {name}_p{i} {}", key_type.sql()))
                .collect();
            let names: Vec<_> = types.map(|(i, _)| format!("{name}_p{i}")).collect();
            let sql = format!(
                "CREATE EXTERNAL TABLE {name} ({name}_id BIGINT, {name}_x INT, {name}_s TEXT{columns}) \
                 STORED AS {kind} PARTITIONED BY ({}) \
                 LOCATION '{}' OPTIONS ('connector' 'filesystem')",
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
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(ids.collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.x).collect::<Int32Array>()),
            Arc::new(rows.iter().map(|row| row.s).collect::<StringViewArray>()),
        ];
        for (i, key_type) in self.types.iter().enumerate() {
            let keys = rows
                .iter()
                .map(|row| row.keys[i].map(|key| self.value(i, key).0));
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
            columns.push(keys);
        }
        let keys = (0..self.types.len()).map(|i| format!("p{i}"));
        let names = COLUMNS.map(str::to_owned).into_iter().chain(keys);
        let fields: Vec<_> = names
            .zip(&columns)
            .map(|(name, array)| {
                let name = format!("{}_{name}", TABLES[table]);
                Field::new(name, array.data_type().clone(), true)
            })
            .collect();
        Ok(RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            columns,
        )?)
    }

    /// The rows of each file of a partitioned table, by its key without the extension.
    pub(super) fn files(&self, table: usize) -> BTreeMap<String, Vec<u32>> {
        let mut files = BTreeMap::<String, Vec<u32>>::new();
        for (row, index) in self.rows[table].iter().zip(0..) {
            let mut key = String::new();
            for i in 0..self.types.len() {
                key.push_str(&self.segment(TABLES[table], i, row));
                key.push('/');
            }
            key.push_str(&format!("part-{}", row.file % 2));
            files.entry(key).or_default().push(index);
        }
        files
    }

    /// The name of a directory. Half of the files lie in directories with other spellings and
    /// escapes.
    fn segment(&self, table: &str, column: usize, row: &Row) -> String {
        let Some(key) = row.keys[column] else {
            return format!("{table}_p{column}={DEFAULT_PARTITION_NAME}");
        };
        let (text, other) = self.value(column, key);
        if row.file < 2 {
            format!("{table}_p{column}={}", escape_path_name(text))
        } else {
            PathPart::from(format!("{table}_p{column}={other}"))
                .as_ref()
                .to_owned()
        }
    }

    /// Whether there may be a -0.0 or a NaN.
    pub(super) fn has_special_numbers(&self) -> bool {
        self.types.contains(&KeyType::Double)
    }

    /// A value and its other spelling.
    fn value(&self, column: usize, key: u8) -> (&'static str, &'static str) {
        let values = self.types[column].values();
        values[(usize::from(self.first_values[column]) + usize::from(key)) % values.len()]
    }

    /// The same value as an SQL literal.
    pub(super) fn literal(&self, column: usize, key: u8) -> String {
        let key_type = self.types[column];
        let (text, other) = self.value(column, key);
        match key_type {
            // A number that is coerced to the column's type, one way or the other.
            KeyType::Int | KeyType::BigInt => text.to_owned(),
            KeyType::Decimal if key.is_multiple_of(2) => text.to_owned(),
            KeyType::Text => format!("'{}'", text.replace('\'', "''")),
            KeyType::Date | KeyType::Timestamp => format!("{} '{text}'", key_type.sql()),
            KeyType::Boolean => text.to_owned(),
            KeyType::Decimal | KeyType::Double => format!("CAST('{other}' AS {})", key_type.sql()),
        }
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
