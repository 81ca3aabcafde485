//! Catalogs that break one rule each. The suite must find it.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion_partitioned::core::contract::{CatalogFixture, check_catalog};
use datafusion_partitioned::core::{
    ListingContext, Partition, PartitionBatch, PartitionCatalog, PartitionEstimate, PartitionOrder,
    PartitionPredicate, PartitionSpec, PartitionValues,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::common::partition;

/// What a catalog does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    DropsNull,
    TakesUnknownForFalse,
    TakesCandidatesForAll,
    DropsNullForKeys,
    ReturnsAllTwice,
    RenamesColumns,
    AsksBeforeItIsPolled,
    EndsAtAnError,
    ReturnsSomethingElseEachTime,
    SharesOneCursor,
    ReturnsNoOrder,
    LosesAllInOrder,
    AsksALotForAnEstimate,
    EstimatesOtherColumns,
    IgnoresTextFilters,
}

/// The catalog of a service that returns a page with one partition for each request.
#[derive(Debug, Clone)]
struct Catalog(Arc<Service>);

#[derive(Debug)]
struct Service {
    wrong: Wrong,
    spec: PartitionSpec,
    partitions: Vec<Partition>,
    requests: AtomicUsize,
    /// How many requests are left until one fails, it included; 0 for none.
    failing: AtomicUsize,
    listings: AtomicUsize,
    cursor: AtomicUsize,
}

impl Service {
    fn new(wrong: Wrong) -> Self {
        let fields = ["p", "q"].map(|name| Field::new(name, DataType::Int32, true));
        let spec = PartitionSpec::try_new(fields).unwrap();
        let values = [
            (Some(2), Some(1)),
            (None, Some(1)),
            (Some(1), None),
            (Some(2), Some(7)),
        ];
        let partitions = values.map(|(p, q)| {
            let values = [ScalarValue::from(p), ScalarValue::from(q)];
            partition(&spec, values, &format!("{p:?}/{q:?}"))
        });
        Self {
            wrong,
            partitions: partitions.to_vec(),
            spec,
            requests: AtomicUsize::default(),
            failing: AtomicUsize::default(),
            listings: AtomicUsize::default(),
            cursor: AtomicUsize::default(),
        }
    }

    fn request(&self) -> Result<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let left = self.failing.load(Ordering::Relaxed);
        self.failing
            .store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            return exec_err!("the connection is lost");
        }
        Ok(())
    }

    /// The number of the page that a listing asks for next, if it comes after `page`.
    fn next_page(&self, page: usize) -> Option<usize> {
        let page = match self.wrong {
            Wrong::SharesOneCursor => self.cursor.fetch_add(1, Ordering::Relaxed),
            _ => page,
        };
        if page < self.partitions.len() {
            return Some(page);
        }
        self.cursor.store(0, Ordering::Relaxed);
        None
    }

    fn page(
        &self,
        page: usize,
        listing: usize,
        wanted: &PartitionPredicate,
    ) -> Result<PartitionBatch> {
        self.request()?;
        let mut partitions = vec![self.partitions[page].clone()];
        let first = &partitions[0].values.values()[0];
        let is_lost = match self.wrong {
            Wrong::DropsNull => first.is_null(),
            Wrong::TakesUnknownForFalse => wanted.to_string().contains("unknown"),
            Wrong::DropsNullForKeys => {
                let has_keys = wanted.filters().next().is_none() && wanted.constrains_from(0);
                has_keys && first.is_null()
            }
            Wrong::TakesCandidatesForAll => wanted.candidates(0).is_some_and(|candidates| {
                let mut rows = 0..candidates.len();
                !rows.any(|row| ScalarValue::try_from_array(&candidates, row).unwrap() == *first)
            }),
            _ => false,
        };
        match self.wrong {
            _ if is_lost => partitions.clear(),
            Wrong::ReturnsAllTwice => partitions.push(partitions[0].clone()),
            Wrong::ReturnsSomethingElseEachTime => {
                let values = [listing as i32 + 100, page as i32].map(ScalarValue::from);
                partitions.push(partition(&self.spec, values, &format!("{listing}/{page}")));
            }
            _ => {}
        }
        let batch = PartitionBatch::from_partitions(&self.spec, &partitions)?;
        if self.wrong == Wrong::RenamesColumns {
            return PartitionBatch::try_new(renamed(batch.values())?, batch.sources().to_vec());
        }
        let keep = wanted.evaluate(batch.values())?.keep;
        batch.filter(&keep)
    }
}

fn renamed(values: &RecordBatch) -> Result<RecordBatch> {
    let schema = values.schema();
    let fields = schema.fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_name("x"));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new(
        Arc::new(schema),
        values.columns().to_vec(),
    )?)
}

