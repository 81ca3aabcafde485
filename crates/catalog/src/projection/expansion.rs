//! The partitions of a projection that satisfy a predicate, one batch after another.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{and, filter_record_batch, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::common::cast::as_uint64_array;
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
    /// All values, when there are few.
    all: Option<ArrayRef>,
}

/// Wanted values of the first columns, and how far they have been combined with those of the next.
struct Prefixes {
    values: RecordBatch,
    /// For each column the places of the values in its domain.
    places: RecordBatch,
    /// The next combination.
    next: usize,
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
            let is_small = domain.len() <= AT_A_TIME;
            Ok(Column {
                all: is_small
                    .then(|| domain.values(field, 0..domain.len()))
                    .transpose()?,
                is_reversed: is_reversed.get(index).copied().unwrap_or(false),
                domain,
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let nothing = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &one)?;
        let first = Prefixes {
            values: nothing.clone(),
            places: nothing,
            next: 0,
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
        let extended = self.extend(depth, combinations)?;
        let keep = self.keep(&extended)?;
        let kept = Prefixes {
            values: filter_record_batch(&extended.values, &keep)?,
            places: filter_record_batch(&extended.places, &keep)?,
            next: 0,
        };
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

    /// Some combinations of the last prefixes with the values of column `depth`.
    fn extend(&self, depth: usize, combinations: Range<usize>) -> Result<Prefixes> {
        let spec = &self.catalog.spec;
        let Some(last) = self.prefixes.last() else {
            return datafusion::common::internal_err!("no prefixes to extend");
        };
        let column = &self.columns[depth];
        let count = column.domain.len();
        let parents: UInt32Array = combinations.clone().map(|c| (c / count) as u32).collect();
        let places: Vec<u64> = combinations
            .map(|combination| match column.is_reversed {
                false => combination % count,
                true => count - 1 - combination % count,
            })
            .map(|place| place as u64)
            .collect();
        let (start, known) = match &column.all {
            Some(all) => (0, Arc::clone(all)),
            // Then they are all of one prefix, so their places are neighbours.
            None => {
                let start = places.iter().min().map_or(0, |place| *place as usize);
                let range = start..start + places.len();
                (start, column.domain.values(&spec.fields()[depth], range)?)
            }
        };
        let rows: UInt64Array = places.iter().map(|place| place - start as u64).collect();
        let values = take(&known, &rows, None)?;
        let mut place_columns: Vec<ArrayRef> = last
            .places
            .columns()
            .iter()
            .map(|known| take(known, &parents, None))
            .collect::<Result<_, _>>()?;
        place_columns.push(Arc::new(UInt64Array::from(places)));
        let fields = (0..=depth).map(|c| Field::new(c.to_string(), DataType::UInt64, false));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        Ok(Prefixes {
            values: extend(&last.values, &parents, spec, vec![values])?,
            places: RecordBatch::try_new(schema.into(), place_columns)?,
            next: 0,
        })
    }

    fn keep(&self, prefixes: &Prefixes) -> Result<BooleanArray> {
        let _timer = self.metrics.listing_time.timer();
        let pruned = self.wanted.evaluate(&prefixes.values)?;
        self.metrics.record_pruned(&pruned);
        let Some(filter) = &self.catalog.text_filter else {
            return Ok(pruned.keep);
        };
        let rows = prefixes.values.num_rows();
        let texts = (0..prefixes.values.num_columns())
            .map(|column| {
                let texts = (0..rows).map(|row| self.text(prefixes, column, row).map(Some));
                Ok(Arc::new(texts.collect::<Result<StringArray>>()?) as ArrayRef)
            })
            .collect::<Result<Vec<_>>>()?;
        let texts = RecordBatch::try_new(filter.spec().prefix(texts.len()), texts)?;
        Ok(and(&pruned.keep, &filter.evaluate(&texts)?.keep)?)
    }

    fn text(&self, prefixes: &Prefixes, column: usize, row: usize) -> Result<String> {
        let places = as_uint64_array(prefixes.places.column(column))?;
        Ok(self.columns[column].domain.text(places.value(row) as usize))
    }
}

impl Prefixes {
    /// Combinations that have not been taken yet: of one prefix, or all of several ones. `None` when
    /// all have been.
    fn take_some(&mut self, values: usize) -> Option<Range<usize>> {
        let start = self.next;
        let all = self.values.num_rows().checked_mul(values)?;
        if start >= all {
            return None;
        }
        let end = match values <= AT_A_TIME {
            true => start + values * (AT_A_TIME / values),
            false => (start + AT_A_TIME).min((start / values + 1) * values),
        };
        self.next = end.min(all);
        Some(start..self.next)
    }
}
