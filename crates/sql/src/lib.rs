//! Statements about partitions, and whatever DataFusion's SQL lacks for tables of connectors.
//!
//! | statement | |
//! |---|---|
//! | `SHOW PARTITIONS t [PARTITION (..)] [WHERE ..]` | values and locations, in order |
//! | `ALTER TABLE t ADD [IF NOT EXISTS] PARTITION (..) [LOCATION '..'] ..` | registers partitions |
//! | `ALTER TABLE t DROP [IF EXISTS] PARTITION (..), .. [PURGE]` | removes them; with `PURGE` their files too |
//! | `MSCK REPAIR TABLE t [ADD \| DROP \| SYNC PARTITIONS]` | compares the registered partitions with the directories |
//! | `REFRESH TABLE t [PARTITION (..)]` | forgets what is remembered |
//! | `TRUNCATE TABLE t [PARTITION (..)]` | deletes files |
//! | `SHOW CREATE TABLE t` | the statement that makes the table |
//! | `CREATE TABLE t (..) WITH ('connector' = '..')` | Flink's spelling of `CREATE EXTERNAL TABLE` |
//! | `FROM t /*+ OPTIONS ('key' = 'value') */` | options of a table for one query, as in Flink |
//! | `FROM partitions('t')`, `FROM table_options('connector')` | table functions |
//!
//! [`sql`] runs a statement in a session. What it does not know is DataFusion's and means what it means
//! there:
//!
//! ```text
//! parse_statements -> Statement::DataFusion -- SessionContext
//!                  -> Statement::Partition --- Change -> ChangeNode -> ChangePartitionsExec
//! ```

mod ability;
mod add;
mod advice;
mod change;
mod copy;
mod create;
mod create_as;
mod execute;
mod hint;
mod hinted;
mod insert;
mod location;
mod parser;
mod partition_parser;
mod partitions;
mod plan;
mod redact;
mod remove;
mod repair;
mod show;
mod statement;
mod table_options;
mod target;

pub use ability::CheckAbility;
pub use create::Replacing;
pub use execute::{execute, sql};
pub use hint::TableHint;
pub use parser::{ParsedStatement, is_complete, parse_statements};
pub use partitions::PartitionsFunction;
pub use statement::{
    DataFusionStatement, NewPartition, PartitionStatement, PartitionStatementKind, Statement,
};
pub use table_options::TableOptionsFunction;
