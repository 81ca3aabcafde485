//! The walk over the directories of a table, guided by a predicate.
//!
//! ```text
//!   root ──LIST──> year=2023 year=2024 year=2025     parse, ask the predicate with (year, ?, ?)
//!                              │
//!                            LIST──> month=06 month=07    ask with (year, month, ?)
//!                                        │
//!                                      LIST, flat    nothing below is restricted any more
//! ```
//!
//! A level is asked about as one batch. Directories that are dropped cost nothing more, so a walk
//! makes at most one request for the root and one for each directory that survives.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{filter_record_batch, take_arrays};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned_core::{
    HiveLayout, ListingContext, PartitionBatch, PartitionPredicate, PartitionSource, PartitionSpec,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::data_file::{directories_of_data_file, is_hidden, listing_error};
use crate::observed::Observed;

/// A flat listing is handed on after this many objects.
const OBJECTS_PER_BATCH: usize = 1024;

pub(crate) struct Walk {
    pub(crate) root: ListingTableUrl,
    pub(crate) spec: PartitionSpec,
    pub(crate) layout: HiveLayout,
    pub(crate) observed: Arc<Observed>,
    pub(crate) wanted: PartitionPredicate,
    pub(crate) context: ListingContext,
}

/// The directories of one level that may hold wanted partitions.
struct Level {
    /// A row with the values of the columns so far for each directory.
    values: RecordBatch,
    directories: Vec<Path>,
}

