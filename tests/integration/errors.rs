//! Bad input: each a clear error, never a panic, never rows.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_partitioned_test_utils::{
    Fault, FaultyStore, RequestKind, node_metric, sorted_rows,
};

use crate::common::Fixture;

async fn table() -> Fixture {
    let fixture = Fixture::new();
    fixture.put_ids("t/p=1/q=a/f.csv", &[1]).await;
    fixture.put_ids("t/p=2/q=b/f.csv", &[2]).await;
    fixture.create("t", "p INT, q TEXT").await;
    fixture
}

fn create(fixture: &Fixture, options: &str) -> String {
    format!(
        "CREATE EXTERNAL TABLE u (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ({options})",
        fixture.lake.location("t/")
    )
}

#[tokio::test]
async fn unknown_connector() {
    let fixture = table().await;
    fixture
        .fails(
            &create(&fixture, "'connector' 'filesytem'"),
            &["'filesytem'", "'u'", "'filesystem'"],
        )
        .await;
}

#[tokio::test]
async fn unknown_option() {
    let fixture = table().await;
    let options = "'connector' 'filesystem', 'partition.defualt-name' 'x'";
    fixture
        .fails(
            &create(&fixture, options),
            &[
                "partition.defualt-name",
                "(did you mean 'partition.default-name'?)",
            ],
        )
        .await;
    fixture
        .fails(
            &create(&fixture, "'connector' 'filesystem', 'has_haeder' 'x'"),
            &["has_haeder", "has_header"],
        )
        .await;
    fixture
        .fails(
            &create(&fixture, "'connector' 'filesystem', 'tempo' 'x'"),
            &["'tempo'", "table_options('filesystem')", "those of CSV"],
        )
        .await;
}

#[tokio::test]
async fn without_the_connector_datafusion_decides() {
    let fixture = table().await;
    fixture
        .fails(
            &create(&fixture, "'partition.default-name' 'x'"),
            &["'u'", "add the option 'connector' 'filesystem'"],
        )
        .await;
    fixture
        .run(&create(&fixture, "'has_header' 'true'"))
        .await
        .unwrap();
    let plan = fixture.plan("SELECT * FROM u").await;
    // DataFusion's own table: it lists when planning.
    assert!(fixture.requests.list_count() > 0);
    drop(plan);
}

#[tokio::test]
async fn location_that_does_not_exist() {
    let fixture = table().await;
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nowhere");
    let sql = format!(
        "CREATE EXTERNAL TABLE u (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}/' OPTIONS ('connector' 'filesystem')",
        missing.display()
    );
    fixture
        .fails(&sql, &["nowhere", "'u'", "does not exist"])
        .await;
    let sql = format!(
        "CREATE EXTERNAL TABLE u STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("nothing/")
    );
    fixture
        .fails(&sql, &["cannot infer the columns of table 'u'", "nothing"])
        .await;
    let sql = create(&fixture, "'connector' 'filesystem'");
    let with_location = |location: &str| sql.replace(&fixture.lake.location("t/"), location);
    fixture
        .fails(
            &with_location("s3://no-such-store/t/"),
            &[
                "no object store is registered for 's3://no-such-store/'",
                "'u'",
            ],
        )
        .await;
    let error = fixture
        .fails(
            &with_location("s3://AKID:TOPSECRET@lake/t/"),
            &["'u' contains credentials"],
        )
        .await;
    assert!(
        !error.contains("TOPSECRET") && !error.contains("AKID"),
        "{error}"
    );

    let sql = with_location(&dir.path().display().to_string());
    fixture.run(&sql).await.unwrap();
    std::fs::remove_dir_all(dir.path()).unwrap();
    for query in ["SELECT count(*) FROM u", "SELECT id FROM u WHERE p = 1"] {
        fixture.fails(query, &["cannot list the partitions"]).await;
    }
}

#[tokio::test]
async fn directory_that_is_not_of_the_declared_type() {
    let fixture = table().await;
    fixture.put_ids("t/p=abc/q=c/f.csv", &[3]).await;
    for query in [
        "SELECT * FROM t",
        "SELECT * FROM t WHERE p = 1",
        "SELECT count(*) FROM t",
    ] {
        fixture
            .fails(query, &["'p'", "'abc'", "Int32", "memory://lake/t/p=abc"])
            .await;
    }
}

