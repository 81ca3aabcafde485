//! Rows that stand for others: one of each group of partitions, or the first in some order.
//!
//! Every row comes from a partition that has been opened, or whose number of rows the catalog
//! knows: the name of a directory proves nothing.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, Scalar};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use futures::stream;
use futures::{StreamExt, TryStreamExt};

use super::run::Share;
use super::unit::Unit;
use super::work::Reading;
use crate::order::PartitionOrder;
use crate::spec::PartitionBatch;

/// Units that return one row for each group of partitions with the same values of `columns`, if
/// the group has a row.
pub(super) fn each_group(
    reading: &Arc<Reading>,
    partitions: &Arc<PartitionBatch>,
    columns: &[usize],
    share: Share,
) -> Result<Vec<Unit>> {
    let groups = group(partitions, columns, share)?;
    let is_known =
        |row: &u32| reading.known.is_some() && partitions.sources()[*row as usize].rows.is_some();
    let mut known = vec![];
    let mut units = vec![];
    for rows in groups {
        if let Some(row) = rows.iter().copied().find(is_known) {
            known.push(row);
            continue;
        }
        let (reading, partitions) = (Arc::clone(reading), Arc::clone(partitions));
        units.push(Unit::new(move |context| {
            let context = Arc::clone(context);
            let row = async move { first_row(&reading, &partitions, &rows, &context).await };
            let batch = stream::once(row)
                .try_filter_map(|found| async move { Ok(found.map(|(_, batch)| batch)) });
            Ok(batch.boxed())
        }));
    }
    if !known.is_empty() {
        let values = partitions.take(&known)?;
        units.extend(reading.known_unit(values.values(), vec![1; known.len()]));
    }
    Ok(units)
}

/// The rows of `partitions` that have the same values of `columns`, in the order of their first
/// ones. Only the groups of `share`.
fn group(partitions: &PartitionBatch, columns: &[usize], share: Share) -> Result<Vec<Vec<u32>>> {
    let all = 0..partitions.len() as u32;
    if columns.is_empty() {
        let is_here = !all.is_empty() && share.has(&[]);
        return Ok(is_here.then(|| all.collect()).into_iter().collect());
    }
    let values = partitions.values().project(columns)?;
    let fields = values.schema_ref().fields().iter();
    let fields = fields.map(|field| SortField::new(field.data_type().clone()));
    let keys = RowConverter::new(fields.collect())?.convert_columns(values.columns())?;
    let mut groups: Vec<Vec<u32>> = vec![];
    let mut positions = HashMap::new();
    for (row, key) in all.zip(keys.iter()) {
        let position = *positions.entry(key).or_insert_with(|| {
            groups.push(vec![]);
            groups.len() - 1
        });
        groups[position].push(row);
    }
    let is_here = |rows: &Vec<u32>| {
        let first = rows.first().map(|row| keys.row(*row as usize));
        first.is_some_and(|key| share.has(key.as_ref()))
    };
    groups.retain(is_here);
    Ok(groups)
}

/// A unit that returns, for each of `columns`, a row whose value comes first in this order, NULL
/// left out.
pub(super) fn extremes(
    reading: Arc<Reading>,
    partitions: Arc<PartitionBatch>,
    columns: Vec<(usize, SortOptions)>,
) -> Unit {
    Unit::new(move |context| {
        let context = Arc::clone(context);
        let found: Vec<u32> = vec![];
        let rows = stream::try_unfold(
            (columns.into_iter(), found),
            move |(mut columns, mut found)| {
                let next = columns.next();
                let (reading, partitions) = (Arc::clone(&reading), Arc::clone(&partitions));
                let context = Arc::clone(&context);
                async move {
                    let Some((column, options)) = next else {
                        return Ok(None);
                    };
                    let candidates = before(&partitions, column, options, &found)?;
                    let first = first_row(&reading, &partitions, &candidates, &context).await?;
                    let batch = first.map(|(row, batch)| {
                        found.push(row);
                        batch
                    });
                    Ok(Some((batch, (columns, found))))
                }
            },
        );
        Ok(rows.try_filter_map(|batch| async { Ok(batch) }).boxed())
    })
}

/// The partitions in the order of one column, NULL left out, as long as they come before all of
/// those in which a row has been found already.
fn before(
    partitions: &PartitionBatch,
    column: usize,
    options: SortOptions,
    found: &[u32],
) -> Result<Vec<u32>> {
    let values = partitions.values().column(column);
    let mut sorted = PartitionOrder::new([(column, options)]).sort(partitions)?;
    sorted.retain(|row| values.is_valid(*row as usize));
    let mut end = sorted.len();
    for row in found {
        let value = values.slice(*row as usize, 1);
        let same = not_distinct(values, &Scalar::new(value))?;
        let first = sorted.iter().position(|row| same.value(*row as usize));
        end = end.min(first.unwrap_or(end));
    }
    sorted.truncate(end);
    Ok(sorted)
}

/// Reads the partitions `rows` one after another until a row is found. Returns the partition and
/// the row.
///
/// Their files are looked for in more and more of them at a time, in case that many are empty.
async fn first_row(
    reading: &Arc<Reading>,
    partitions: &PartitionBatch,
    rows: &[u32],
    context: &Arc<TaskContext>,
) -> Result<Option<(u32, RecordBatch)>> {
    let read = &reading.context;
    let (mut start, mut size) = (0, 1);
    while start < rows.len() {
        let some = &rows[start..(start + size).min(rows.len())];
        start += size;
        size = (size * 2).min(read.concurrency);

        let wanted = reading.wanted(partitions.take(some)?.values())?;
        let some = some.iter().copied().zip(wanted.values());
        let some: Vec<u32> = some
            .filter_map(|(row, wanted)| wanted.then_some(row))
            .collect();
        let mut opened = stream::iter(some)
            .map(|row| async move {
                let partition = partitions.take(&[row])?;
                let is_known = partition.sources()[0].rows.is_some();
                let known = is_known
                    .then(|| reading.known_unit(partition.values(), vec![1]))
                    .flatten();
                if let Some(unit) = known {
                    return Ok((row, vec![unit], true));
                }
                let source = reading.reader.read(partition, read).await?;
                Ok::<_, DataFusionError>((row, Unit::each_of(&source).collect(), false))
            })
            .buffered(read.concurrency);
        while let Some((row, units, is_known)) = opened.try_next().await? {
            if !is_known {
                reading.limits.count(&partitions.take(&[row])?)?;
                read.metrics.partitions_scanned.add(1);
            }
            for unit in units {
                read.metrics.files_scanned.add(usize::from(!is_known));
                let mut batches = unit.open(context)?;
                while let Some(batch) = batches.try_next().await? {
                    if batch.num_rows() > 0 {
                        return Ok(Some((row, batch.slice(0, 1))));
                    }
                }
            }
        }
    }
    Ok(None)
}
