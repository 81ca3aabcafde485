//! The suite for catalogs, over each kind of catalog.

use std::num::NonZeroU32;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::catalog::{
    ColumnProjection, DateFormat, DateProjection, DirectoryCatalog, HybridCatalog,
    ProjectedLocations, ProjectionCatalog, RegisteredCatalog,
};
use datafusion_partitioned::core::contract::{CatalogFixture, check_catalog};
use datafusion_partitioned::core::{
    MemoryCatalog, Partition, PartitionCatalog, PartitionLayout, PartitionPredicate,
    PartitionRegistry, PartitionSpec, PartitionValues, TextFilteredCatalog,
};
use datafusion_partitioned_test_utils::{Fault, FaultyStore};
use object_store::path::Path;

use crate::common::Fixture;

/// A catalog over a table in a lake.
struct InLake {
    fixture: Fixture,
    faulty: FaultyStore,
    /// Makes a new catalog.
    catalog: Box<dyn Fn() -> Arc<dyn PartitionCatalog> + Sync>,
    partitions: Vec<PartitionValues>,
    asks_the_store: bool,
}

impl CatalogFixture for InLake {
    fn catalog(&self) -> Arc<dyn PartitionCatalog> {
        (self.catalog)()
    }

    fn partitions(&self) -> Vec<PartitionValues> {
        self.partitions.clone()
    }

    fn session(&self) -> SessionContext {
        self.fixture.ctx.clone()
    }

    fn requests(&self) -> Option<usize> {
        Some(self.fixture.requests.requests().len())
    }

    fn fail_request(&self, n: Option<usize>) -> bool {
        self.faulty.heal();
        if let Some(n) = n {
            self.faulty.inject(Fault::fail(|_| true).nth(n));
        }
        self.asks_the_store
    }
}

type Make = Box<dyn Fn() -> Arc<dyn PartitionCatalog> + Sync>;

fn spec() -> PartitionSpec {
    PartitionSpec::try_new([
        Field::new("town", DataType::Utf8, true),
        Field::new("day", DataType::Date32, true),
        Field::new("hour", DataType::Int32, true),
    ])
    .unwrap()
}

/// NULL on every level, spellings that are not those of the values, and values out of order.
const PARTITIONS: [(Option<&str>, Option<&str>, Option<i32>); 8] = [
    (Some("Ulm"), Some("2024-06-02"), Some(10)),
    (Some("Ulm"), Some("2024-06-02"), Some(9)),
    (Some("Ulm"), Some("2024-06-01"), None),
    (Some("Bad/Ems"), Some("2024-06-01"), Some(9)),
    (Some("Bad/Ems"), None, Some(10)),
    (None, Some("2023-12-31"), Some(0)),
    (None, None, None),
    (Some("Köln 50%"), Some("2024-06-02"), Some(-1)),
];

/// Of the partitions those that `keep` accepts, with files in a hive layout.
async fn lake(
    keep: impl Fn(&PartitionValues) -> bool,
    asks_the_store: bool,
    catalog: impl FnOnce(&Fixture, Vec<Partition>) -> Make,
) -> InLake {
    let spec = spec();
    let fixture = Fixture::new();
    let layout = PartitionLayout::hive(&spec);
    let mut partitions = vec![];
    for (town, day, hour) in PARTITIONS {
        let values = [
            ScalarValue::from(town),
            ScalarValue::from(day),
            ScalarValue::from(hour),
        ];
        let values = PartitionValues::try_new(&spec, values.to_vec()).unwrap();
        if !keep(&values) {
            continue;
        }
        let location = format!("t/{}", layout.path(&values).unwrap());
        for file in ["1.csv", "2.csv"] {
            fixture.put_ids(&format!("{location}/{file}"), &[1]).await;
        }
        partitions.push(Partition::new(values, Path::parse(location).unwrap()));
    }
    let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
    let lake = fixture.lake.clone().with_store(Arc::new(faulty.clone()));
    lake.register(&fixture.ctx);
    InLake {
        partitions: partitions.iter().map(|p| p.values.clone()).collect(),
        catalog: catalog(&fixture, partitions),
        faulty,
        asks_the_store,
        fixture,
    }
}

fn url(fixture: &Fixture, key: &str) -> ListingTableUrl {
    ListingTableUrl::parse(fixture.lake.location(key)).unwrap()
}

fn directories(root: &ListingTableUrl, spec: PartitionSpec) -> DirectoryCatalog {
    let layout = PartitionLayout::hive(&spec);
    DirectoryCatalog::try_new(std::slice::from_ref(root), spec, layout).unwrap()
}

async fn directory_lake() -> InLake {
    lake(
        |_| true,
        true,
        |fixture, _| {
            let root = url(fixture, "t/");
            Box::new(move || Arc::new(directories(&root, spec())))
        },
    )
    .await
}

#[tokio::test]
async fn directories_keep_the_contract() {
    check_catalog(&directory_lake().await).await.unwrap();
}

