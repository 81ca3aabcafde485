//! The listing cache: what is asked of the store once, and when it is asked again.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::catalog::ListingCache;
use datafusion_partitioned::core::{MemoryCatalog, PartitionSpec};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{
    Fault, FaultyStore, Gate, RequestKind, scan_metric, sorted_rows,
};
use insta::assert_snapshot;

use crate::common::{Fixture, csv_tree, partition};

const ALL: &str = "SELECT id, p, q FROM t";
const ONE: &str = "SELECT id FROM t WHERE p = 2 AND q = 'b'";

/// `t/p=P/q=Q/f.csv` for three numbers and two letters, with the cache on.
async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    for p in 1..=3 {
        for q in ["a", "b"] {
            let key = format!("t/p={p}/q={q}/f.csv");
            fixture.put_ids(&key, &[p]).await;
        }
    }
    fixture.create("t", "p INT, q TEXT").await;
    set(&fixture, "ttl", "1h").await;
    fixture
}

fn with_information_schema() -> Fixture {
    Fixture::with_config(SessionConfig::new().with_information_schema(true))
}

async fn set(fixture: &Fixture, option: &str, value: &str) {
    let sql = format!("SET partitioned.list_cache.{option} = '{value}'");
    fixture.run(&sql).await.unwrap();
}

fn cache(fixture: &Fixture) -> Arc<ListingCache> {
    fixture.ctx.listing_cache().unwrap()
}

fn url(fixture: &Fixture, key: &str) -> ListingTableUrl {
    ListingTableUrl::parse(fixture.lake.location(key)).unwrap()
}

/// The LIST requests since the last call.
fn lists(fixture: &Fixture) -> String {
    let requests = fixture.take_requests();
    let lists = requests.lines().filter(|line| line.starts_with("LIST"));
    lists.collect::<Vec<_>>().join("\n")
}

/// The same data behind a store that can fail, in a session with the cache on.
async fn faulty(fixture: &Fixture) -> FaultyStore {
    let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
    let lake = fixture.lake.clone().with_store(Arc::new(faulty.clone()));
    lake.register(&fixture.ctx);
    faulty
}

#[tokio::test]
async fn a_second_query_lists_nothing() {
    let fixture = fixture().await;
    let expected = fixture.rows(ONE).await;
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=2/q=b/f.csv
    LIST /t/ (delimiter)
    LIST /t/p=2/ (delimiter)
    LIST /t/p=2/q=b/
    ");
    let (rows, plan) = fixture.analyze(ONE).await;
    assert_eq!(rows, expected);
    assert_snapshot!(fixture.take_requests(), @"GET /t/p=2/q=b/f.csv");
    assert_eq!(scan_metric(&plan, "list_requests"), 0);
    assert_eq!(scan_metric(&plan, "list_cache_hits"), 3);
}

