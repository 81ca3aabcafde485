//! [`MemoryPartitionStore`]: registered partitions that last as long as their table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion_partitioned_core::{
    Partition, PartitionBatch, PartitionSource, PartitionSpec, PartitionValues,
};

use super::locations::Locations;
use super::store::{PartitionStore, StoredPartitions, already_registered};

/// A [`PartitionStore`] in memory.
pub struct MemoryPartitionStore {
    spec: PartitionSpec,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By their values as bytes, which take a third of the memory of the values.
    partitions: BTreeMap<Box<[u8]>, PartitionSource>,
    locations: Locations,
}

impl MemoryPartitionStore {
    /// A store of no partitions, of a table with the columns of `spec`.
    pub fn new(spec: PartitionSpec) -> Self {
        Self {
            spec,
            state: Mutex::default(),
        }
    }

    /// Whether no partition is registered.
    pub fn is_empty(&self) -> bool {
        self.state().partitions.is_empty()
    }

    /// A change that fails is undone before the lock is given back.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn converter(&self) -> Result<RowConverter> {
        let fields = self.spec.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        Ok(RowConverter::new(fields.collect())?)
    }

    /// The values of each partition as bytes.
    fn keys(&self, partitions: &[Partition]) -> Result<Vec<Box<[u8]>>> {
        let batch = PartitionBatch::from_partitions(&self.spec, partitions)?;
        let rows = self
            .converter()?
            .convert_columns(batch.values().columns())?;
        Ok(rows.iter().map(|row| row.as_ref().into()).collect())
    }

    /// The values that these bytes are, in the columns of the spec.
    fn values<'a>(&self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<RecordBatch> {
        let converter = self.converter()?;
        let parser = converter.parser();
        let options = RecordBatchOptions::new().with_row_count(Some(keys.len()));
        let columns = converter.convert_rows(keys.map(|key| parser.parse(key)))?;
        // Rows forget dictionaries.
        let columns = columns.iter().zip(self.spec.fields());
        let columns = columns.map(|(values, field)| cast(values, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::clone(self.spec.schema());
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

impl State {
    fn add(&mut self, key: &[u8], source: &PartitionSource) -> Result<()> {
        let location = source.location.as_ref();
        self.locations.check(location)?;
        self.partitions.insert(key.into(), source.clone());
        self.locations.insert(location);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Option<PartitionSource> {
        let source = self.partitions.remove(key)?;
        self.locations.remove(source.location.as_ref());
        Some(source)
    }
}

#[async_trait]
impl PartitionStore for MemoryPartitionStore {
    async fn load(&self) -> Result<StoredPartitions> {
        let state = self.state();
        let values = self.values(state.partitions.keys().map(Box::as_ref))?;
        let sources = state.partitions.values().cloned().collect();
        Ok(StoredPartitions {
            version: state.version,
            partitions: PartitionBatch::try_new(values, sources)?,
        })
    }

    async fn version(&self) -> Result<u64> {
        Ok(self.state().version)
    }

    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>> {
        let keys = self.keys(&partitions)?;
        let mut state = self.state();
        let mut added = vec![];
        for (key, partition) in keys.into_iter().zip(partitions) {
            let failure = match state.partitions.contains_key(&key) {
                true if if_not_exists => continue,
                true => already_registered(&self.spec, &partition.values),
                false => match state.add(&key, &partition.source) {
                    Ok(()) => {
                        added.push((key, partition));
                        continue;
                    }
                    Err(error) => error,
                },
            };
            for (key, _) in added {
                state.remove(&key);
            }
            return Err(failure);
        }
        state.version += u64::from(!added.is_empty());
        Ok(added.into_iter().map(|(_, partition)| partition).collect())
    }

    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>> {
        let unplaced = |values| Partition::new(values, Default::default());
        let partitions: Vec<_> = partitions.into_iter().map(unplaced).collect();
        let keys = self.keys(&partitions)?;
        let mut state = self.state();
        let mut removed = vec![];
        for (key, partition) in keys.iter().zip(partitions) {
            if let Some(source) = state.remove(key) {
                removed.push(Partition {
                    source,
                    ..partition
                });
            }
        }
        state.version += u64::from(!removed.is_empty());
        Ok(removed)
    }
}

impl fmt::Debug for MemoryPartitionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPartitionStore")
            .field("partitions", &self.state().partitions.len())
            .finish_non_exhaustive()
    }
}
