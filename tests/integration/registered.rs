//! Tables whose partitions are registered: `'partition.catalog' 'registered'`.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue};
use datafusion_partitioned::core::{
    ListingContext, Partition, PartitionBatch, PartitionCatalog, PartitionPredicate,
    PartitionRegistry, PartitionValues,
};
use datafusion_partitioned::table::PartitionedTableProvider;
use futures::TryStreamExt;
use object_store::path::Path;

use crate::common::{Fixture, NULL, assert_mentions};

const REGISTERED: &str = "'partition.catalog' 'registered'";

/// The table `t` of CSV files with the partition columns `p` and `q`, without partitions.
async fn fixture(options: &str) -> Fixture {
    let fixture = Fixture::new();
    let options = format!("{REGISTERED}{options}");
    let declared = fixture.declare("id BIGINT, p INT, q TEXT", "CSV", "p, q", &options);
    declared.await.unwrap();
    fixture
}

async fn catalog(fixture: &Fixture) -> Arc<dyn PartitionCatalog> {
    let table = fixture.ctx.table_provider("t").await.unwrap();
    let table = table.downcast_ref::<PartitionedTableProvider>().unwrap();
    Arc::clone(table.catalog())
}

async fn registry(fixture: &Fixture) -> Arc<dyn PartitionRegistry> {
    catalog(fixture).await.registry().unwrap()
}

async fn values(fixture: &Fixture, p: i32, q: Option<&str>) -> PartitionValues {
    let values = vec![ScalarValue::from(p), ScalarValue::from(q)];
    PartitionValues::try_new(catalog(fixture).await.spec(), values).unwrap()
}

/// Registers a partition where a statement without a location would.
async fn add(fixture: &Fixture, p: i32, q: Option<&str>) -> Result<Path> {
    let registry = registry(fixture).await;
    let values = values(fixture, p, q).await;
    let location = registry.default_location(&values)?.unwrap();
    let partition = Partition::new(values, location.clone());
    registry.add(vec![partition], false).await?;
    Ok(location)
}

#[tokio::test]
async fn a_new_table_is_empty_whatever_is_in_its_directory() {
    let fixture = fixture("").await;
    fixture.put_ids("t/p=1/q=a/f.csv", &[1]).await;
    fixture.take_requests();
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["0"]);
    let plan = fixture.explain("SELECT id FROM t WHERE p = 1").await;
    assert_mentions(&plan, &["partitions=registered(memory://lake/t)"]);
    assert_eq!(fixture.take_requests(), "");
}

#[tokio::test]
async fn only_what_is_registered_and_wanted_is_looked_at() {
    let fixture = fixture("").await;
    for p in 1..4 {
        let location = add(&fixture, p, Some("x/y")).await.unwrap();
        let key = format!("{location}/f.csv");
        assert_eq!(key, format!("t/p={p}/q=x%2Fy/f.csv"));
        fixture.put_ids(&key, &[i64::from(p)]).await;
    }
    fixture.put_ids("t/p=9/q=x/f.csv", &[9]).await;
    fixture.take_requests();
    assert_eq!(
        fixture.rows("SELECT id, p, q FROM t").await,
        ["1 | 1 | x/y", "2 | 2 | x/y", "3 | 3 | x/y"]
    );
    fixture.take_requests();

    let one = "SELECT id FROM t WHERE p = 2 AND q LIKE 'x%'";
    assert_eq!(fixture.rows(one).await, ["2"]);
    let join = "SELECT id FROM t JOIN (VALUES (2)) v(x) ON p = x";
    assert_eq!(fixture.rows(join).await, ["2"]);
    let requests = fixture.take_requests();
    assert!(
        requests.lines().all(|line| line.contains("/p=2/")),
        "{requests}"
    );

    let registry = registry(&fixture).await;
    let dropped = vec![values(&fixture, 2, Some("x/y")).await];
    assert_eq!(registry.remove(dropped).await.unwrap().len(), 1);
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["1", "3"]);
    assert_eq!(fixture.rows(one).await.len(), 0);
}

