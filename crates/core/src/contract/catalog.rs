//! The suite for catalogs.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::physical_expr::expressions::{is_not_null, is_null};
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, join};
use object_store::path::Path;

use super::{Checked, FIXTURE, Violation, ensure, must_work, predicates};
use crate::catalog::{ListingContext, PartitionCatalog};
use crate::dynamic_filter::KeySlot;
use crate::order::PartitionOrder;
use crate::predicate::PartitionPredicate;
use crate::spec::{Partition, PartitionBatch, PartitionSource, PartitionSpec, PartitionValues};

/// More requests than these are not "a few".
const FEW_REQUESTS: usize = 3;

/// Listing this table must not take more requests than these, so that each can be made to fail.
const MOST_REQUESTS: usize = 1000;

const SCHEMA: &str = "a batch has the columns of spec(), with their names and types";
const REACHABLE: &str = "a catalog whose source answers lists without an error";
const COMPLETE: &str = "list returns every partition that may be wanted";
const ONCE: &str = "list returns a partition once, or each of its files once";
const KEYS: &str = "list returns every partition that the keys of a dynamic filter may want";
const AGAIN: &str = "listing again, or twice at once, returns the same partitions";
const LAZY: &str = "list makes no request before its stream is polled";
const DROPPED: &str = "a stream that is dropped before its end changes no later listing";
const ERRORS: &str = "what cannot be read is an error in the stream and never an end of it";
const ORDERED: &str = "list_in_order returns the partitions of list, in the order asked for";
const ESTIMATE: &str = "estimate describes the columns of spec()";
const CHEAP: &str = "estimate makes at most a few requests";
const TEXTS: &str = "with_text_filter leaves exactly the partitions whose texts satisfy the filter";

/// A catalog over a small table, for [`check_catalog`].
///
/// The more the table has of what is special about partitions, the more can be seen: two columns, NULL,
/// several partitions for each value, values that do not come in order.
pub trait CatalogFixture: Sync {
    /// The catalog. It may be a new one each time, over the same table.
    fn catalog(&self) -> Arc<dyn PartitionCatalog>;

    /// The values of the partitions of the table, in any order: at least three, with at least two
    /// different values in each column. A catalog that also lists what turns out to be empty leaves that
    /// out.
    fn partitions(&self) -> Vec<PartitionValues>;

    /// What the catalog is used in: its object stores, options and extensions are given to the catalog.
    fn session(&self) -> SessionContext {
        SessionContext::new()
    }

    /// How many requests the source has seen since it began to count. `None`, the default, when nobody
    /// counts; then nothing is checked about requests.
    fn requests(&self) -> Option<usize> {
        None
    }

    /// Makes the `n`th request from now on, counted from 1, fail once, or none any more (`None`). Returns
    /// whether it can. By default it cannot, and nothing is checked about errors.
    fn fail_request(&self, n: Option<usize>) -> bool {
        let _ = n;
        false
    }
}

/// Checks a catalog against what [`PartitionCatalog`] promises.
///
/// # Errors
/// The first rule that does not hold.
pub async fn check_catalog(fixture: &dyn CatalogFixture) -> Checked {
    let suite = Suite::try_new(fixture)?;
    suite.check_filters().await?;
    suite.check_keys().await?;
    suite.check_repetition().await?;
    suite.check_laziness().await?;
    suite.check_order().await?;
    suite.check_estimates().await?;
    suite.check_text_filters().await?;
    suite.check_errors().await
}

struct Suite<'a> {
    fixture: &'a dyn CatalogFixture,
    catalog: Arc<dyn PartitionCatalog>,
    spec: PartitionSpec,
    session: SessionContext,
    /// What the fixture says that there is.
    table: PartitionBatch,
}

impl<'a> Suite<'a> {
    fn try_new(fixture: &'a dyn CatalogFixture) -> Checked<Self> {
        let catalog = fixture.catalog();
        let spec = catalog.spec().clone();
        let values = fixture.partitions();
        ensure(values.len() >= 3 && !spec.is_empty(), FIXTURE, || {
            format!("{} partitions, of {spec:?}", values.len())
        })?;
        let different: HashSet<_> = values.iter().collect();
        ensure(different.len() == values.len(), FIXTURE, || {
            "two partitions have the same values".to_owned()
        })?;
        let partitions = values
            .iter()
            .cloned()
            .map(|v| Partition::new(v, Path::default()));
        let table = PartitionBatch::from_partitions(&spec, &partitions.collect::<Vec<_>>());
        let table = must_work(table, FIXTURE, "the values of the partitions")?;
        for (index, name) in spec.column_names().enumerate() {
            let values = must_work(predicates::values(&table, index), FIXTURE, name)?;
            let different =
                values.len() + usize::from(table.values().column(index).null_count() > 0);
            ensure(different >= 2, FIXTURE, || {
                format!("the column '{name}' has one value in all partitions")
            })?;
        }
        let session = fixture.session();
        Ok(Self {
            fixture,
            catalog,
            spec,
            session,
            table,
        })
    }

