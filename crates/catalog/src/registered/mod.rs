//! [`RegisteredCatalog`]: partitions that statements add and remove, as in a metastore.
//!
//! ```text
//!   ALTER TABLE .. ADD PARTITION --add--> RegisteredCatalog --add-------------> PartitionStore
//!   SELECT ..                    --list-> RegisteredCatalog --version, load---> (memory, a file ..)
//! ```

mod locations;
mod memory_store;
mod store;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion_partitioned_core::{
    Committer, ListingContext, MemoryCatalog, Partition, PartitionBatch, PartitionCatalog,
    PartitionEstimate, PartitionPredicate, PartitionRegistry, PartitionSpec, PartitionValues,
    WrittenPartition,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use self::locations::Locations;
use crate::directory::{DirectoryCatalog, refuse_empty_text};

pub use memory_store::MemoryPartitionStore;
pub use store::{PartitionStore, StoredPartitions, already_registered};

/// Partitions that are registered one by one, wherever their files are.
///
/// What a directory is called says nothing here: values and locations are those that were registered, and what was
/// not is no part of the table. The partitions are kept in a [`PartitionStore`] and remembered in columns; a query asks
/// the store for its version, and loads them again when another process has changed them.
///
/// - Filters are never given to the store: they are evaluated here, over all values.
/// - Numbers of rows are hints for the join order. Queries are not answered from them.
/// - `-0.0` is registered as `0.0`, and there is one NaN.
///
/// ```
/// # use datafusion::arrow::datatypes::{DataType, Field};
/// # use datafusion::common::ScalarValue;
/// # use datafusion_partitioned_catalog::RegisteredCatalog;
/// # use datafusion_partitioned_core::{Partition, PartitionRegistry, PartitionSpec, PartitionValues};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let spec = PartitionSpec::try_new([Field::new("day", DataType::Date32, true)])?;
/// let catalog = RegisteredCatalog::new(spec.clone());
/// let values = PartitionValues::try_new(&spec, vec![ScalarValue::from("2024-06-01")])?;
/// catalog.add(vec![Partition::new(values, "archive/first".into())], false).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RegisteredCatalog {
    shared: Arc<Shared>,
    directories: Option<DirectoryCatalog>,
}

struct Shared {
    spec: PartitionSpec,
    /// Keeps the partitions as long as nothing else is attached.
    in_memory: MemoryPartitionStore,
    attached: OnceLock<Arc<dyn PartitionStore>>,
    known: Mutex<Option<Arc<Known>>>,
    /// Held by whoever loads, so that others wait for it instead of loading too.
    loading: tokio::sync::Mutex<()>,
}

/// The partitions of a version of the store.
struct Known {
    version: u64,
    /// With the numbers of rows that the store has.
    partitions: MemoryCatalog,
    /// Made when it is first needed.
    locations: OnceLock<HashMap<PartitionValues, Path>>,
    /// The same.
    taken: OnceLock<Locations>,
}

impl Known {
    /// Where the partition of these values is.
    fn location(&self, values: &PartitionValues) -> Result<Option<Path>> {
        if let Some(locations) = self.locations.get() {
            return Ok(locations.get(values).cloned());
        }
        let batch = self.partitions.partitions();
        let locations = (0..batch.len()).map(|row| {
            let partition = batch.partition(row)?;
            Ok((partition.values, partition.source.location))
        });
        let locations = locations.collect::<Result<HashMap<_, _>>>()?;
        let locations = self.locations.get_or_init(|| locations);
        Ok(locations.get(values).cloned())
    }

    /// Fails when a new partition cannot be here, because of one that is there already.
    fn check_free(&self, location: &Path) -> Result<()> {
        let taken = self.taken.get_or_init(|| {
            let mut taken = Locations::default();
            for source in self.partitions.partitions().sources() {
                taken.insert(source.location.as_ref());
            }
            taken
        });
        taken.check(location.as_ref())
    }
}

impl RegisteredCatalog {
    /// A catalog of no partitions, which are kept in memory.
    pub fn new(spec: PartitionSpec) -> Self {
        Self {
            shared: Arc::new(Shared {
                in_memory: MemoryPartitionStore::new(spec.clone()),
                spec,
                attached: OnceLock::new(),
                known: Mutex::default(),
                loading: tokio::sync::Mutex::default(),
            }),
            directories: None,
        }
    }

