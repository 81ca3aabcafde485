//! OPS: caches, failures, definitions and the registry of connectors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::connector::{
    Connector, ConnectorContext, ConnectorOption, ConnectorRegistry, OptionDescription,
    OptionValue, parse_choice,
};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned::table::FilesystemConnector;
use datafusion_partitioned_test_utils::sorted_rows;

use object_store::ObjectStoreExt;

use crate::common::{Fixture, assert_mentions};

/// A list of files that outlives its table (apache/datafusion#19573, apache/doris#65334, apache/spark#30979). Without
/// a cache, and with one until it is told, what others do is seen; a new table never starts with an old list.
#[tokio::test]
async fn ops_01_file_lists_do_not_outlive_a_change() {
    for ttl in ["0s", "1h"] {
        let fixture = Fixture::new();
        fixture.set("partitioned.list_cache.ttl", ttl).await;
        fixture.put_ids("t/p=1/f", &[1]).await;
        let declare = || fixture.declare("id BIGINT, p INT", "CSV", "p", "");
        declare().await.unwrap();
        let count = async || fixture.rows("SELECT count(*) FROM t").await;
        assert_eq!(count().await, ["1"]);

        fixture.put_ids("t/p=2/f", &[2]).await;
        fixture.put_ids("t/p=3/f", &[3]).await;
        let remembered = if ttl == "0s" { "3" } else { "1" };
        assert_eq!(count().await, [remembered]);
        fixture.run("REFRESH TABLE t").await.unwrap();
        assert_eq!(count().await, ["3"]);

        fixture.put_ids("t/p=4/f", &[4]).await;
        fixture.run("DROP TABLE t").await.unwrap();
        declare().await.unwrap();
        assert_eq!(count().await, ["4"]);

        delete(&fixture, "t/p=1/f").await;
        fixture
            .run("REFRESH TABLE t PARTITION (p = 1)")
            .await
            .unwrap();
        assert_eq!(count().await, ["3"]);
    }
}

/// A file that vanishes between listing and reading is an error that names it, and no silent loss (apache/hudi#5298,
/// trinodb/trino#10501). Other partitions are read all the same.
#[tokio::test]
async fn ops_03_a_file_that_vanished_is_named() {
    let fixture = Fixture::new();
    fixture.set("partitioned.list_cache.ttl", "1h").await;
    for p in 0..100 {
        fixture.put_ids(&format!("t/p={p}/f"), &[p]).await;
    }
    fixture
        .declare("id BIGINT, p INT", "CSV", "p", "")
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT count(id) FROM t").await, ["100"]);
    delete(&fixture, "t/p=50/f").await;
    let error = fixture.error("SELECT count(id) FROM t").await;
    assert_mentions(&error, &["t/p=50/f", "not found"]);
    assert_eq!(
        fixture.rows("SELECT count(id) FROM t WHERE p < 50").await,
        ["50"]
    );
    fixture.run("REFRESH TABLE t").await.unwrap();
    assert_eq!(fixture.rows("SELECT count(id) FROM t").await, ["99"]);
}

/// Partition columns that do not fit the directories (apache/datafusion#9785, #17049, #7860). What is declared is not
/// looked at before it is read, and then it is an error and no empty result; a column that is not declared and not
/// there is an error at once. Directories below the last partition column are data.
#[tokio::test]
async fn ops_08_partition_columns_that_do_not_fit() {
    let fixture = Fixture::new();
    fixture.put_ids("t/a=1/b=2/f", &[1]).await;
    let read = async |columns: &str, by: &str| {
        fixture.ctx.deregister_table("t").unwrap();
        fixture.declare(columns, "CSV", by, "").await?;
        fixture.run("SELECT * FROM t").await
    };
    for (columns, by, texts) in [
        ("id BIGINT, a INT, b INT", "b, a", ["'b=<value>'", "'a=1'"]),
        ("id BIGINT, x INT, y INT", "x, y", ["'x=<value>'", "'a=1'"]),
        ("id BIGINT, a INT, b INT", "a, a", ["'a'", "twice"]),
        ("id BIGINT, a INT, b INT", "id", ["'id=<value>'", "'a=1'"]),
        // Not in the column list, so that the directories are looked at for its type.
        ("id BIGINT, a INT", "a, c", ["'c=<value>'", "'b=2'"]),
        ("", "x, y", ["'x=<value>'", "'a=1'"]),
        (
            "id BIGINT, a INT, b INT, c INT",
            "a, b, c",
            ["'a=<value>/b=<value>/c=<value>/'", "a column too many"],
        ),
    ] {
        let error = read(columns, by).await.unwrap_err().to_string();
        assert_mentions(&error, &texts);
    }
    let rows = read("id BIGINT, a INT", "a").await.unwrap();
    assert_eq!(sorted_rows(&rows), ["1 | 1"]);
    // An empty directory is a table without rows; on an object store so is one that is not there.
    fixture.ctx.deregister_table("t").unwrap();
    let location = fixture.lake.location("none/");
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, a INT) STORED AS CSV PARTITIONED BY (a) \
         LOCATION '{location}' OPTIONS ('connector' 'filesystem')"
    );
    fixture.run(&sql).await.unwrap();
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["0"]);
}

