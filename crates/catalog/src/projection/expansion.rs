//! The partitions of a projection that satisfy a predicate, one batch after another.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{concat, filter_record_batch, take, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, internal_err};
use datafusion_partitioned_core::{
    PartitionBatch, PartitionPredicate, PartitionSource, ScanMetrics,
};

use super::column::Domain;
use super::{ColumnProjection, ProjectionCatalog};
use crate::level::extend;

/// The predicate is asked about this many combinations of values at a time.
const AT_A_TIME: usize = 8192;

/// Combines the values of the columns from left to right, and asks the predicate about each prefix
/// before it goes on with the next column. Holds at most one batch for each column.
///
/// ```text
///   a=1 a=2 a=3      ask with (a, ?)
///    │       │
///    1 2 3   1 2 3   ask with (a, b)
/// ```
pub(super) struct Expansion {
    catalog: ProjectionCatalog,
    wanted: PartitionPredicate,
    metrics: ScanMetrics,
    columns: Vec<Column>,
    prefixes: Vec<Prefixes>,
}

struct Column {
    domain: Domain,
    is_reversed: bool,
    /// All values in the direction in which they are gone through, when there are few.
    all: Option<ArrayRef>,
}

/// Wanted values of the first columns, and how far they have been combined with those of the next.
struct Prefixes {
    values: RecordBatch,
    /// For each column the places of the values in its domain.
    places: RecordBatch,
    /// The next combination: a prefix, and the position of a value.
    next: (usize, usize),
}

/// Each of some prefixes with each of some values, by their positions.
struct Combinations {
    parents: Range<usize>,
    values: Range<usize>,
}

