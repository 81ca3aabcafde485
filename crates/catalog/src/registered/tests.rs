//! Tests of [`super`].

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::prelude::SessionContext;

use super::*;

fn spec(types: &[DataType]) -> PartitionSpec {
    let fields = types.iter().zip(["p", "q"]);
    PartitionSpec::try_new(fields.map(|(t, name)| Field::new(name, t.clone(), true))).unwrap()
}

fn partition(catalog: &RegisteredCatalog, values: &[ScalarValue], location: &str) -> Partition {
    let values = PartitionValues::try_new(catalog.spec(), values.to_vec()).unwrap();
    Partition::new(values, Path::parse(location).unwrap())
}

/// Values and locations as text, sorted.
async fn listed(catalog: &RegisteredCatalog) -> Vec<String> {
    let context = ListingContext::for_planning(&SessionContext::new().state());
    let batches = catalog.list(PartitionPredicate::all(catalog.spec()), context);
    let batches: Vec<_> = batches.try_collect().await.unwrap();
    let all = PartitionBatch::concat(catalog.spec(), batches).unwrap();
    let mut lines: Vec<_> = (0..all.len())
        .map(|row| {
            let partition = all.partition(row).unwrap();
            assert_eq!(partition.source.rows, None);
            let values = catalog.spec().describe(&partition.values);
            format!("{values} @{}", partition.source.location)
        })
        .collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_change_is_whole_or_not_at_all() {
    let catalog = RegisteredCatalog::new(spec(&[DataType::Int32]));
    let p = |p: i32, location: &str| partition(&catalog, &[p.into()], location);
    let added = catalog.add(vec![p(1, "a"), p(2, "b")], false).await;
    assert_eq!(added.unwrap().len(), 2);

    for (wrong, message) in [
        (p(1, "c"), "(p = 1) is registered already"),
        (p(4, "b"), "two partitions have the location 'b'"),
        (p(4, "b/x"), "'b/x' is inside the partition at 'b'"),
        (p(4, ""), "'a' is inside the partition at ''"),
        (p(4, "new"), "'new/3' is inside the partition at 'new'"),
        (p(3, "other"), "(p = 3) is registered already"),
    ] {
        let error = catalog.add(vec![p(3, "new/3"), wrong], false).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(listed(&catalog).await, ["p = 1 @a", "p = 2 @b"]);

    let added = catalog.add(vec![p(1, "a/elsewhere"), p(3, "c")], true);
    assert_eq!(added.await.unwrap(), [p(3, "c")]);
    let values = |n: i32| p(n, "").values;
    let removed = catalog.remove(vec![values(9), values(2), values(2)]).await;
    assert_eq!(removed.unwrap(), [p(2, "b")]);
    // Its location is free again.
    catalog.add(vec![p(5, "b/5")], false).await.unwrap();
    let expected = ["p = 1 @a", "p = 3 @c", "p = 5 @b/5"];
    assert_eq!(listed(&catalog).await, expected);
}

#[tokio::test]
async fn values_are_told_apart_as_sql_does() {
    let catalog = RegisteredCatalog::new(spec(&[DataType::Utf8, DataType::Float64]));
    let text = |text: Option<&str>| ScalarValue::from(text);
    let number = |number: f64| ScalarValue::from(number);
    let add = async |values: [ScalarValue; 2], location: &str| {
        let partition = partition(&catalog, &values, location);
        catalog.add(vec![partition], true).await.unwrap().len()
    };
    assert_eq!(add([text(None), number(0.0)], "1").await, 1);
    assert_eq!(add([text(Some("")), number(0.0)], "2").await, 1);
    assert_eq!(add([text(Some("NULL")), number(-0.0)], "3").await, 1);
    assert_eq!(add([text(None), number(-0.0)], "4").await, 0);
    assert_eq!(add([text(Some("n")), number(f64::NAN)], "5").await, 1);
    assert_eq!(add([text(Some("n")), number(-f64::NAN)], "6").await, 0);
    assert_eq!(
        listed(&catalog).await,
        [
            "p = '', q = 0.0 @2",
            "p = 'NULL', q = 0.0 @3",
            "p = 'n', q = NaN @5",
            "p = NULL, q = 0.0 @1",
        ]
    );
}

#[tokio::test]
async fn every_type_of_value_is_kept() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    for (data_type, text) in [
        (DataType::Boolean, "true"),
        (DataType::Date32, "2024-02-29"),
        (DataType::Decimal128(5, 2), "1.10"),
        (DataType::Utf8View, "a/b"),
        (dictionary, "x"),
    ] {
        let catalog = RegisteredCatalog::new(spec(&[data_type.clone(), DataType::Int8]));
        let values = [ScalarValue::from(text), ScalarValue::Int8(None)];
        let partition = partition(&catalog, &values, "a");
        catalog.add(vec![partition.clone()], false).await.unwrap();
        let known = catalog.shared.store().load().await.unwrap().partitions;
        assert_eq!(known.partition(0).unwrap(), partition, "{data_type}");
        let removed = catalog.remove(vec![partition.values.clone()]).await;
        assert_eq!(removed.unwrap(), [partition]);
    }
}

#[tokio::test]
async fn rows_are_hints_for_the_estimate_alone() {
    let catalog = RegisteredCatalog::new(spec(&[DataType::Int32]));
    let context = ListingContext::for_planning(&SessionContext::new().state());
    let all = PartitionPredicate::all(catalog.spec());
    let p = |p: i32, rows| partition(&catalog, &[p.into()], &p.to_string()).with_rows(rows);
    let partitions = vec![p(1, usize::MAX), p(2, usize::MAX)];
    catalog.add(partitions, false).await.unwrap();
    let estimate = catalog.estimate(&all, &context).await.unwrap();
    assert_eq!(estimate.rows, Some(usize::MAX));
    catalog.add(vec![p(3, 0)], false).await.unwrap();
    let estimate = catalog.estimate(&all, &context).await.unwrap();
    assert_eq!((estimate.rows, estimate.partitions), (None, 3));
    assert_eq!(listed(&catalog).await.len(), 3);
}

/// A store that counts how often it is loaded.
#[derive(Debug)]
struct Counting(MemoryPartitionStore, AtomicUsize);

#[async_trait]
impl PartitionStore for Counting {
    async fn load(&self) -> Result<StoredPartitions> {
        self.1.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.0.load().await
    }

    async fn version(&self) -> Result<u64> {
        self.0.version().await
    }

    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>> {
        self.0.add(partitions, if_not_exists).await
    }

    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>> {
        self.0.remove(partitions).await
    }
}

#[tokio::test]
async fn what_others_change_is_loaded_once() {
    let spec = spec(&[DataType::Int32]);
    let in_memory = MemoryPartitionStore::new(spec.clone());
    let store = Arc::new(Counting(in_memory, AtomicUsize::default()));
    let [here, there] = [(); 2].map(|()| {
        let catalog = RegisteredCatalog::new(spec.clone());
        catalog.attach(Arc::clone(&store) as _).unwrap();
        catalog
    });
    let loads = || store.1.load(Ordering::Relaxed);
    futures::join!(listed(&here), listed(&here));
    assert_eq!((listed(&here).await.len(), loads()), (0, 1));
    let added = there.add(vec![partition(&there, &[1.into()], "a")], false);
    added.await.unwrap();
    let (first, second) = futures::join!(listed(&here), listed(&here));
    assert_eq!(
        (first, second, loads()),
        (vec!["p = 1 @a".into()], vec!["p = 1 @a".into()], 2)
    );
    here.refresh();
    assert_eq!((listed(&here).await.len(), loads()), (1, 3));
}

#[tokio::test]
async fn a_store_is_attached_once_and_before_the_first_partition() {
    let spec = spec(&[DataType::Int32]);
    let store = || Arc::new(MemoryPartitionStore::new(spec.clone()));
    let catalog = RegisteredCatalog::new(spec.clone());
    catalog.attach(store()).unwrap();
    assert!(catalog.attach(store()).is_err());
    let catalog = RegisteredCatalog::new(spec.clone());
    let added = catalog.add(vec![partition(&catalog, &[1.into()], "a")], false);
    added.await.unwrap();
    assert!(catalog.attach(store()).is_err());
}
