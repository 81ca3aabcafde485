//! The ways in which the tables are read.

use std::time::Duration;

use datafusion::common::exec_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Lake, TpcdsTable};

use crate::measure::Caches;

/// How the facts are read. The dimensions are files of DataFusion's `ListingTable` everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Trees, by this project as it is.
    Partitioned,
    /// Trees, by this project without its dynamic filters.
    WithoutDynamicFilters,
    /// One file each, by DataFusion alone.
    Flat,
    /// Trees, by `ListingTable` as it is. The days that are NULL are in the directory of 0, since it
    /// cannot read them elsewhere; the queries join with days and have no use for either.
    Listing,
    /// Trees, by `ListingTable` without DataFusion's dynamic filters.
    ListingWithoutDynamicFilters,
}

/// What a query may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// The bytes that its operators may keep in memory.
    pub memory: usize,
    /// The output partitions of scans and joins; the number of cores when there is none.
    pub target_partitions: Option<usize>,
}

impl Setting {
    /// The name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Partitioned => "this project",
            Self::WithoutDynamicFilters => "without dynamic filters",
            Self::Flat => "flat files",
            Self::Listing => "ListingTable",
            Self::ListingWithoutDynamicFilters => "ListingTable without dynamic filters",
        }
    }

    /// A session that has all tables. It remembers listings when its caches are to be warm.
    pub async fn session(
        self,
        lake: &Lake,
        caches: Caches,
        limits: Limits,
    ) -> Result<SessionContext> {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(limits.memory, 1.0);
        let mut config = SessionConfig::new();
        if let Some(partitions) = limits.target_partitions {
            config = config.with_target_partitions(partitions);
        }
        let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
        lake.register(&ctx);

        let by_project = matches!(self, Self::Partitioned | Self::WithoutDynamicFilters);
        let ctx = if by_project {
            ctx.with_partitioned()
        } else {
            ctx
        };
        for table in TpcdsTable::ALL {
            let statement = match self {
                Self::Flat => table.flat_statement(lake)?,
                Self::Partitioned | Self::WithoutDynamicFilters => {
                    table.tree_statement(lake, "OPTIONS ('connector' 'filesystem')")?
                }
                Self::Listing | Self::ListingWithoutDynamicFilters => {
                    table.listing_statement(lake)?
                }
            };
            ctx.sql(&statement).await?;
        }
        if by_project && caches == Caches::Warm {
            ctx.sql("SET partitioned.list_cache.ttl = '1h'").await?;
        }
        let switched_off = match self {
            Self::WithoutDynamicFilters => "partitioned.dynamic_filter.enabled",
            Self::ListingWithoutDynamicFilters => {
                "datafusion.optimizer.enable_dynamic_filter_pushdown"
            }
            Self::Partitioned | Self::Flat | Self::Listing => return Ok(ctx),
        };
        ctx.sql(&format!("SET {switched_off} = false")).await?;
        Ok(ctx)
    }
}

impl Limits {
    /// Ends a query that takes too long with an error. It runs as a task of its own, so that it can
    /// be left behind when it does not yield, and a panic is an error too.
    pub(super) async fn bound<T: Send + 'static>(
        &self,
        query: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = SpawnedTask::spawn(query).join();
        match tokio::time::timeout(self.time, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(DataFusionError::External(Box::new(error))),
            Err(_) => exec_err!("not finished after {} s", self.time.as_secs()),
        }
    }
}
