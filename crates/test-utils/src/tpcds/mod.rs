//! TPC-DS in a lake: dimensions as files, facts as hive trees of their date keys and flat.
//!
//! ```text
//! store_sales/ss_sold_date_sk=2450816/part-0.parquet      one directory for each day,
//! store_sales/ss_sold_date_sk=__HIVE_DEFAULT_PARTITION__/part-0.parquet     and the NULL days
//! store_sales_flat.parquet                                the same rows in one file
//! store_sales_listing/ss_sold_date_sk=0/part-0.parquet    the tree again, for `ListingTable`
//! date_dim.parquet  item.parquet  store.parquet  ..
//! ```
//!
//! Nothing is held in memory as a whole: the generators produce batches, and DataFusion's sort,
//! which spills to disk, brings the facts into the order of days so that one file is open at once.

mod tables;
mod tree;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::common::not_impl_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::AsyncArrowWriter;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use tpcdsgen::config::{Session, SessionBuilder};

use crate::lake::{Lake, NULL_PARTITION};

/// A table of TPC-DS: how it is generated, where it lies in a lake, how it is declared.
///
/// A fact is a table with a date key. It lies in the lake twice, as a tree and flat.
#[derive(Debug, Clone, Copy)]
pub struct TpcdsTable {
    name: &'static str,
    date_key: Option<&'static str>,
    source_rows: Option<(u64, u64)>,
    generate: fn(Session, Option<(u64, u64)>) -> Generator,
}

type Generator = Box<dyn RecordBatchReader + Send>;

/// What was written of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TpcdsWritten {
    /// The rows of the table.
    pub rows: usize,
    /// The directories of a fact, the one of the NULL days included; none for a dimension.
    pub partitions: usize,
}

impl TpcdsTable {
    /// The name in queries.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The column whose values are directories, which only facts have.
    pub fn date_key(&self) -> Option<&'static str> {
        self.date_key
    }

    /// The part of the table that the generator makes of these rows of its source, from 1: orders for
    /// sales and returns, rows for other tables.
    #[must_use]
    pub fn with_source_rows(mut self, first: u64, last: u64) -> Self {
        self.source_rows = Some((first, last));
        self
    }

    /// Generates the table into a lake.
    ///
    /// Scale 1 has 2.9 million `store_sales`. Below it the generator goes in steps of 120,000, of
    /// which there is at least one: 0.1 is two steps.
    pub async fn write(&self, lake: &Lake, scale: f64) -> Result<TpcdsWritten> {
        let session = SessionBuilder::new()
            .with_scale_factor(scale)
            .build()
            .map_err(|error| DataFusionError::External(error.into()))?;
        let rows = write_file(lake, &self.file(), self.generator(session)).await?;
        let partitions = match self.date_key {
            Some(key) => tree::write_tree(lake, &self.file(), self.name, key).await?,
            None => 0,
        };
        Ok(TpcdsWritten { rows, partitions })
    }

    /// Copies the tree of a fact for DataFusion's `ListingTable`, which reads no other directory for a
    /// NULL number than the one that DataFusion itself writes, that of 0. The keys of days are larger.
    pub async fn write_listing_tree(&self, lake: &Lake) -> Result<()> {
        if self.date_key.is_none() {
            return Ok(());
        }
        let (from, to) = (lake.path(self.name)?, lake.path(&self.listing_tree())?);
        let files: Vec<_> = lake.store().list(Some(&from)).try_collect().await?;
        for file in files {
            let below = file.location.prefix_match(&from).into_iter().flatten();
            let below = below.map(|part| part.as_ref().replace(NULL_PARTITION, "0").into());
            let target = to.parts().chain(below).collect();
            lake.store().copy(&file.location, &target).await?;
        }
        Ok(())
    }

    /// The number of directories of a fact in the lake.
    pub async fn partitions(&self, lake: &Lake) -> Result<usize> {
        let directory = lake.path(self.name)?;
        let listed = lake.store().list_with_delimiter(Some(&directory)).await?;
        Ok(listed.common_prefixes.len())
    }

    /// The statement that declares the table over its one file.
    pub fn flat_statement(&self, lake: &Lake) -> Result<String> {
        self.statement(&lake.location(&self.file()), "")
    }

    /// The statement that declares a fact over its tree, with an `OPTIONS (..)` clause or none, and a
    /// dimension over its file.
    pub fn tree_statement(&self, lake: &Lake, options: &str) -> Result<String> {
        let Some(key) = self.date_key else {
            return self.flat_statement(lake);
        };
        let location = lake.location(&format!("{}/", self.name));
        self.statement(&location, &format!("PARTITIONED BY ({key}) {options}"))
    }

    /// The statement for `ListingTable`, over the copy of the tree.
    pub fn listing_statement(&self, lake: &Lake) -> Result<String> {
        let Some(key) = self.date_key else {
            return self.flat_statement(lake);
        };
        let location = lake.location(&format!("{}/", self.listing_tree()));
        self.statement(&location, &format!("PARTITIONED BY ({key})"))
    }

    /// The columns of facts are declared, the date key last, so that `SELECT *` is the same for both.
    fn statement(&self, location: &str, clauses: &str) -> Result<String> {
        let name = self.name;
        let columns = match self.date_key {
            Some(key) => format!("({})", self.columns(key)?),
            None => String::new(),
        };
        Ok(format!(
            "CREATE EXTERNAL TABLE {name} {columns} STORED AS PARQUET LOCATION '{location}' {clauses}"
        ))
    }

    fn columns(&self, last: &str) -> Result<String> {
        let schema = self.generator(Session::default()).schema();
        let (key, others): (Vec<_>, Vec<_>) = schema
            .fields()
            .iter()
            .partition(|field| field.name() == last);
        let columns = others.into_iter().chain(key).map(|field| {
            let sql_type = match field.data_type() {
                DataType::Int32 => "INT".to_owned(),
                DataType::Int64 => "BIGINT".to_owned(),
                DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
                other => return not_impl_err!("the type {other} of column {}", field.name()),
            };
            Ok(format!("{} {sql_type}", field.name()))
        });
        Ok(columns.collect::<Result<Vec<_>>>()?.join(", "))
    }

    fn generator(&self, session: Session) -> Generator {
        (self.generate)(session, self.source_rows)
    }

    fn listing_tree(&self) -> String {
        format!("{}_listing", self.name)
    }

    fn file(&self) -> String {
        match self.date_key {
            Some(_) => format!("{}_flat.parquet", self.name),
            None => format!("{}.parquet", self.name),
        }
    }
}

