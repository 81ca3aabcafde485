//! The measured queries and the lakes that they read.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array};
use datafusion::arrow::compute::{DatePart, date_part};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{FileKind, Lake};

/// July 2021, which the joins ask for, in days since 1970.
const MONTH: Range<i32> = 18_809..18_840;

/// The first day of the hourly table, in days since 1970.
const HOURLY_FROM: i32 = 19_000;

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
    /// This project, without dynamic filters: the yardstick for what these cost.
    Unfiltered,
}

impl Provider {
    /// Those of a query that needs a part of the table.
    const OF_A_PART: [Self; 3] = [Self::Partitioned, Self::Oracle, Self::Listing];

    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Partitioned => "this project",
            Self::Oracle => "oracle",
            Self::Listing => "ListingTable",
            Self::Unfiltered => "without dynamic filters",
        }
    }
}

/// The hours that are the second level below the days of the hourly table.
const HOURS: i32 = 24;

/// How large the lakes are.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The days of the table that is partitioned by day and hour.
    pub hourly_days: i32,
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
    /// Who is measured; the second is the yardstick.
    pub providers: &'static [Provider],
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
    /// Writes the table with a level of days and one of hours, and gives the queries that need one
    /// partition, all of three days, one hour of every day, and everything.
    pub async fn hourly(lake: &Lake, sizes: Sizes) -> Result<[Self; 4]> {
        let count = sizes.hourly_days * HOURS;
        let middle = sizes.hourly_days / 2 * HOURS;
        let hour = 5;
        let needed = |tree, partitions: Vec<i32>| (tree, partitions);
        let trees = [
            needed("hourly", (0..count).collect()),
            needed("hourly_one", vec![middle + hour]),
            needed("hourly_days", (middle..middle + 3 * HOURS).collect()),
            needed(
                "hourly_hour",
                (0..sizes.hourly_days)
                    .map(|day| day * HOURS + hour)
                    .collect(),
            ),
        ];
        for (tree, partitions) in &trees {
            let rows = hourly_facts(partitions, sizes)?;
            lake.put_partitioned(tree, FileKind::Parquet, &rows, &["day", "hour"])
                .await?;
        }
        let day = |offset: i32| {
            let days = Date32Array::from(vec![HOURLY_FROM + middle / HOURS + offset]);
            let text = array_value_to_string(&days, 0)?;
            Ok::<_, DataFusionError>(format!("DATE '{text}'"))
        };
        let case = |name: String, filter: String, tree: usize| Self {
            name,
            query: format!("SELECT count(*), sum(v) FROM fact{filter}"),
            providers: if tree == 0 {
                &Provider::OF_A_PART[..2]
            } else {
                &Provider::OF_A_PART
            },
            columns: "id BIGINT, v DOUBLE, day DATE, hour INT",
            partitioned_by: "day, hour",
            whole: trees[0].0,
            needed: trees[tree].0,
            dimension: None,
        };
        let name = |tree: usize, what: &str| {
            format!("{} of {count} partitions, {what}", trees[tree].1.len())
        };
        Ok([
            case(
                name(1, "day and hour"),
                format!(" WHERE day = {} AND hour = {hour}", day(0)?),
                1,
            ),
            case(
                name(2, "a range of days"),
                format!(" WHERE day BETWEEN {} AND {}", day(0)?, day(2)?),
                2,
            ),
            case(
                name(3, "an hour of every day"),
                format!(" WHERE hour = {hour}"),
                3,
            ),
            case(name(0, "no filter"), String::new(), 0),
        ])
    }

    /// Writes the tables of joins that need the days of one month, which are known when the dimension
    /// has been read, and gives these joins, and one that needs all days.
    pub async fn joins(lake: &Lake, sizes: Sizes) -> Result<Vec<Self>> {
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

        let month = "FROM days WHERE days.year = 2021 AND days.month = 7";
        let inner = "FROM fact JOIN days ON fact.day = days.day \
                     WHERE days.year = 2021 AND days.month = 7";
        let shapes = [
            ("joined", inner.to_owned()),
            (
                "semi join",
                format!("FROM fact WHERE day IN (SELECT day {month})"),
            ),
            (
                "left join from the dimension",
                format!("FROM (SELECT day AS d {month}) LEFT JOIN fact ON day = d"),
            ),
            (
                "between scalar subqueries",
                format!(
                    "FROM fact WHERE day BETWEEN (SELECT min(day) {month}) AND (SELECT max(day) {month})"
                ),
            ),
        ];
        let case = |name: String, from: &str, dimension| Self {
            name,
            query: format!("SELECT count(*), sum(v) {from}"),
            columns: "id BIGINT, v DOUBLE, day DATE",
            partitioned_by: "day",
            providers: &Provider::OF_A_PART,
            whole: "join",
            needed: "join_needed",
            dimension: Some(dimension),
        };
        let name = |how: &str| format!("{} of {} days, {how}", MONTH.len(), sizes.days);
        let in_memory = case(name("joined in memory"), inner, Dimension::Memory(days));
        let mut cases = vec![in_memory];
        for (shape, from) in &shapes {
            let name = name(&format!("{shape}, from Parquet"));
            cases.push(case(name, from, Dimension::Parquet(file)));
        }
        // A condition that cannot be seen to hold always.
        let from = "FROM fact JOIN days ON fact.day = days.day WHERE days.month > days.year - 9999";
        cases.push(Self {
            providers: &[Provider::Partitioned, Provider::Unfiltered],
            ..case(
                format!("all of {} days, joined", sizes.days),
                from,
                Dimension::Parquet(file),
            )
        });
        Ok(cases)
    }

    /// A new session, with caches of its own, that has the tables of the case.
    ///
    /// DataFusion's listing cache is on by default, the one of this project is switched on here:
    /// only a session that sends the query more than once gains by either.
    pub async fn session(&self, lake: &Lake, provider: Provider) -> Result<SessionContext> {
        let ctx = SessionContext::new();
        let (ctx, tree, options) = match provider {
            Provider::Partitioned | Provider::Unfiltered => {
                let options = "OPTIONS ('connector' 'filesystem')";
                (ctx.with_partitioned(), self.whole, options)
            }
            Provider::Oracle => (ctx, self.needed, ""),
            Provider::Listing => (ctx, self.whole, ""),
        };
        if matches!(provider, Provider::Partitioned | Provider::Unfiltered) {
            ctx.sql("SET partitioned.list_cache.ttl = '1h'").await?;
        }
        if provider == Provider::Unfiltered {
            ctx.sql("SET partitioned.dynamic_filter.enabled = false")
                .await?;
            ctx.sql("SET datafusion.optimizer.enable_dynamic_filter_pushdown = false")
                .await?;
        }
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

fn hourly_facts(partitions: &[i32], sizes: Sizes) -> Result<RecordBatch> {
    let numbers = repeat_each(partitions.iter().copied(), sizes.rows);
    let day: Date32Array = numbers.unary(|number| HOURLY_FROM + number / HOURS);
    let hour: Int32Array = numbers.unary(|number| number % HOURS);
    let [id, v] = measures(&numbers, sizes.rows);
    let columns: [(_, ArrayRef); 4] = [
        ("id", id),
        ("v", v),
        ("day", Arc::new(day)),
        ("hour", Arc::new(hour)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn join_facts(days: Range<i32>, sizes: Sizes) -> Result<RecordBatch> {
    let numbers = repeat_each(days, sizes.rows);
    let day: Date32Array = numbers.reinterpret_cast();
    let [id, v] = measures(&numbers, sizes.rows);
    let columns: [(_, ArrayRef); 3] = [("id", id), ("v", v), ("day", Arc::new(day))];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn repeat_each(numbers: impl IntoIterator<Item = i32>, times: usize) -> Int32Array {
    let numbers = numbers.into_iter();
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
