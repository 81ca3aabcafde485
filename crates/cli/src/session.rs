//! The session of the shell: DataFusion with everything of this project added.

use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::PartitionedSessionExt;

use crate::args::Args;

/// Creates a session that is configured by the environment (`DATAFUSION_*`) and the flags.
pub(crate) fn create_session(args: &Args) -> Result<SessionContext> {
    let mut config = SessionConfig::from_env()?.with_information_schema(true);
    if let Some(rows) = args.batch_size {
        config = config.with_batch_size(rows);
    }
    let runtime = RuntimeEnvBuilder::new();
    let runtime = match args.memory_limit {
        Some(bytes) => runtime.with_memory_limit(bytes, 1.0),
        None => runtime,
    };
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    Ok(context.with_partitioned())
}
