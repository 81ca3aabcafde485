//! Registered partitions in the catalog file.

use std::fs;
use std::sync::Arc;

use datafusion::common::{Result, ScalarValue};
use datafusion_partitioned::core::{
    ListingContext, Partition, PartitionBatch, PartitionCatalog, PartitionPredicate,
    PartitionValues,
};
use datafusion_partitioned::table::PartitionedTableProvider;
use futures::TryStreamExt;
use object_store::path::Path;

use super::{Home, Session};
use crate::common::{assert_mentions, csv_tree};

/// A table in `/` with registered partitions.
pub(super) fn create(or: &str, name: &str, columns: &str, partitioned_by: &str) -> String {
    format!(
        "CREATE {or} EXTERNAL TABLE {name} (id BIGINT, {columns}) STORED AS CSV \
         PARTITIONED BY ({partitioned_by}) LOCATION '/' \
         OPTIONS ('connector' 'filesystem', 'partition.catalog' 'registered')"
    )
}

/// The table `t` of a directory, with registered partitions of one column.
fn create_in(root: &std::path::Path, column: &str) -> String {
    format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, {column}) STORED AS CSV PARTITIONED BY (p) LOCATION '{}' \
         OPTIONS ('connector' 'filesystem', 'partition.catalog' 'registered')",
        root.display()
    )
}

pub(super) async fn catalog(session: &Session, table: &str) -> Result<Arc<dyn PartitionCatalog>> {
    let table = session.0.table_provider(table).await?;
    let table = table.downcast_ref::<PartitionedTableProvider>().unwrap();
    Ok(Arc::clone(table.catalog()))
}

/// Adds partitions of one value each.
pub(super) async fn add(
    session: &Session,
    table: &str,
    partitions: &[(ScalarValue, &str)],
) -> Result<usize> {
    let catalog = catalog(session, table).await?;
    let partitions = partitions.iter().map(|(value, location)| {
        let values = PartitionValues::try_new(catalog.spec(), vec![value.clone()])?;
        Ok(Partition::new(values, Path::parse(location)?))
    });
    let registry = catalog.registry().unwrap();
    let added = registry.add(partitions.collect::<Result<_>>()?, false);
    Ok(added.await?.len())
}

async fn listed(session: &Session, table: &str) -> Result<PartitionBatch> {
    let catalog = catalog(session, table).await?;
    let context = ListingContext::for_planning(&session.0.state());
    let all = PartitionPredicate::all(catalog.spec());
    let batches: Vec<_> = catalog.list(all, context).try_collect().await?;
    PartitionBatch::concat(catalog.spec(), batches)
}

async fn locations(session: &Session, table: &str) -> Vec<String> {
    let listed = listed(session, table).await.unwrap();
    let locations = listed.sources().iter();
    let mut locations: Vec<_> = locations
        .map(|source| source.location.to_string())
        .collect();
    locations.sort();
    locations
}

