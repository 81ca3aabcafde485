//! Pruning a table of 1,000,000 partitions down to seven, in memory.
//!
//! Besides the times, which are criterion's, it prints how much memory each catalog takes: the
//! peak of a process of its own, less what that process had before there was a catalog.

#![expect(
    clippy::print_stdout,
    reason = "a measurement program prints its figures"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::Arc;

use criterion::Criterion;
use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, exec_datafusion_err, exec_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::{col, lit};
use datafusion::prelude::SessionContext;
use datafusion_partitioned::catalog::{
    ColumnProjection, DirectoryCatalog, ProjectedLocations, ProjectionCatalog,
};
use datafusion_partitioned::core::{
    ListingContext, MemoryCatalog, PartitionBatch, PartitionCatalog, PartitionLayout,
    PartitionPredicate, PartitionSource, PartitionSpec,
};
use datafusion_partitioned::prelude::*;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;

/// The directories on each of the two levels `a` and `b`.
const FANOUT: i32 = 1000;

/// How many partitions the predicate leaves.
const SURVIVORS: usize = 7;

/// Where a process is told which catalog's memory it shall measure.
const PEAK_OF: &str = "MILLION_PEAK_OF";

#[derive(Debug, Clone, Copy)]
enum Kind {
    Projection,
    Memory,
    CachedWalk,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Projection, Self::Memory, Self::CachedWalk];

    fn label(self) -> &'static str {
        match self {
            Self::Projection => "projection",
            Self::Memory => "memory",
            Self::CachedWalk => "cached walk",
        }
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new()?;
    if let Ok(label) = std::env::var(PEAK_OF) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.label() == label);
        let kind = kind.ok_or_else(|| exec_datafusion_err!("unknown catalog {label}"))?;
        return runtime.block_on(print_peak(kind));
    }
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("prune 1,000,000 partitions");
    group.sample_size(20);
    for kind in Kind::ALL {
        let table =
            runtime.block_on(async { Table::new(kind, &Surroundings::new(kind).await?) })?;
        runtime.block_on(table.warm_up())?;
        group.bench_function(kind.label(), |b| {
            b.iter(|| runtime.block_on(async { black_box(table.prune().await) }));
        });
        group.bench_function(format!("{}, estimate", kind.label()), |b| {
            b.iter(|| runtime.block_on(async { black_box(table.estimate().await) }));
        });
    }
    group.finish();
    criterion.final_summary();
    for kind in Kind::ALL {
        let child = Command::new(std::env::current_exe()?)
            .env(PEAK_OF, kind.label())
            .output()?;
        print!("{}", String::from_utf8_lossy(&child.stdout));
        if !child.status.success() {
            return exec_err!("{}", String::from_utf8_lossy(&child.stderr));
        }
    }
    Ok(())
}

async fn print_peak(kind: Kind) -> Result<()> {
    let surroundings = Surroundings::new(kind).await?;
    let before = memory("VmRSS")?;
    // What building the surroundings took, and let go, must not hide what follows.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let table = Table::new(kind, &surroundings)?;
    table.warm_up().await?;
    let held = memory("VmRSS")?;
    for _ in 0..10 {
        table.estimate().await?;
        table.prune().await?;
    }
    let peak = memory("VmHWM")?;
    println!(
        "{}: {} MB at the peak, {} MB held, above the {before} MB of the idle process",
        kind.label(),
        peak.saturating_sub(before),
        held.saturating_sub(before),
    );
    Ok(())
}

/// A line of `/proc/self/status`, in MB.
fn memory(name: &str) -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    let kilobytes: Option<usize> = words.and_then(|word| word.parse().ok());
    kilobytes
        .map(|kilobytes| kilobytes / 1024)
        .ok_or_else(|| exec_datafusion_err!("no {name} in /proc/self/status"))
}

/// What is there before the catalog.
struct Surroundings {
    ctx: SessionContext,
}

