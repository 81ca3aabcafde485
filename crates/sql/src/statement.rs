//! What a text says, before anything is looked up.

use std::fmt::{self, Display};

use datafusion::common::format::ExplainStatementOptions;
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName};
use datafusion_partitioned_connector::hide_credentials;

use crate::hint::TableHint;

/// A statement.
#[derive(Debug, Clone)]
pub enum Statement {
    /// One that DataFusion has.
    DataFusion(Box<DataFusionStatement>),
    /// One about partitions.
    Partition(Box<PartitionStatement>),
    /// The plan of one about partitions.
    Explain(ExplainStatementOptions, Box<PartitionStatement>),
}

/// A statement that DataFusion has.
#[derive(Clone)]
pub struct DataFusionStatement {
    /// The statement.
    pub statement: parser::Statement,
    /// The query of `CREATE EXTERNAL TABLE .. AS`, which DataFusion does not have.
    pub query: Option<parser::Statement>,
    /// Options that it gives tables for itself.
    pub hints: Vec<TableHint>,
    /// What to write instead, should it fail.
    pub(crate) advice: Option<&'static str>,
}

impl From<parser::Statement> for DataFusionStatement {
    fn from(statement: parser::Statement) -> Self {
        Self {
            statement,
            query: None,
            hints: vec![],
            advice: None,
        }
    }
}

/// Shows no options, which can be secret.
impl fmt::Debug for DataFusionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataFusionStatement")
            .field("hints", &self.hints)
            .finish_non_exhaustive()
    }
}

/// A statement about the partitions of a table.
#[derive(Clone, PartialEq, Eq)]
pub struct PartitionStatement {
    /// The table.
    pub table: ObjectName,
    /// What to do with it.
    pub kind: PartitionStatementKind,
}

/// As SQL, without credentials.
impl fmt::Debug for PartitionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartitionStatement")
            .field(&self.to_string())
            .finish()
    }
}

/// The kinds of statements about partitions. Conditions are over partition columns.
#[derive(Clone, PartialEq, Eq)]
pub enum PartitionStatementKind {
    /// `SHOW PARTITIONS t [PARTITION (..)] [WHERE ..]`
    ShowPartitions {
        /// The conditions of both clauses.
        conditions: Vec<Expr>,
    },
    /// `SHOW CREATE TABLE t`
    ShowCreateTable,
    /// `ALTER TABLE t ADD [IF NOT EXISTS] PARTITION (..) [LOCATION '..'] ..`
    Add {
        /// Whether partitions that are there already are left as they are.
        if_not_exists: bool,
        /// The partitions.
        partitions: Vec<NewPartition>,
    },
    /// `ALTER TABLE t DROP [IF EXISTS] PARTITION (..), .. [PURGE]`
    Drop {
        /// Whether it is no mistake when nothing satisfies a condition.
        if_exists: bool,
        /// The conditions of each `PARTITION (..)`.
        partitions: Vec<Vec<Expr>>,
        /// Whether files are deleted too.
        purge: bool,
    },
    /// `MSCK REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]`
    Repair {
        /// Whether directories that are not registered become partitions.
        add: bool,
        /// Whether partitions without files are removed.
        drop: bool,
    },
    /// `REFRESH TABLE t [PARTITION (..)]`
    Refresh {
        /// The partitions, all of them without conditions.
        conditions: Vec<Expr>,
    },
    /// `TRUNCATE [TABLE] t [PARTITION (..)]`
    Truncate {
        /// The partitions, all of them without conditions.
        conditions: Vec<Expr>,
    },
}

/// `PARTITION (column = value, ..) [LOCATION '..']`
#[derive(Clone, PartialEq, Eq)]
pub struct NewPartition {
    /// Equalities, one for each partition column.
    pub values: Vec<Expr>,
    /// Where its files are, if not where the layout of the table puts them.
    pub location: Option<String>,
}

impl fmt::Debug for PartitionStatementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = ObjectName::from(vec![]);
        let kind = self.clone();
        write!(f, "{}", PartitionStatement { table, kind })
    }
}

impl fmt::Debug for NewPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.location.as_deref().map(hide_credentials);
        f.debug_struct("NewPartition")
            .field("values", &joined(&self.values, ", "))
            .field("location", &location)
            .finish()
    }
}

impl Display for PartitionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        match &self.kind {
            PartitionStatementKind::ShowPartitions { conditions } => {
                write!(f, "SHOW PARTITIONS {table}")?;
                match &conditions[..] {
                    [] => Ok(()),
                    [condition] => write!(f, " WHERE {condition}"),
                    several => write!(f, " WHERE ({})", joined(several, ") AND (")),
                }
            }
            PartitionStatementKind::ShowCreateTable => write!(f, "SHOW CREATE TABLE {table}"),
            PartitionStatementKind::Add {
                if_not_exists,
                partitions,
            } => {
                let if_not_exists = if *if_not_exists { " IF NOT EXISTS" } else { "" };
                write!(f, "ALTER TABLE {table} ADD{if_not_exists}")?;
                partitions.iter().try_for_each(|partition| {
                    write!(f, " PARTITION ({})", joined(&partition.values, ", "))?;
                    match &partition.location {
                        Some(location) => {
                            let location = hide_credentials(location).replace('\'', "''");
                            write!(f, " LOCATION '{location}'")
                        }
                        None => Ok(()),
                    }
                })
            }
            PartitionStatementKind::Drop {
                if_exists,
                partitions,
                purge,
            } => {
                let if_exists = if *if_exists { " IF EXISTS" } else { "" };
                let purge = if *purge { " PURGE" } else { "" };
                let partitions = partitions
                    .iter()
                    .map(|conditions| format!("PARTITION ({})", joined(conditions, ", ")));
                let partitions = partitions.collect::<Vec<_>>().join(", ");
                write!(f, "ALTER TABLE {table} DROP{if_exists} {partitions}{purge}")
            }
            PartitionStatementKind::Repair { add, drop } => {
                let kind = match (add, drop) {
                    (_, false) => "ADD",
                    (false, true) => "DROP",
                    (true, true) => "SYNC",
                };
                write!(f, "MSCK REPAIR TABLE {table} {kind} PARTITIONS")
            }
            PartitionStatementKind::Refresh { conditions } => {
                write!(f, "REFRESH TABLE {table}{}", Partition(conditions))
            }
            PartitionStatementKind::Truncate { conditions } => {
                write!(f, "TRUNCATE TABLE {table}{}", Partition(conditions))
            }
        }
    }
}

/// The clause `PARTITION (..)`, without conditions nothing.
struct Partition<'a>(&'a [Expr]);

impl Display for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            conditions => write!(f, " PARTITION ({})", joined(conditions, ", ")),
        }
    }
}

fn joined(conditions: &[Expr], separator: &str) -> String {
    let conditions = conditions.iter().map(Expr::to_string);
    conditions.collect::<Vec<_>>().join(separator)
}