impl Expansion {
    /// Goes through the values of a column in descending order where `is_reversed` says so.
    pub(super) fn try_new(
        catalog: ProjectionCatalog,
        wanted: PartitionPredicate,
        metrics: ScanMetrics,
        is_reversed: &[bool],
    ) -> Result<Self> {
        let domains = catalog.domains(&wanted)?;
        let columns = domains.into_iter().zip(catalog.spec.fields()).enumerate();
        let columns = columns.map(|(index, (domain, field))| {
            let count = domain.len();
            let mut column = Column {
                is_reversed: is_reversed.get(index).copied().unwrap_or(false),
                domain,
                all: None,
            };
            if count <= AT_A_TIME {
                column.all = Some(column.values(field, 0..count)?);
            }
            Ok(column)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let nothing = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &one)?;
        let first = Prefixes {
            values: nothing.clone(),
            places: nothing,
            next: (0, 0),
        };
        Ok(Self {
            catalog,
            wanted,
            metrics,
            columns,
            prefixes: vec![first],
        })
    }

    /// Goes one step on: partitions, an empty batch when the step found none, or `None` at the end.
    pub(super) fn step(&mut self) -> Result<Option<PartitionBatch>> {
        let empty = PartitionBatch::try_new(
            RecordBatch::new_empty(Arc::clone(self.catalog.spec.schema())),
            vec![],
        );
        let Some(prefixes) = self.prefixes.last_mut() else {
            return Ok(None);
        };
        let depth = prefixes.values.num_columns();
        let Some(combinations) = prefixes.take_some(self.columns[depth].domain.len()) else {
            self.prefixes.pop();
            return empty.map(Some);
        };
        let kept = self.wanted(depth, combinations)?;
        if kept.values.num_rows() == 0 {
            return empty.map(Some);
        }
        if depth + 1 < self.columns.len() {
            self.prefixes.push(kept);
            return empty.map(Some);
        }
        let sources = (0..kept.values.num_rows())
            .map(|row| {
                let texts = (0..self.columns.len()).map(|column| self.text(&kept, column, row));
                let texts: Vec<String> = texts.collect::<Result<_>>()?;
                let is_free = |column: usize| {
                    !matches!(self.catalog.columns[column], ColumnProjection::Date(_))
                };
                let location = self.catalog.locations.location(&texts, is_free)?;
                Ok(PartitionSource::new(location))
            })
            .collect::<Result<Vec<_>>>()?;
        PartitionBatch::try_new(kept.values, sources).map(Some)
    }

    /// The wanted ones among some combinations of the last prefixes with the values of column
    /// `depth`.
    fn wanted(&self, depth: usize, combinations: Combinations) -> Result<Prefixes> {
        let _timer = self.metrics.listing_time.timer();
        let Some(last) = self.prefixes.last() else {
            return internal_err!("no prefixes to combine");
        };
        let Combinations {
            parents,
            values: range,
        } = combinations;
        let spec = &self.catalog.spec;
        let column = &self.columns[depth];
        let values = match &column.all {
            Some(all) => concat(&vec![all.as_ref(); parents.len()])?,
            // Then they are all of one prefix.
            None => column.values(&spec.fields()[depth], range.clone())?,
        };
        let repeated = parents
            .clone()
            .flat_map(|row| iter::repeat_n(row as u32, range.len()));
        let repeated = UInt32Array::from_iter_values(repeated);
        let values = extend(&last.values, &repeated, spec, vec![values])?;

        let pruned = self.wanted.evaluate(&values)?;
        self.metrics.record_pruned(&pruned);
        let kept: UInt64Array = (0..values.num_rows() as u64)
            .zip(pruned.keep.values())
            .filter_map(|(combination, keep)| keep.then_some(combination))
            .collect();
        let width = range.len() as u64;
        let rows: UInt32Array = kept.unary(|c| (parents.start as u64 + c / width) as u32);
        let places: UInt64Array =
            kept.unary(|c| column.place(range.start + (c % width) as usize) as u64);
        let mut columns = take_arrays(last.places.columns(), &rows, None)?;
        columns.push(Arc::new(places));
        let fields = (0..=depth).map(|c| Field::new(c.to_string(), DataType::UInt64, false));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let prefixes = Prefixes {
            values: filter_record_batch(&values, &pruned.keep)?,
            places: RecordBatch::try_new(schema.into(), columns)?,
            next: (0, 0),
        };
        match &self.catalog.text_filter {
            None => Ok(prefixes),
            Some(filter) => self.filter_by_text(&prefixes, filter),
        }
    }

    fn filter_by_text(&self, prefixes: &Prefixes, filter: &PartitionPredicate) -> Result<Prefixes> {
        let rows = prefixes.values.num_rows();
        let texts = (0..prefixes.values.num_columns())
            .map(|column| {
                let texts = (0..rows).map(|row| self.text(prefixes, column, row).map(Some));
                Ok(Arc::new(texts.collect::<Result<StringArray>>()?) as ArrayRef)
            })
            .collect::<Result<Vec<_>>>()?;
        let texts = RecordBatch::try_new(filter.spec().prefix(texts.len()), texts)?;
        let keep = filter.evaluate(&texts)?.keep;
        Ok(Prefixes {
            values: filter_record_batch(&prefixes.values, &keep)?,
            places: filter_record_batch(&prefixes.places, &keep)?,
            next: (0, 0),
        })
    }

    fn text(&self, prefixes: &Prefixes, column: usize, row: usize) -> Result<String> {
        let places = as_uint64_array(prefixes.places.column(column))?;
        Ok(self.columns[column].domain.text(places.value(row) as usize))
    }
}

impl Column {
    /// The values in `range` of the direction in which they are gone through.
    fn values(&self, field: &Field, range: Range<usize>) -> Result<ArrayRef> {
        if !self.is_reversed {
            return self.domain.values(field, range);
        }
        let len = self.domain.len();
        let values = self
            .domain
            .values(field, len - range.end..len - range.start)?;
        let rows: UInt64Array = (0..values.len() as u64).rev().collect();
        Ok(take(&values, &rows, None)?)
    }

    /// The place in the domain of the value at a position in that direction.
    fn place(&self, position: usize) -> usize {
        match self.is_reversed {
            false => position,
            true => self.domain.len() - 1 - position,
        }
    }
}

impl Prefixes {
    /// Combinations with `values` values that have not been taken yet: all of several prefixes, or
    /// some of one. `None` when all have been.
    fn take_some(&mut self, values: usize) -> Option<Combinations> {
        let (parent, value) = self.next;
        if values == 0 || parent >= self.values.num_rows() {
            return None;
        }
        if values <= AT_A_TIME {
            let end = (parent + AT_A_TIME / values).min(self.values.num_rows());
            self.next = (end, 0);
            let (parents, values) = (parent..end, 0..values);
            return Some(Combinations { parents, values });
        }
        let end = value.saturating_add(AT_A_TIME).min(values);
        self.next = match end == values {
            true => (parent + 1, 0),
            false => (parent, end),
        };
        let (parents, values) = (parent..parent + 1, value..end);
        Some(Combinations { parents, values })
    }
}
