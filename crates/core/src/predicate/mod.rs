//! [`PartitionPredicate`]: which partitions a query wants.

mod candidates;
mod changing;
mod running;
mod three_valued;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{filter, filter_record_batch};
use datafusion::common::Result;
use datafusion::common::cast::as_uint32_array;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};

use crate::dynamic_filter::{FilterKey, KeySlot};
use crate::key_set::Comparison;
use crate::spec::PartitionSpec;
pub use changing::ChangingPredicate;
pub(crate) use running::RunningFilter;
use three_valued::Expression;

/// The conjunction of everything that is known about the wanted partitions: filters known when
/// planning and the key sets of dynamic filters.
///
/// Expressions refer to partition columns by their index in the [`PartitionSpec`]; every index
/// from `spec.len()` on stands for something that is not known about a partition, such as a
/// column of its files.
///
/// # Three values
///
/// A predicate can be asked while only the first columns are known, as during a directory walk.
/// Rows are partitions, `?` is a column not known yet:
///
/// | predicate | year | month | keeps | |
/// |---|---|---|---|---|
/// | `year = 2024 AND month = 7` | 2024 | ? | yes | may become true |
/// | `year = 2024 AND month = 7` | 2023 | ? | no | false whatever the month is |
/// | `year = 2024 OR month = 7` | 2023 | ? | yes | |
/// | `(year = 2024 AND month = 7) OR (year = 2023 AND month = 1)` | 2022 | ? | no | |
/// | `year = 2024` | NULL | ? | no | NULL is not true, as in SQL |
/// | `day > now_file_column` | | | yes | never known |
///
/// Only what is false or NULL for certain is dropped. An expression whose columns are all known is
/// evaluated by DataFusion itself, so functions, casts and collations are those of the query, and
/// an evaluation error is an error.
#[derive(Clone)]
pub struct PartitionPredicate {
    spec: PartitionSpec,
    conjuncts: Vec<Conjunct>,
    dynamic: Vec<DynamicConjunct>,
    running: Vec<Arc<RunningFilter>>,
}

#[derive(Debug, Clone)]
struct Conjunct {
    expression: Expression,
    /// Which partition columns it mentions, in order.
    columns: Vec<usize>,
    /// Whether it mentions nothing else, file columns included.
    is_about_partitions: bool,
    /// Whether the rows of what it keeps are filtered by it again.
    is_advisory: bool,
}

#[derive(Debug, Clone)]
struct DynamicConjunct {
    keys: Vec<Conjunct>,
    /// How each of them compares to the keys.
    comparisons: Vec<Comparison>,
    slot: Arc<KeySlot>,
}

/// The answer of [`PartitionPredicate::evaluate`].
#[derive(Debug, Clone)]
pub struct Pruned {
    /// True for the rows to keep; never NULL.
    pub keep: BooleanArray,
    /// Rows dropped by filters known when planning.
    pub by_static: usize,
    /// Rows dropped by dynamic filters alone.
    pub by_dynamic: usize,
}

impl PartitionPredicate {
    /// The predicate that keeps every partition.
    pub fn all(spec: &PartitionSpec) -> Self {
        Self {
            spec: spec.clone(),
            conjuncts: vec![],
            dynamic: vec![],
            running: vec![],
        }
    }

    /// The partition columns that it is about.
    pub fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    /// Adds a filter, split into its conjuncts. Those that mention columns but no partition column
    /// say nothing about partitions and are left out, as are those that are there already.
    pub fn with_filter(self, filter: &Arc<dyn PhysicalExpr>) -> Self {
        self.with_conjuncts(filter, false)
    }

    /// Adds a filter that the rows have to pass once more. Where it cannot be evaluated it keeps
    /// everything: whether there is a row for which it fails is found out by whoever filters the rows.
    pub fn with_advisory_filter(self, filter: &Arc<dyn PhysicalExpr>) -> Self {
        self.with_conjuncts(filter, true)
    }

