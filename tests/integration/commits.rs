//! Commits: what readers see of them, what is left when one is interrupted, and what is done behind it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::core::{CommitPolicies, CommitPolicy, PartitionCommit};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Fault, FaultyStore, Gate, RequestKind};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::common::{Fixture, assert_mentions};
use crate::writing::{ALL, error, keys, table};

/// What a writer leaves that is killed behind its commit: the next one goes on with it.
#[tokio::test]
async fn a_commit_that_was_interrupted_is_completed_by_the_next_statement() {
    let fixture = table("").await;
    let store = Arc::clone(fixture.lake.store());
    let old: Vec<_> = keys(&fixture).await;
    let old = old
        .iter()
        .find(|key| key.starts_with("t/p=1/q=a/"))
        .unwrap()
        .clone();
    let put = async |key: &str, text: String| {
        store
            .put(&Path::parse(key).unwrap(), text.into())
            .await
            .unwrap();
    };
    // One of two files has its name already.
    put("t/p=1/q=a/part-x-00000.csv", "id\n10\n".into()).await;
    put("t/p=9/q=z/.part-x-00001.csv.pending", "id\n11\n".into()).await;
    let record = format!(
        r#"{{"version":1,"files":["t/p=1/q=a/part-x-00000.csv","t/p=9/q=z/part-x-00001.csv"],"removed":["{old}"],"partitions":[]}}"#
    );
    put("t/_commits/x.json", record).await;
    fixture
        .run("INSERT INTO t VALUES (4, 4, 'd')")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(ALL).await,
        [
            "10 | 1 | a",
            "11 | 9 | z",
            "2 | 1 | b",
            "3 | 2 | a",
            "4 | 4 | d"
        ]
    );
    let left: Vec<_> = keys(&fixture).await;
    assert!(
        !left
            .iter()
            .any(|key| key.ends_with(".json") || key.contains("pending")),
        "{left:?}"
    );

    put(
        "t/_commits/y.json",
        r#"{"version":2,"files":[],"removed":[],"partitions":[]}"#.into(),
    )
    .await;
    for sql in [ALL, "INSERT OVERWRITE t VALUES (5, 5, 'e')"] {
        error(&fixture, sql, &["t/_commits/y.json", "version 2"]).await;
    }
    // Rows that are added do not depend on it.
    fixture
        .run("INSERT INTO t VALUES (5, 5, 'e')")
        .await
        .unwrap();
}

/// From its commit on, readers see what a statement has written, and not what it replaces, whatever its files are called:
/// in every state in which it can be interrupted while it publishes them.
#[tokio::test]
async fn readers_see_all_of_a_commit_that_was_interrupted() {
    let new = [
        ("t/p=1/q=a", "10"),
        ("t/p=2/q=b", "11"),
        ("t/p=9/q=z", "12"),
    ];
    // How many files have their names, and how many of the replaced ones are deleted.
    for (named, deleted) in [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)] {
        let fixture = table("").await;
        let store = Arc::clone(fixture.lake.store());
        let put = async |key: &str, text: String| {
            store
                .put(&Path::parse(key).unwrap(), text.into())
                .await
                .unwrap();
        };
        let old: Vec<_> = keys(&fixture).await;
        let replaced = |key: &&String| !key.starts_with("t/p=1/q=b/");
        let old: Vec<String> = old.iter().filter(replaced).cloned().collect();
        assert_eq!(old.len(), 2);
        for (index, (directory, id)) in new.iter().enumerate() {
            let name = match index < named {
                true => format!("part-x-{index}.csv"),
                false => format!(".part-x-{index}.csv.pending"),
            };
            put(&format!("{directory}/{name}"), format!("id\n{id}\n")).await;
        }
        let before = ["1 | 1 | a", "2 | 1 | b", "3 | 2 | a"];
        if named == 0 {
            assert_eq!(fixture.rows(ALL).await, before);
        }
        let files = (0..3).map(|index| format!("\"{}/part-x-{index}.csv\"", new[index].0));
        let record = format!(
            r#"{{"version":1,"files":[{}],"removed":["{}","{}"],"partitions":[]}}"#,
            files.collect::<Vec<_>>().join(","),
            old[0],
            old[1]
        );
        put("t/_commits/x.json", record).await;
        for key in &old[..deleted] {
            store.delete(&Path::parse(key).unwrap()).await.unwrap();
        }
        let after = ["10 | 1 | a", "11 | 2 | b", "12 | 9 | z", "2 | 1 | b"];
        for (sql, expected) in [
            (ALL, &after[..]),
            ("SELECT id, p, q FROM t WHERE p > 0", &after),
            (
                "SELECT id, p, q FROM t WHERE p = 1",
                &["10 | 1 | a", "2 | 1 | b"],
            ),
            ("SELECT id, p, q FROM t WHERE q = 'a'", &["10 | 1 | a"]),
            (
                "SELECT id, p, q FROM t WHERE p = 9 LIMIT 5",
                &["12 | 9 | z"],
            ),
            ("SELECT DISTINCT p FROM t", &["1", "2", "9"]),
            ("SELECT count(*), max(p) FROM t", &["4 | 9"]),
            ("SELECT p FROM t ORDER BY p DESC LIMIT 1", &["9"]),
        ] {
            assert_eq!(
                fixture.rows(sql).await,
                expected,
                "{named} {deleted}: {sql}"
            );
        }
    }
}