#[tokio::test]
async fn another_query_lists_only_what_is_new() {
    let fixture = fixture().await;
    fixture.rows(ONE).await;
    lists(&fixture);
    fixture.rows("SELECT id FROM t WHERE q = 'b'").await;
    assert_snapshot!(lists(&fixture), @r"
    LIST /t/p=1/ (delimiter)
    LIST /t/p=1/q=b/
    LIST /t/p=3/ (delimiter)
    LIST /t/p=3/q=b/
    ");
    assert_eq!(fixture.rows(ALL).await.len(), 6);
    assert_snapshot!(lists(&fixture), @"LIST /t/");
    fixture.rows("SELECT count(*) FROM t").await;
    assert_eq!(lists(&fixture), "");
}

#[tokio::test]
async fn it_is_off_at_first_and_off_neither_reads_nor_fills() {
    let fixture = fixture().await;
    let sql = "SHOW partitioned.list_cache.ttl";
    let plain = with_information_schema();
    assert_eq!(plain.rows(sql).await, ["partitioned.list_cache.ttl | 0s"]);

    set(&fixture, "ttl", "0s").await;
    fixture.rows(ONE).await;
    assert!(cache(&fixture).is_empty());

    set(&fixture, "ttl", "1h").await;
    fixture.rows(ONE).await;
    let filled = cache(&fixture).len();
    assert_eq!(filled, 3);
    lists(&fixture);
    set(&fixture, "ttl", "0").await;
    fixture.rows(ALL).await;
    fixture.rows(ONE).await;
    assert_eq!(lists(&fixture).lines().count(), 4);
    assert_eq!(cache(&fixture).len(), filled);
}

#[tokio::test]
async fn a_new_file_is_seen_when_the_listing_is_too_old() {
    let fixture = fixture().await;
    assert_eq!(fixture.rows(ALL).await.len(), 6);
    fixture.put_ids("t/p=4/q=a/f.csv", &[4]).await;
    assert_eq!(fixture.rows(ALL).await.len(), 6);

    set(&fixture, "ttl", "1 ms").await;
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(fixture.rows(ALL).await.len(), 7);
    // The listing that was just made is there for those who take older ones.
    set(&fixture, "ttl", "1h").await;
    lists(&fixture);
    assert_eq!(fixture.rows(ALL).await.len(), 7);
    assert_eq!(lists(&fixture), "");
}

#[tokio::test]
async fn a_new_file_is_seen_after_an_invalidation_above_or_below() {
    for place in ["t/p=4/q=a/", "t/p=4/q=a/f.csv", "t/", "t/p=4", ""] {
        let fixture = fixture().await;
        fixture.rows(ONE).await;
        assert_eq!(fixture.rows(ALL).await.len(), 6);
        fixture.put_ids("t/p=4/q=a/f.csv", &[4]).await;
        cache(&fixture).invalidate(&url(&fixture, place));
        let rows = fixture.rows("SELECT id FROM t WHERE p >= 3").await;
        assert_eq!(rows, ["3", "3", "4"], "{place}");
        assert_eq!(fixture.rows(ALL).await.len(), 7, "{place}");
    }
}

#[tokio::test]
async fn an_invalidation_elsewhere_changes_nothing() {
    let fixture = fixture().await;
    fixture.rows(ONE).await;
    lists(&fixture);
    for place in ["t2/", "t/p=22/q=a", "t/p=2/q=bb"] {
        let before = cache(&fixture).len();
        cache(&fixture).invalidate(&url(&fixture, place));
        let left = cache(&fixture).len();
        // Only what is above the place is asked again.
        assert!(left < before || place == "t2/", "{place}");
        fixture.rows(ONE).await;
    }
    assert_snapshot!(lists(&fixture), @r"
    LIST /t/ (delimiter)
    LIST /t/ (delimiter)
    LIST /t/p=2/ (delimiter)
    ");
}

#[tokio::test]
async fn creating_a_table_forgets_its_directories() {
    let fixture = fixture().await;
    fixture.rows(ALL).await;
    fixture.put_ids("t/p=4/q=a/f.csv", &[4]).await;
    fixture.run("DROP TABLE t").await.unwrap();
    fixture.create("t", "p INT, q TEXT").await;
    assert_eq!(fixture.rows(ALL).await.len(), 7);
}

#[tokio::test]
async fn tables_over_one_directory_share_its_listings() {
    let fixture = fixture().await;
    let sql = format!(
        "CREATE EXTERNAL TABLE u (id BIGINT, p TEXT, q TEXT) STORED AS CSV \
         PARTITIONED BY (p, q) LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("t/")
    );
    fixture.run(&sql).await.unwrap();
    fixture.rows(ONE).await;
    lists(&fixture);
    // With types of their own: '2' < '10' as a number only.
    let rows = fixture
        .rows("SELECT p FROM u WHERE p LIKE '2%' AND q = 'b'")
        .await;
    assert_eq!(rows, ["2"]);
    assert_eq!(lists(&fixture), "");
}

#[tokio::test]
async fn sessions_share_a_cache_when_told_to() {
    let fixture = fixture().await;
    fixture.rows(ALL).await;
    lists(&fixture);
    let config = SessionConfig::new().with_extension(cache(&fixture));
    let other = SessionContext::new_with_config(config).with_partitioned();
    assert!(Arc::ptr_eq(
        &other.listing_cache().unwrap(),
        &cache(&fixture)
    ));
    assert!(SessionContext::new().listing_cache().is_none());

    fixture.lake.register(&other);
    other
        .register_table("t", fixture.ctx.table_provider("t").await.unwrap())
        .unwrap();
    let count = || async {
        let rows = other.sql(ALL).await.unwrap().collect().await.unwrap();
        sorted_rows(&rows).len()
    };
    assert_eq!(count().await, 6);
    assert_eq!(lists(&fixture), "LIST /t/");
    other
        .sql("SET partitioned.list_cache.ttl = '1h'")
        .await
        .unwrap();
    assert_eq!(count().await, 6);
    assert_eq!(lists(&fixture), "");
}

#[tokio::test]
async fn a_listing_that_fails_halfway_is_not_kept() {
    let fixture = fixture().await;
    let faulty = faulty(&fixture).await;
    for (query, kind) in [
        (ALL, RequestKind::List),
        (ONE, RequestKind::ListWithDelimiter),
    ] {
        faulty.inject(Fault::fail_after(3, move |request| request.kind == kind));
        let error = fixture.error(query).await;
        assert!(error.contains("cannot list the partitions"), "{error}");
        assert!(cache(&fixture).is_empty());
        faulty.heal();
    }
    assert_eq!(fixture.rows(ALL).await.len(), 6);
    assert_eq!(cache(&fixture).len(), 1);
}

#[tokio::test]
async fn a_listing_that_a_limit_stops_is_not_kept() {
    let config = SessionConfig::new().with_target_partitions(1);
    let fixture = Fixture::with_config(config);
    for file in 0..2500 {
        fixture
            .put_ids(&format!("t/p=1/f{file}.csv"), &[file])
            .await;
    }
    fixture.create("t", "p INT").await;
    set(&fixture, "ttl", "1h").await;
    let some = fixture.rows("SELECT id FROM t LIMIT 3").await;
    assert_eq!(some.len(), 3);
    assert!(cache(&fixture).is_empty());

    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["2500"]);
    assert_eq!(cache(&fixture).len(), 1);
    lists(&fixture);
    assert_eq!(fixture.rows("SELECT id FROM t LIMIT 3").await.len(), 3);
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["2500"]);
    assert_eq!(lists(&fixture), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_listing_and_one_from_before_an_invalidation_are_not_kept() {
    let fixture = fixture().await;
    let faulty = faulty(&fixture).await;
    for cancel in [true, false] {
        for (query, kind) in [
            (ALL, RequestKind::List),
            (ONE, RequestKind::ListWithDelimiter),
        ] {
            cache(&fixture).clear();
            let gate = Gate::new();
            faulty.inject(Fault::hold(&gate, move |request| request.kind == kind).nth(1));
            let ctx = fixture.ctx.clone();
            let task = SpawnedTask::spawn(async move { ctx.sql(query).await?.collect().await });
            gate.wait_for_held(|held| held == 1).await;
            if cancel {
                drop(task);
                gate.wait_for_held(|held| held == 0).await;
                assert!(cache(&fixture).is_empty());
            } else {
                cache(&fixture).invalidate(&url(&fixture, "t/"));
                gate.open();
                task.await.unwrap().unwrap();
                let root = ["LIST /t/", "LIST /t/ (delimiter)"];
                lists(&fixture);
                fixture.rows(query).await;
                assert!(root.contains(&lists(&fixture).as_str()), "{query}");
            }
            faulty.heal();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_queries_at_once_agree() {
    let fixture = fixture().await;
    let expected = fixture.rows(ALL).await;
    cache(&fixture).clear();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let ctx = fixture.ctx.clone();
            SpawnedTask::spawn(async move {
                let rows = ctx.sql(ALL).await?.collect().await?;
                Ok::<_, DataFusionError>(sorted_rows(&rows))
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), expected);
    }
    assert_eq!(cache(&fixture).len(), 1);
    lists(&fixture);
    assert_eq!(fixture.rows(ALL).await, expected);
    assert_eq!(lists(&fixture), "");
}

#[tokio::test]
async fn the_cache_is_bounded_and_the_oldest_gives_way() {
    let fixture = fixture().await;
    fixture.rows(ALL).await;
    let bytes_of_one = cache(&fixture).bytes();
    assert!(bytes_of_one > 6 * 100, "{bytes_of_one}");

    // A listing that is larger than the limit is not kept.
    set(&fixture, "limit", "0.5K").await;
    assert_eq!(fixture.rows(ALL).await.len(), 6);
    assert!(cache(&fixture).is_empty());

    set(&fixture, "limit", "4K").await;
    for p in 1..=3 {
        for q in ["a", "b"] {
            let sql = format!("SELECT id FROM t WHERE p = {p} AND q = '{q}'");
            assert_eq!(fixture.rows(&sql).await, [p.to_string()]);
            let cache = cache(&fixture);
            assert!(cache.bytes() <= 4096, "{cache:?}");
        }
    }
    // The root is used by every query, so it is still there, unlike the first partition.
    lists(&fixture);
    fixture
        .rows("SELECT id FROM t WHERE p = 1 AND q = 'a'")
        .await;
    assert_snapshot!(lists(&fixture), @r"
    LIST /t/p=1/ (delimiter)
    LIST /t/p=1/q=a/
    ");
    set(&fixture, "limit", "0").await;
    fixture.rows(ALL).await;
    assert!(cache(&fixture).is_empty());
}

#[tokio::test]
async fn mistakes_in_the_options_are_errors() {
    let fixture = with_information_schema();
    for (option, value) in [("ttl", "-1s"), ("ttl", "1 month"), ("limit", "many")] {
        let sql = format!("SET partitioned.list_cache.{option} = '{value}'");
        let error = fixture.error(&sql).await;
        assert!(error.contains(value), "{error}");
    }
    set(&fixture, "ttl", "1h 30m").await;
    set(&fixture, "limit", "1.5M").await;
    let shown = fixture.rows("SHOW ALL").await;
    for expected in [
        "partitioned.list_cache.ttl | 5400s",
        "partitioned.list_cache.limit | 1536K",
    ] {
        assert!(shown.iter().any(|row| row == expected), "{shown:?}");
    }
}

#[tokio::test]
async fn local_directories_are_remembered_too() {
    let dir = csv_tree(&[("p=1/q=a", &[1]), ("p=2/q=b", &[2])]);
    let ctx = SessionContext::new().with_partitioned();
    let location = dir.path().display();
    let run = |sql: String| {
        let ctx = ctx.clone();
        async move { sorted_rows(&ctx.sql(&sql).await.unwrap().collect().await.unwrap()) }
    };
    run(format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT, q TEXT) STORED AS CSV PARTITIONED BY (p, q) \
         LOCATION '{location}' OPTIONS ('connector' 'filesystem')"
    ))
    .await;
    run("SET partitioned.list_cache.ttl = '1h'".to_owned()).await;
    assert_eq!(run(ONE.to_owned()).await, ["2"]);
    std::fs::create_dir_all(dir.path().join("p=2/q=c")).unwrap();
    std::fs::write(dir.path().join("p=2/q=c/f.csv"), "id\n3\n").unwrap();
    let two = "SELECT id FROM t WHERE p = 2 AND q > 'a'".to_owned();
    assert_eq!(run(two.clone()).await, ["2"]);
    let listings = ctx.listing_cache().unwrap();
    listings.invalidate(&ListingTableUrl::parse(dir.path().to_str().unwrap()).unwrap());
    assert_eq!(run(two).await, ["2", "3"]);
}

#[tokio::test]
async fn files_that_a_reader_looks_for_are_remembered_too() {
    let fixture = fixture().await;
    let field = Field::new("p", DataType::Int32, true);
    let spec = PartitionSpec::try_new(vec![field]).unwrap();
    let partitions = [1, 2].map(|p| partition(&spec, [ScalarValue::from(p)], &format!("t/p={p}")));
    let catalog = MemoryCatalog::try_new(spec, &partitions).unwrap();
    fixture.register_csv("m", catalog);
    for requests in ["LIST /t/p=2/", ""] {
        let rows = fixture.rows("SELECT id FROM m WHERE p = 2").await;
        assert_eq!(rows, ["2", "2"]);
        assert_eq!(lists(&fixture), requests);
    }
}