    fn with_conjuncts(mut self, filter: &Arc<dyn PhysicalExpr>, is_advisory: bool) -> Self {
        for expr in split_conjunction(filter) {
            let mut conjunct = Conjunct::new(expr, self.spec.len());
            conjunct.is_advisory = is_advisory;
            let says_nothing = conjunct.columns.is_empty() && !conjunct.is_about_partitions;
            if !says_nothing && !self.filters().any(|known| known == expr) {
                self.conjuncts.push(conjunct);
            }
        }
        self
    }

    /// Adds the key tuples that a dynamic filter will publish in `slot`, to be compared with `keys`.
    /// As long as the slot is empty it keeps everything.
    pub fn with_keys(mut self, keys: &[FilterKey], slot: Arc<KeySlot>) -> Self {
        let conjuncts = keys
            .iter()
            .map(|key| Conjunct::new(&key.expr, self.spec.len()));
        self.dynamic.push(DynamicConjunct {
            keys: conjuncts.collect(),
            comparisons: keys.iter().map(|key| key.comparison).collect(),
            slot,
        });
        self
    }

    /// Adds a filter that changes while the query runs. It is asked for what it says each time.
    pub(crate) fn with_running(mut self, filter: &Arc<RunningFilter>) -> Self {
        self.running.push(Arc::clone(filter));
        self
    }

    /// The same predicate over the first `columns` columns alone; of the others nothing is known.
    pub fn over_prefix(&self, columns: usize) -> Self {
        let conjunct = |c: &Conjunct| Conjunct {
            is_advisory: c.is_advisory,
            ..Conjunct::new(c.expression.expr(), columns)
        };
        let dynamic = self.dynamic.iter().map(|dynamic| DynamicConjunct {
            keys: dynamic.keys.iter().map(conjunct).collect(),
            comparisons: dynamic.comparisons.clone(),
            slot: Arc::clone(&dynamic.slot),
        });
        Self {
            spec: self.spec.split_at(columns).0,
            conjuncts: self.conjuncts.iter().map(conjunct).collect(),
            dynamic: dynamic.collect(),
            // It can only drop less without them.
            running: vec![],
        }
    }

    /// The filters known when planning, over the columns of the spec.
    pub fn filters(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.conjuncts
            .iter()
            .map(|conjunct| conjunct.expression.expr())
    }

    /// Whether anything known now restricts a partition column with index `first` or above.
    ///
    /// A walk stops descending level by level once this is false.
    pub fn constrains_from(&self, first: usize) -> bool {
        let reaches = |c: &Conjunct| c.columns.iter().any(|column| *column >= first);
        self.conjuncts.iter().any(reaches)
            || self.dynamic.iter().any(|dynamic| {
                dynamic.keys.iter().any(reaches)
                    && dynamic.slot.keys().is_some_and(|keys| keys.is_selective())
            })
            || self.running.iter().any(|running| {
                running
                    .current()
                    .is_ok_and(|now| now.constrains_from(first))
            })
    }

    /// Which rows of `values` may satisfy the predicate.
    ///
    /// `values` holds the first k partition columns, k from 0 to all of them.
    ///
    /// # Errors
    /// What DataFusion's expressions report when they are evaluated.
    pub fn evaluate(&self, values: &RecordBatch) -> Result<Pruned> {
        self.prune(values, true)
    }

    /// As [`Self::evaluate`], and tells the filters what they drop if it `counts`.
    fn prune(&self, values: &RecordBatch, counts: bool) -> Result<Pruned> {
        let mut survivors = Survivors::new(values);
        for conjunct in &self.conjuncts {
            survivors.retain(|batch| conjunct.evaluate(batch))?;
        }
        let after_static = survivors.len();
        for conjunct in &self.dynamic {
            let before = survivors.len();
            survivors.retain(|batch| conjunct.evaluate(batch))?;
            if counts {
                conjunct.slot.add_dropped(before - survivors.len());
            }
        }
        for running in &self.running {
            // What cannot be evaluated keeps everything: the operator filters its rows itself.
            if let Ok(now) = running.current() {
                survivors.retain(|batch| Ok(now.evaluate(batch).ok().map(|pruned| pruned.keep)))?;
            }
        }
        Ok(Pruned {
            by_static: values.num_rows() - after_static,
            by_dynamic: after_static - survivors.len(),
            keep: survivors.into_mask(values.num_rows()),
        })
    }
}