    /// Sets the directories of the table: partitions that are registered without a location are there, and they can
    /// be searched for partitions that are not registered. Not used for reading.
    pub fn with_directories(mut self, directories: DirectoryCatalog) -> Self {
        self.directories = Some(directories);
        self
    }

    /// Keeps the partitions in `store` from now on, for everybody who has this catalog. A table is made before it is
    /// known where it will be kept: this is for the time between the two.
    ///
    /// # Errors
    /// When partitions have been registered before, or another store is attached.
    pub fn attach(&self, store: Arc<dyn PartitionStore>) -> Result<()> {
        if !self.shared.in_memory.is_empty() || self.shared.attached.set(store).is_err() {
            return plan_err!(
                "the partitions of this table are kept elsewhere already; declare the table anew"
            );
        }
        self.refresh();
        Ok(())
    }

    /// Has the partitions of `other` from now on, wherever these are kept: for the same table with other options.
    ///
    /// # Errors
    /// When the two have other partition columns, and as [`Self::attach`].
    pub fn share(&self, other: &Self) -> Result<()> {
        if self.shared.spec != other.shared.spec {
            return plan_err!(
                "the partitions of this table have the columns ({}), not ({})",
                other
                    .shared
                    .spec
                    .column_names()
                    .collect::<Vec<_>>()
                    .join(", "),
                self.shared
                    .spec
                    .column_names()
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
        self.attach(Arc::new(OtherStore(Arc::clone(&other.shared))))
    }

    /// The registered partitions of `catalog`, if it has such; also below filters.
    pub fn of(catalog: &dyn PartitionCatalog) -> Option<Self> {
        let registry = catalog.registry()?;
        let registry: &dyn Any = registry.as_ref();
        registry.downcast_ref::<Self>().cloned()
    }

    /// Fails for a location that holds all of the table.
    fn check_location(&self, location: &Path) -> Result<()> {
        let roots = self.directories.iter().flat_map(DirectoryCatalog::roots);
        for root in roots {
            if root.prefix_matches(location) {
                return plan_err!(
                    "a partition cannot be at '{location}', which holds all of the table in '{root}'; give it a \
                     directory of its own"
                );
            }
        }
        Ok(())
    }
}

/// The partitions of another catalog.
#[derive(Debug)]
struct OtherStore(Arc<Shared>);

#[async_trait]
impl PartitionStore for OtherStore {
    async fn load(&self) -> Result<StoredPartitions> {
        self.0.store().load().await
    }

    async fn version(&self) -> Result<u64> {
        self.0.store().version().await
    }

    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>> {
        self.0.store().add(partitions, if_not_exists).await
    }

    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>> {
        self.0.store().remove(partitions).await
    }
}

impl Shared {
    fn store(&self) -> &dyn PartitionStore {
        match self.attached.get() {
            Some(store) => store.as_ref(),
            None => &self.in_memory,
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Option<Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partitions that the store has now.
    async fn known(&self) -> Result<Arc<Known>> {
        let store = self.store();
        let version = store.version().await?;
        let is_current = |known: &Arc<Known>| known.version == version;
        if let Some(known) = self.remembered().clone().filter(is_current) {
            return Ok(known);
        }
        let _alone = self.loading.lock().await;
        if let Some(known) = self.remembered().clone().filter(is_current) {
            return Ok(known);
        }
        let stored = store.load().await?;
        let partitions = MemoryCatalog::from_batch(self.spec.clone(), stored.partitions)?;
        let known = Arc::new(Known {
            version: stored.version,
            partitions,
            locations: OnceLock::new(),
            taken: OnceLock::new(),
        });
        *self.remembered() = Some(Arc::clone(&known));
        Ok(known)
    }

    /// The values as this table has them.
    fn values(&self, values: PartitionValues) -> Result<PartitionValues> {
        let values = PartitionValues::try_new(&self.spec, values.into_inner())?.into_inner();
        let values = values.into_iter().map(canonical).collect::<Result<_>>()?;
        PartitionValues::try_new(&self.spec, values)
    }
}

/// One of the values that SQL takes for the same.
fn canonical(value: ScalarValue) -> Result<ScalarValue> {
    let number = match &value {
        ScalarValue::Float16(Some(number)) => f64::from(*number),
        ScalarValue::Float32(Some(number)) => f64::from(*number),
        ScalarValue::Float64(Some(number)) => *number,
        _ => return Ok(value),
    };
    match number {
        0.0 => ScalarValue::new_zero(&value.data_type()),
        number if number.is_nan() => ScalarValue::from("NaN").cast_to(&value.data_type()),
        _ => Ok(value),
    }
}

#[async_trait]
impl PartitionCatalog for RegisteredCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.shared.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let shared = Arc::clone(&self.shared);
        let listed = async move {
            let known = shared.known().await?;
            Ok::<_, DataFusionError>(known.partitions.list(wanted, context))
        };
        stream::once(listed)
            .try_flatten()
            .map_ok(PartitionBatch::without_rows)
            .boxed()
    }

    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let known = self.shared.known().await?;
        known.partitions.estimate(wanted, context).await
    }

    fn registry(&self) -> Option<Arc<dyn PartitionRegistry>> {
        Some(Arc::new(self.clone()))
    }

    /// Registers the partitions that are new.
    fn committer(&self) -> Option<Arc<dyn Committer>> {
        self.directories.as_ref()?;
        Some(Arc::new(self.clone()))
    }

    fn describe(&self) -> String {
        match &self.directories {
            Some(directories) => format!("registered({})", directories.table().describe_roots()),
            None => "registered".to_owned(),
        }
    }
}

#[async_trait]
impl Committer for RegisteredCatalog {
    fn root(&self) -> Path {
        self.directories
            .as_ref()
            .map(Committer::root)
            .unwrap_or_default()
    }

