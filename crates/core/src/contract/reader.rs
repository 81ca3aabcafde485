//! The suite for readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, is_not_null, lit};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::prelude::SessionContext;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};

use super::{Checked, FIXTURE, ensure, must_work};
use crate::catalog::ListingContext;
use crate::reader::{Division, PartitionReader, ReadContext};
use crate::spec::{Partition, PartitionBatch, PartitionSpec};

const SCHEMA: &str =
    "the template has the columns of the source, followed by the partition columns";
const READABLE: &str = "a reader whose source answers reads without an error";
const ROWS: &str = "the rows of read are exactly those of the partitions";
const TYPES: &str = "batches have the columns of the template, with their names and types";
const EMPTY: &str = "no partitions have no rows";
const UNITS: &str = "output partitions can be read alone, in any order and at once";
const IN_ORDER: &str = "with Division::InOrder, rows come in the order of the partitions";
const PROJECTION: &str = "a projection of the template to some columns is taken and honoured";
const LIMIT: &str =
    "with a limit in the template, at least that many rows come, where there are as many";
const COPIES: &str = "with_template changes no other reader";
const FILTERS: &str = "a filter in the template drops no row that satisfies it";
const EXACT_FILTERS: &str =
    "a filter that the template takes over leaves only rows that satisfy it";
const FILTERS_ROWS: &str = "a reader that may drop rows says so in filters_rows";
const ERRORS: &str = "what cannot be read is an error";

/// A reader and some partitions that it can read, for [`check_reader`].
///
/// The more these have of what is special about partitions, the more can be seen: NULL as a value, one
/// without rows, one with many.
pub trait ReaderFixture: Sync {
    /// The reader, whose template returns all columns.
    fn reader(&self) -> Arc<dyn PartitionReader>;

    /// The partition columns.
    fn spec(&self) -> PartitionSpec;

    /// At least two partitions, and at least three rows altogether: of each partition the columns of the
    /// source, without the partition columns. No two of them have the same values.
    fn partitions(&self) -> Vec<(Partition, RecordBatch)>;

    /// A partition that cannot be read, if there can be one. `None` by default; then nothing is checked
    /// about errors.
    fn unreadable(&self) -> Option<Partition> {
        None
    }

    /// What the reader is used in: its object stores, options and extensions are given to the reader.
    fn session(&self) -> SessionContext {
        SessionContext::new()
    }
}

/// Checks a reader against what [`PartitionReader`] promises.
///
/// # Errors
/// The first rule that does not hold.
pub async fn check_reader(fixture: &dyn ReaderFixture) -> Checked {
    let suite = Suite::try_new(fixture)?;
    suite.check_rows().await?;
    suite.check_units().await?;
    suite.check_order().await?;
    suite.check_projections().await?;
    suite.check_limits().await?;
    suite.check_filters().await?;
    suite.check_errors(fixture.unreadable()).await
}

struct Suite {
    reader: Arc<dyn PartitionReader>,
    spec: PartitionSpec,
    session: SessionContext,
    /// The partitions, each with its rows in the columns of the template.
    partitions: Vec<(Partition, RecordBatch)>,
    schema: SchemaRef,
}

impl Suite {
    fn try_new(fixture: &dyn ReaderFixture) -> Checked<Self> {
        let (reader, spec) = (fixture.reader(), fixture.spec());
        let schema = Arc::clone(reader.template().eq_properties().schema());
        let partitions = fixture.partitions();
        let source = partitions.first().map(|(_, rows)| rows.schema());
        let source = source.iter().flat_map(|schema| schema.fields());
        let expected = Schema::new(source.chain(spec.fields()).cloned().collect::<Vec<_>>());
        ensure(columns(&expected) == columns(&schema), SCHEMA, || {
            format!(
                "expected {:?}, found {:?}",
                columns(&expected),
                columns(&schema)
            )
        })?;
        let partitions = partitions.into_iter().map(|(partition, rows)| {
            let rows = must_work(with_values(&schema, &partition, &rows), FIXTURE, "the rows")?;
            Ok((partition, rows))
        });
        let partitions = partitions.collect::<Checked<Vec<_>>>()?;
        let rows: usize = partitions.iter().map(|(_, rows)| rows.num_rows()).sum();
        ensure(partitions.len() >= 2 && rows >= 3, FIXTURE, || {
            format!("{} partitions with {rows} rows", partitions.len())
        })?;
        Ok(Self {
            reader,
            spec,
            session: fixture.session(),
            partitions,
            schema,
        })
    }