impl Conjunct {
    fn new(expr: &Arc<dyn PhysicalExpr>, partition_columns: usize) -> Self {
        let mut columns: Vec<usize> = collect_columns(expr)
            .iter()
            .map(|column| column.index())
            .collect();
        columns.sort_unstable();
        let is_about_partitions = columns.last().is_none_or(|last| *last < partition_columns);
        columns.retain(|column| *column < partition_columns);
        Self {
            expression: Expression::new(expr),
            columns,
            is_about_partitions,
            is_advisory: false,
        }
    }

    /// The rows to keep, or `None` for all of them.
    fn evaluate(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let mentions_known = self
            .columns
            .first()
            .is_some_and(|c| *c < batch.num_columns());
        if !mentions_known && !self.expression.is_known(batch) {
            return Ok(None);
        }
        match self.expression.may_be_true(batch) {
            Err(_) if self.is_advisory => Ok(None),
            keep => keep.map(Some),
        }
    }
}

impl DynamicConjunct {
    fn evaluate(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let Some(keys) = self.slot.keys() else {
            return Ok(None);
        };
        // A key that cannot be evaluated keeps everything: whether a row has it, and fails, is for
        // the join to find out.
        let candidates: Vec<Option<ArrayRef>> = self
            .keys
            .iter()
            .map(|key| {
                let expression = &key.expression;
                let is_known = expression.is_known(batch);
                let value = is_known
                    .then(|| expression.expr().evaluate(batch).ok())
                    .flatten()?;
                value.into_array(batch.num_rows()).ok()
            })
            .collect();
        let candidates: Vec<_> = candidates.iter().map(Option::as_ref).collect();
        // Nor does a type that cannot be compared: see `KeySet::may_match`.
        Ok(keys
            .may_match(&candidates, &self.comparisons, batch.num_rows())
            .unwrap_or(None))
    }
}

/// The rows that no conjunct has dropped yet. Later conjuncts see only these, so that
/// `p <> 0 AND 10 / p > 2` never divides by zero.
struct Survivors {
    batch: RecordBatch,
    rows: UInt32Array,
}

impl Survivors {
    fn new(values: &RecordBatch) -> Self {
        Self {
            batch: values.clone(),
            rows: (0..values.num_rows() as u32).collect(),
        }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn retain(
        &mut self,
        keep: impl FnOnce(&RecordBatch) -> Result<Option<BooleanArray>>,
    ) -> Result<()> {
        if self.len() == 0 {
            return Ok(());
        }
        if let Some(keep) = keep(&self.batch)?
            && keep.true_count() < self.len()
        {
            self.batch = filter_record_batch(&self.batch, &keep)?;
            self.rows = as_uint32_array(&filter(&self.rows, &keep)?)?.clone();
        }
        Ok(())
    }

    fn into_mask(self, rows: usize) -> BooleanArray {
        if self.len() == rows {
            return BooleanArray::new(BooleanBuffer::new_set(rows), None);
        }
        let mut mask = vec![false; rows];
        for row in self.rows.values() {
            mask[*row as usize] = true;
        }
        BooleanArray::from(mask)
    }
}

/// The filters known when planning, such as `year@0 = 2024, month@1 > 6`, for `EXPLAIN`.
impl fmt::Display for PartitionPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, conjunct) in self.conjuncts.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{}", conjunct.expression.expr())?;
        }
        Ok(())
    }
}

impl fmt::Debug for PartitionPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionPredicate")
            .field("filters", &self.to_string())
            .field("dynamic", &self.dynamic)
            .finish()
    }
}

#[cfg(test)]
mod tests;