#[tokio::test]
async fn of_two_overwrites_at_once_one_has_a_conflict() -> Result<()> {
    let fixture = table("").await;
    let lock = Path::from("t/_commits/overwrite.lock");
    fixture
        .lake
        .store()
        .put(&lock, "other".into())
        .await
        .unwrap();
    let before = keys(&fixture).await;
    error(
        &fixture,
        "INSERT OVERWRITE t VALUES (9, 1, 'a')",
        &["conflict", "run it again"],
    )
    .await;
    assert_eq!(keys(&fixture).await, before);
    // Appending is none.
    fixture.run("INSERT INTO t VALUES (4, 4, 'd')").await?;
    fixture.lake.store().delete(&lock).await.unwrap();

    // Both have looked at the partition before one of them commits.
    let overwrite = |id: u32| format!("INSERT OVERWRITE t VALUES ({id}, 1, 'a')");
    let (first, second) = (overwrite(10), overwrite(11));
    let (first, second) = tokio::join!(fixture.run(&first), fixture.run(&second));
    let failed: Vec<_> = [&first, &second]
        .into_iter()
        .filter_map(|r| r.as_ref().err())
        .collect();
    for error in &failed {
        assert_mentions(&error.to_string(), &["conflict"]);
    }
    assert!(failed.len() < 2);
    let rows = fixture
        .rows("SELECT id FROM t WHERE p = 1 AND q = 'a'")
        .await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    Ok(())
}

/// A session whose requests can be held, with the table `t` of [`table`].
async fn held_reader(fixture: &Fixture, gate: &Gate, directory: &'static str) -> SessionContext {
    let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
    faulty.inject(Fault::hold(gate, move |request| {
        request.kind == RequestKind::List && request.path.as_ref() == directory
    }));
    let reader = SessionContext::new_with_config(SessionConfig::new()).with_partitioned();
    let lake = fixture.lake.clone().with_store(Arc::new(faulty));
    lake.register(&reader);
    let create = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT, q TEXT) STORED AS CSV PARTITIONED BY (p, q) LOCATION '{}' OPTIONS \
         ('connector' 'filesystem', 'has_header' 'true')",
        lake.location("t/")
    );
    reader.sql(&create).await.unwrap();
    reader
}

/// A query that lists some partitions before files are replaced, and others after it, fails; added rows are no reason.
#[tokio::test]
async fn a_query_does_not_mix_the_states_of_a_table() {
    let overwrite = "INSERT OVERWRITE t VALUES (10, 1, 'a'), (11, 2, 'a')";
    let append = "INSERT INTO t VALUES (10, 1, 'a'), (11, 2, 'a')";
    let before = "INSERT OVERWRITE t VALUES (2, 1, 'b')";
    for query in [
        "SELECT id FROM t WHERE q = 'a'",
        "SELECT sum(id) FROM t WHERE q = 'a'",
        "SELECT id FROM t WHERE q = 'a' ORDER BY p",
        "SELECT id FROM t WHERE q = 'a' LIMIT 50",
        "SELECT p, max(id) FROM t WHERE q = 'a' GROUP BY p",
    ] {
        for (first, second, mixes) in [(before, overwrite, true), (overwrite, append, false)] {
            let fixture = table("").await;
            // Since then, queries look for markers.
            fixture.run(first).await.unwrap();
            let gate = Gate::new();
            let reader = held_reader(&fixture, &gate, "t/p=2/q=a").await;
            let query = query.to_owned();
            let name = format!("{query}: {second}");
            let running =
                SpawnedTask::spawn(async move { reader.sql(&query).await?.collect().await });
            while gate.held() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            fixture.run(second).await.unwrap();
            gate.open();
            match (running.await.unwrap(), mixes) {
                (Ok(_), false) => {}
                (Err(error), true) => {
                    assert_mentions(
                        &error.strip_backtrace(),
                        &["replaced", "run the query again"],
                    );
                }
                (other, _) => panic!("{name}: {other:?}"),
            }
        }
    }
}