    fn batch(&self, partitions: &[usize]) -> Checked<PartitionBatch> {
        let partitions = partitions.iter().map(|i| self.partitions[*i].0.clone());
        let partitions: Vec<_> = partitions.collect();
        let batch = PartitionBatch::from_partitions(&self.spec, &partitions);
        must_work(batch, FIXTURE, "the partitions")
    }

    fn all(&self) -> Vec<usize> {
        (0..self.partitions.len()).collect()
    }

    fn context(&self, division: Division) -> ReadContext {
        let listing = ListingContext::for_planning(&self.session.state());
        ReadContext {
            runtime: listing.runtime,
            config: listing.config,
            streams: 2,
            concurrency: listing.concurrency,
            division,
            still_wanted: None,
            uses_running_filters: true,
            metrics: listing.metrics,
        }
    }

    async fn read(
        &self,
        reader: &Arc<dyn PartitionReader>,
        partitions: &[usize],
        division: Division,
    ) -> Checked<Arc<dyn DataSource>> {
        let context = self.context(division);
        let source = reader.read(self.batch(partitions)?, &context);
        must_work(source.await, READABLE, format!("partitions {partitions:?}"))
    }

    /// The rows of each output partition, as texts.
    async fn units(&self, source: &Arc<dyn DataSource>) -> Checked<Vec<Vec<String>>> {
        let context = self.session.task_ctx();
        let units = 0..source.output_partitioning().partition_count();
        // The last one first.
        let mut rows = vec![];
        for unit in units.rev() {
            rows.push(open(source, unit, &context).await?);
        }
        rows.reverse();
        Ok(rows)
    }

    async fn rows_of(
        &self,
        reader: &Arc<dyn PartitionReader>,
        partitions: &[usize],
        division: Division,
    ) -> Checked<Vec<String>> {
        let source = self.read(reader, partitions, division).await?;
        check_types(&source, reader.template())?;
        Ok(self.units(&source).await?.concat())
    }

    /// The rows of the fixture, in these columns of the template.
    fn expected(&self, partitions: &[usize], projection: &[usize]) -> Checked<Vec<String>> {
        let rows = partitions.iter().map(|partition| {
            let rows = self.partitions[*partition].1.project(projection);
            let rows = rows.map_err(Into::into).and_then(|rows| texts(&rows));
            must_work(rows, FIXTURE, "the rows")
        });
        Ok(rows.collect::<Checked<Vec<_>>>()?.concat())
    }

    fn every_column(&self) -> Vec<usize> {
        (0..self.schema.fields().len()).collect()
    }

    /// Of all, of each alone, of none, and again.
    async fn check_rows(&self) -> Checked {
        let every_column = self.every_column();
        for division in [Division::Balanced, Division::InOrder, Division::Smallest] {
            let mut selections = vec![self.all(), self.all()];
            selections.extend(self.all().into_iter().map(|partition| vec![partition]));
            for partitions in selections {
                let found = self.rows_of(&self.reader, &partitions, division).await?;
                let expected = self.expected(&partitions, &every_column)?;
                let asked = format!("partitions {partitions:?}, {division:?}");
                check_same(&found, &expected, ROWS, &asked)?;
            }
            let none = self.rows_of(&self.reader, &[], division).await?;
            check_same(&none, &[], EMPTY, &format!("{division:?}"))?;
        }
        Ok(())
    }

    async fn check_units(&self) -> Checked {
        let source = self
            .read(&self.reader, &self.all(), Division::Smallest)
            .await?;
        let context = self.session.task_ctx();
        let units = 0..source.output_partitioning().partition_count();
        let at_once: FuturesUnordered<_> = units
            .clone()
            .map(|unit| open(&source, unit, &context))
            .collect();
        let found = at_once.try_collect::<Vec<_>>().await?.concat();
        check_same(
            &found,
            &self.expected(&self.all(), &self.every_column())?,
            UNITS,
            "at once",
        )?;

        // One of them, while the others are not wanted.
        for unit in units {
            let all = self
                .read(&self.reader, &self.all(), Division::Smallest)
                .await?;
            let alone = self
                .read(&self.reader, &self.all(), Division::Smallest)
                .await?;
            let alone = open(&alone, unit, &context).await?;
            let among = self.units(&all).await?.swap_remove(unit);
            check_same(
                &alone,
                &among,
                UNITS,
                &format!("output partition {unit} alone"),
            )?;
        }
        Ok(())
    }

