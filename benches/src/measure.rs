//! The measurement of a case: all providers side by side, checked against each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_partitioned_test_utils::{Lake, RequestCountingStore, compare_rows};

use crate::case::{Case, Provider};

/// What a run finds in the caches of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// Nothing: each run makes a session, creates the tables and sends the query.
    Cold,
    /// What earlier runs left: one session sends the query again and again.
    Warm,
}

impl Caches {
    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// The runs of one provider.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// What was measured.
    pub provider: Provider,
    /// The median time of a run, planning and execution together.
    pub median: Duration,
    /// The fastest and the slowest run.
    pub range: (Duration, Duration),
    /// The number of LIST requests of a run, at any level of the tree.
    pub list_requests: usize,
}

/// Measures a case: `runs` rounds, in each of which this project and the oracle have their turns, so
/// that a change of the machine's mood meets both. `ListingTable` comes after them: its runs take up to
/// a second and leave the processor's caches cold, at the cost of whoever comes next. Fails when their
/// answers differ.
///
/// Requests are counted apart from the timed runs, which use the store of `lake` as it is.
pub async fn measure(
    case: &Case,
    caches: Caches,
    lake: &Lake,
    runs: usize,
) -> Result<Vec<Measurement>> {
    let mut series = Vec::new();
    for provider in case.providers.iter().copied() {
        series.push(Series::new(case, caches, lake, provider).await?);
    }
    let (turns, slow) = series.split_at_mut(2);
    for series in [turns, slow] {
        for _ in 0..runs {
            for series in &mut *series {
                series.run(case, lake).await?;
            }
        }
    }
    for other in &series[1..] {
        compare_rows(&series[0].answer, &other.answer)?;
    }
    Ok(series.iter().map(Series::summary).collect())
}

struct Series {
    provider: Provider,
    /// The session that all runs share when the caches are warm.
    session: Option<SessionContext>,
    times: Vec<Duration>,
    list_requests: usize,
    answer: Vec<RecordBatch>,
}

impl Series {
    /// Starts with a run that is not measured: it fills the caches of the session or else those of
    /// the operating system.
    async fn new(case: &Case, caches: Caches, lake: &Lake, provider: Provider) -> Result<Self> {
        let session = case.session(lake, provider).await?;
        let answer = answer(&session, case).await?;
        Ok(Self {
            provider,
            session: (caches == Caches::Warm).then_some(session),
            times: Vec::new(),
            list_requests: count_list_requests(case, caches, lake, provider).await?,
            answer,
        })
    }

    async fn run(&mut self, case: &Case, lake: &Lake) -> Result<()> {
        let start = Instant::now();
        self.answer = match &self.session {
            Some(session) => answer(session, case).await?,
            None => {
                let session = case.session(lake, self.provider).await?;
                answer(&session, case).await?
            }
        };
        self.times.push(start.elapsed());
        Ok(())
    }

    fn summary(&self) -> Measurement {
        let times = sorted(&self.times);
        Measurement {
            provider: self.provider,
            median: times[times.len() / 2],
            range: (times[0], times[times.len() - 1]),
            list_requests: self.list_requests,
        }
    }
}

/// The LIST requests of one run, made through a store that counts them.
async fn count_list_requests(
    case: &Case,
    caches: Caches,
    lake: &Lake,
    provider: Provider,
) -> Result<usize> {
    let store = RequestCountingStore::new(Arc::clone(lake.store()));
    let lake = lake.clone().with_store(Arc::new(store.clone()));
    let session = case.session(&lake, provider).await?;
    if caches == Caches::Warm {
        answer(&session, case).await?;
        store.clear();
    }
    answer(&session, case).await?;
    Ok(store.list_count())
}

async fn answer(session: &SessionContext, case: &Case) -> Result<Vec<RecordBatch>> {
    session.sql(&case.query).await?.collect().await
}

fn sorted<T: Ord + Clone>(values: &[T]) -> Vec<T> {
    let mut values = values.to_vec();
    values.sort();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Sizes;

    #[tokio::test]
    async fn providers_agree_on_every_case() -> Result<()> {
        let lake = Lake::in_memory()?;
        let sizes = Sizes {
            hourly_days: 6,
            days: 70,
            rows: 2,
        };
        let mut cases = Vec::from(Case::hourly(&lake, sizes).await?);
        cases.extend(Case::joins(&lake, sizes).await?);
        for case in &cases {
            for caches in [Caches::Cold, Caches::Warm] {
                let measurements = measure(case, caches, &lake, 1).await?;
                assert_eq!(measurements.len(), case.providers.len());
            }
        }
        Ok(())
    }
}
