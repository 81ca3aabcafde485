//! `MSCK REPAIR TABLE` and `REFRESH TABLE`.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion_partitioned_catalog::ListingCache;
use datafusion_partitioned_core::{Partition, PartitionPredicate};
use futures::{StreamExt, TryStreamExt, stream};

use crate::add::changed;
use crate::change::{Change, ChangedPartition};
use crate::remove::{forget_listings, listing_context, partitions};
use crate::target::Target;

/// Makes the registered partitions those of the directories.
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
        let registry = self.target.registry("MSCK REPAIR TABLE")?;
        registry.refresh();
        let catalog = self.target.catalog()?;
        let all = PartitionPredicate::all(catalog.spec());
        let registered = partitions(&self.target, state, &all).await?;
        let mut rows = vec![];
        if self.drop {
            let missing = self.without_files(state, &registered).await?;
            let values = missing.iter().map(|partition| partition.values.clone());
            let dropped = registry.remove(values.collect()).await?;
            rows.extend(changed(&self.target, "dropped", &dropped)?);
        }
        if self.add {
            let Some(directories) = registry.directories() else {
                return plan_err!(
                    "table '{}': its directories do not spell the values of its partitions, so that \
                     they cannot be found; add them with ALTER TABLE .. ADD PARTITION",
                    self.target.name
                );
            };
            let listed = directories.list(all, listing_context(state));
            let found: Vec<_> = listed.try_collect().await?;
            let mut by_values: HashMap<Vec<ScalarValue>, Partition> = HashMap::new();
            for batch in &found {
                for row in 0..batch.len() {
                    let found = batch.partition(row)?;
                    // What the listing says about files is true now, and not later.
                    let found = Partition::new(found.values, found.source.location);
                    let values = found.values.values().to_vec();
                    let location = found.source.location.clone();
                    if let Some(other) = by_values.insert(values, found)
                        && other.source.location != location
                    {
                        return plan_err!(
                            "table '{}': the directories '{}' and '{}' spell the same values; a \
                             registered partition is in one of them, so rename the other or move its files",
                            self.target.name,
                            self.target.url(&other.source.location),
                            self.target.url(&location)
                        );
                    }
                }
            }
            let registered = registered.iter().map(|partition| partition.values.values());
            for values in registered {
                by_values.remove(values);
            }
            let mut new: Vec<Partition> = by_values.into_values().collect();
            new.sort_by(|a, b| a.source.location.cmp(&b.source.location));
            let added = registry.add(new, true).await?;
            rows.extend(changed(&self.target, "added", &added)?);
        }
        Ok(rows)
    }
}

impl RepairTable {
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
    /// Of some of its partitions only.
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
        if let Some(predicate) = &self.predicate {
            let partitions = partitions(&self.target, state, predicate).await?;
            for partition in &partitions {
                forget_listings(&self.target, state, &partition.source.location)?;
            }
            return changed(&self.target, "refreshed", &partitions);
        }
        // Directories of this table may be anywhere.
        let listings: Option<Arc<ListingCache>> = state.config().get_extension();
        if let Some(listings) = listings {
            listings.clear();
        }
        Ok(vec![ChangedPartition {
            change: "refreshed",
            partition: None,
            location: catalog.describe(),
        }])
    }
}
