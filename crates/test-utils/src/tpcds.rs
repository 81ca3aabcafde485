//! TPC-DS `store_sales` as a hive tree of days, with the dimensions of its star queries.
//!
//! ```text
//! store_sales/ss_sold_date_sk=2450816/part-0.parquet      one directory for each day,
//! store_sales/ss_sold_date_sk=__HIVE_DEFAULT_PARTITION__/part-0.parquet     and the NULL days
//! store_sales_flat.parquet                                the same rows in one file
//! date_dim.parquet  item.parquet  store.parquet
//! ```
//!
//! Nothing is held in memory as a whole: the generators produce batches, and DataFusion's sort,
//! which spills to disk, brings the sales into the order of days so that one file is open at once.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::partition;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::parquet::arrow::AsyncArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use object_store::buffered::BufWriter;
use tpcdsgen::config::{Session, SessionBuilder};
use tpcdsgen_arrow::{DateDimArrow, ItemArrow, StoreArrow, StoreSalesArrow};

use crate::lake::{HiveSegments, Lake, without_columns};

/// The column whose values are directories.
const DAY: &str = "ss_sold_date_sk";

/// The memory that sorting may take before it spills.
const SORT_MEMORY: usize = 128 << 20;

/// What [`write_tpcds`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpcds {
    /// The rows of `store_sales`.
    pub rows: usize,
    /// The directories of `store_sales`, the one of the NULL days included.
    pub partitions: usize,
}

/// Generates the tables into a lake.
///
/// Scale 1 has 2.9 million sales. Below it the generator goes in steps of 120,000 sales, of which
/// there is at least one: 0.1 is two steps.
pub async fn write_tpcds(lake: &Lake, scale: f64) -> Result<Tpcds> {
    let session = session(scale)?;
    write_file(lake, "date_dim.parquet", DateDimArrow::new(session.clone())).await?;
    write_file(lake, "item.parquet", ItemArrow::new(session.clone())).await?;
    write_file(lake, "store.parquet", StoreArrow::new(session.clone())).await?;

    let flat = "store_sales_flat.parquet";
    let rows = write_file(lake, flat, StoreSalesArrow::new(session)).await?;
    let partitions = split_into_days(lake, flat, "store_sales").await?;
    Ok(Tpcds { rows, partitions })
}

fn session(scale: f64) -> Result<Session> {
    SessionBuilder::new()
        .with_scale_factor(scale)
        .build()
        .map_err(|error| DataFusionError::External(error.into()))
}

/// Writes everything that a generator produces and returns the number of rows.
async fn write_file(lake: &Lake, key: &str, batches: impl RecordBatchReader) -> Result<usize> {
    let mut file = open(lake, key, batches.schema())?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows();
        file.write(&batch).await?;
    }
    file.close().await?;
    Ok(rows)
}

/// Splits the file `flat` into the directories of the table `prefix` and returns their number.
async fn split_into_days(lake: &Lake, flat: &str, prefix: &str) -> Result<usize> {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(SORT_MEMORY, 1.0);
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    lake.register(&ctx);
    ctx.register_parquet("flat", lake.location(flat), ParquetReadOptions::default())
        .await?;
    let sorted = ctx
        .sql(&format!("SELECT * FROM flat ORDER BY {DAY}"))
        .await?;

    let mut batches = sorted.execute_stream().await?;
    let mut days = DayWriter::new(lake, prefix);
    while let Some(batch) = batches.try_next().await? {
        days.write(&batch).await?;
    }
    days.finish().await
}

/// Writes sorted rows into one file for each day.
struct DayWriter<'a> {
    lake: &'a Lake,
    prefix: &'a str,
    current: Option<(String, ParquetFile)>,
    opened: usize,
}

impl<'a> DayWriter<'a> {
    fn new(lake: &'a Lake, prefix: &'a str) -> Self {
        Self {
            lake,
            prefix,
            current: None,
            opened: 0,
        }
    }

    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let day = batch.column(batch.schema_ref().index_of(DAY)?);
        let files = without_columns(batch, &[DAY])?;
        for (segment, range) in days_of(day)? {
            let rows = files.slice(range.start, range.len());
            let file = self.file_of(segment, rows.schema()).await?;
            file.write(&rows).await?;
        }
        Ok(())
    }

    /// The open file when the day goes on, otherwise a new one in place of it.
    async fn file_of(&mut self, day: String, schema: SchemaRef) -> Result<&mut ParquetFile> {
        let same = self.current.take_if(|(open, _)| *open == day);
        let file = match same {
            Some((_, file)) => file,
            None => {
                self.close().await?;
                self.opened += 1;
                let key = format!("{}/{day}/part-0.parquet", self.prefix);
                open(self.lake, &key, schema)?
            }
        };
        Ok(&mut self.current.insert((day, file)).1)
    }

    async fn close(&mut self) -> Result<()> {
        if let Some((_, file)) = self.current.take() {
            file.close().await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<usize> {
        self.close().await?;
        Ok(self.opened)
    }
}

/// The runs of equal days, each with its directory.
fn days_of(day: &ArrayRef) -> Result<Vec<(String, Range<usize>)>> {
    let segments = HiveSegments::try_new(DAY, day.as_ref())?;
    let runs = partition(&[Arc::clone(day)])?.ranges().into_iter();
    Ok(runs.map(|run| (segments.segment(run.start), run)).collect())
}

type ParquetFile = AsyncArrowWriter<BufWriter>;

fn open(lake: &Lake, key: &str, schema: SchemaRef) -> Result<ParquetFile> {
    let object = BufWriter::new(Arc::clone(lake.store()), lake.path(key)?);
    Ok(AsyncArrowWriter::try_new(object, schema, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare_rows, sorted_rows};

    #[tokio::test]
    async fn the_tree_holds_the_rows_of_the_flat_file() -> Result<()> {
        let lake = Lake::in_memory()?;
        let written = write_tpcds(&lake, 0.001).await?;

        let ctx = SessionContext::new();
        lake.register(&ctx);
        for (table, key) in [
            ("flat", "store_sales_flat.parquet"),
            ("tree", "store_sales/"),
        ] {
            let location = lake.location(key);
            ctx.sql(&format!(
                "CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'"
            ))
            .await?;
        }
        let rows = async |sql: &str| ctx.sql(sql).await?.collect().await;

        let counts = "SELECT count(*), count(DISTINCT ss_sold_date_sk) + 1 FROM flat";
        assert_eq!(
            sorted_rows(&rows(counts).await?),
            [format!("{} | {}", written.rows, written.partitions)]
        );
        compare_rows(
            &rows(
                "SELECT CAST(ss_sold_date_sk AS VARCHAR), count(*), sum(ss_net_profit) \
                 FROM tree GROUP BY 1",
            )
            .await?,
            &rows(
                "SELECT coalesce(CAST(ss_sold_date_sk AS VARCHAR), '__HIVE_DEFAULT_PARTITION__'), \
                 count(*), sum(ss_net_profit) FROM flat GROUP BY 1",
            )
            .await?,
        )
    }
}
