//! [`SqlitePartitionStore`]: the registered partitions of a table in the file.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion_partitioned_catalog::{PartitionStore, StoredPartitions, already_registered};
use datafusion_partitioned_core::{
    Partition, PartitionBatch, PartitionSource, PartitionSpec, PartitionValues,
    enclosing_locations, overlap_error,
};
use object_store::path::Path;
use rusqlite::{OptionalExtension, Transaction, params};

use crate::database::{Database, Failure};
use crate::texts::{from_texts, to_texts};

/// So many texts are turned into values at once.
const PARTITIONS_PER_BATCH: usize = 8192;

/// A location inside of another one: the character behind '/' is '0'.
const INSIDE: &str = "SELECT location FROM partitions
    WHERE table_id = ?1 AND location > ?2 || '/' AND location < ?2 || '0' LIMIT 1";

/// The partitions of one table.
#[derive(Debug)]
pub(crate) struct SqlitePartitionStore {
    database: Arc<Database>,
    /// The id of the table's definition.
    table: i64,
    name: String,
    spec: PartitionSpec,
}

impl SqlitePartitionStore {
    pub(crate) fn new(
        database: Arc<Database>,
        table: i64,
        name: &str,
        spec: PartitionSpec,
    ) -> Self {
        Self {
            database,
            table,
            name: name.to_owned(),
            spec,
        }
    }
}

/// Fails when the table is gone, since nobody would find its partitions again.
fn version(transaction: &Transaction<'_>, table: i64, name: &str) -> Result<u64, Failure> {
    let sql = "SELECT partitions_version FROM tables WHERE id = ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let version = statement.query_row([table], |row| row.get::<_, i64>(0));
    match version.optional()? {
        Some(version) => Ok(version.cast_unsigned()),
        None => Err(exec_datafusion_err!(
            "table '{name}' has been dropped or replaced in the catalog file; run the statement again"
        )
        .into()),
    }
}

fn load(
    transaction: &Transaction<'_>,
    table: i64,
    spec: &PartitionSpec,
) -> Result<PartitionBatch, Failure> {
    let mut statement = transaction.prepare_cached(
        "SELECT partition_values, location, row_count FROM partitions WHERE table_id = ?1",
    )?;
    let mut rows = statement.query([table])?;
    let (mut texts, mut values, mut sources) = (vec![], vec![], vec![]);
    loop {
        let row = rows.next()?;
        if let Some(row) = row {
            texts.push(row.get::<_, String>(0)?);
            let location = path(&row.get::<_, String>(1)?)?;
            sources.push(source(location, row.get(2)?));
        }
        if texts.len() == PARTITIONS_PER_BATCH || row.is_none() {
            values.push(from_texts(spec, &texts)?);
            texts.clear();
        }
        if row.is_none() {
            break;
        }
    }
    let values = concat_batches(spec.schema(), &values);
    let values = values.map_err(datafusion::error::DataFusionError::from)?;
    Ok(PartitionBatch::try_new(values, sources)?)
}

fn path(location: &str) -> Result<Path> {
    Path::parse(location).map_err(|error| {
        exec_datafusion_err!("the location '{location}' in the catalog file is none: {error}")
    })
}

fn source(location: Path, rows: Option<i64>) -> PartitionSource {
    let rows = rows.and_then(|rows| usize::try_from(rows).ok());
    PartitionSource::new(location).with_rows(rows.unwrap_or(0))
}

/// Fails when files at `location` would be found in another partition of the table too.
fn check_location(
    transaction: &Transaction<'_>,
    table: i64,
    location: &str,
) -> Result<(), Failure> {
    let same = "SELECT 1 FROM partitions WHERE table_id = ?1 AND location = ?2";
    let mut same = transaction.prepare_cached(same)?;
    let around = enclosing_locations(location).chain([location]);
    for around in around {
        if same.exists(params![table, around])? {
            return Err(overlap_error(location, around).into());
        }
    }
    // The root is around all others.
    let inside = match location {
        "" => "SELECT location FROM partitions WHERE table_id = ?1 AND location > ?2 LIMIT 1",
        _ => INSIDE,
    };
    let mut inside = transaction.prepare_cached(inside)?;
    let inside = inside.query_row(params![table, location], |row| row.get::<_, String>(0));
    match inside.optional()? {
        Some(inside) => Err(overlap_error(&inside, location).into()),
        None => Ok(()),
    }
}

