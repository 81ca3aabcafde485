//! Whether a query has the same rows however the facts are stored and pruned.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::PartitionScan;
use datafusion_partitioned_test_utils::{Lake, TpcdsTable, scan_metric};

use super::answer::{compare_answers, plan_without_ties};
use super::{Limits, Query, Setting};
use crate::measure::Caches;

/// Sessions of the settings whose answers must agree.
#[expect(missing_debug_implementations, reason = "a session has none")]
pub struct Checker {
    flat: SessionContext,
    trees: [(Setting, SessionContext); 2],
    /// The number of partitions by the date key of their table.
    there: BTreeMap<&'static str, usize>,
    limits: Limits,
}

/// What came out of a check.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The number of rows, unless the query does not run on flat files.
    pub rows: Option<usize>,
    /// The partitions of the facts that the query reads, a fact as often as it is scanned.
    pub partitions: Partitions,
    /// Whether the answers agree.
    pub verdict: Verdict,
}

/// Partitions that scans could have read and have read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Partitions {
    /// Those in the lake.
    pub there: usize,
    /// Those that a listing returned.
    pub listed: usize,
    /// Those whose files were opened.
    pub opened: usize,
}

/// Whether the answers agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They do.
    Equal,
    /// A setting has other rows than flat files, fails or does not end, with what was seen.
    Different(String),
    /// DataFusion alone does not answer the query from flat files, for this reason.
    Unsupported(String),
}

struct Run {
    answer: Vec<RecordBatch>,
    plan: Arc<dyn ExecutionPlan>,
}

impl Checker {
    /// Opens the sessions.
    pub async fn new(lake: &Lake, limits: Limits) -> Result<Self> {
        let mut there = BTreeMap::new();
        for table in TpcdsTable::ALL {
            if let Some(key) = table.date_key() {
                there.insert(key, table.partitions(lake).await?);
            }
        }
        let session = async |setting: Setting| setting.session(lake, Caches::Cold, limits).await;
        let tree = async |setting| {
            Ok::<_, datafusion::error::DataFusionError>((setting, session(setting).await?))
        };
        Ok(Self {
            flat: session(Setting::Flat).await?,
            trees: [
                tree(Setting::Partitioned).await?,
                tree(Setting::WithoutDynamicFilters).await?,
            ],
            there,
            limits,
        })
    }

    /// Runs a query in all settings.
    pub async fn check(&self, query: &Query) -> Checked {
        let mut checked = Checked {
            rows: None,
            partitions: Partitions::default(),
            verdict: Verdict::Equal,
        };
        let flat = match self.run(&self.flat, query).await {
            Ok(flat) => flat.answer,
            Err(error) => {
                checked.verdict = Verdict::Unsupported(error.strip_backtrace());
                return checked;
            }
        };
        checked.rows = Some(flat.iter().map(RecordBatch::num_rows).sum());

        let mut differences = Vec::new();
        for (setting, session) in &self.trees {
            let run = self.run(session, query).await;
            if let Ok(run) = &run
                && *setting == Setting::Partitioned
            {
                checked.partitions = self.partitions(&run.plan);
            }
            let compared = run.and_then(|run| compare_answers(&run.answer, &flat));
            if let Err(error) = compared {
                let difference = error.strip_backtrace();
                differences.push(format!("{}: {difference}", setting.label()));
            }
        }
        if !differences.is_empty() {
            checked.verdict = Verdict::Different(differences.join("\n"));
        }
        checked
    }

    async fn run(&self, session: &SessionContext, query: &Query) -> Result<Run> {
        let (session, sql) = (session.clone(), query.text.clone());
        let run = async move {
            let logical = plan_without_ties(&session, &sql).await?;
            let frame = session.execute_logical_plan(logical).await?;
            let plan = frame.create_physical_plan().await?;
            let answer = collect(Arc::clone(&plan), session.task_ctx()).await?;
            Ok(Run { answer, plan })
        };
        self.limits.bound(run).await
    }

    fn partitions(&self, plan: &Arc<dyn ExecutionPlan>) -> Partitions {
        let scan = plan
            .downcast_ref::<DataSourceExec>()
            .and_then(|scan| scan.data_source().downcast_ref::<PartitionScan>());
        let mut partitions = Partitions::default();
        if let Some(scan) = scan {
            let mut keys = scan.catalog().spec().column_names();
            let there = keys.next().and_then(|key| self.there.get(key));
            partitions += Partitions {
                there: there.copied().unwrap_or_default(),
                listed: scan_metric(plan, "partitions_listed"),
                opened: scan_metric(plan, "partitions_scanned"),
            };
        }
        for child in plan.children() {
            partitions += self.partitions(child);
        }
        partitions
    }
}

impl AddAssign for Partitions {
    fn add_assign(&mut self, other: Self) {
        self.there += other.there;
        self.listed += other.listed;
        self.opened += other.opened;
    }
}