    async fn check_order(&self) -> Checked {
        let mut reversed = self.all();
        reversed.reverse();
        for partitions in [self.all(), reversed] {
            let source = self
                .read(&self.reader, &partitions, Division::InOrder)
                .await?;
            let mut found = self.units(&source).await?.concat().into_iter();
            for partition in &partitions {
                let mut expected = self.expected(&[*partition], &self.every_column())?;
                let mut found: Vec<_> = found.by_ref().take(expected.len()).collect();
                expected.sort_unstable();
                found.sort_unstable();
                let asked = format!("partitions {partitions:?}, at partition {partition}");
                check_same(&found, &expected, IN_ORDER, &asked)?;
            }
        }
        Ok(())
    }

    async fn check_projections(&self) -> Checked {
        let all = self.every_column();
        let (source, partition) = all.split_at(all.len() - self.spec.len());
        let mut projections: Vec<Vec<usize>> = all.iter().map(|column| vec![*column]).collect();
        projections.push(all.iter().rev().copied().collect());
        projections.extend([source.to_vec(), partition.to_vec(), vec![]]);
        for projection in projections {
            let exprs = ProjectionExprs::from_indices(&projection, &self.schema);
            let asked = format!("columns {projection:?}");
            let template = self.reader.template().try_swapping_with_projection(&exprs);
            let template = must_work(template, PROJECTION, &asked)?;
            let Some(template) = template else {
                return ensure(false, PROJECTION, || format!("{asked}: not taken"));
            };
            let expected = self.schema.project(&projection);
            let expected = must_work(expected, FIXTURE, &asked)?;
            let found = template.eq_properties();
            let (found, expected) = (columns(found.schema()), columns(&expected));
            ensure(found == expected, PROJECTION, || {
                format!("{asked}: expected {expected:?}, found {found:?}")
            })?;
            let reader = self.reader.with_template(template);
            let found = self
                .rows_of(&reader, &self.all(), Division::Balanced)
                .await?;
            let expected = self.expected(&self.all(), &projection)?;
            check_same(&found, &expected, PROJECTION, &asked)?;
        }
        let found = self
            .rows_of(&self.reader, &self.all(), Division::Balanced)
            .await?;
        check_same(
            &found,
            &self.expected(&self.all(), &all)?,
            COPIES,
            "after projections",
        )
    }

    async fn check_limits(&self) -> Checked {
        for limit in [1, 2, usize::MAX] {
            let Some(template) = self.reader.template().with_fetch(Some(limit)) else {
                return Ok(());
            };
            let reader = self.reader.with_template(template);
            for partition in self.all() {
                let asked = format!("limit {limit}, partition {partition}");
                let found = self
                    .rows_of(&reader, &[partition], Division::Smallest)
                    .await?;
                let there = self.expected(&[partition], &self.every_column())?;
                check_among(&found, &there, ROWS, &asked)?;
                ensure(found.len() >= there.len().min(limit), LIMIT, || {
                    format!("{asked}: {} of {} rows", found.len(), there.len())
                })?;
            }
        }
        Ok(())
    }

    /// A filter on the first column of the source and one on the first partition column.
    async fn check_filters(&self) -> Checked {
        let columns = [0, self.schema.fields().len() - self.spec.len()];
        for index in columns {
            let column = || Arc::new(Column::new(self.schema.field(index).name(), index));
            let mut filters = vec![must_work(is_not_null(column()), FIXTURE, "making filters")?];
            let value = self.partitions.iter().find_map(|(_, rows)| {
                let column = rows.column(index);
                let row = (0..column.len()).find(|row| column.is_valid(*row))?;
                ScalarValue::try_from_array(column, row).ok()
            });
            filters.extend(value.map(|value| {
                Arc::new(BinaryExpr::new(column(), Operator::Eq, lit(value)))
                    as Arc<dyn PhysicalExpr>
            }));
            for filter in filters {
                self.check_filter(&filter).await?;
            }
        }
        Ok(())
    }