/// A file that is deleted between its listing and its reading is no file of a wrong format.
#[tokio::test]
async fn a_file_that_is_gone_is_a_reason_to_run_the_query_again() {
    for format in ["PARQUET", "CSV", "JSON"] {
        let fixture = Fixture::new();
        let options = match format {
            "CSV" => "'has_header' 'true'",
            _ => "'partition.layout' 'hive'",
        };
        let declared = fixture.declare("id BIGINT, p INT", format, "p", options);
        declared.await.unwrap();
        let insert = "INSERT INTO t VALUES (1, 1), (2, 2)";
        fixture.run(insert).await.unwrap();
        let faulty = FaultyStore::new(Arc::clone(fixture.lake.store()));
        let gate = Gate::new();
        faulty.inject(Fault::hold(&gate, |request| {
            request.kind == RequestKind::Get
        }));
        let lake = fixture.lake.clone().with_store(Arc::new(faulty));
        lake.register(&fixture.ctx);
        let ctx = fixture.ctx.clone();
        let query = async move { ctx.sql("SELECT id FROM t").await?.collect().await };
        let running = SpawnedTask::spawn(query);
        while gate.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for key in keys(&fixture).await {
            let path = Path::parse(key).unwrap();
            fixture.lake.store().delete(&path).await.unwrap();
        }
        gate.open();
        let error = running.await.unwrap().unwrap_err().strip_backtrace();
        assert_mentions(&error, &["replaced or deleted", "run the query again"]);
    }
}

/// Files without a record, and a table that is registered when its files have their names.
#[tokio::test]
async fn new_partitions_are_registered_by_whoever_finishes_a_commit() {
    let options = "'has_header' 'true', 'partition.catalog' 'registered'";
    let fixture = Fixture::new();
    let declared = fixture.declare("id BIGINT, p INT, q TEXT", "CSV", "p, q", options);
    declared.await.unwrap();
    let store = fixture.lake.store();
    let name = "t/p=1/q=__HIVE_DEFAULT_PARTITION__/part-x-00000.csv";
    let record = format!(
        r#"{{"version":1,"files":["{name}"],"removed":[],"partitions":[{{"values":["1",null],
           "location":"t/p=1/q=__HIVE_DEFAULT_PARTITION__","rows":1,"files":1,"bytes":5}}]}}"#
    );
    let file = Path::parse(name).unwrap();
    store.put(&file, "id\n10\n".into()).await.unwrap();
    let path = Path::from("t/_commits/x.json");
    store.put(&path, record.into()).await.unwrap();
    assert_eq!(fixture.rows(ALL).await, Vec::<String>::new());
    let repaired = fixture.rows("MSCK REPAIR TABLE t").await;
    assert_eq!(
        repaired,
        ["finished | <null> | memory://lake/t/_commits/x.json"]
    );
    assert_eq!(fixture.rows(ALL).await, ["10 | 1 | <null>"]);
    assert_eq!(keys(&fixture).await, [name]);
}

#[tokio::test]
async fn repair_removes_what_killed_statements_have_left() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = SessionContext::new().with_partitioned();
    for (grace_time, is_removed) in [("24h", false), ("0s", true)] {
        let name = format!("t{}", grace_time.len());
        let root = directory.path().join(&name);
        let old = root.join("p=7/q=x");
        std::fs::create_dir_all(&old).unwrap();
        std::fs::write(old.join(".part-x-00000.csv.pending"), "id\n7\n").unwrap();
        std::fs::write(old.join(".other"), "").unwrap();
        // What the store keeps of an upload in parts, and the lock of an overwrite.
        std::fs::write(old.join(".part-x-00002.csv.pending#1"), "").unwrap();
        std::fs::create_dir_all(root.join("_commits")).unwrap();
        std::fs::write(root.join("_commits/overwrite.lock"), "x").unwrap();
        std::fs::create_dir_all(root.join("p=8")).unwrap();
        std::fs::write(root.join("p=8/.part-x-00001.csv.pending"), "").unwrap();
        let create = format!(
            "CREATE EXTERNAL TABLE {name} (id BIGINT, p INT, q TEXT) STORED AS CSV PARTITIONED BY (p, q) LOCATION '{}' \
             OPTIONS ('connector' 'filesystem', 'sink.pending.grace-time' '{grace_time}')",
            root.display()
        );
        ctx.partitioned_sql(&create).await.unwrap();
        let repair = format!("MSCK REPAIR TABLE {name}");
        let repaired = ctx.partitioned_sql(&repair).await.unwrap();
        let repaired = repaired.collect().await.unwrap();
        let rows: usize = repaired.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, if is_removed { 3 } else { 0 }, "{grace_time}");
        let is_there = |path: &str| root.join(path).exists();
        assert_eq!(!is_there("p=7/q=x/.part-x-00000.csv.pending"), is_removed);
        assert_eq!(!is_there("p=7/q=x/.part-x-00002.csv.pending#1"), is_removed);
        assert_eq!(!is_there("_commits/overwrite.lock"), is_removed);
        assert_eq!(!is_there("p=8"), is_removed);
        // What is somebody else's stays.
        assert!(is_there("p=7/q=x/.other"));
    }
}

