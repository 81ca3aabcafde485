//! `ALTER TABLE .. DROP PARTITION` and `TRUNCATE TABLE`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use datafusion_partitioned_catalog::ListingCache;
use datafusion_partitioned_core::{
    ListingContext, Partition, PartitionPredicate, PartitionedOptions, TimeSpan,
};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStoreExt, PutPayload};

use crate::add::changed;
use crate::change::{Change, ChangedPartition};
use crate::target::Target;

/// Removes the partitions that satisfy one of several predicates.
#[derive(Debug)]
pub(crate) struct DropPartitions {
    pub(crate) target: Target,
    pub(crate) statement: String,
    /// With the text of each.
    pub(crate) predicates: Vec<(String, PartitionPredicate)>,
    pub(crate) if_exists: bool,
    /// Whether their files are deleted too.
    pub(crate) purge: bool,
}

#[async_trait]
impl Change for DropPartitions {
    fn describe(&self) -> String {
        self.statement.clone()
    }

    async fn make(&self, state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let registry = match self.target.catalog()?.registry() {
            Some(registry) => Some(registry),
            None if self.purge => None,
            None => Some(self.target.registry("DROP PARTITION without PURGE")?),
        };
        let mut dropped: Vec<Partition> = vec![];
        for (text, predicate) in &self.predicates {
            let found = partitions(&self.target, state, predicate).await?;
            if found.is_empty() && !self.if_exists {
                return plan_err!(
                    "table '{}': no partition satisfies ({text}); add IF EXISTS if that is no mistake",
                    self.target.name
                );
            }
            let is_new = |partition: &Partition| {
                let mut known = dropped.iter();
                known.all(|known| known.source.location != partition.source.location)
            };
            let found: Vec<Partition> = found.into_iter().filter(is_new).collect();
            dropped.extend(found);
        }
        if let Some(registry) = registry {
            // No query may find a partition whose files are going.
            let values = dropped.iter().map(|partition| partition.values.clone());
            dropped = registry.remove(values.collect()).await?;
        }
        if self.purge {
            for partition in &dropped {
                delete_files(&self.target, state, partition).await?;
            }
        }
        let change = if self.purge { "purged" } else { "dropped" };
        changed(&self.target, change, &dropped)
    }
}

/// The name of an empty file in a registered partition without data.
const TRUNCATED: &str = "_TRUNCATED";

/// Deletes the files of partitions, which stay.
#[derive(Debug)]
pub(crate) struct TruncateTable {
    pub(crate) target: Target,
    pub(crate) statement: String,
    pub(crate) predicate: PartitionPredicate,
}

#[async_trait]
impl Change for TruncateTable {
    fn describe(&self) -> String {
        self.statement.clone()
    }

    async fn make(&self, state: &SessionState) -> Result<Vec<ChangedPartition>> {
        let partitions = partitions(&self.target, state, &self.predicate).await?;
        let is_registered = self.target.catalog()?.registry().is_some();
        for partition in &partitions {
            delete_files(&self.target, state, partition).await?;
            if is_registered {
                // The partition is there, and not a mistake.
                let store = state.runtime_env().object_store(self.target.store_url()?)?;
                let marker = partition.source.location.clone().join(TRUNCATED);
                store.put(&marker, PutPayload::new()).await?;
            }
        }
        changed(&self.target, "truncated", &partitions)
    }
}

/// The partitions that satisfy a predicate.
pub(crate) async fn partitions(
    target: &Target,
    state: &SessionState,
    predicate: &PartitionPredicate,
) -> Result<Vec<Partition>> {
    let batches = target
        .catalog()?
        .list(predicate.clone(), listing_context(state));
    let batches: Vec<_> = batches.try_collect().await?;
    let rows = batches
        .iter()
        .flat_map(|batch| (0..batch.len()).map(|row| batch.partition(row)));
    rows.collect()
}

/// A change begins with what is there now, not with what is remembered.
pub(crate) fn listing_context(state: &SessionState) -> ListingContext {
    let mut context = ListingContext::for_planning(state);
    let extensions = &mut context.config.options_mut().extensions;
    if let Some(options) = extensions.get_mut::<PartitionedOptions>() {
        options.list_cache.ttl = TimeSpan::default();
    }
    context
}

/// Deletes everything below the location of a partition.
async fn delete_files(target: &Target, state: &SessionState, partition: &Partition) -> Result<()> {
    let location = &partition.source.location;
    if location.as_ref().is_empty() {
        return plan_err!(
            "table '{}': the partition is all of the store '{}', which is not deleted",
            target.name,
            target.store_url()?
        );
    }
    let store = state.runtime_env().object_store(target.store_url()?)?;
    let files = store.list(Some(location)).map_ok(|file| file.location);
    let deleted = store.delete_stream(files.boxed());
    deleted.try_collect::<Vec<_>>().await?;
    forget_listings(target, state, location)
}

/// Makes queries list a directory again.
pub(crate) fn forget_listings(
    target: &Target,
    state: &SessionState,
    location: &object_store::path::Path,
) -> Result<()> {
    let listings: Option<Arc<ListingCache>> = state.config().get_extension();
    if let Some(listings) = listings {
        let url = format!("{}/", target.url(location).trim_end_matches('/'));
        listings.invalidate(&ListingTableUrl::parse(url)?);
    }
    Ok(())
}
