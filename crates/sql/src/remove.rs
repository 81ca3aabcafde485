//! `ALTER TABLE .. DROP PARTITION` and `TRUNCATE TABLE`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use datafusion_partitioned_catalog::{Lister, ListingCache, TRUNCATED, list_data_files};
use datafusion_partitioned_core::{
    ListingContext, Partition, PartitionPredicate, PartitionedOptions, TimeSpan,
};
use datafusion_partitioned_table::PartitionedTableProvider;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
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
        if self.purge {
            finish_interrupted(&self.target, state).await?;
        }
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
        // What is deleted is what was there before anybody could see the change.
        let files = match self.purge {
            true => files_of(&self.target, state, &dropped).await?,
            false => vec![],
        };
        if let Some(registry) = registry {
            // No query may find a partition whose files are going.
            let values = dropped.iter().map(|partition| partition.values.clone());
            let removed = registry.remove(values.collect()).await?;
            if self.purge && removed.len() < dropped.len() {
                return plan_err!(
                    "table '{}': somebody else has changed its partitions at the same time; {} of {} were \
                     dropped, and no file was deleted",
                    self.target.name,
                    removed.len(),
                    dropped.len()
                );
            }
            dropped = removed;
        }
        let is_registered = self.target.catalog()?.registry().is_some();
        let way_out = match is_registered {
            true => "the partitions are dropped, so delete the others, or add the partitions again",
            false => AGAIN,
        };
        delete_files(&self.target, state, &dropped, files, way_out).await?;
        let change = if self.purge { "purged" } else { "dropped" };
        changed(&self.target, change, &dropped)
    }
}

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
        finish_interrupted(&self.target, state).await?;
        let partitions = partitions(&self.target, state, &self.predicate).await?;
        let files = files_of(&self.target, state, &partitions).await?;
        if self.target.catalog()?.registry().is_some() {
            // The partitions are there, and without files no mistake.
            let store = state.runtime_env().object_store(self.target.store_url()?)?;
            for partition in &partitions {
                let marker = partition.source.location.clone().join(TRUNCATED);
                store.put(&marker, PutPayload::new()).await?;
            }
        }
        delete_files(&self.target, state, &partitions, files, AGAIN).await?;
        changed(&self.target, "truncated", &partitions)
    }
}

/// Lets statements end that were killed behind their commits: what is deleted must not come back with them.
async fn finish_interrupted(target: &Target, state: &SessionState) -> Result<()> {
    let table = target.provider.downcast_ref::<PartitionedTableProvider>();
    match table.filter(|table| table.catalog().committer().is_some()) {
        Some(table) => table.finish_interrupted(state).await,
        None => Ok(()),
    }
}

/// The partitions that satisfy a predicate, and no others: a catalog may return more than that.
///
/// # Errors
/// Also when the predicate cannot be evaluated for one of them.
pub(crate) async fn partitions(
    target: &Target,
    state: &SessionState,
    predicate: &PartitionPredicate,
) -> Result<Vec<Partition>> {
    let catalog = target.catalog()?;
    let batches = catalog.list(predicate.clone(), listing_context(state));
    let batches: Vec<_> = batches.try_collect().await?;
    let mut partitions = vec![];
    for batch in batches {
        let keep = predicate.evaluate(batch.values())?.keep;
        let batch = batch.filter(&keep)?;
        for row in 0..batch.len() {
            partitions.push(batch.partition(row)?);
        }
    }
    Ok(partitions)
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

/// The files of partitions that a query would read: not those of others in the same directories, and no hidden ones.
async fn files_of(
    target: &Target,
    state: &SessionState,
    partitions: &[Partition],
) -> Result<Vec<Path>> {
    let context = listing_context(state);
    let lister = &Lister::try_new(target.store_url()?, &context)?;
    let listed = partitions.iter().map(|partition| async move {
        match &partition.source.objects {
            Some(objects) => Ok(objects.to_vec()),
            None => list_data_files(lister, &partition.source.location)
                .await
                .map(Option::unwrap_or_default),
        }
    });
    let listed = stream::iter(listed.collect::<Vec<_>>()).buffered(context.concurrency);
    let listed: Vec<_> = listed.try_collect().await?;
    let files = listed.into_iter().flatten();
    Ok(files.map(|file| file.location).collect())
}

/// What to do when files are left that the same statement would find again.
const AGAIN: &str = "run the statement again, or delete the others";

/// Deletes files of partitions, and makes queries list their directories again.
async fn delete_files(
    target: &Target,
    state: &SessionState,
    partitions: &[Partition],
    files: Vec<Path>,
    way_out: &str,
) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let store = state.runtime_env().object_store(target.store_url()?)?;
    let count = files.len();
    let files = stream::iter(files).map(Ok).boxed();
    let mut deleted = 0_usize;
    let mut deleting = store.delete_stream(files);
    let mut result = Ok(());
    while let Some(file) = deleting.next().await {
        match file {
            // Somebody else was faster.
            Ok(_) | Err(object_store::Error::NotFound { .. }) => deleted += 1,
            Err(error) => result = Err(error),
        }
    }
    for partition in partitions {
        forget_listings(target, state, &partition.source.location)?;
    }
    result.map_err(|error| {
        DataFusionError::from(error).context(format!(
            "table '{}': {deleted} of {count} files were deleted; {way_out}",
            target.name
        ))
    })
}

/// Makes queries list a directory again.
fn forget_listings(target: &Target, state: &SessionState, location: &Path) -> Result<()> {
    let listings: Option<Arc<ListingCache>> = state.config().get_extension();
    if let Some(listings) = listings {
        let url = format!("{}/", target.url(location).trim_end_matches('/'));
        listings.invalidate(&ListingTableUrl::parse(url)?);
    }
    Ok(())
}