    async fn location(&self, values: &PartitionValues) -> Result<Path> {
        let values = self.shared.values(values.clone())?;
        let known = self.shared.known().await?;
        if let Some(location) = known.location(&values)? {
            return Ok(location);
        }
        refuse_empty_text(&self.shared.spec, &values)?;
        match self.default_location(&values)? {
            Some(location) => {
                known.check_free(&location)?;
                Ok(location)
            }
            None => plan_err!(
                "the partition ({}) is not registered, and there is no rule where new ones are",
                self.shared.spec.describe(&values)
            ),
        }
    }

    fn owns(&self, file: &Path) -> bool {
        let directories = self.directories.as_ref();
        directories.is_none_or(|directories| directories.owns(file))
    }

    fn values(&self, values: PartitionValues) -> Result<PartitionValues> {
        self.shared.values(values)
    }

    async fn commit(&self, written: &[WrittenPartition]) -> Result<()> {
        let partitions = written.iter().map(|written| written.partition.clone());
        self.add(partitions.collect(), true).await?;
        let known = self.shared.known().await?;
        for Partition { values, source } in written.iter().map(|written| &written.partition) {
            let registered = known.location(&self.shared.values(values.clone())?)?;
            if registered.as_ref() != Some(&source.location) {
                return plan_err!(
                    "the partition ({}) has been registered elsewhere since the statement began; its new files are at \
                     '{}', and are not part of the table",
                    self.shared.spec.describe(values),
                    source.location
                );
            }
        }
        Ok(())
    }
}

#[async_trait]
impl PartitionRegistry for RegisteredCatalog {
    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>> {
        let partitions = partitions.into_iter().map(|mut partition| {
            partition.values = self.shared.values(partition.values)?;
            self.check_location(&partition.source.location)?;
            // Whoever reads the partition looks for its files.
            partition.source.objects = None;
            Ok(partition)
        });
        let partitions = partitions.collect::<Result<_>>()?;
        self.shared.store().add(partitions, if_not_exists).await
    }

    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>> {
        let partitions = partitions.into_iter();
        let partitions = partitions.map(|values| self.shared.values(values));
        let partitions = partitions.collect::<Result<_>>()?;
        self.shared.store().remove(partitions).await
    }

    fn refresh(&self) {
        *self.shared.remembered() = None;
    }

    fn default_location(&self, values: &PartitionValues) -> Result<Option<Path>> {
        let directories = self.directories.as_ref();
        directories.map(|d| d.location_of(values)).transpose()
    }

    fn directories(&self) -> Option<Arc<dyn PartitionCatalog>> {
        let directories = self.directories.clone()?;
        Some(Arc::new(directories))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("spec", &self.spec)
            .field("store", &self.store())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