#[tokio::test]
async fn sessions_share_the_partitions_of_a_table() {
    let (home, tree) = (Home::new(), csv_tree(&[("one", &[1]), ("two", &[2])]));
    let (here, there) = (home.session(), home.session());
    here.rows(&create("", "t", "p INT", "p")).await;
    assert_eq!(there.rows("SELECT count(*) FROM t").await, ["0"]);
    let root = tree.path().to_str().unwrap().trim_start_matches('/');
    let at = |name: &str| format!("{root}/{name}");
    add(&here, "t", &[(1.into(), &at("one"))]).await.unwrap();
    assert_eq!(there.rows("SELECT id, p FROM t").await, ["1 | 1"]);
    add(&there, "t", &[(2.into(), &at("two"))]).await.unwrap();
    assert_eq!(here.rows("SELECT id, p FROM t").await, ["1 | 1", "2 | 2"]);

    for (value, location, message) in [
        (2, at("three"), "(p = 2) is registered already"),
        (3, at("two"), "two partitions have the location"),
        (3, at("two/x"), "is inside the partition at"),
        (3, root.to_owned(), "is inside the partition at"),
    ] {
        let partitions: [(ScalarValue, &str); 2] = [(9.into(), "nine"), (value.into(), &location)];
        let error = add(&here, "t", &partitions).await.unwrap_err();
        assert_mentions(&error.to_string(), &[message]);
    }
    // A name that only begins alike is beside it.
    add(
        &here,
        "t",
        &[(4.into(), &at("two-x")), (5.into(), &at("two0"))],
    )
    .await
    .unwrap();

    let catalog = catalog(&there, "t").await.unwrap();
    let values = |p: i32| PartitionValues::try_new(catalog.spec(), vec![p.into()]).unwrap();
    let registry = catalog.registry().unwrap();
    let removed = registry
        .remove(vec![values(1), values(4), values(5), values(7)])
        .await;
    assert_eq!(removed.unwrap().len(), 3);
    assert_eq!(here.rows("SELECT id, p FROM t").await, ["2 | 2"]);
    assert_eq!(home.session().rows("SELECT id, p FROM t").await, ["2 | 2"]);

    here.rows("DROP TABLE t").await;
    let error = registry.remove(vec![values(2)]).await.unwrap_err();
    assert_mentions(&error.to_string(), &["table 't'", "dropped or replaced"]);
    there.rows(&create("", "t", "p INT", "p")).await;
    assert_eq!(here.rows("SELECT count(*) FROM t").await, ["0"]);
    let left = "SELECT count(*) FROM partitions";
    let left: i64 = home
        .connection()
        .query_row(left, [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn values_of_every_type_are_kept() {
    let home = Home::new();
    let session = home.session();
    let cases = [
        ("BOOLEAN", &["true", "false"][..]),
        ("TINYINT", &["-128", "127"]),
        ("SMALLINT UNSIGNED", &["65535"]),
        ("INT", &["-1", "0"]),
        ("BIGINT", &["-9223372036854775808"]),
        ("BIGINT UNSIGNED", &["18446744073709551615"]),
        ("REAL", &["1.5", "NaN", "inf", "1e-30"]),
        ("DOUBLE", &["0.1", "-inf", "123456789.12345679"]),
        (
            "DECIMAL(38, 10)",
            &["-1.1", "9999999999999999999999999999.9999999999"],
        ),
        ("DATE", &["2024-02-29", "1969-12-31"]),
        (
            "TIMESTAMP",
            &["2024-02-29 23:59:59.123456789", "1969-12-31 00:00:00"],
        ),
        ("TIMESTAMP(3)", &["2024-02-29 23:59:59.123"]),
        ("TIMESTAMP WITH TIME ZONE", &["2024-02-29T23:59:59Z"]),
        ("TIME", &["23:59:59.5"]),
        (
            "TEXT",
            &[
                "",
                "NULL",
                "a/b=%",
                "it's \"quoted\" \\ [1,null]",
                "Ünï\u{1F4BE}\n",
            ],
        ),
    ];
    for (index, (data_type, texts)) in cases.iter().enumerate() {
        let table = format!("t{index}");
        session
            .rows(&create("", &table, &format!("p {data_type}"), "p"))
            .await;
        let values = texts.iter().map(|text| ScalarValue::from(*text));
        let values = values.chain([ScalarValue::Null]);
        let locations: Vec<_> = (0..=texts.len()).map(|n| format!("{table}/{n}")).collect();
        let locations = locations.iter().map(String::as_str);
        let partitions: Vec<_> = values.zip(locations).collect();
        let added = add(&session, &table, &partitions).await;
        assert_eq!(added.unwrap(), partitions.len(), "{data_type}");

        let spec = catalog(&session, &table).await.unwrap().spec().clone();
        let found = listed(&home.session(), &table).await.unwrap();
        assert_eq!(found.len(), partitions.len());
        for row in 0..found.len() {
            let Partition { values, source } = found.partition(row).unwrap();
            let given = partitions
                .iter()
                .find(|(_, at)| *at == source.location.as_ref());
            let given = PartitionValues::try_new(&spec, vec![given.unwrap().0.clone()]).unwrap();
            assert_eq!(values, given, "{data_type}");
        }
    }
}

#[tokio::test]
async fn replacing_a_table_forgets_its_partitions() {
    let home = Home::new();
    let session = home.session();
    session.rows(&create("", "t", "p INT", "p")).await;
    add(&session, "t", &[(1.into(), "a"), (2.into(), "b")])
        .await
        .unwrap();
    assert_eq!(locations(&session, "t").await, ["a", "b"]);
    let other = home.session();
    other.rows(&create("OR REPLACE", "t", "q TEXT", "q")).await;
    assert_eq!(locations(&session, "t").await.len(), 0);
    add(&session, "t", &[("x".into(), "a")]).await.unwrap();
    assert_eq!(locations(&other, "t").await, ["a"]);
}

#[tokio::test]
async fn a_table_whose_disk_is_gone_keeps_its_partitions() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1]), ("p=2", &[2])]));
    let session = home.session();
    let (root, away) = (tree.path().join("table"), tree.path().join("away"));
    for directory in ["p=1", "p=2"] {
        fs::create_dir_all(&root).unwrap();
        fs::rename(tree.path().join(directory), root.join(directory)).unwrap();
    }
    session.rows(&create_in(&root, "p INT")).await;
    session.rows("MSCK REPAIR TABLE t").await;

    fs::rename(&root, &away).unwrap();
    for statement in ["DROP", "SYNC", "ADD"] {
        let repair = format!("MSCK REPAIR TABLE t {statement} PARTITIONS");
        session.fails(&repair, &[&root.display().to_string()]).await;
    }
    assert_eq!(session.rows("SHOW PARTITIONS t").await.len(), 2);
    fs::rename(&away, &root).unwrap();
    assert_eq!(session.rows("SELECT id FROM t").await, ["1", "2"]);
}

/// A location as it is shown means the same in `LOCATION`.
#[tokio::test]
async fn locations_can_be_given_back() {
    let (home, tree) = (Home::new(), csv_tree(&[]));
    let session = home.session();
    session.rows(&create_in(tree.path(), "p TEXT")).await;
    let quoted = |text: &str| text.replace('\'', "''");
    let values = [
        "a b", "50%", "a%20b", "x/y", "?", "#1", "*", "[a]", "äß", "a=b", "a+b", "'",
    ];
    for value in values {
        let add = format!("ALTER TABLE t ADD PARTITION (p = '{}')", quoted(value));
        session.rows(&add).await;
    }
    let before = locations(&session, "t").await;
    assert_eq!(before.len(), values.len());
    for value in values {
        let value = quoted(value);
        let shown = format!("SELECT location FROM partitions('t') WHERE p = '{value}'");
        let shown = quoted(&session.rows(&shown).await[0]);
        for change in [
            format!("DROP PARTITION (p = '{value}')"),
            format!("ADD PARTITION (p = '{value}') LOCATION '{shown}'"),
        ] {
            let changed = session.rows(&format!("ALTER TABLE t {change}")).await;
            assert_eq!(changed.len(), 1, "{change}");
        }
    }
    assert_eq!(locations(&session, "t").await, before);
}