    async fn check_filter(&self, filter: &Arc<dyn PhysicalExpr>) -> Checked {
        let config = self.session.copied_config();
        let template = self.reader.template();
        let pushed = template.try_pushdown_filters(vec![Arc::clone(filter)], config.options());
        let pushed = must_work(pushed, FILTERS, filter)?;
        let is_exact = matches!(pushed.filters.first(), Some(PushedDown::Yes));
        let reader = match pushed.updated_node {
            Some(template) => self.reader.with_template(template),
            None => Arc::clone(&self.reader),
        };
        let mut satisfying = vec![];
        for (_, rows) in &self.partitions {
            let keep = filter
                .evaluate(rows)
                .and_then(|keep| keep.into_array(rows.num_rows()));
            let rows =
                keep.and_then(|keep| texts(&filter_record_batch(rows, as_boolean_array(&keep)?)?));
            satisfying.extend(must_work(rows, FIXTURE, filter)?);
        }
        let asked = filter.to_string();
        let found = self
            .rows_of(&reader, &self.all(), Division::Balanced)
            .await?;
        check_among(&satisfying, &found, FILTERS, &asked)?;
        let all = self.expected(&self.all(), &self.every_column())?;
        check_among(&found, &all, ROWS, &asked)?;
        if is_exact {
            check_among(&found, &satisfying, EXACT_FILTERS, &asked)?;
        }
        ensure(
            found.len() == all.len() || reader.filters_rows(),
            FILTERS_ROWS,
            || format!("{asked}: {} of {} rows", found.len(), all.len()),
        )
    }

    async fn check_errors(&self, unreadable: Option<Partition>) -> Checked {
        let Some(partition) = unreadable else {
            return Ok(());
        };
        let mut partitions: Vec<_> = self.partitions.iter().map(|(p, _)| p.clone()).collect();
        partitions.push(partition);
        let batch = PartitionBatch::from_partitions(&self.spec, &partitions);
        let batch = must_work(batch, FIXTURE, "the unreadable partition")?;
        let context = self.context(Division::Balanced);
        let Ok(source) = self.reader.read(batch, &context).await else {
            return Ok(());
        };
        let rows = self.units(&source).await;
        ensure(rows.is_err(), ERRORS, || {
            let rows = rows.map_or(0, |rows| rows.concat().len());
            format!("the unreadable partition with the others: {rows} rows and no error")
        })
    }
}

/// The rows of one output partition, as texts.
async fn open(
    source: &Arc<dyn DataSource>,
    unit: usize,
    context: &Arc<TaskContext>,
) -> Checked<Vec<String>> {
    let doing = || format!("output partition {unit}");
    let mut batches = must_work(source.open(unit, Arc::clone(context)), READABLE, doing())?;
    let declared = columns(source.eq_properties().schema());
    let mut rows = vec![];
    while let Some(batch) = batches.next().await {
        let batch = must_work(batch, READABLE, doing())?;
        let found = columns(batch.schema_ref());
        ensure(found == declared, TYPES, || {
            format!("expected {declared:?}, found {found:?}")
        })?;
        rows.extend(must_work(texts(&batch), READABLE, doing())?);
    }
    Ok(rows)
}

fn check_types(source: &Arc<dyn DataSource>, template: &Arc<dyn DataSource>) -> Checked {
    let [found, expected] = [source, template].map(|s| columns(s.eq_properties().schema()));
    ensure(found == expected, TYPES, || {
        format!("expected {expected:?}, found {found:?}")
    })
}

/// What must not differ: names and types, in order.
fn columns(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter();
    fields
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect()
}

/// `rows` of a partition, followed by its values.
fn with_values(
    schema: &SchemaRef,
    partition: &Partition,
    rows: &RecordBatch,
) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    for value in partition.values.values() {
        columns.push(value.to_array_of_size(rows.num_rows())?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// One text for each row.
fn texts(batch: &RecordBatch) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("<null>");
    let columns = batch.columns().iter();
    let columns = columns.map(|column| Ok(ArrayFormatter::try_new(column.as_ref(), &options)?));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let rows = (0..batch.num_rows()).map(|row| {
        let values = columns
            .iter()
            .map(|column| Ok(column.value(row).try_to_string()?));
        Ok(values.collect::<Result<Vec<_>>>()?.join(" | "))
    });
    rows.collect()
}

fn check_same(found: &[String], expected: &[String], rule: &'static str, asked: &str) -> Checked {
    check_among(expected, found, rule, asked)?;
    check_among(found, expected, rule, asked)
}

/// Checks that each of `some` is among `all`, as often.
fn check_among(some: &[String], all: &[String], rule: &'static str, asked: &str) -> Checked {
    let mut counts = BTreeMap::<&str, usize>::new();
    for row in all {
        *counts.entry(row).or_default() += 1;
    }
    for row in some {
        let left = counts.get_mut(row.as_str()).filter(|left| **left > 0);
        let Some(left) = left else {
            return ensure(false, rule, || {
                format!("{asked}: the row '{row}' is in one of {some:?} and {all:?} more often")
            });
        };
        *left -= 1;
    }
    Ok(())
}