#[tokio::test]
async fn directory_that_is_no_partition() {
    let fixture = table().await;
    fixture.put_ids("t/p=1/backup/f.csv", &[3]).await;
    for query in ["SELECT * FROM t", "SELECT * FROM t WHERE q = 'a'"] {
        fixture
            .fails(
                query,
                &["q=<value>", "'backup'", "memory://lake/t/p=1/backup"],
            )
            .await;
    }
}

#[tokio::test]
async fn failing_listing_is_never_an_empty_result() {
    let fixture = table().await;
    for kind in [RequestKind::List, RequestKind::ListWithDelimiter] {
        let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
        faulty.inject(Fault::fail(move |request| request.kind == kind));
        fixture
            .lake
            .clone()
            .with_store(Arc::new(faulty))
            .register(&fixture.ctx);
        let queries = [
            "SELECT * FROM t WHERE q = 'a'",
            "SELECT count(*) FROM t WHERE p = 2",
        ];
        for query in queries {
            fixture
                .fails(query, &["cannot list", "'memory://lake/t"])
                .await;
        }
    }
    // A later page of a flat listing.
    let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
    faulty.inject(Fault::fail_after(1, |request| {
        request.kind == RequestKind::List
    }));
    fixture
        .lake
        .clone()
        .with_store(Arc::new(faulty))
        .register(&fixture.ctx);
    fixture
        .fails("SELECT count(*) FROM t", &["cannot list"])
        .await;
}

#[tokio::test]
async fn truncated_parquet_file() {
    let fixture = Fixture::new();
    fixture
        .lake
        .put_text("t/p=1/f.parquet", "PAR1 but no more")
        .await
        .unwrap();
    let declared = fixture.declare("id BIGINT, p INT", "PARQUET", "p", "");
    declared.await.unwrap();
    fixture.fails("SELECT * FROM t", &["arquet"]).await;
    fixture.error("SELECT count(*) FROM t").await;
}

#[tokio::test]
async fn clauses_that_would_be_ignored_are_refused() {
    let fixture = table().await;
    let location = fixture.lake.location("t/");
    let with = |head: &str, columns: &str, tail: &str| {
        format!(
            "CREATE {head} EXTERNAL TABLE u ({columns}) STORED AS CSV PARTITIONED BY (p) {tail} \
             LOCATION '{location}' OPTIONS ('connector' 'filesystem')"
        )
    };
    let columns = "id BIGINT, p INT";
    let cases = [(with("UNBOUNDED", columns, ""), "UNBOUNDED")];
    for (sql, clause) in cases {
        fixture.fails(&sql, &[clause, "'filesystem'"]).await;
    }
    let sql = create(&fixture, "'connector' 'filesystem'").replace("(p)", "(nope)");
    fixture.fails(&sql, &["nope"]).await;
    let sql = create(&fixture, "'connector' 'filesystem'").replace("PARTITIONED BY (p)", "");
    fixture.fails(&sql, &["PARTITIONED BY"]).await;
    let sql = create(&fixture, "'connector' 'filesystem'").replace(&location, "/lake/t/p=*/");
    fixture.fails(&sql, &["pattern", "/lake/t/p=*/"]).await;
}

#[tokio::test]
async fn refused_memory_gives_up_the_filter_and_not_the_query() {
    let fixture = table().await;
    fixture
        .run("CREATE TABLE d AS SELECT 1 AS k")
        .await
        .unwrap();
    let run = |bytes: usize| {
        let pool = Arc::new(GreedyMemoryPool::new(bytes));
        let env = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .build_arc()
            .unwrap();
        let state =
            SessionStateBuilder::new_from_existing(fixture.ctx.state()).with_runtime_env(env);
        let ctx = SessionContext::new_with_state(state.build());
        fixture.lake.register(&ctx);
        async move {
            let query = ctx.sql("SELECT id FROM t JOIN d ON p = k").await.unwrap();
            let plan = query.create_physical_plan().await.unwrap();
            let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
            (
                sorted_rows(&rows),
                node_metric(&plan, "PartitionKeyCollectorExec", "key_set_overflowed"),
            )
        }
    };
    // Enough for the hash table of one row, and too little for the keys.
    assert_eq!(run(600).await, (vec!["1".to_owned()], 1));
    assert_eq!(run(1_000_000).await, (vec!["1".to_owned()], 0));
}

