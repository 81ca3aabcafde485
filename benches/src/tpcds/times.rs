//! How long a query takes by this project and by `ListingTable` over the same trees.

use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_partitioned_test_utils::Lake;

use super::{Limits, Query, Setting};
use crate::measure::Caches;

/// The settings that are measured, this project first.
const MEASURED: [Setting; 3] = [
    Setting::Partitioned,
    Setting::Listing,
    Setting::ListingWithoutDynamicFilters,
];

/// Measures queries. With warm caches one session of each setting sends all of them.
#[expect(missing_debug_implementations, reason = "a session has none")]
pub struct Timer {
    lake: Lake,
    caches: Caches,
    limits: Limits,
    sessions: Vec<SessionContext>,
}

/// Medians of the runs of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// This project.
    pub partitioned: Duration,
    /// `ListingTable`.
    pub listing: Duration,
    /// `ListingTable` without DataFusion's dynamic filters.
    pub listing_without_filters: Duration,
}

impl Times {
    /// The time of this project as a multiple of the better one of `ListingTable`.
    pub fn ratio(&self) -> f64 {
        let better = self.listing.min(self.listing_without_filters);
        self.partitioned.as_secs_f64() / better.as_secs_f64()
    }
}

impl Timer {
    /// Opens the sessions.
    pub async fn new(lake: &Lake, caches: Caches, limits: Limits) -> Result<Self> {
        let mut sessions = Vec::new();
        for setting in MEASURED {
            sessions.push(setting.session(lake, caches, limits).await?);
        }
        Ok(Self {
            lake: lake.clone(),
            caches,
            limits,
            sessions,
        })
    }

    /// Measures planning and execution of a query. The settings take turns, after a run of each
    /// that does not count.
    pub async fn measure(&self, query: &Query, runs: usize) -> Result<Times> {
        let mut times = MEASURED.map(|_| Vec::new());
        for round in 0..=runs {
            for (index, setting) in MEASURED.into_iter().enumerate() {
                let session = match self.caches {
                    Caches::Warm => self.sessions[index].clone(),
                    Caches::Cold => {
                        setting
                            .session(&self.lake, self.caches, self.limits)
                            .await?
                    }
                };
                let time = self.run(session, query).await?;
                if round > 0 {
                    times[index].push(time);
                }
            }
        }
        let [partitioned, listing, listing_without_filters] = times.map(median);
        Ok(Times {
            partitioned,
            listing,
            listing_without_filters,
        })
    }

    async fn run(&self, session: SessionContext, query: &Query) -> Result<Duration> {
        let sql = query.text.clone();
        let run = async move {
            let start = Instant::now();
            session.sql(&sql).await?.collect().await?;
            Ok(start.elapsed())
        };
        self.limits.bound(run).await
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
