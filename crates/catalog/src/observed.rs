//! What walks have seen of a table, to guess its size without a request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use datafusion_partitioned_core::{PartitionBatch, PartitionEstimate, PartitionPredicate};

use crate::seen::SeenPartitions;

/// A directory level that no walk has seen is taken to have this many directories in each parent.
const ASSUMED_DIRECTORIES: f64 = 100.0;
/// A partition that no walk has seen is taken to have this many bytes.
const ASSUMED_BYTES: f64 = PartitionEstimate::ASSUMED_BYTES as f64;
/// The share of rows that DataFusion assumes a filter keeps.
const ASSUMED_SELECTIVITY: f64 = 0.2;

/// The partitions that walks have seen, and averages for those that they have not: directories per
/// parent for each level, bytes per partition.
#[derive(Debug)]
pub(crate) struct Observed(Mutex<Sums>);

#[derive(Debug)]
struct Sums {
    roots: f64,
    levels: Vec<Mean>,
    bytes: Mean,
    seen: SeenPartitions,
    /// How many partitions the last walk over the whole table has found.
    total: Option<usize>,
    /// How many walks have begun.
    walks: u64,
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
    /// Nothing yet, of a table with so many roots and levels.
    pub(crate) fn new(roots: usize, levels: usize) -> Self {
        Self(Mutex::new(Sums {
            roots: roots as f64,
            levels: vec![Mean::default(); levels],
            bytes: Mean::default(),
            seen: SeenPartitions::default(),
            total: None,
            walks: 0,
        }))
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a walk that begins.
    pub(crate) fn start_walk(&self) -> u64 {
        let mut sums = self.sums();
        sums.walks += 1;
        sums.walks
    }

    /// `directories` were found in `parents` listed directories of the level above `level`.
    pub(crate) fn record_directories(&self, level: usize, directories: usize, parents: usize) {
        if let Some(mean) = self.sums().levels.get_mut(level) {
            mean.add(directories, parents);
        }
    }

    /// `walk` has found `partitions`, with some or all of their files. Returns how many of them it
    /// had not found before.
    pub(crate) fn record_partitions(
        &self,
        walk: u64,
        partitions: &PartitionBatch,
    ) -> Result<usize> {
        let objects = partitions.sources().iter().flat_map(|s| &s.objects);
        let bytes = objects.flatten().map(|object| object.size as usize).sum();
        let mut sums = self.sums();
        let found = sums.seen.record(walk, partitions)?;
        sums.bytes.add(bytes, found);
        Ok(found)
    }

    /// `walk` has found all there is: so many partitions.
    pub(crate) fn record_whole_table(&self, walk: u64, partitions: usize) -> Result<()> {
        let mut sums = self.sums();
        sums.total = Some(partitions);
        sums.seen.keep_those_of(walk)
    }

    /// What is below one root, by the averages alone.
    pub(crate) fn average(&self) -> PartitionEstimate {
        let sums = self.sums();
        let partitions = sums.partitions_below_one().max(1.0);
        PartitionEstimate {
            partitions: partitions as usize,
            bytes: Some((partitions * sums.bytes.value_or(ASSUMED_BYTES)) as usize),
            distinct: sums.distinct().map(|distinct| distinct as usize).collect(),
            ..Default::default()
        }
    }

    /// The wanted ones of the partitions that walks have seen, and a share of the others.
    pub(crate) fn estimate(&self, wanted: &PartitionPredicate) -> PartitionEstimate {
        let mut sums = self.sums();
        // Where the predicate cannot be evaluated, nothing is known of any partition.
        let survivors = sums.seen.survivors(wanted).ok().flatten();
        let seen = survivors.as_ref().map_or(0, |_| sums.seen.len());
        let kept = survivors.as_ref().map_or(0, |s| s.values.num_rows());
        let total = sums.total.map_or_else(
            || sums.partitions_below_one() * sums.roots,
            |total| total as f64,
        );
        let unseen = (total - seen as f64).max(0.0);
        let mut others = wanted
            .filters()
            .fold(unseen, |n, _| n * ASSUMED_SELECTIVITY);
        if kept == 0 && unseen >= 1.0 {
            others = others.max(1.0);
        }
        // Where the predicate lists the values of all columns, there are no more than those.
        let listed = (0..wanted.spec().len())
            .map(|column| wanted.candidates(column).map(|values| values.len()))
            .try_fold(1_usize, |all, count| Some(all.saturating_mul(count?)));
        let is_complete = unseen < 1.0 || listed.is_some_and(|listed| kept >= listed);
        if let Some(listed) = listed {
            others = others.min(listed.saturating_sub(kept) as f64);
        }
        let bytes = survivors.as_ref().map_or(0, |s| s.bytes) as f64
            + others * sums.bytes.value_or(ASSUMED_BYTES);
        let partitions = (kept as f64 + others).max(1.0);
        PartitionEstimate {
            partitions: partitions as usize,
            bytes: Some(bytes as usize),
            rows: None,
            distinct: sums
                .distinct()
                .map(|distinct| distinct.min(partitions) as usize)
                .collect(),
            values: survivors.map(|s| s.values).filter(|_| is_complete),
        }
    }
}

impl Sums {
    /// The number of directories in one of the level above, for each level.
    fn distinct(&self) -> impl Iterator<Item = f64> {
        let levels = self.levels.iter();
        levels.map(|level| level.value_or(ASSUMED_DIRECTORIES))
    }

