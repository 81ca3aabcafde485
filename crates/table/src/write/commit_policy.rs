//! The commit policies that tables can name: `success-file`, and those of the session.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, config_err};
use datafusion::execution::SessionState;
use datafusion_partitioned_core::{CommitPolicies, CommitPolicy, PartitionCommit, did_you_mean};
use object_store::{ObjectStoreExt, PutPayload};

/// What each partition of a list that is kept elsewhere is registered by. It is done in any case.
const CATALOG: &str = "catalog";

/// Flink's name of the same.
const METASTORE: &str = "metastore";

const SUCCESS_FILE: &str = "success-file";

/// The policies of a list of names.
///
/// # Errors
/// When the session has none of a name.
pub(super) fn policies(
    state: &SessionState,
    names: &str,
    success_file: &str,
) -> Result<Vec<Arc<dyn CommitPolicy>>> {
    let own = state.config().get_extension::<CommitPolicies>();
    let own = own.unwrap_or_default();
    let mut policies: Vec<Arc<dyn CommitPolicy>> = vec![];
    let names = names.split(',').map(str::trim);
    for name in names.filter(|name| !name.is_empty()) {
        match name {
            CATALOG | METASTORE => {}
            SUCCESS_FILE => policies.push(Arc::new(SuccessFile::try_new(success_file)?)),
            name => match own.get(name) {
                Some(policy) => policies.push(policy),
                None => {
                    let mut known = vec![CATALOG.to_owned(), SUCCESS_FILE.to_owned()];
                    known.extend(own.names());
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    return config_err!(
                        "there is no commit policy '{name}'{}; there are: {}. One of your own is registered with \
                         CommitPolicies::register",
                        did_you_mean(name, known.iter().copied()),
                        known.join(", ")
                    );
                }
            },
        }
    }
    Ok(policies)
}

/// Leaves an empty file in each partition that is complete, as Flink and Hadoop do.
#[derive(Debug)]
struct SuccessFile {
    name: String,
}

impl SuccessFile {
    fn try_new(name: &str) -> Result<Self> {
        if !name.starts_with(['_', '.']) || name.contains('/') {
            return config_err!(
                "'{name}' is no name of a success file: it begins with '_' or '.', so that nobody takes it for data, and \
                 has no '/'"
            );
        }
        Ok(Self {
            name: name.to_owned(),
        })
    }
}

#[async_trait]
impl CommitPolicy for SuccessFile {
    fn name(&self) -> &str {
        SUCCESS_FILE
    }

    async fn commit(&self, commit: &PartitionCommit) -> Result<()> {
        for written in &commit.written {
            let location = written.partition.source.location.clone();
            let file = location.join(self.name.as_str());
            commit.store.put(&file, PutPayload::new()).await?;
        }
        Ok(())
    }
}
