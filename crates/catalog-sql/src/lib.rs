//! Definitions of tables and registered partitions that last: in an SQLite file, which several processes may use at
//! once.
//!
//! | type | role |
//! |---|---|
//! | [`SqliteCatalog`] | the file; puts itself in the place of the default catalog of a session |
//! | [`SqliteSchema`] | the tables of a schema in the file, and those that are in memory only |
//!
//! ```
//! use datafusion::prelude::*;
//! use datafusion_partitioned_catalog_sql::SqliteCatalog;
//!
//! # fn main() -> datafusion::error::Result<()> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("tables.db");
//! let context = SessionContext::new();
//! SqliteCatalog::open(&path)?.attach(&context)?;
//! // CREATE EXTERNAL TABLE, CREATE VIEW, DROP ..: the next session with this file has the same tables.
//! # Ok(())
//! # }
//! ```
//!
//! # What is kept
//!
//! | | |
//! |---|---|
//! | tables that a connector made | their statement, resolved; made again when a query first needs them |
//! | views | their statement; planned again for each query |
//! | schemas | their names |
//! | partitions that are registered | values, location, number of rows |
//! | `CREATE TABLE .. AS`, temporary tables, tables without a connector | no: they are in memory |
//!
//! A secret is kept as the name of an environment variable, `'${env:NAME}'`; a statement that has one in clear is
//! refused.
//!
//! # Several processes
//!
//! Each change is one transaction that is on the disk when the statement ends. A process that is killed loses no
//! definition and leaves no half of one; others see it at their next query. SQLite needs a file system with locks, so
//! not all network file systems will do.

mod catalog;
mod database;
mod definitions;
mod execute;
mod partitions;
mod schema;
mod settings;
mod texts;
mod view;

pub use catalog::SqliteCatalog;
pub use schema::SqliteSchema;
