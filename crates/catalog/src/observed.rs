//! What walks have seen of a table, to guess its size without a request.

use std::sync::{Mutex, PoisonError};

use datafusion_partitioned_core::{PartitionEstimate, PartitionPredicate};

use crate::listing::Size;

/// A directory level that no walk has seen is taken to have this many directories in each parent.
const ASSUMED_DIRECTORIES: f64 = 100.0;
/// A partition that no walk has seen is taken to have this many bytes.
const ASSUMED_BYTES: f64 = PartitionEstimate::ASSUMED_BYTES as f64;
/// The share of rows that DataFusion assumes a filter keeps.
const ASSUMED_SELECTIVITY: f64 = 0.2;

/// Averages over all walks of a table: directories per parent for each level, bytes per partition.
#[derive(Debug)]
pub(crate) struct Observed(Mutex<Sums>);

#[derive(Debug)]
struct Sums {
    levels: Vec<Mean>,
    bytes: Mean,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, sum: usize, count: usize) {
        self.sum += sum as f64;
        self.count += count as f64;
    }

    fn value_or(&self, assumed: f64) -> f64 {
        if self.count > 0.0 {
            self.sum / self.count
        } else {
            assumed
        }
    }
}

impl Observed {
    pub(crate) fn new(levels: usize) -> Self {
        Self(Mutex::new(Sums {
            levels: vec![Mean::default(); levels],
            bytes: Mean::default(),
        }))
    }

    /// `directories` were found in `parents` listed directories of the level above `level`.
    pub(crate) fn record_directories(&self, level: usize, directories: usize, parents: usize) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mean) = sums.levels.get_mut(level) {
            mean.add(directories, parents);
        }
    }

    /// `partitions` have `bytes` in their files.
    pub(crate) fn record_bytes(&self, bytes: usize, partitions: usize) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.bytes.add(bytes, partitions);
    }

    pub(crate) fn estimate(&self, wanted: &PartitionPredicate) -> PartitionEstimate {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let distinct = sums
            .levels
            .iter()
            .map(|level| level.value_or(ASSUMED_DIRECTORIES));
        let all: f64 = distinct.clone().product();
        let partitions = wanted
            .filters()
            .fold(all, |n, _| n * ASSUMED_SELECTIVITY)
            .max(1.0);
        PartitionEstimate {
            partitions: partitions as usize,
            bytes: Some((partitions * sums.bytes.value_or(ASSUMED_BYTES)) as usize),
            rows: None,
            distinct: distinct.map(|distinct| distinct as usize).collect(),
        }
    }

    /// The size of some directories, each given with the number of columns that its path spells.
    /// One whose size is not known counts as an average one.
    pub(crate) fn add_up(
        &self,
        directories: &[(usize, Option<Size>)],
        mut distinct: Vec<usize>,
    ) -> PartitionEstimate {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes_of_one = sums.bytes.value_or(ASSUMED_BYTES);
        let (mut partitions, mut bytes) = (0.0, 0.0);
        for (known, size) in directories {
            match size {
                Some(size) => {
                    partitions += size.partitions as f64;
                    bytes += size.bytes as f64;
                }
                None => {
                    let missing = sums.levels[*known..].iter();
                    let below: f64 = missing
                        .map(|level| level.value_or(ASSUMED_DIRECTORIES))
                        .product();
                    partitions += below;
                    bytes += below * bytes_of_one;
                }
            }
        }
        let partitions = (partitions as usize).max(1);
        for distinct in &mut distinct {
            *distinct = partitions.min(*distinct);
        }
        PartitionEstimate {
            partitions,
            bytes: Some(bytes as usize),
            rows: None,
            distinct,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion_partitioned_core::PartitionSpec;

    use super::*;

    #[test]
    fn an_unseen_table_is_large_and_a_seen_one_is_what_it_was() {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
        let all = PartitionPredicate::all(&PartitionSpec::try_new(fields).unwrap());
        let observed = Observed::new(2);
        assert_eq!(observed.estimate(&all).partitions, 10_000);
        assert_eq!(observed.estimate(&all).distinct, [100, 100]);

        observed.record_directories(0, 3, 1);
        observed.record_directories(1, 10, 2);
        observed.record_bytes(1_000, 10);
        let estimate = observed.estimate(&all);
        assert_eq!((estimate.partitions, estimate.bytes), (15, Some(1_500)));

        let known = Size {
            partitions: 2,
            bytes: 7,
        };
        let estimate = observed.add_up(&[(1, Some(known)), (1, None), (2, None)], vec![3, 100]);
        assert_eq!((estimate.partitions, estimate.bytes), (8, Some(607)));
        assert_eq!(estimate.distinct, [3, 8]);
    }
}
