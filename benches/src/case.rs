//! The measured queries and the lakes that they read.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array};
use datafusion::arrow::compute::{DatePart, date_part};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{FileKind, Lake};

/// July 2021, which the joins ask for, in days since 1970.
const MONTH: Range<i32> = 18_809..18_840;

/// One way to read the partitioned table of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// This project, over the whole table.
    Partitioned,
    /// DataFusion's `ListingTable` over a tree that holds exactly the needed partitions, so that it
    /// has nothing to prune: the yardstick.
    Oracle,
    /// DataFusion's `ListingTable` over the whole table.
    Listing,
}

impl Provider {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 3] = [Self::Partitioned, Self::Oracle, Self::Listing];

    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Partitioned => "this project",
            Self::Oracle => "oracle",
            Self::Listing => "ListingTable",
        }
    }
}

/// How large the lakes are.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The directories on each of the two levels of the point query's table.
    pub fanout: i32,
    /// The days of the join's table.
    pub days: i32,
    /// The rows in each partition.
    pub rows: usize,
}

/// A query and the tables that it reads: `fact`, which is partitioned, and for a join `days`.
#[derive(Debug)]
pub struct Case {
    /// The name in the report.
    pub name: String,
    /// The query.
    pub query: String,
    columns: &'static str,
    partitioned_by: &'static str,
    whole: &'static str,
    needed: &'static str,
    dimension: Option<Dimension>,
}

/// Where the dimension of a join lies.
#[derive(Debug, Clone)]
enum Dimension {
    Memory(RecordBatch),
    Parquet(&'static str),
}

impl Case {
    /// Writes the table of a query that names the one partition it needs.
    pub async fn point(lake: &Lake, sizes: Sizes) -> Result<Self> {
        let count = sizes.fanout * sizes.fanout;
        let needed = count / 2..count / 2 + 1;
        for (tree, partitions) in [("point", 0..count), ("point_needed", needed.clone())] {
            let rows = point_facts(partitions, sizes)?;
            lake.put_partitioned(tree, FileKind::Parquet, &rows, &["a", "b"])
                .await?;
        }
        let (a, b) = (needed.start / sizes.fanout, needed.start % sizes.fanout);
        Ok(Self {
            name: format!("1 of {count} partitions"),
            query: format!("SELECT count(*), sum(v) FROM fact WHERE a = {a} AND b = {b}"),
            columns: "id BIGINT, v DOUBLE, a INT, b INT",
            partitioned_by: "a, b",
            whole: "point",
            needed: "point_needed",
            dimension: None,
        })
    }

    /// Writes the tables of a join that needs the days of one month, which are known when the
    /// dimension has been read. There is one case for each place of the dimension.
    pub async fn joins(lake: &Lake, sizes: Sizes) -> Result<[Self; 2]> {
        let first = MONTH.start - sizes.days / 2;
        let all = first..first + sizes.days;
        for (tree, days) in [("join", all.clone()), ("join_needed", MONTH)] {
            let rows = join_facts(days, sizes)?;
            lake.put_partitioned(tree, FileKind::Parquet, &rows, &["day"])
                .await?;
        }
        let days = calendar(all)?;
        let file = "days.parquet";
        lake.put(file, FileKind::Parquet, &days).await?;

        let case = |place, dimension| Self {
            name: format!("{} of {} days, {place}", MONTH.len(), sizes.days),
            query: "SELECT count(*), sum(v) FROM fact JOIN days ON fact.day = days.day \
                    WHERE days.year = 2021 AND days.month = 7"
                .to_owned(),
            columns: "id BIGINT, v DOUBLE, day DATE",
            partitioned_by: "day",
            whole: "join",
            needed: "join_needed",
            dimension: Some(dimension),
        };
        Ok([
            case("joined in memory", Dimension::Memory(days)),
            case("joined from Parquet", Dimension::Parquet(file)),
        ])
    }

    /// A new session, with caches of its own, that has the tables of the case.
    pub async fn session(&self, lake: &Lake, provider: Provider) -> Result<SessionContext> {
        let ctx = SessionContext::new();
        let (ctx, tree, options) = match provider {
            Provider::Partitioned => {
                let options = "OPTIONS ('connector' 'filesystem')";
                (ctx.with_partitioned(), self.whole, options)
            }
            Provider::Oracle => (ctx, self.needed, ""),
            Provider::Listing => (ctx, self.whole, ""),
        };
        lake.register(&ctx);
        match &self.dimension {
            None => (),
            Some(Dimension::Memory(days)) => {
                ctx.register_batch("days", days.clone())?;
            }
            Some(Dimension::Parquet(file)) => {
                let location = lake.location(file);
                ctx.sql(&format!(
                    "CREATE EXTERNAL TABLE days STORED AS PARQUET LOCATION '{location}'"
                ))
                .await?;
            }
        }
        ctx.sql(&format!(
            "CREATE EXTERNAL TABLE fact ({}) STORED AS PARQUET PARTITIONED BY ({}) \
             LOCATION '{}' {options}",
            self.columns,
            self.partitioned_by,
            lake.location(&format!("{tree}/"))
        ))
        .await?;
        Ok(ctx)
    }
}

fn point_facts(partitions: Range<i32>, sizes: Sizes) -> Result<RecordBatch> {
    let numbers = repeat_each(partitions, sizes.rows);
    let a: Int32Array = numbers.unary(|number| number / sizes.fanout);
    let b: Int32Array = numbers.unary(|number| number % sizes.fanout);
    let [id, v] = measures(&numbers, sizes.rows);
    let columns: [(_, ArrayRef); 4] =
        [("id", id), ("v", v), ("a", Arc::new(a)), ("b", Arc::new(b))];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn join_facts(days: Range<i32>, sizes: Sizes) -> Result<RecordBatch> {
    let numbers = repeat_each(days, sizes.rows);
    let day: Date32Array = numbers.reinterpret_cast();
    let [id, v] = measures(&numbers, sizes.rows);
    let columns: [(_, ArrayRef); 3] = [("id", id), ("v", v), ("day", Arc::new(day))];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn repeat_each(numbers: Range<i32>, times: usize) -> Int32Array {
    Int32Array::from_iter_values(numbers.flat_map(|number| iter::repeat_n(number, times)))
}

/// The columns inside the files. They depend on the partition alone, so that both trees agree, and
/// differ between partitions, so that a wrong one shows in the answer.
fn measures(partitions: &Int32Array, rows: usize) -> [ArrayRef; 2] {
    let rows = (0_i64..).take(rows).cycle();
    let ids = rows.zip(partitions.values());
    let ids =
        Int64Array::from_iter_values(ids.map(|(row, number)| i64::from(*number) * 1000 + row));
    let values: Float64Array = ids.unary(|id| id as f64 / 2.0);
    [Arc::new(ids), Arc::new(values)]
}

/// Each day with its year and month.
fn calendar(days: Range<i32>) -> Result<RecordBatch> {
    let day = Date32Array::from_iter_values(days);
    let year = date_part(&day, DatePart::Year)?;
    let month = date_part(&day, DatePart::Month)?;
    let columns: [(_, ArrayRef); 3] = [("day", Arc::new(day)), ("year", year), ("month", month)];
    Ok(RecordBatch::try_from_iter(columns)?)
}