#[async_trait]
impl PartitionCatalog for Catalog {
    fn spec(&self) -> &PartitionSpec {
        &self.0.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        _: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let service = Arc::clone(&self.0);
        let wrong = service.wrong;
        if wrong == Wrong::AsksBeforeItIsPolled {
            service.request().unwrap();
        }
        let listing = service.listings.fetch_add(1, Ordering::Relaxed);
        let pages = stream::unfold(0, move |page| {
            let page = service.next_page(page);
            ready(page.map(|page| (service.page(page, listing, &wanted), page + 1)))
        });
        match wrong {
            Wrong::EndsAtAnError => pages.take_while(|page| ready(page.is_ok())).boxed(),
            _ => pages.boxed(),
        }
    }

    fn list_in_order(
        &self,
        wanted: PartitionPredicate,
        _: &PartitionOrder,
        context: ListingContext,
    ) -> Option<BoxStream<'static, Result<PartitionBatch>>> {
        match self.0.wrong {
            Wrong::ReturnsNoOrder => Some(self.list(wanted, context)),
            Wrong::LosesAllInOrder => Some(stream::empty().boxed()),
            _ => None,
        }
    }

    async fn estimate(
        &self,
        _: &PartitionPredicate,
        _: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let requests = match self.0.wrong {
            Wrong::AsksALotForAnEstimate => 10,
            _ => 1,
        };
        for _ in 0..requests {
            self.0.request()?;
        }
        let all = PartitionBatch::from_partitions(&self.0.spec, &self.0.partitions)?;
        let values = match self.0.wrong {
            Wrong::EstimatesOtherColumns => renamed(all.values())?,
            _ => all.values().clone(),
        };
        Ok(PartitionEstimate {
            partitions: all.len(),
            values: Some(values),
            ..Default::default()
        })
    }

    fn with_text_filter(&self, _: PartitionPredicate) -> Option<Arc<dyn PartitionCatalog>> {
        let ignores = self.0.wrong == Wrong::IgnoresTextFilters;
        ignores.then(|| Arc::new(self.clone()) as _)
    }

    fn describe(&self) -> String {
        format!("{:?}", self.0.wrong)
    }
}

impl CatalogFixture for Catalog {
    fn catalog(&self) -> Arc<dyn PartitionCatalog> {
        Arc::new(self.clone())
    }

    fn partitions(&self) -> Vec<PartitionValues> {
        self.0.partitions.iter().map(|p| p.values.clone()).collect()
    }

    fn requests(&self) -> Option<usize> {
        Some(self.0.requests.load(Ordering::Relaxed))
    }

    fn fail_request(&self, n: Option<usize>) -> bool {
        self.0.failing.store(n.unwrap_or(0), Ordering::Relaxed);
        true
    }
}

#[tokio::test]
async fn each_mistake_of_a_catalog_is_found() {
    let catalog = |wrong| Catalog(Arc::new(Service::new(wrong)));
    check_catalog(&catalog(Wrong::Nothing)).await.unwrap();
    for (wrong, rule) in [
        (
            Wrong::DropsNull,
            "list returns every partition that may be wanted",
        ),
        (
            Wrong::TakesUnknownForFalse,
            "list returns every partition that may be wanted",
        ),
        (
            Wrong::TakesCandidatesForAll,
            "list returns every partition that may be wanted",
        ),
        (
            Wrong::DropsNullForKeys,
            "that the keys of a dynamic filter may want",
        ),
        (Wrong::ReturnsAllTwice, "list returns a partition once"),
        (Wrong::RenamesColumns, "a batch has the columns of spec()"),
        (
            Wrong::AsksBeforeItIsPolled,
            "no request before its stream is polled",
        ),
        (
            Wrong::EndsAtAnError,
            "an error in the stream and never an end of it",
        ),
        (
            Wrong::ReturnsSomethingElseEachTime,
            "listing again, or twice at once",
        ),
        (
            Wrong::SharesOneCursor,
            "a stream that is dropped before its end",
        ),
        (Wrong::ReturnsNoOrder, "in the order asked for"),
        (
            Wrong::LosesAllInOrder,
            "list_in_order returns the partitions of list",
        ),
        (
            Wrong::AsksALotForAnEstimate,
            "estimate makes at most a few requests",
        ),
        (
            Wrong::EstimatesOtherColumns,
            "a batch has the columns of spec()",
        ),
        (Wrong::IgnoresTextFilters, "with_text_filter leaves exactly"),
    ] {
        let violation = check_catalog(&catalog(wrong)).await.unwrap_err();
        assert!(violation.rule().contains(rule), "{wrong:?}: {violation}");
        let text = violation.to_string();
        assert!(
            text.starts_with("broken rule: ") && text.contains(violation.found()),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_table_that_shows_nothing_is_refused() {
    let mut service = Service::new(Wrong::Nothing);
    service.partitions.truncate(2);
    let violation = check_catalog(&Catalog(Arc::new(service)))
        .await
        .unwrap_err();
    assert!(
        violation.rule().contains("the fixture describes"),
        "{violation}"
    );
    assert!(violation.found().contains("2 partitions"), "{violation}");
}
