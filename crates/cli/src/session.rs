//! The session of the shell: DataFusion with everything of this project added.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::catalog_sql::SqliteCatalog;
use datafusion_partitioned::prelude::PartitionedSessionExt;

use crate::args::Args;
use crate::storage::BucketRegistry;

/// Creates a session that is configured by the environment (`DATAFUSION_*`) and the flags.
///
/// Tables are those of the catalog file, if there is one.
pub(crate) fn create_session(args: &Args) -> Result<SessionContext> {
    let mut config = SessionConfig::from_env()?.with_information_schema(true);
    if let Some(rows) = args.batch_size {
        config = config.with_batch_size(rows);
    }
    let stores = Arc::new(BucketRegistry::default());
    let runtime = RuntimeEnvBuilder::new().with_object_store_registry(stores);
    let runtime = match args.memory_limit {
        Some(bytes) => runtime.with_memory_limit(bytes, 1.0),
        None => runtime,
    };
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    let context = context.with_partitioned();
    if let Some(path) = &args.catalog {
        SqliteCatalog::open(path)?.attach(&context)?;
    }
    Ok(context)
}