fn raise_version(transaction: &Transaction<'_>, table: i64) -> Result<(), Failure> {
    let sql = "UPDATE tables SET partitions_version = partitions_version + 1 WHERE id = ?1";
    transaction.execute(sql, [table])?;
    Ok(())
}

#[async_trait]
impl PartitionStore for SqlitePartitionStore {
    async fn load(&self) -> Result<StoredPartitions> {
        let (table, name, spec) = (self.table, self.name.clone(), self.spec.clone());
        let load = move |transaction: &Transaction<'_>| {
            Ok(StoredPartitions {
                version: version(transaction, table, &name)?,
                partitions: load(transaction, table, &spec)?,
            })
        };
        self.database.read_async(load).await
    }

    async fn version(&self) -> Result<u64> {
        let (table, name) = (self.table, self.name.clone());
        let version = move |transaction: &Transaction<'_>| version(transaction, table, &name);
        self.database.read_async(version).await
    }

    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>> {
        let (table, name, spec) = (self.table, self.name.clone(), self.spec.clone());
        let add = move |transaction: &Transaction<'_>| {
            version(transaction, table, &name)?;
            let texts = to_texts(&spec, &partitions)?;
            let known = "SELECT 1 FROM partitions WHERE table_id = ?1 AND partition_values = ?2";
            let mut known = transaction.prepare_cached(known)?;
            let insert = "INSERT INTO partitions VALUES (?1, ?2, ?3, ?4)";
            let mut insert = transaction.prepare_cached(insert)?;
            let mut added = vec![];
            for (text, partition) in texts.iter().zip(partitions) {
                if known.exists(params![table, text])? {
                    if if_not_exists {
                        continue;
                    }
                    return Err(already_registered(&spec, &partition.values).into());
                }
                let location = partition.source.location.as_ref();
                check_location(transaction, table, location)?;
                let rows = partition.source.rows;
                let rows = rows.map(|rows| i64::try_from(rows.get()).unwrap_or(i64::MAX));
                insert.execute(params![table, text, location, rows])?;
                added.push(partition);
            }
            if !added.is_empty() {
                raise_version(transaction, table)?;
            }
            Ok(added)
        };
        self.database.write_async(add).await
    }

    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>> {
        let (table, name, spec) = (self.table, self.name.clone(), self.spec.clone());
        let unplaced = |values| Partition::new(values, Path::default());
        let partitions: Vec<_> = partitions.into_iter().map(unplaced).collect();
        let remove = move |transaction: &Transaction<'_>| {
            version(transaction, table, &name)?;
            let texts = to_texts(&spec, &partitions)?;
            let mut delete = transaction.prepare_cached(
                "DELETE FROM partitions WHERE table_id = ?1 AND partition_values = ?2
                 RETURNING location, row_count",
            )?;
            let mut removed = vec![];
            for (text, partition) in texts.iter().zip(partitions) {
                let row = delete.query_row(params![table, text], |row| {
                    Ok((row.get::<_, String>(0)?, row.get(1)?))
                });
                if let Some((location, rows)) = row.optional()? {
                    removed.push(Partition {
                        source: source(path(&location)?, rows),
                        ..partition
                    });
                }
            }
            if !removed.is_empty() {
                raise_version(transaction, table)?;
            }
            Ok(removed)
        };
        self.database.write_async(remove).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_inside_of_another_one_are_found_without_reading_all() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("tables.db")).unwrap();
        let plan = database.read(|transaction| {
            let explain = format!("EXPLAIN QUERY PLAN {INSIDE}");
            let plan = transaction.query_row(&explain, params![1, "a"], |row| {
                row.get::<_, String>("detail")
            });
            Ok(plan?)
        });
        let plan = plan.unwrap();
        let range = "(table_id=? AND location>? AND location<?)";
        assert!(plan.contains(range), "{plan}");
    }
}
