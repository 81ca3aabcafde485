//! [`OverwriteLock`]: one statement at a time replaces files of a table.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use datafusion::common::{Result, exec_err};
use futures_timer::Delay;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::commits::ignore_missing;

/// A lock that has not been renewed for so long is that of a statement that was killed.
pub(super) const TIMEOUT: TimeDelta = TimeDelta::minutes(5);

/// How often a lock is renewed. The clocks of this machine and of the store may differ by what is left to the timeout.
const RENEWAL: Duration = Duration::from_secs(60);

/// A lock that is held: an object with the name of its owner.
#[derive(Debug)]
pub(super) struct OverwriteLock {
    store: Arc<dyn ObjectStore>,
    path: Path,
    owner: String,
}

impl OverwriteLock {
    /// Takes the lock at `path`.
    ///
    /// # Errors
    /// A conflict when somebody else has it.
    pub(super) async fn acquire(
        store: &Arc<dyn ObjectStore>,
        path: Path,
        owner: String,
    ) -> Result<Self> {
        remove_abandoned(store, &path, TIMEOUT).await?;
        let lock = Self {
            store: Arc::clone(store),
            path,
            owner,
        };
        let owner = lock.owner.clone();
        let created = store.put_opts(&lock.path, owner.into(), PutMode::Create.into());
        let Err(error) = created.await else {
            return Ok(lock);
        };
        // The answer to a request that was sent may have been lost.
        match lock.is_held().await {
            Ok(true) => Ok(lock),
            _ if matches!(error, object_store::Error::AlreadyExists { .. }) => exec_err!(
                "conflict: another statement is replacing partitions of the table, so that nothing was written; run it \
                 again. What a statement leaves that was killed, '{}', is removed after {} minutes",
                lock.path,
                TIMEOUT.num_minutes()
            ),
            _ => Err(error.into()),
        }
    }

    /// Whether nobody has taken it away.
    async fn is_held(&self) -> Result<bool> {
        match self.store.get(&self.path).await {
            Ok(lock) => Ok(lock.bytes().await? == self.owner.as_bytes()),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails when somebody has taken it away.
    pub(super) async fn check(&self) -> Result<()> {
        match self.is_held().await? {
            true => Ok(()),
            false => exec_err!(
                "conflict: the statement has lost '{}', so that nothing was written; run it again",
                self.path
            ),
        }
    }

    /// Renews it until this is dropped.
    pub(super) async fn keep(&self) {
        loop {
            Delay::new(RENEWAL).await;
            if matches!(self.is_held().await, Ok(true)) {
                let renewed = self.store.put(&self.path, self.owner.clone().into()).await;
                if let Err(error) = renewed {
                    log::warn!("the lock '{}' could not be renewed: {error}", self.path);
                }
            }
        }
    }

    /// Gives it back. What fails is left to the timeout.
    pub(super) async fn release(self) {
        let released = match self.is_held().await {
            Ok(false) => return,
            Ok(true) => ignore_missing(self.store.delete(&self.path).await).map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            log::warn!("the lock '{}' could not be deleted: {error}", self.path);
        }
    }
}

/// Removes the lock of a statement that was killed: one that has not been renewed for so long.
pub(super) async fn remove_abandoned(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    timeout: TimeDelta,
) -> Result<()> {
    match store.head(path).await {
        Ok(lock) if Utc::now().signed_duration_since(lock.last_modified) > timeout => {
            Ok(ignore_missing(store.delete(path).await)?)
        }
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
