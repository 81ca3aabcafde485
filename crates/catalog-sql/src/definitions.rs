//! What the file has about tables and schemas.

use datafusion::common::Result;
use datafusion::logical_expr::TableType;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::database::Failure;
use crate::settings::Settings;

/// A definition as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Stands for this definition for ever: a table that replaces it has another one.
    pub(crate) id: i64,
    pub(crate) definition: Definition,
}

/// A table or a view.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) kind: Kind,
    pub(crate) sql: String,
    /// The options of the session.
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    View,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
        }
    }

    pub(crate) fn table_type(self) -> TableType {
        match self {
            Self::Table => TableType::Base,
            Self::View => TableType::View,
        }
    }
}

impl FromSql for Kind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "table" => Ok(Self::Table),
            "view" => Ok(Self::View),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

pub(crate) fn find(
    transaction: &Transaction<'_>,
    schema: &str,
    name: &str,
) -> Result<Option<Stored>, Failure> {
    let sql = "SELECT id, kind, sql, settings FROM tables WHERE schema = ?1 AND name = ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let columns = |row: &Row<'_>| {
        let settings: String = row.get(3)?;
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, settings))
    };
    let stored = statement.query_row([schema, name], columns).optional()?;
    let Some((id, kind, sql, settings)) = stored else {
        return Ok(None);
    };
    let settings = Settings::from_json(&settings)?;
    let definition = Definition {
        kind,
        sql,
        settings,
    };
    Ok(Some(Stored { id, definition }))
}

/// Adds a definition, and returns its id.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    schema: &str,
    name: &str,
    definition: &Definition,
) -> Result<i64, Failure> {
    let Definition {
        kind,
        sql,
        settings,
    } = definition;
    transaction.execute(
        "INSERT INTO tables (schema, name, kind, sql, settings) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![schema, name, kind.name(), sql, settings.to_json()],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// Removes a definition with its partitions.
pub(crate) fn delete(transaction: &Transaction<'_>, id: i64) -> Result<(), Failure> {
    transaction.execute("DELETE FROM tables WHERE id = ?1", [id])?;
    Ok(())
}

pub(crate) fn names(transaction: &Transaction<'_>, schema: &str) -> Result<Vec<String>, Failure> {
    let sql = "SELECT name FROM tables WHERE schema = ?1 ORDER BY name";
    let mut statement = transaction.prepare_cached(sql)?;
    let names = statement.query_map([schema], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

pub(crate) fn schemas(transaction: &Transaction<'_>) -> Result<Vec<String>, Failure> {
    let mut statement = transaction.prepare_cached("SELECT name FROM schemas ORDER BY name")?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

pub(crate) fn has_schema(transaction: &Transaction<'_>, name: &str) -> Result<bool, Failure> {
    let mut statement = transaction.prepare_cached("SELECT 1 FROM schemas WHERE name = ?1")?;
    Ok(statement.exists([name])?)
}

/// Adds a schema if it is not there.
pub(crate) fn add_schema(transaction: &Transaction<'_>, name: &str) -> Result<(), Failure> {
    transaction.execute("INSERT OR IGNORE INTO schemas VALUES (?1)", [name])?;
    Ok(())
}

/// Removes a schema with its tables.
pub(crate) fn delete_schema(transaction: &Transaction<'_>, name: &str) -> Result<(), Failure> {
    transaction.execute("DELETE FROM tables WHERE schema = ?1", [name])?;
    transaction.execute("DELETE FROM schemas WHERE name = ?1", [name])?;
    Ok(())
}
