//! What can be wrong with a partition: the errors that this project adds to DataFusion's own.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;

/// A partition, its name or its declaration that does not hold.
///
/// Converts into [`DataFusionError::External`], from where it can be downcast again.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum PartitionError {
    /// The text of a path segment is not a value of the declared type.
    #[error(
        "partition column '{column}': '{text}' is not a value of type {data_type} (in '{path}'); {advice}"
    )]
    Value {
        /// The partition column.
        column: String,
        /// The text after decoding.
        text: String,
        /// The declared type.
        data_type: DataType,
        /// Where the text was found.
        path: String,
        /// What to change.
        advice: &'static str,
    },
    /// A directory name that does not fit the layout at its level.
    #[error("expected a directory '{expected}' but found '{segment}' (in '{path}'); {advice}")]
    Segment {
        /// What a name of this level looks like: `year=<value>`.
        expected: String,
        /// The directory name as found.
        segment: String,
        /// The whole path.
        path: String,
        /// What to change.
        advice: &'static str,
    },
    /// A partition column that the table does not have, or has twice.
    #[error("{message}; the partition columns are: {known}")]
    Column {
        /// What is wrong.
        message: String,
        /// The declared partition columns.
        known: String,
    },
    /// The number of values is not the number of partition columns.
    #[error("expected {expected} partition values, one for each of ({columns}), but got {actual}")]
    Arity {
        /// The number of partition columns.
        expected: usize,
        /// The number of values given.
        actual: usize,
        /// The names of the partition columns.
        columns: String,
    },
}

impl From<PartitionError> for DataFusionError {
    fn from(error: PartitionError) -> Self {
        Self::External(Box::new(error))
    }
}
