//! [`SeenPartitions`]: the partitions that walks have come across, with their sizes.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use datafusion::common::Result;
use datafusion_partitioned_core::{PartitionBatch, PartitionPredicate};
use object_store::path::Path;

/// No more partitions of a table than these are remembered.
const MOST: usize = 10_000;

/// Values and sizes of partitions, the latest of each.
#[derive(Debug, Default)]
pub(crate) struct SeenPartitions {
    /// Where each of them is among the values and sizes, by its location.
    positions: HashMap<Path, usize>,
    /// A row for each of them, in several batches.
    values: Vec<RecordBatch>,
    sizes: Vec<SeenSize>,
}

/// The size of a partition.
#[derive(Debug, Clone, Copy)]
struct SeenSize {
    bytes: usize,
    /// The walk that has found it, which may still find more of it.
    walk: u64,
}

/// Those of the partitions that a predicate wants.
#[derive(Debug)]
pub(crate) struct Survivors {
    /// A row for each of them.
    pub(crate) values: RecordBatch,
    /// The bytes of their files.
    pub(crate) bytes: usize,
}

impl SeenPartitions {
    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Remembers `partitions`, which `walk` has found. A partition can come in several batches, each
    /// with some of its files. Returns how many of them are new to this walk; when there are more
    /// than can be remembered, some of them count again.
    pub(crate) fn record(&mut self, walk: u64, partitions: &PartitionBatch) -> Result<usize> {
        let mut found = 0;
        let mut added: Vec<u32> = vec![];
        for (row, source) in (0..).zip(partitions.sources()) {
            let objects = source.objects.iter().flatten();
            let bytes = objects.map(|object| object.size as usize).sum();
            let new = SeenSize { bytes, walk };
            match self.positions.get(&source.location) {
                Some(position) if self.sizes[*position].walk == walk => {
                    self.sizes[*position].bytes += bytes;
                    continue;
                }
                Some(position) => self.sizes[*position] = new,
                None if self.len() < MOST => {
                    let position = self.len();
                    self.positions.insert(source.location.clone(), position);
                    self.sizes.push(new);
                    added.push(row);
                }
                None => {}
            }
            found += 1;
        }
        if !added.is_empty() {
            let rows = UInt32Array::from(added);
            let values = take_record_batch(partitions.values(), &rows)?;
            self.values.push(values);
        }
        Ok(found)
    }

    /// Forgets the partitions that other walks than this one have found last.
    pub(crate) fn keep_those_of(&mut self, walk: u64) -> Result<()> {
        let keep: Vec<bool> = self.sizes.iter().map(|size| size.walk == walk).collect();
        let Some(values) = self.all_values()? else {
            return Ok(());
        };
        if keep.iter().all(|keep| *keep) {
            return Ok(());
        }
        let mut kept = 0;
        let positions: Vec<_> = keep
            .iter()
            .map(|keep| {
                kept += usize::from(*keep);
                keep.then(|| kept - 1)
            })
            .collect();
        self.positions.retain(|_, position| {
            let new = positions[*position];
            *position = new.unwrap_or_default();
            new.is_some()
        });
        self.sizes.retain(|size| size.walk == walk);
        self.values = vec![filter_record_batch(&values, &BooleanArray::from(keep))?];
        Ok(())
    }

    /// Those that satisfy `wanted`. `None` when there are none at all.
    ///
    /// # Errors
    /// When the predicate cannot be evaluated.
    pub(crate) fn survivors(&mut self, wanted: &PartitionPredicate) -> Result<Option<Survivors>> {
        let Some(values) = self.all_values()? else {
            return Ok(None);
        };
        let keep = wanted.evaluate(&values)?.keep;
        let bytes = keep.values().set_indices().map(|row| self.sizes[row].bytes);
        Ok(Some(Survivors {
            bytes: bytes.sum(),
            values: match keep.true_count() == keep.len() {
                true => values,
                false => filter_record_batch(&values, &keep)?,
            },
        }))
    }

    fn all_values(&mut self) -> Result<Option<RecordBatch>> {
        let Some(first) = self.values.first() else {
            return Ok(None);
        };
        if self.values.len() > 1 {
            let schema = Arc::clone(first.schema_ref());
            self.values = vec![concat_batches(&schema, &self.values)?];
        }
        Ok(self.values.first().cloned())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use datafusion_partitioned_core::{PartitionSource, PartitionSpec};
    use object_store::ObjectMeta;

    use super::*;

    fn spec() -> PartitionSpec {
        PartitionSpec::try_new([Field::new("p", DataType::Int32, true)]).unwrap()
    }

    /// Partitions with a value and a file of some bytes.
    fn batch(partitions: &[(i32, u64)]) -> PartitionBatch {
        let values = Int32Array::from_iter_values(partitions.iter().map(|p| p.0));
        let schema = Arc::clone(spec().schema());
        let values = RecordBatch::try_new(schema, vec![Arc::new(values)]).unwrap();
        let sources = partitions.iter().map(|(p, size)| {
            let location = Path::from(format!("t/p={p}"));
            PartitionSource::new(location.clone()).with_objects(vec![ObjectMeta {
                location: location.join("f"),
                last_modified: Default::default(),
                size: *size,
                e_tag: None,
                version: None,
            }])
        });
        PartitionBatch::try_new(values, sources.collect()).unwrap()
    }

    fn survivors(seen: &mut SeenPartitions, from: i32) -> (usize, usize) {
        let spec = spec();
        let p = col("p", spec.schema()).unwrap();
        let filter = binary(p, Operator::GtEq, lit(from), spec.schema()).unwrap();
        let wanted = PartitionPredicate::all(&spec).with_filter(&filter);
        let survivors = seen.survivors(&wanted).unwrap().unwrap();
        (survivors.values.num_rows(), survivors.bytes)
    }

    #[test]
    fn a_walk_adds_up_and_the_next_one_begins_anew() {
        let mut seen = SeenPartitions::default();
        let all = PartitionPredicate::all(&spec());
        assert!(seen.survivors(&all).unwrap().is_none());

        assert_eq!(seen.record(1, &batch(&[(1, 10), (2, 20)])).unwrap(), 2);
        // The second one goes on on the next page.
        assert_eq!(seen.record(1, &batch(&[(2, 5), (3, 30)])).unwrap(), 1);
        assert_eq!(survivors(&mut seen, 0), (3, 65));
        assert_eq!(survivors(&mut seen, 2), (2, 55));

        assert_eq!(seen.record(2, &batch(&[(3, 7), (4, 1)])).unwrap(), 2);
        assert_eq!(survivors(&mut seen, 2), (3, 33));
        seen.keep_those_of(2).unwrap();
        assert_eq!(survivors(&mut seen, 0), (2, 8));
        assert_eq!(seen.record(3, &batch(&[(4, 2)])).unwrap(), 1);
        assert_eq!(survivors(&mut seen, 4), (1, 2));
    }

    #[test]
    fn a_large_table_is_remembered_in_part() {
        let mut seen = SeenPartitions::default();
        let partitions: Vec<_> = (0..MOST as i32 + 7).map(|p| (p, 1)).collect();
        assert_eq!(seen.record(1, &batch(&partitions)).unwrap(), MOST + 7);
        assert_eq!(seen.len(), MOST);
        assert_eq!(survivors(&mut seen, MOST as i32 - 3), (3, 3));
    }
}