    fn context(&self) -> ListingContext {
        ListingContext::for_planning(&self.session.state())
    }

    fn all(&self) -> PartitionPredicate {
        PartitionPredicate::all(&self.spec)
    }

    fn list(&self, wanted: PartitionPredicate) -> BoxStream<'static, Result<PartitionBatch>> {
        self.catalog.list(wanted, self.context())
    }

    /// All that a stream returns, when each partition is returned once.
    async fn collect(
        &self,
        partitions: BoxStream<'static, Result<PartitionBatch>>,
        asked: impl Display + Send + Sync,
    ) -> Checked<PartitionBatch> {
        let batches: Vec<PartitionBatch> =
            must_work(partitions.try_collect().await, REACHABLE, &asked)?;
        for batch in &batches {
            self.check_schema(batch)?;
        }
        let all = PartitionBatch::concat(&self.spec, batches);
        let all = must_work(all, SCHEMA, &asked)?;
        check_each_is_once(&all, &asked)?;
        Ok(all)
    }

    fn check_schema(&self, batch: &PartitionBatch) -> Checked {
        let found = batch.values().schema();
        let describe = |schema: &Schema| {
            let fields = schema.fields().iter();
            fields
                .map(|f| format!("{} {}", f.name(), f.data_type()))
                .collect::<Vec<_>>()
        };
        let (found, expected) = (describe(&found), describe(self.spec.schema()));
        ensure(found == expected, SCHEMA, || {
            format!("expected {expected:?}, found {found:?}")
        })
    }

    /// Checks that `found` has all partitions of the table that satisfy `wanted`.
    fn check_complete(
        &self,
        found: &PartitionBatch,
        wanted: &PartitionPredicate,
        rule: &'static str,
        asked: impl Display + Send + Sync,
    ) -> Checked {
        let keep = must_work(wanted.evaluate(self.table.values()), FIXTURE, &asked)?.keep;
        let expected = must_work(self.table.clone().filter(&keep), FIXTURE, &asked)?;
        let found = values_of(found)?;
        let missing: Vec<_> = values_of(&expected)?
            .into_iter()
            .filter(|values| !found.contains(values))
            .map(|values| describe(&values))
            .collect();
        ensure(missing.is_empty(), rule, || {
            format!("{asked}: without the partitions {}", missing.join(", "))
        })
    }

    async fn check_filters(&self) -> Checked {
        let all = self.collect(self.list(self.all()), "all").await?;
        self.check_complete(&all, &self.all(), COMPLETE, "all")?;
        let filters = predicates::filters(&self.spec, &self.table);
        for filter in must_work(filters, FIXTURE, "making filters")? {
            let wanted = self.all().with_filter(&filter);
            let found = self.collect(self.list(wanted.clone()), &filter).await?;
            self.check_complete(&found, &wanted, COMPLETE, &filter)?;
        }
        Ok(())
    }

    /// Keys that are there at once, that come when the first batch has been listed, and never.
    async fn check_keys(&self) -> Checked {
        let keys = predicates::keys(&self.spec, &self.table);
        for (compared, keys) in must_work(keys, FIXTURE, "making keys")? {
            let names: Vec<_> = compared.iter().map(ToString::to_string).collect();
            let asked = |when: &str| format!("{keys} for ({}), {when}", names.join(", "));
            let slot = Arc::<KeySlot>::default();
            let wanted = self.all().with_keys(&compared, Arc::clone(&slot));

            let never = asked("never published");
            let found = self.collect(self.list(wanted.clone()), &never).await?;
            self.check_complete(&found, &self.all(), KEYS, &never)?;

            let late = asked("published while listing");
            let mut listing = self.list(wanted.clone());
            let first = listing.next().await;
            slot.publish(Arc::clone(&keys));
            let listing = futures::stream::iter(first).chain(listing).boxed();
            let found = self.collect(listing, &late).await?;
            self.check_complete(&found, &wanted, KEYS, &late)?;

            let early = asked("published before");
            let found = self.collect(self.list(wanted.clone()), &early).await?;
            self.check_complete(&found, &wanted, KEYS, &early)?;
        }
        Ok(())
    }

    async fn check_repetition(&self) -> Checked {
        let first = self.collect(self.list(self.all()), "all").await?;
        let first = values_of(&first)?;
        let same = |found: &PartitionBatch, rule, asked: &str| {
            let found = values_of(found)?;
            ensure(found == first, rule, || {
                format!(
                    "{asked}: {} partitions instead of {}",
                    found.len(),
                    first.len()
                )
            })
        };
        let again = self.collect(self.list(self.all()), "again").await?;
        same(&again, AGAIN, "again")?;
        let at_once = || self.collect(self.list(self.all()), "at once");
        let (one, other) = join!(at_once(), at_once());
        same(&one?, AGAIN, "at once")?;
        same(&other?, AGAIN, "at once")?;

        let mut cut_short = self.list(self.all());
        must_work(
            cut_short.next().await.transpose(),
            REACHABLE,
            "the first batch",
        )?;
        drop(cut_short);
        drop(self.list(self.all()));
        let later = self
            .collect(self.list(self.all()), "after a dropped stream")
            .await?;
        same(&later, DROPPED, "after a dropped stream")
    }

    async fn check_laziness(&self) -> Checked {
        let before = self.fixture.requests();
        let listing = self.list(self.all());
        let order = PartitionOrder::ascending(&self.spec);
        let in_order = self
            .catalog
            .list_in_order(self.all(), &order, self.context());
        let after = self.fixture.requests();
        ensure(before == after, LAZY, || {
            format!("{before:?} requests became {after:?}")
        })?;
        // They work when they are polled, in any order.
        if let Some(in_order) = in_order {
            self.collect(in_order, "in order").await?;
        }
        self.collect(listing, "later").await.map(drop)
    }

    async fn check_order(&self) -> Checked {
        let options = |descending, nulls_first| SortOptions {
            descending,
            nulls_first,
        };
        let last = self.spec.len() - 1;
        let orders = [
            PartitionOrder::ascending(&self.spec),
            PartitionOrder::new([(0, options(true, true))]),
            PartitionOrder::new([(last, options(false, true))]),
            PartitionOrder::new([(last, options(true, false)), (0, options(false, false))]),
            PartitionOrder::new((0..=last).map(|column| (column, options(true, false)))),
        ];
        let filters = predicates::filters(&self.spec, &self.table);
        let filters = must_work(filters, FIXTURE, "making filters")?;
        let filters = filters
            .iter()
            .step_by(7)
            .map(|filter| self.all().with_filter(filter));
        let wanted: Vec<_> = [self.all()].into_iter().chain(filters).collect();
        for order in orders {
            for wanted in &wanted {
                let asked = format!("{} where {wanted}", order.describe(&self.spec));
                let context = self.context();
                let listing = self.catalog.list_in_order(wanted.clone(), &order, context);
                let Some(listing) = listing else { continue };
                let found = self.collect(listing, &asked).await?;
                self.check_complete(&found, wanted, ORDERED, &asked)?;
                let sorted = order.sort(&found).and_then(|rows| found.take(&rows));
                let sorted = must_work(sorted, ORDERED, &asked)?;
                let columns = || order.columns().iter().map(|(column, _)| *column);
                let column_of = |batch: &PartitionBatch, column| -> ArrayRef {
                    Arc::clone(batch.values().column(column))
                };
                let is_sorted = columns().all(|column| {
                    column_of(&found, column).as_ref() == column_of(&sorted, column).as_ref()
                });
                ensure(is_sorted, ORDERED, || {
                    format!("{asked}: they come in another order")
                })?;
            }
        }
        Ok(())
    }

    async fn check_estimates(&self) -> Checked {
        let filters = predicates::filters(&self.spec, &self.table);
        let filters = must_work(filters, FIXTURE, "making filters")?;
        let filters = filters.iter().map(|filter| self.all().with_filter(filter));
        for wanted in [self.all()].into_iter().chain(filters) {
            let before = self.fixture.requests();
            let estimate = self.catalog.estimate(&wanted, &self.context()).await;
            let after = self.fixture.requests();
            let asked = format!("where {wanted}");
            let estimate = must_work(estimate, REACHABLE, format!("estimate {asked}"))?;
            if let (Some(before), Some(after)) = (before, after) {
                ensure(after - before <= FEW_REQUESTS, CHEAP, || {
                    format!("{asked}: {} requests", after - before)
                })?;
            }
            let distinct = estimate.distinct.len();
            ensure(
                distinct == 0 || distinct == self.spec.len(),
                ESTIMATE,
                || format!("{asked}: numbers of distinct values for {distinct} columns"),
            )?;
            let Some(values) = estimate.values else {
                continue;
            };
            ensure(values.num_rows() <= estimate.partitions, ESTIMATE, || {
                format!(
                    "{asked}: {} values for {} partitions",
                    values.num_rows(),
                    estimate.partitions
                )
            })?;
            let sources = vec![PartitionSource::new(Path::default()); values.num_rows()];
            let values = must_work(PartitionBatch::try_new(values, sources), ESTIMATE, &asked)?;
            self.check_schema(&values)?;
        }
        Ok(())
    }

    /// The text of NULL is NULL.
    async fn check_text_filters(&self) -> Checked {
        let fields = self.spec.column_names();
        let fields = fields.map(|name| Field::new(name, DataType::Utf8, true));
        let texts = must_work(PartitionSpec::try_new(fields), FIXTURE, "columns as text")?;
        for index in 0..self.spec.len() {
            let column = || predicates::column(&texts, index);
            for filter in [is_null(column()), is_not_null(column())] {
                let filter = must_work(filter, FIXTURE, "making filters")?;
                let by_text = PartitionPredicate::all(&texts).with_filter(&filter);
                let by_value = self.all().with_filter(&filter);
                let Some(catalog) = self.catalog.with_text_filter(by_text) else {
                    return Ok(());
                };
                ensure(catalog.spec() == &self.spec, TEXTS, || {
                    "another spec()".to_owned()
                })?;
                let asked = format!("texts with {filter}");
                let found = catalog.list(self.all(), self.context());
                let found = self.collect(found, &asked).await?;
                self.check_complete(&found, &by_value, TEXTS, &asked)?;
                let kept = must_work(by_value.evaluate(found.values()), TEXTS, &asked)?.keep;
                ensure(kept.true_count() == found.len(), TEXTS, || {
                    format!(
                        "{asked}: {} others are left",
                        found.len() - kept.true_count()
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Lets one request after the other fail until none does any more.
    async fn check_errors(&self) -> Checked {
        for n in 1..=MOST_REQUESTS {
            if !self.fixture.fail_request(Some(n)) {
                return Ok(());
            }
            // What a catalog remembers must not stand in for what fails.
            let catalog = self.fixture.catalog();
            let listing = catalog.list(self.all(), self.context());
            let found: Result<Vec<PartitionBatch>> = listing.try_collect().await;
            self.fixture.fail_request(None);
            let Ok(found) = found else { continue };
            let found = must_work(PartitionBatch::concat(&self.spec, found), SCHEMA, "all")?;
            let asked = format!("when request {n} fails");
            self.check_complete(&found, &self.all(), ERRORS, asked)?;
            return ensure(n > 1, FIXTURE, || {
                "fail_request(Some(1)) makes no listing fail".to_owned()
            });
        }
        Err(Violation {
            rule: FIXTURE,
            found: format!("listing takes more than {MOST_REQUESTS} requests"),
        })
    }
}

/// Files of one partition may come in several batches.
fn check_each_is_once(partitions: &PartitionBatch, asked: &dyn Display) -> Checked {
    let (mut files, mut locations, mut whole) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (row, source) in partitions.sources().iter().enumerate() {
        let values = must_work(partitions.partition_values(row), SCHEMA, asked)?;
        let found = || {
            format!(
                "{asked}: twice, {} at '{}'",
                describe(&values),
                source.location
            )
        };
        let partition = (&source.location, values.clone());
        let is_new = match &source.objects {
            None => whole.insert(partition.clone()) && !locations.contains(&partition),
            Some(objects) => objects.iter().all(|object| files.insert(&object.location)),
        };
        ensure(
            is_new && (source.objects.is_none() || !whole.contains(&partition)),
            ONCE,
            found,
        )?;
        locations.insert(partition);
    }
    Ok(())
}

fn values_of(partitions: &PartitionBatch) -> Checked<HashSet<PartitionValues>> {
    let rows = 0..partitions.len();
    let values = rows.map(|row| partitions.partition_values(row));
    must_work(values.collect(), SCHEMA, "the values of partitions")
}

fn describe(partition: &PartitionValues) -> String {
    let values: Vec<_> = partition.values().iter().map(ToString::to_string).collect();
    format!("({})", values.join(", "))
}