/// Writes everything that a generator produces and returns the number of rows.
async fn write_file(lake: &Lake, key: &str, batches: Generator) -> Result<usize> {
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

type ParquetFile = AsyncArrowWriter<BufWriter>;

fn open(lake: &Lake, key: &str, schema: SchemaRef) -> Result<ParquetFile> {
    let object = BufWriter::new(Arc::clone(lake.store()), lake.path(key)?);
    Ok(AsyncArrowWriter::try_new(object, schema, None)?)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::{compare_rows, sorted_rows};

    #[tokio::test]
    async fn the_tree_holds_the_rows_of_the_flat_file() -> Result<()> {
        let lake = Lake::in_memory()?;
        let table = TpcdsTable::named("web_returns")?;
        let written = table.write(&lake, 0.001).await?;
        assert_eq!(table.partitions(&lake).await?, written.partitions);

        let flat = SessionContext::new();
        lake.register(&flat);
        flat.sql(&table.flat_statement(&lake)?).await?;
        let tree = SessionContext::new();
        lake.register(&tree);
        table.write_listing_tree(&lake).await?;
        tree.sql(&table.listing_statement(&lake)?).await?;

        let rows = async |ctx: &SessionContext, sql: &str| ctx.sql(sql).await?.collect().await;
        let counts = "SELECT count(*), count(DISTINCT wr_returned_date_sk) + 1 FROM web_returns";
        assert_eq!(
            sorted_rows(&rows(&flat, counts).await?),
            [format!("{} | {}", written.rows, written.partitions)]
        );
        let all = "SELECT *, nullif(wr_returned_date_sk, 0) AS day FROM web_returns";
        let by_day = &format!("SELECT * EXCEPT (wr_returned_date_sk) FROM ({all})");
        compare_rows(&rows(&tree, by_day).await?, &rows(&flat, by_day).await?)
    }

    #[test]
    fn an_unknown_table_is_answered_with_the_known_ones() {
        let error = TpcdsTable::named("sales").unwrap_err().to_string();
        assert!(error.contains("unknown TPC-DS table 'sales'; expected one of: call_center, "));
        let facts = TpcdsTable::ALL.iter().filter_map(TpcdsTable::date_key);
        assert_eq!(facts.count(), 7);
    }
}