#[tokio::test]
async fn directories_that_are_known_already_keep_the_contract() {
    let mut lake = directory_lake().await;
    let catalog = (lake.catalog)();
    lake.catalog = Box::new(move || Arc::clone(&catalog));
    check_catalog(&lake).await.unwrap();
}

#[tokio::test]
async fn directories_in_the_listing_cache_keep_the_contract() {
    let mut lake = directory_lake().await;
    lake.fixture.set("partitioned.list_cache.ttl", "1h").await;
    // What is remembered is not asked for, so that nothing fails.
    lake.asks_the_store = false;
    for _ in ["cold", "warm"] {
        check_catalog(&lake).await.unwrap();
    }
}

#[tokio::test]
async fn given_partitions_keep_the_contract() {
    let lake = lake(
        |_| true,
        false,
        |_, partitions| {
            let catalog = MemoryCatalog::try_new(spec(), &partitions).unwrap();
            Box::new(move || Arc::new(catalog.clone()))
        },
    );
    check_catalog(&lake.await).await.unwrap();
}

#[tokio::test]
async fn registered_partitions_keep_the_contract() {
    let registered = RegisteredCatalog::new(spec());
    let catalog = registered.clone();
    let lake = lake(
        |_| true,
        false,
        |_, partitions| {
            futures::executor::block_on(registered.add(partitions, false)).unwrap();
            Box::new(move || Arc::new(catalog.clone()))
        },
    );
    check_catalog(&lake.await).await.unwrap();
}

#[tokio::test]
async fn partitions_filtered_by_their_texts_keep_the_contract() {
    let lake = lake(
        |values| !values.values()[2].is_null(),
        false,
        |_, partitions| {
            let catalog = MemoryCatalog::try_new(spec(), &partitions).unwrap();
            let fields = spec();
            let fields = fields
                .column_names()
                .map(|n| Field::new(n, DataType::Utf8, true));
            let texts = PartitionSpec::try_new(fields).unwrap();
            let all = PartitionPredicate::all(&texts);
            Box::new(move || {
                let catalog = Arc::new(catalog.clone());
                Arc::new(TextFilteredCatalog::new(catalog, all.clone()))
            })
        },
    );
    check_catalog(&lake.await).await.unwrap();
}

#[tokio::test]
async fn a_projection_keeps_the_contract() {
    let lake = lake(
        |values| values.values().iter().all(|value| !value.is_null()),
        false,
        |fixture, _| {
            let root = url(fixture, "t/");
            Box::new(move || Arc::new(projection(root.clone(), spec(), 3)))
        },
    );
    check_catalog(&lake.await).await.unwrap();
}

/// Of the first `columns` columns.
fn projection(root: ListingTableUrl, spec: PartitionSpec, columns: usize) -> ProjectionCatalog {
    let spec = spec.split_at(columns).0;
    let days = DateFormat::try_new("yyyy-MM-dd").unwrap();
    let days = DateProjection::try_new(days, "2024-05-31,2024-06-03").unwrap();
    let towns = ["Ulm", "Bad/Ems", "Köln 50%", "Rom"]
        .map(str::to_owned)
        .to_vec();
    let mut rules = vec![
        ColumnProjection::Enum(towns),
        ColumnProjection::Date(days),
        ColumnProjection::Integer {
            first: -2,
            last: 12,
            step: NonZeroU32::MIN,
            digits: 0,
        },
    ];
    rules.truncate(columns);
    let layout = PartitionLayout::hive(&spec);
    let locations = ProjectedLocations::layout(root, layout);
    ProjectionCatalog::try_new(spec, rules, locations).unwrap()
}

#[tokio::test]
async fn directories_below_a_projection_keep_the_contract() {
    let lake = lake(
        |values| !values.values()[0].is_null(),
        true,
        |fixture, _| {
            let root = url(fixture, "t/");
            Box::new(move || {
                let first = projection(root.clone(), spec(), 1);
                let rest = directories(&root, spec().split_at(1).1);
                Arc::new(HybridCatalog::try_new(Arc::new(first), &rest).unwrap())
            })
        },
    );
    check_catalog(&lake.await).await.unwrap();
}

#[tokio::test]
async fn directories_below_given_locations_keep_the_contract() {
    let lake = lake(
        |_| true,
        true,
        |fixture, _| {
            let root = url(fixture, "t/");
            let (first, rest) = spec().split_at(1);
            let towns = [Some("Ulm"), Some("Bad/Ems"), Some("Köln 50%"), None].map(|town| {
                let values =
                    PartitionValues::try_new(&first, vec![ScalarValue::from(town)]).unwrap();
                let location = PartitionLayout::hive(&first).path(&values).unwrap();
                Partition::new(values, Path::parse(format!("t/{location}")).unwrap())
            });
            Box::new(move || {
                let first = MemoryCatalog::try_new(first.clone(), &towns).unwrap();
                let rest = directories(&root, rest.clone());
                Arc::new(HybridCatalog::try_new(Arc::new(first), &rest).unwrap())
            })
        },
    );
    check_catalog(&lake.await).await.unwrap();
}