#[tokio::test]
async fn the_same_plan_sees_changes_when_it_is_executed_again() {
    let fixture = fixture("").await;
    let location = add(&fixture, 1, None).await.unwrap();
    assert_eq!(location.as_ref(), format!("t/p=1/q={NULL}"));
    fixture.put_ids(&format!("{location}/f.csv"), &[1]).await;
    fixture
        .run("PREPARE all AS SELECT id FROM t")
        .await
        .unwrap();
    assert_eq!(fixture.rows("EXECUTE all").await, ["1"]);
    // Hive spells empty text as it spells NULL.
    let error = add(&fixture, 1, Some("")).await.unwrap_err();
    assert_mentions(&error.to_string(), &["two partitions have the location"]);
    let location = add(&fixture, 1, Some("b")).await.unwrap();
    fixture.put_ids(&format!("{location}/f.csv"), &[2]).await;
    assert_eq!(fixture.rows("EXECUTE all").await, ["1", "2"]);
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE q IS NULL").await,
        ["1"]
    );
}

#[tokio::test]
async fn directories_can_be_searched_for_what_is_not_registered() {
    let fixture = fixture(", 'partition.layout' 'directory', 'partition.on-mismatch' 'skip'").await;
    assert_eq!(add(&fixture, 1, Some("a")).await.unwrap().as_ref(), "t/1/a");
    fixture.put_ids("t/1/a/f.csv", &[1]).await;
    fixture.put_ids("t/2/b/f.csv", &[2]).await;
    fixture.put_ids("t/oops/b/f.csv", &[2]).await;
    let directories = registry(&fixture).await.directories().unwrap();
    let context = ListingContext::for_planning(&fixture.ctx.state());
    let all = PartitionPredicate::all(directories.spec());
    let found: Vec<PartitionBatch> = directories.list(all, context).try_collect().await.unwrap();
    let found = found.iter().flat_map(PartitionBatch::sources);
    let mut locations: Vec<_> = found.map(|source| source.location.as_ref()).collect();
    locations.sort_unstable();
    assert_eq!(locations, ["t/1/a", "t/2/b"]);
}

#[tokio::test]
async fn a_condition_hides_partitions_that_are_registered() {
    let fixture = fixture(", 'partitions' 'p > ''1'''").await;
    for p in [1, 2] {
        let location = add(&fixture, p, Some("a")).await.unwrap();
        let key = format!("{location}/f.csv");
        fixture.put_ids(&key, &[i64::from(p)]).await;
    }
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["2"]);
}

#[tokio::test]
async fn what_would_do_nothing_is_refused() {
    let fixture = Fixture::new();
    let all = "id BIGINT, p INT, q TEXT";
    let too_much = [
        "'partition.catalog' 'registered'",
        "table 't'",
        "leave one of them out",
    ];
    for (columns, options, texts) in [
        (
            all,
            "'partition.on-missing' 'skip'",
            &["'partition.on-missing'", "'registered'"][..],
        ),
        (
            all,
            "'partition.catalog' 'hive'",
            &["'partition.catalog'", "directories or registered"],
        ),
        (
            all,
            "'partition.catalog' 'registered', 'partition.on-missing' 'null'",
            &["error or skip"],
        ),
        (
            all,
            "'partition.catalog' 'registered', 'schema.sample' '2'",
            &too_much,
        ),
        (
            all,
            "'partition.catalog' 'registered', 'partition.type-inference' 'true'",
            &too_much,
        ),
        (
            all,
            "'partition.catalog' 'registered', 'source.path.regex-pattern' '.*'",
            &too_much,
        ),
        (
            all,
            "'partition.catalog' 'registered', 'projection.enabled' 'true', \
             'projection.p.type' 'integer', 'projection.p.range' '1,2'",
            &too_much,
        ),
        (
            "",
            REGISTERED,
            &["table 't'", "registered partitions", "declare the columns"],
        ),
    ] {
        let error = fixture.declare(columns, "CSV", "p, q", options).await;
        assert_mentions(&error.unwrap_err().to_string(), texts);
    }
    let locations = format!(
        "CREATE EXTERNAL TABLE u ({all}) STORED AS CSV PARTITIONED BY (p) LOCATION ('{}', '{}') \
         OPTIONS ('connector' 'filesystem', {REGISTERED})",
        fixture.lake.location("a/"),
        fixture.lake.location("b/")
    );
    fixture
        .fails(&locations, &["table 'u'", "one LOCATION"])
        .await;
}