/// What the registry does (lakehq/sail#592, apache/datafusion#4126, #4227, #7477): it refuses a second connector of one
/// name, tells case apart and says so, asks a connector only for tables that are wanted, and loses no table when one
/// fails, panics or hangs. Of statements at the same time, one wins.
#[tokio::test]
async fn ops_09_registry_of_connectors() {
    let session = Demos::session();
    let again = session.registry.register(Arc::new(Demo::default()));
    assert_mentions(
        &again.unwrap_err().to_string(),
        &["'demo' is registered already", "'demo', 'filesystem'"],
    );
    let create = |head: &str, options: &str| format!("{head} t (a INT) WITH ({options})");
    let run = async |sql: String| session.context.partitioned_sql(&sql).await.map(drop);

    let error = run(create("CREATE TABLE", "'connector' = 'Demo'"))
        .await
        .unwrap_err();
    let texts = [
        "unknown connector 'Demo'",
        "did you mean 'demo'?",
        "'demo', 'filesystem'",
    ];
    assert_mentions(&error.to_string(), &texts);

    for way in ["panic", "error"] {
        let options = format!("'connector' = 'demo', 'end' = '{way}'");
        let error = run(create("CREATE TABLE", &options)).await.unwrap_err();
        assert_mentions(&error.to_string(), &["table 't'", way]);
        assert!(!session.context.table_exist("t").unwrap());
    }
    let hanging = create("CREATE TABLE", "'connector' = 'demo', 'end' = 'hang'");
    let hanging = tokio::time::timeout(Duration::from_millis(50), run(hanging));
    assert!(hanging.await.is_err());

    run(create("CREATE TABLE", "'connector' = 'demo'"))
        .await
        .unwrap();
    let first = session.context.table_provider("t").await.unwrap();
    let calls = session.calls.load(Ordering::SeqCst);
    let broken = "'connector' = 'demo', 'end' = 'panic', 'x' = 'y'";
    run(create("CREATE TABLE IF NOT EXISTS", broken))
        .await
        .unwrap();
    assert!(run(create("CREATE TABLE", broken)).await.is_err());
    assert_eq!(session.calls.load(Ordering::SeqCst), calls);
    for options in [
        broken,
        "'connector' = 'demo', 'end' = 'panic'",
        "'connector' = 'other'",
    ] {
        assert!(
            run(create("CREATE OR REPLACE TABLE", options))
                .await
                .is_err()
        );
        let kept = session.context.table_provider("t").await.unwrap();
        assert!(Arc::ptr_eq(&kept, &first), "{options}");
    }
    run("DROP TABLE t".to_owned()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let files = format!(
        "CREATE EXTERNAL TABLE t (a INT, p INT) STORED AS CSV PARTITIONED BY (p) LOCATION '{path}' \
         OPTIONS ('connector' 'filesystem')"
    );
    run(files).await.unwrap();
    run("DROP TABLE t".to_owned()).await.unwrap();

    for (head, winners) in [("CREATE TABLE", 1), ("CREATE OR REPLACE TABLE", 50)] {
        let attempts = (0..50).map(|_| {
            let context = session.context.clone();
            let sql = create(head, "'connector' = 'demo', 'end' = 'late'");
            SpawnedTask::spawn(async move { context.partitioned_sql(&sql).await.is_ok() })
        });
        let attempts: Vec<_> = attempts.collect();
        let mut won = 0;
        for attempt in attempts {
            won += usize::from(attempt.join().await.unwrap());
        }
        assert_eq!(won, winners, "{head}");
        assert!(session.context.table_exist("t").unwrap());
    }
}

async fn delete(fixture: &Fixture, key: &str) {
    fixture.lake.store().delete(&key.into()).await.unwrap();
}

struct Demos {
    context: SessionContext,
    registry: Arc<ConnectorRegistry>,
    calls: Arc<AtomicUsize>,
}

impl Demos {
    fn session() -> Self {
        let registry = Arc::new(ConnectorRegistry::new());
        let demo = Demo::default();
        let calls = Arc::clone(&demo.calls);
        registry.register(Arc::new(demo)).unwrap();
        registry.register(Arc::new(FilesystemConnector)).unwrap();
        let context = SessionContext::new_with_config(SessionConfig::new());
        Self {
            context: context.with_partitioned_connectors(&registry),
            registry,
            calls,
        }
    }
}

/// Makes empty tables, and ends as it is told.
#[derive(Debug, Default)]
struct Demo {
    calls: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Table,
    Late,
    Error,
    Panic,
    Hang,
}

impl OptionValue for End {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let ends = [
            ("table", Self::Table),
            ("late", Self::Late),
            ("error", Self::Error),
            ("panic", Self::Panic),
            ("hang", Self::Hang),
        ];
        parse_choice(text, &ends)
    }
}

const END: ConnectorOption<End> = ConnectorOption::new("end", "").with_default("table");

#[async_trait]
impl Connector for Demo {
    fn identifier(&self) -> &str {
        "demo"
    }

    fn options(&self) -> Vec<OptionDescription> {
        vec![END.describe()]
    }

    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match context.options().get(&END)? {
            End::Table => {}
            End::Late => tokio::time::sleep(Duration::from_millis(5)).await,
            End::Error => return exec_err!("the error at the end"),
            End::Panic => panic!("the panic at the end"),
            End::Hang => std::future::pending().await,
        }
        let schema = Arc::clone(context.physical_schema());
        Ok(Arc::new(EmptyTable::new(schema)))
    }
}