impl Walk {
    pub(crate) fn run(self) -> BoxStream<'static, Result<PartitionBatch>> {
        let concurrency = self.context.concurrency;
        let walk = Arc::new(self);
        stream::once(async move {
            let store = walk.context.runtime.object_store(&walk.root)?;
            let level = Arc::new(walk.descend(&store).await?);
            let directories = 0..level.directories.len();
            let batches = stream::iter(directories)
                .map(move |row| walk.list_below(&store, &level, row))
                .flatten_unordered(concurrency);
            Ok::<_, DataFusionError>(batches)
        })
        .try_flatten()
        .boxed()
    }

    /// Goes down level by level as long as the predicate restricts a deeper one.
    async fn descend(&self, store: &Arc<dyn ObjectStore>) -> Result<Level> {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let root = RecordBatch::try_new_with_options(self.spec.prefix(0), vec![], &options)?;
        let mut level = self.prune(Level {
            values: root,
            directories: vec![self.root.prefix().clone()],
        })?;
        for column in 0..self.spec.len() {
            if level.directories.is_empty() || !self.wanted.constrains_from(column) {
                break;
            }
            level = self.prune(self.list_level(store, &level, column).await?)?;
        }
        Ok(level)
    }

    /// Drops the directories that cannot hold a wanted partition.
    fn prune(&self, level: Level) -> Result<Level> {
        let pruned = self.wanted.evaluate(&level.values)?;
        let metrics = &self.context.metrics;
        metrics.record_pruned(&pruned);
        metrics
            .directories_pruned
            .add(pruned.by_static + pruned.by_dynamic);
        let directories = level
            .directories
            .into_iter()
            .zip(pruned.keep.values())
            .filter_map(|(directory, keep)| keep.then_some(directory))
            .collect();
        Ok(Level {
            values: filter_record_batch(&level.values, &pruned.keep)?,
            directories,
        })
    }

    /// Lists all directories of `level`; their own directories hold the values of `column`.
    async fn list_level(
        &self,
        store: &Arc<dyn ObjectStore>,
        level: &Level,
        column: usize,
    ) -> Result<Level> {
        let listings: Vec<Vec<Path>> = stream::iter(level.directories.iter().cloned())
            .map(|directory| self.list_directories(Arc::clone(store), directory))
            .buffered(self.context.concurrency)
            .try_collect()
            .await?;
        let _timer = self.context.metrics.listing_time.timer();
        let parents: UInt32Array = listings
            .iter()
            .enumerate()
            .flat_map(|(parent, found)| std::iter::repeat_n(parent as u32, found.len()))
            .collect();
        let directories: Vec<Path> = listings.into_iter().flatten().collect();
        self.observed
            .record_directories(column, directories.len(), level.directories.len());

        let names: Vec<&str> = directories
            .iter()
            .map(|d| d.filename().unwrap_or(""))
            .collect();
        let parsed = self.layout.parse_level(&self.spec, column, &names, |row| {
            directories[row].to_string()
        })?;
        let mut columns = take_arrays(level.values.columns(), &parents, None)?;
        columns.push(parsed);
        Ok(Level {
            values: self.batch(columns, directories.len())?,
            directories,
        })
    }

    /// The directories in `directory` that are not hidden.
    async fn list_directories(
        &self,
        store: Arc<dyn ObjectStore>,
        directory: Path,
    ) -> Result<Vec<Path>> {
        self.context.metrics.list_requests.add(1);
        let listing = store
            .list_with_delimiter(Some(&directory))
            .await
            .map_err(|error| listing_error(&directory, error))?;
        let directories = listing.common_prefixes.into_iter();
        Ok(directories
            .filter(|d| d.filename().is_some_and(|name| !is_hidden(name)))
            .collect())
    }

    /// All partitions below directory `row` of `level`, from one flat listing.
    fn list_below(
        self: &Arc<Self>,
        store: &Arc<dyn ObjectStore>,
        level: &Arc<Level>,
        row: usize,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let directory = level.directories[row].clone();
        let (store, level, walk) = (Arc::clone(store), Arc::clone(level), Arc::clone(self));
        // The listing starts when this is first polled.
        stream::once(async move {
            walk.context.metrics.list_requests.add(1);
            let objects = store.list(Some(&directory));
            let chunks = objects
                .map_err(move |error| listing_error(&directory, error))
                .try_chunks(OBJECTS_PER_BATCH)
                .map_err(|error| error.1);
            chunks.try_filter_map(move |objects| {
                let batch = walk.partitions(&level, row, objects);
                std::future::ready(batch.map(|batch| (!batch.is_empty()).then_some(batch)))
            })
        })
        .flatten()
        .boxed()
    }

    /// Groups the data files among `objects` into partitions below directory `row` of `level`.
    fn partitions(
        &self,
        level: &Level,
        row: usize,
        objects: Vec<ObjectMeta>,
    ) -> Result<PartitionBatch> {
        let _timer = self.context.metrics.listing_time.timer();
        let directory = &level.directories[row];
        let known = level.values.num_columns();
        let missing = self.spec.len() - known;

        // The names of the missing levels, one after the other, for each partition.
        let mut names: Vec<Vec<String>> = vec![vec![]; missing];
        let mut sources: Vec<PartitionSource> = vec![];
        let mut bytes = 0;
        for object in objects {
            let Some(segments) = directories_of_data_file(directory, missing, &object) else {
                continue;
            };
            bytes += object.size as usize;
            let location = segments.iter().fold(directory.clone(), |path, name| {
                Path::from_iter(path.parts().chain(std::iter::once(name.as_str().into())))
            });
            match sources.last_mut() {
                Some(last) if last.location == location => {
                    last.objects.get_or_insert_default().push(object);
                }
                _ => {
                    for (names, segment) in names.iter_mut().zip(segments) {
                        names.push(segment);
                    }
                    sources.push(PartitionSource::new(location).with_objects(vec![object]));
                }
            }
        }
        if !sources.is_empty() {
            self.observed.record_bytes(bytes, sources.len());
        }

        let rows = UInt32Array::from_value(row as u32, sources.len());
        let mut columns = take_arrays(level.values.columns(), &rows, None)?;
        for (offset, names) in names.iter().enumerate() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let path_of = |row: usize| sources[row].location.to_string();
            columns.push(
                self.layout
                    .parse_level(&self.spec, known + offset, &names, path_of)?,
            );
        }
        PartitionBatch::try_new(self.batch(columns, sources.len())?, sources)
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = self.spec.prefix(columns.len());
        debug_assert!(columns.iter().all(|column| column.len() == rows));
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}