/// Notes what it is told.
#[derive(Debug, Default)]
struct Noted(Mutex<Vec<String>>);

#[async_trait]
impl CommitPolicy for Noted {
    fn name(&self) -> &str {
        "noted"
    }

    async fn commit(&self, commit: &PartitionCommit) -> Result<()> {
        for written in &commit.written {
            let location = &written.partition.source.location;
            // It has its files by now.
            let listed = commit.store.list_with_delimiter(Some(location)).await;
            let files = listed.unwrap().objects.len();
            let noted = format!("{location}: {} rows, {files} files", written.rows);
            self.0.lock().unwrap().push(noted);
        }
        Ok(())
    }
}

#[tokio::test]
async fn commit_policies_are_called_for_what_is_written() {
    let noted = Arc::new(Noted::default());
    let policies = CommitPolicies::default();
    policies.register(Arc::clone(&noted) as Arc<dyn CommitPolicy>);
    let config = SessionConfig::new().with_extension(Arc::new(policies));
    let fixture = Fixture::with_config(config);
    let options = "'sink.partition-commit.policy.kind' 'catalog, noted, success-file', \
                   'sink.partition-commit.success-file.name' '_DONE'";
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", options);
    declared.await.unwrap();
    let insert = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 2)";
    fixture.run(insert).await.unwrap();
    let found = keys(&fixture).await;
    assert_eq!(
        found.iter().filter(|key| key.ends_with("/_DONE")).count(),
        2
    );
    assert_eq!(
        *noted.0.lock().unwrap(),
        ["t/p=1: 1 rows, 1 files", "t/p=2: 2 rows, 1 files"]
    );
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["1", "2", "3"]);

    for (options, texts) in [
        (
            "'sink.partition-commit.policy.kind' 'sucess-file'",
            [
                "no commit policy 'sucess-file'",
                "did you mean 'success-file'",
            ],
        ),
        (
            "'sink.partition-commit.policy.kind' 'success-file', 'sink.partition-commit.success-file.name' 'DONE'",
            ["'DONE'", "begins with '_' or '.'"],
        ),
    ] {
        let failed = Fixture::new();
        let declared = failed.declare("id BIGINT, p INT", "CSV", "p", options);
        let error = declared.await.unwrap_err();
        assert_mentions(&error.strip_backtrace(), &texts);
    }
}

/// A policy that fails does not undo a commit, and is called again.
#[derive(Debug, Default)]
struct FailsOnce(Mutex<usize>);

#[async_trait]
impl CommitPolicy for FailsOnce {
    fn name(&self) -> &str {
        "fails-once"
    }

    async fn commit(&self, _commit: &PartitionCommit) -> Result<()> {
        let mut calls = self.0.lock().unwrap();
        *calls += 1;
        match *calls {
            1 => datafusion::common::exec_err!("not yet"),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_commit_policy_that_has_failed_is_called_again() {
    let policy = Arc::new(FailsOnce::default());
    let policies = CommitPolicies::default();
    policies.register(Arc::clone(&policy) as Arc<dyn CommitPolicy>);
    let fixture = Fixture::with_config(SessionConfig::new().with_extension(Arc::new(policies)));
    let options = "'sink.partition-commit.policy.kind' 'fails-once'";
    let declared = fixture.declare("id BIGINT, p INT", "CSV", "p", options);
    declared.await.unwrap();
    let texts = [
        "'fails-once' has failed",
        "committed, but not finished",
        "not yet",
    ];
    error(&fixture, "INSERT INTO t VALUES (1, 1)", &texts).await;
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["1"]);
    let repaired = fixture.rows("MSCK REPAIR TABLE t").await;
    assert!(
        repaired.len() == 1 && repaired[0].starts_with("finished"),
        "{repaired:?}"
    );
    assert_eq!(*policy.0.lock().unwrap(), 2);
    assert_eq!(keys(&fixture).await.len(), 1);
}