#[tokio::test]
async fn formats_that_are_not_supported() {
    let fixture = table().await;
    let sql = create(&fixture, "'connector' 'filesystem'").replace("AS CSV", "AS ORC");
    fixture.fails(&sql, &["ORC"]).await;
    // Where the session knows the name.
    {
        let state = fixture.ctx.state_ref();
        let mut state = state.write();
        let factory = Arc::clone(&state.table_factories()["CSV"]);
        state
            .table_factories_mut()
            .insert("ORC".to_owned(), factory);
    }
    fixture
        .fails(&sql, &["format 'ORC'", "PARQUET", "CSV", "AVRO"])
        .await;
}

#[tokio::test]
async fn csv_files_with_the_partition_column_in_them() {
    let fixture = Fixture::new();
    fixture
        .lake
        .put_text("t/p=1/f.csv", "id,p\n1,1\n")
        .await
        .unwrap();
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV PARTITIONED BY (p) LOCATION '{}' \
         OPTIONS ('connector' 'filesystem', 'has_header' 'true', 'csv.match-by' 'position')",
        fixture.lake.location("t/")
    );
    fixture.fails(&sql, &["'t'", "partition column (p)"]).await;
    fixture.run(&sql.replace("position", "name")).await.unwrap();
    assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | 1"]);
}

#[tokio::test]
async fn partition_columns_that_no_directory_can_spell() {
    let fixture = table().await;
    let sql = create(&fixture, "'connector' 'filesystem'").replace("p INT", "p INT[]");
    fixture
        .fails(&sql, &["'p'", "'u'", "List", "no directory name"])
        .await;
}

#[tokio::test]
async fn data_files_above_every_partition_are_no_empty_table() {
    let fixture = table().await;
    let create = |name: &str, columns: &str, location: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} (id BIGINT, p INT, q TEXT, r INT) STORED AS CSV \
             PARTITIONED BY ({columns}) LOCATION '{}' OPTIONS ('connector' 'filesystem')",
            fixture.lake.location(location)
        )
    };
    fixture.run(&create("deep", "p, q, r", "t/")).await.unwrap();
    fixture
        .fails(
            "SELECT count(*) FROM deep",
            &[
                "'memory://lake/t'",
                "p=<value>/q=<value>/r=<value>/",
                "too many",
            ],
        )
        .await;
    fixture
        .run(&create("low", "p, q", "t/p=1/q=a/"))
        .await
        .unwrap();
    for query in [
        "SELECT count(*) FROM low",
        "SELECT id FROM low WHERE p = 1 AND q = 'a'",
    ] {
        fixture.fails(query, &["a level too deep"]).await;
    }
    fixture
        .run(&create("none", "p, q", "nothing/"))
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT count(*) FROM none WHERE p = 1").await,
        ["0"]
    );
}

#[tokio::test]
async fn a_partition_column_that_is_not_null() {
    let fixture = table().await;
    let sql = create(&fixture, "'connector' 'filesystem'").replace("p INT", "p INT NOT NULL");
    fixture.fails(&sql, &["'p'", "'u'", "NOT NULL"]).await;
}

#[tokio::test]
async fn every_statement_that_fails_names_its_table() {
    let fixture = table().await;
    let location = fixture.lake.location("t/");
    let with = |option: &str| create(&fixture, &format!("'connector' 'filesystem', {option}"));
    let plain = create(&fixture, "'connector' 'filesystem'");
    for (sql, mistake) in [
        (with("'partition.layout' 'flat'"), "'flat'"),
        (with("'partition.layout' 'x/${q}'"), "${q}"),
        (with("'source.path.regex-pattern' '('"), "regex"),
        (with("'partitions' 'id > 3'"), "id"),
        (
            with("'metadata.columns' 'file.path, file.path'"),
            "'file.path' is named twice",
        ),
        (
            with("'metadata.columns' 'file.path'").replace("id", "\"file.path\""),
            "'file.path'",
        ),
        (with("'delimiter' ';;'"), "';;' for option 'delimiter'"),
        (with("'has_header' 'ja'"), "'ja' for option 'has_header'"),
        (plain.replace("(p)", "(p, p)"), "twice"),
        (
            plain.replace(&format!("'{location}'"), "('memory://lake/t/', '/tmp/')"),
            "different stores",
        ),
    ] {
        fixture.fails(&sql, &["table 'u'", mistake]).await;
    }
}
