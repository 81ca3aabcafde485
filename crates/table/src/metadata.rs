//! Columns that describe the file a row comes from.

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_partitioned_catalog::url_of;
use datafusion_partitioned_connector::{OptionValue, parse_choice};
use object_store::ObjectMeta;

/// The time zone of modification times.
const UTC: &str = "UTC";

/// A column that describes the file a row comes from. The names are Flink's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataColumn {
    /// `file.path`: the URL of the file, unescaped and without credentials.
    Path,
    /// `file.name`: the last part of the path.
    Name,
    /// `file.size`: the bytes of the file, compressed if it is.
    Size,
    /// `file.modification-time`: when the store says that the file was last written.
    ModificationTime,
}

impl MetadataColumn {
    const ALL: [Self; 4] = [Self::Path, Self::Name, Self::Size, Self::ModificationTime];

    /// The name of the column, to be quoted in SQL: `"file.path"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "file.path",
            Self::Name => "file.name",
            Self::Size => "file.size",
            Self::ModificationTime => "file.modification-time",
        }
    }

    /// The column in the table's schema.
    pub(crate) fn field(self) -> Field {
        let data_type = match self {
            Self::Path | Self::Name => DataType::Utf8,
            Self::Size => DataType::Int64,
            Self::ModificationTime => DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
        };
        Field::new(self.name(), data_type, true)
    }

    /// The value for all rows of a file.
    pub(crate) fn value(self, store_url: &ObjectStoreUrl, file: &ObjectMeta) -> ScalarValue {
        match self {
            Self::Path => ScalarValue::from(url_of(store_url, &file.location)),
            Self::Name => ScalarValue::from(file.location.filename().unwrap_or_default()),
            Self::Size => ScalarValue::Int64(i64::try_from(file.size).ok()),
            Self::ModificationTime => ScalarValue::TimestampMillisecond(
                Some(file.last_modified.timestamp_millis()),
                Some(UTC.into()),
            ),
        }
    }
}

impl OptionValue for MetadataColumn {
    const TYPE_NAME: &'static str = "metadata column";

    fn parse(text: &str) -> Result<Self, String> {
        parse_choice(text, &Self::ALL.map(|column| (column.name(), column)))
    }
}