impl Surroundings {
    async fn new(kind: Kind) -> Result<Self> {
        let ctx = SessionContext::new().with_partitioned();
        ctx.sql("SET partitioned.list_cache.ttl = '1h'").await?;
        ctx.sql("SET partitioned.list_cache.limit = '256M'").await?;
        if let Kind::CachedWalk = kind {
            let store = InMemory::new();
            for a in 0..FANOUT {
                for b in 0..FANOUT {
                    let key = Path::from(format!("t/a={a}/b={b}/f"));
                    store.put(&key, "x".into()).await?;
                }
            }
            let store: Arc<dyn ObjectStore> = Arc::new(store);
            ctx.register_object_store(root()?.as_ref(), store);
        }
        Ok(Self { ctx })
    }
}

fn root() -> Result<ListingTableUrl> {
    ListingTableUrl::parse("memory://lake/t/")
}

/// A catalog, and what is asked of it.
struct Table {
    catalog: Arc<dyn PartitionCatalog>,
    wanted: PartitionPredicate,
    context: ListingContext,
}

impl Table {
    fn new(kind: Kind, surroundings: &Surroundings) -> Result<Self> {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
        let spec = PartitionSpec::try_new(fields)?;
        let catalog: Arc<dyn PartitionCatalog> = match kind {
            Kind::Projection => {
                let column = || ColumnProjection::Integer {
                    first: 0,
                    last: i64::from(FANOUT) - 1,
                    step: NonZeroU32::MIN,
                    digits: 0,
                };
                let layout = PartitionLayout::hive(&spec);
                let locations = ProjectedLocations::layout(root()?, layout);
                let columns = vec![column(), column()];
                Arc::new(ProjectionCatalog::try_new(
                    spec.clone(),
                    columns,
                    locations,
                )?)
            }
            Kind::Memory => Arc::new(MemoryCatalog::from_batch(spec.clone(), batch(&spec)?)?),
            Kind::CachedWalk => {
                let layout = PartitionLayout::hive(&spec);
                let catalog = DirectoryCatalog::try_new(&[root()?], spec.clone(), layout)?;
                Arc::new(catalog)
            }
        };
        // Neither level alone can tell.
        let number = col("a") * lit(FANOUT) + col("b");
        let filter = (number % lit(142_858_i32)).eq(lit(5_i32));
        let schema = DFSchema::try_from(Arc::clone(spec.schema()))?;
        let state = surroundings.ctx.state();
        let filter = surroundings.ctx.create_physical_expr(filter, &schema)?;
        Ok(Self {
            catalog,
            wanted: PartitionPredicate::all(&spec).with_filter(&filter),
            context: ListingContext::for_planning(&state),
        })
    }

    /// Fills the cache and makes sure that it is used.
    async fn warm_up(&self) -> Result<()> {
        self.prune().await?;
        let requests = self.context.metrics.list_requests.value();
        self.prune().await?;
        if self.context.metrics.list_requests.value() > requests {
            return exec_err!("the listings did not fit the cache");
        }
        Ok(())
    }

    async fn prune(&self) -> Result<()> {
        let batches = self.catalog.list(self.wanted.clone(), self.context.clone());
        let batches: Vec<PartitionBatch> = batches.try_collect().await?;
        let found: usize = batches.iter().map(PartitionBatch::len).sum();
        if found != SURVIVORS {
            return exec_err!("{found} partitions survived");
        }
        Ok(())
    }

    async fn estimate(&self) -> Result<usize> {
        let estimate = self.catalog.estimate(&self.wanted, &self.context).await?;
        // A projection does not count so many.
        if estimate.partitions < SURVIVORS {
            return exec_err!("{estimate:?}");
        }
        Ok(estimate.partitions)
    }
}

fn batch(spec: &PartitionSpec) -> Result<PartitionBatch> {
    let numbers = || 0..FANOUT * FANOUT;
    let a = Int32Array::from_iter_values(numbers().map(|number| number / FANOUT));
    let b = Int32Array::from_iter_values(numbers().map(|number| number % FANOUT));
    let schema = Arc::clone(spec.schema());
    let values = RecordBatch::try_new(schema, vec![Arc::new(a), Arc::new(b)])?;
    let sources = numbers().map(|number| {
        let (a, b) = (number / FANOUT, number % FANOUT);
        PartitionSource::new(Path::from(format!("t/a={a}/b={b}")))
    });
    PartitionBatch::try_new(values, sources.collect())
}