    fn partitions_below_one(&self) -> f64 {
        self.distinct().product()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use datafusion_partitioned_core::{PartitionSource, PartitionSpec};
    use object_store::ObjectMeta;
    use object_store::path::Path;

    use super::*;

    fn spec() -> PartitionSpec {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
        PartitionSpec::try_new(fields).unwrap()
    }

    /// Partitions of 100 bytes.
    fn partitions(values: &[(i32, i32)]) -> PartitionBatch {
        let (a, b): (Vec<_>, Vec<_>) = values.iter().copied().unzip();
        let columns = [a, b].map(|values| Arc::new(Int32Array::from(values)) as _);
        let schema = Arc::clone(spec().schema());
        let batch = RecordBatch::try_new(schema, columns.to_vec()).unwrap();
        let sources = values.iter().map(|(a, b)| {
            let location = Path::from(format!("t/a={a}/b={b}"));
            PartitionSource::new(location.clone()).with_objects(vec![ObjectMeta {
                location: location.join("f"),
                last_modified: Default::default(),
                size: 100,
                e_tag: None,
                version: None,
            }])
        });
        PartitionBatch::try_new(batch, sources.collect()).unwrap()
    }

    /// Partitions and bytes of those with a value of `a`.
    fn estimate(observed: &Observed, a: i32) -> (usize, Option<usize>) {
        let spec = spec();
        let column = col("a", spec.schema()).unwrap();
        let filter = binary(column, Operator::Eq, lit(a), spec.schema()).unwrap();
        let wanted = PartitionPredicate::all(&spec).with_filter(&filter);
        let estimate = observed.estimate(&wanted);
        (estimate.partitions, estimate.bytes)
    }

    #[test]
    fn an_unseen_table_is_large_and_a_seen_one_is_what_it_was() {
        let all = PartitionPredicate::all(&spec());
        let observed = Observed::new(1, 2);
        assert_eq!(observed.estimate(&all).partitions, 10_000);
        assert_eq!(observed.estimate(&all).distinct, [100, 100]);
        assert_eq!(Observed::new(3, 2).estimate(&all).partitions, 30_000);

        // Two partitions of three directories with five each.
        let walk = observed.start_walk();
        observed.record_directories(0, 3, 1);
        observed.record_directories(1, 10, 2);
        let found = observed.record_partitions(walk, &partitions(&[(1, 1), (2, 1)]));
        assert_eq!(found.unwrap(), 2);
        let guess = observed.estimate(&all);
        assert_eq!((guess.partitions, guess.bytes), (15, Some(1_500)));
        assert_eq!(guess.values, None);
        // A fifth of those that nobody has seen.
        assert_eq!(estimate(&observed, 1), (3, Some(360)));
        let average = observed.average();
        assert_eq!((average.partitions, average.distinct), (15, vec![3, 5]));
    }

    #[test]
    fn where_all_values_are_listed_there_are_no_more_than_those() {
        let observed = Observed::new(1, 2);
        let spec = spec();
        let equals = |name: &str, value: i32| {
            let column = col(name, spec.schema()).unwrap();
            binary(column, Operator::Eq, lit(value), spec.schema()).unwrap()
        };
        let wanted = PartitionPredicate::all(&spec)
            .with_filter(&equals("a", 1))
            .with_filter(&equals("b", 2));
        let guess = observed.estimate(&wanted);
        assert_eq!((guess.partitions, guess.values), (1, None));
        let walk = observed.start_walk();
        let found = partitions(&[(1, 1), (1, 2)]);
        observed.record_partitions(walk, &found).unwrap();
        let known = observed.estimate(&wanted);
        assert_eq!((known.partitions, known.bytes), (1, Some(100)));
        assert_eq!(known.values.map(|values| values.num_rows()), Some(1));
    }

    #[test]
    fn after_a_walk_over_the_whole_table_all_is_known() {
        let observed = Observed::new(1, 2);
        let walk = observed.start_walk();
        let found = partitions(&[(1, 1), (1, 2), (2, 1)]);
        observed.record_partitions(walk, &found).unwrap();
        observed.record_whole_table(walk, 3).unwrap();
        let known = observed.estimate(&PartitionPredicate::all(&spec()));
        assert_eq!((known.partitions, known.bytes), (3, Some(300)));
        assert_eq!(known.values.unwrap(), *found.values());
        assert_eq!(estimate(&observed, 1), (2, Some(200)));
        assert_eq!(estimate(&observed, 9), (1, Some(0)));
    }
}
