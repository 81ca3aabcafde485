//! What a statement has written, for each partition.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_partitioned_catalog::location_of;
use datafusion_partitioned_core::{PartitionLayout, PartitionSpec, WrittenPartition};

use super::transaction::WrittenFile;

/// The columns of the result: a row for each partition, in the order of their locations.
pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("partition", DataType::Utf8, false),
        Field::new("location", DataType::Utf8, false),
        Field::new("rows", DataType::UInt64, false),
        Field::new("files", DataType::UInt64, false),
        Field::new("bytes", DataType::UInt64, false),
    ]))
});

/// The position of the column `rows`.
pub(super) const ROWS: usize = 2;

/// The files by partition.
pub(super) fn by_partition(files: &[WrittenFile]) -> Vec<WrittenPartition> {
    let mut partitions: BTreeMap<_, WrittenPartition> = BTreeMap::new();
    for file in files {
        let location = &file.partition.source.location;
        let partition = partitions
            .entry(location.clone())
            .or_insert_with(|| WrittenPartition::new(file.partition.clone()));
        partition.rows += file.rows;
        partition.bytes += file.bytes;
        partition.files += 1;
    }
    partitions.into_values().collect()
}

/// The partitions as rows.
pub(super) fn rows(
    spec: &PartitionSpec,
    store: &ObjectStoreUrl,
    written: &[WrittenPartition],
) -> Result<RecordBatch> {
    let hive = PartitionLayout::hive(spec);
    let names = written.iter().map(|w| hive.path(&w.partition.values));
    let names = names.collect::<Result<Vec<_>>>()?;
    let locations = written
        .iter()
        .map(|w| location_of(store, &w.partition.source.location));
    let counts = |count: fn(&WrittenPartition) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(written.iter().map(count)))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(names)),
        Arc::new(StringArray::from_iter_values(locations)),
        counts(|w| w.rows),
        counts(|w| w.files),
        counts(|w| w.bytes),
    ];
    Ok(RecordBatch::try_new(Arc::clone(&SCHEMA), columns)?)
}
