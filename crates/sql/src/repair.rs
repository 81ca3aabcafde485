//! `MSCK REPAIR TABLE` and `REFRESH TABLE`.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion_partitioned_catalog::ListingCache;
use datafusion_partitioned_core::{Partition, PartitionCatalog, PartitionPredicate};
use datafusion_partitioned_table::PartitionedTableProvider;
use futures::{StreamExt, TryStreamExt, stream};

use crate::add::changed;
use crate::change::{Change, ChangedPartition};
use crate::remove::{listing_context, partitions};
use crate::target::Target;

/// Makes the registered partitions those of the directories, and removes what statements have left that were killed.
#[derive(Debug)]
pub(crate) struct RepairTable {
    pub(crate) target: Target,
    pub(crate) statement: String,
    /// Whether directories that are not registered become partitions.
    pub(crate) add: bool,
    /// Whether partitions without files are removed.
    pub(crate) drop: bool,
}

#[async_trait]
impl Change for RepairTable {
    fn describe(&self) -> String {
        self.statement.clone()
    }

    async fn make(&self, state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let mut rows = self.remove_leftovers(state).await?;
        let catalog = self.target.catalog()?;
        if catalog.registry().is_none() && catalog.committer().is_some() {
            // The directories are the partitions.
            return Ok(rows);
        }
        rows.extend(self.repair(state).await?);
        Ok(rows)
    }
}

impl RepairTable {
    /// What statements have left that were killed.
    async fn remove_leftovers(&self, state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let table = self
            .target
            .provider
            .downcast_ref::<PartitionedTableProvider>();
        let Some(table) = table.filter(|table| table.catalog().committer().is_some()) else {
            return Ok(vec![]);
        };
        let left = table.remove_leftovers(state).await?;
        let finished = left.finished.iter().map(|path| ("finished", path));
        let deleted = left.deleted.iter().map(|path| ("deleted", path));
        let rows = finished
            .chain(deleted)
            .map(|(change, path)| ChangedPartition {
                change,
                partition: None,
                location: self.target.url(path),
            });
        Ok(rows.collect())
    }

    async fn repair(&self, state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let registry = self.target.registry("MSCK REPAIR TABLE")?;
        registry.refresh();
        let catalog = self.target.catalog()?;
        let all = PartitionPredicate::all(catalog.spec());
        let registered = partitions(&self.target, state, &all).await?;
        let directories = match registry.directories() {
            Some(directories) => Some(directories),
            None if self.add => {
                return plan_err!(
                    "table '{}': its directories do not spell the values of its partitions, so that they \
                     cannot be found; add them with ALTER TABLE .. ADD PARTITION",
                    self.target.name
                );
            }
            None => None,
        };
        // Before anything is changed, and also where only partitions are dropped: a table whose directory is not there
        // has not lost its partitions, but its disk.
        let found = match directories {
            Some(directories) => self.found(state, directories.as_ref(), all).await?,
            None => HashMap::new(),
        };
        let mut rows = vec![];
        if self.drop {
            let missing = self.without_files(state, &registered).await?;
            let values = missing.iter().map(|partition| partition.values.clone());
            let dropped = registry.remove(values.collect()).await?;
            rows.extend(changed(&self.target, "dropped", &dropped)?);
        }
        if self.add {
            let mut new = found;
            for partition in &registered {
                new.remove(partition.values.values());
            }
            let mut new: Vec<Partition> = new.into_values().collect();
            new.sort_by(|a, b| a.source.location.cmp(&b.source.location));
            let added = registry.add(new, true).await?;
            rows.extend(changed(&self.target, "added", &added)?);
        }
        Ok(rows)
    }

    /// The partitions that directories spell, by their values.
    async fn found(
        &self,
        state: &SessionState,
        directories: &dyn PartitionCatalog,
        all: PartitionPredicate,
    ) -> Result<HashMap<Vec<ScalarValue>, Partition>> {
        let listed = directories.list(all, listing_context(state));
        let listed: Vec<_> = listed.try_collect().await?;
        let mut found: HashMap<Vec<ScalarValue>, Partition> = HashMap::new();
        for batch in &listed {
            for row in 0..batch.len() {
                let partition = batch.partition(row)?;
                // What the listing says about files is true now, and not later.
                let partition = Partition::new(partition.values, partition.source.location);
                let values = partition.values.values().to_vec();
                let location = partition.source.location.clone();
                if let Some(other) = found.insert(values, partition)
                    && other.source.location != location
                    && self.add
                {
                    return plan_err!(
                        "table '{}': the directories '{}' and '{}' spell the same values; a registered \
                         partition is in one of them, so rename the other or move its files",
                        self.target.name,
                        self.target.url(&other.source.location),
                        self.target.url(&location)
                    );
                }
            }
        }
        Ok(found)
    }

    /// The partitions below whose location the store has nothing.
    async fn without_files(
        &self,
        state: &SessionState,
        registered: &[Partition],
    ) -> Result<Vec<Partition>> {
        let store = state.runtime_env().object_store(self.target.store_url()?)?;
        let concurrency = listing_context(state).concurrency;
        let looked_up = registered.iter().map(|partition| {
            let store = Arc::clone(&store);
            async move {
                let mut files = store.list(Some(&partition.source.location));
                let is_missing = files.try_next().await?.is_none();
                Ok(is_missing.then(|| partition.clone()))
            }
        });
        let looked_up = stream::iter(looked_up.collect::<Vec<_>>()).buffered(concurrency);
        let missing = looked_up.try_collect::<Vec<_>>().await;
        missing.map(|missing| missing.into_iter().flatten().collect())
    }
}

/// Forgets what is remembered of a table.
#[derive(Debug)]
pub(crate) struct RefreshTable {
    pub(crate) target: Target,
    pub(crate) statement: String,
    /// Which partitions to report; all of the table is forgotten.
    pub(crate) predicate: Option<PartitionPredicate>,
}

#[async_trait]
impl Change for RefreshTable {
    fn describe(&self) -> String {
        self.statement.clone()
    }

    async fn make(&self, state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let catalog = self.target.catalog()?;
        if let Some(registry) = catalog.registry() {
            registry.refresh();
        }
        // Directories of this table may be anywhere, and a partition that is gone is in listings of all of the table, where
        // nobody can find it any more.
        let listings: Option<Arc<ListingCache>> = state.config().get_extension();
        if let Some(listings) = listings {
            listings.clear();
        }
        if let Some(predicate) = &self.predicate {
            let partitions = partitions(&self.target, state, predicate).await?;
            return changed(&self.target, "refreshed", &partitions);
        }
        Ok(vec![ChangedPartition {
            change: "refreshed",
            partition: None,
            location: catalog.describe(),
        }])
    }
}
