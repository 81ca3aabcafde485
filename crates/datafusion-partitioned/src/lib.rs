//! Partitioned tables for Apache DataFusion.
//!
//! A table split into directories, `sales/day=2024-06-01/part-0.parquet`, of which a query touches
//! only the partitions that it needs: because of its WHERE clause, and because of what the other
//! side of a join turns out to contain while the query runs. A partition that the query cannot
//! need is never listed, never opened and never described.
//!
//! ```
//! use datafusion::prelude::*;
//! use datafusion_partitioned::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! # let lake = std::env::temp_dir().join(format!("datafusion-partitioned-{}", std::process::id()));
//! # let sales = lake.join("sales");
//! # std::fs::create_dir_all(sales.join("day=2024-06-01"))?;
//! # std::fs::create_dir_all(sales.join("day=2024-06-02"))?;
//! # std::fs::write(sales.join("day=2024-06-01/part-0.csv"), "id\n1\n2\n")?;
//! # std::fs::write(sales.join("day=2024-06-02/part-0.csv"), "id\n3\n")?;
//! # let sales = sales.display();
//! let context = SessionContext::new().with_partitioned();
//! context
//!     .sql(&format!(
//!         "CREATE EXTERNAL TABLE sales (id BIGINT, day DATE) STORED AS CSV \
//!          PARTITIONED BY (day) LOCATION '{sales}' OPTIONS ('connector' 'filesystem')"
//!     ))
//!     .await?;
//! let query = "SELECT count(*) AS n FROM sales WHERE day = '2024-06-01'";
//! let rows = context.sql(query).await?.collect().await?;
//! datafusion::assert_batches_eq!(["+---+", "| n |", "+---+", "| 2 |", "+---+"], &rows);
//! # std::fs::remove_dir_all(&lake)?;
//! # Ok(())
//! # }
//! ```
//!
//! Everything is set up by one trait, [`PartitionedSessionExt`]. The parts can be used alone:
//!
//! | crate | for |
//! |---|---|
//! | [`core`] | the model, the scan, and the two traits that make another source partitioned |
//! | [`catalog`] | finding partitions in directories |
//! | `catalog_sql` | definitions that last, in an SQLite file; behind the feature `catalog-sql` |
//! | [`connector`] | the registry behind `OPTIONS ('connector' '...')` |
//! | [`dynamic_filter`] | the optimizer rule for joins |
//! | [`sql`] | statements about partitions |
//! | [`table`] | partitioned tables of files |

/// The Rust in the README and the user guide compiles.
#[cfg(all(doctest, feature = "catalog-sql"))]
mod documentation {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/guide.md")]
    mod guide {}
}
mod option_reference;
mod partition_report;
mod session;

/// What most programs need.
pub mod prelude {
    pub use crate::session::{PartitionedSession, PartitionedSessionExt};
    pub use datafusion_partitioned_core::PartitionedOptions;
}

pub use datafusion_partitioned_catalog as catalog;
#[cfg(feature = "catalog-sql")]
pub use datafusion_partitioned_catalog_sql as catalog_sql;
pub use datafusion_partitioned_connector as connector;
pub use datafusion_partitioned_core as core;
pub use datafusion_partitioned_core::PartitionedOptions;
pub use datafusion_partitioned_dynamic_filter as dynamic_filter;
pub use datafusion_partitioned_sql as sql;
pub use datafusion_partitioned_table as table;
pub use option_reference::option_reference;
pub use session::{PartitionedSession, PartitionedSessionExt};
