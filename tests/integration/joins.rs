//! Which partitions joins of every kind and shape read: the requests, with the same rows as without
//! dynamic filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;
use datafusion_partitioned_test_utils::sorted_rows;

use crate::common::Fixture;

/// How the planner joins.
#[derive(Debug, Clone, Copy)]
enum Mode {
    CollectLeft,
    Partitioned,
    SortMerge,
}

const MODES: [Mode; 3] = [Mode::CollectLeft, Mode::Partitioned, Mode::SortMerge];

impl Mode {
    fn config(self) -> SessionConfig {
        let mut config = SessionConfig::new().with_target_partitions(3);
        let optimizer = &mut config.options_mut().optimizer;
        match self {
            Self::CollectLeft => {}
            Self::Partitioned => {
                optimizer.hash_join_single_partition_threshold = 0;
                optimizer.hash_join_single_partition_threshold_rows = 0;
            }
            Self::SortMerge => optimizer.prefer_hash_join = false,
        }
        config
    }

    /// The format of the tables, so that each is read somewhere.
    fn format(self) -> &'static str {
        match self {
            Self::CollectLeft => "JSON",
            Self::Partitioned | Self::SortMerge => "CSV",
        }
    }
}

/// `f` and `g` are partitioned by day 1 to 8, `h` by day and town; `d`, `e` and `r` are small.
async fn fixture(mode: Mode) -> Fixture {
    let fixture = Fixture::with_config(mode.config());
    for day in 1..=8 {
        let places = ["f", "g"].map(|table| format!("{table}/day={day}"));
        let towns = ["x", "y"].map(|town| format!("h/day={day}/town={town}"));
        for directory in places.iter().chain(&towns) {
            put(&fixture, mode, directory, &[day * 10, day * 10 + 1]).await;
        }
    }
    for (table, columns) in [("f", "day"), ("g", "day"), ("h", "day, town")] {
        let sql = format!(
            "CREATE EXTERNAL TABLE {table} (id BIGINT, {}) STORED AS {} PARTITIONED BY ({columns}) \
             LOCATION '{}' OPTIONS ('connector' 'filesystem')",
            columns
                .replace("day", "day INT")
                .replace("town", "town TEXT"),
            mode.format(),
            fixture.lake.location(&format!("{table}/")),
        );
        fixture.run(&sql).await.unwrap();
    }
    for (name, columns, rows) in [
        (
            "d",
            "CAST(column1 AS INT) AS k, column2 AS name",
            "(2, 'a'), (5, 'a'), (7, 'b'), (99, 'a'), (NULL, 'a')",
        ),
        ("e", "column1 AS t, column2 AS size", "('x', 1), ('z', 2)"),
        (
            "r",
            "CAST(column1 AS INT) AS low, CAST(column2 AS INT) AS high",
            "(3, 4), (4, 6), (NULL, 9)",
        ),
    ] {
        let sql = format!("CREATE TABLE {name} AS SELECT {columns} FROM (VALUES {rows})");
        fixture.run(&sql).await.unwrap();
    }
    fixture.requests.clear();
    fixture
}

/// Writes a file with the single column `id`.
async fn put(fixture: &Fixture, mode: Mode, directory: &str, ids: &[i64]) {
    let rows = ids.iter().map(|id| match mode.format() {
        "JSON" => format!("{{\"id\": {id}}}\n"),
        _ => format!("{id}\n"),
    });
    let (header, name) = match mode.format() {
        "JSON" => ("", "f.json"),
        _ => ("id\n", "f.csv"),
    };
    let text = format!("{header}{}", rows.collect::<String>());
    let lake = &fixture.lake;
    lake.put_text(&format!("{directory}/{name}"), &text)
        .await
        .unwrap();
}

/// The directories that requests have gone to, such as `f/day=2`, but for those above.
fn touched(fixture: &Fixture) -> BTreeSet<String> {
    let requests = fixture.take_requests();
    let paths = requests.lines().filter_map(|line| line.split(' ').nth(1));
    let directory = |path: &str| {
        let path = path.trim_start_matches('/');
        let path = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        path.to_owned()
    };
    let directories: Vec<String> = paths.map(directory).collect();
    let is_leaf = |path: &&String| path.contains('=');
    let is_parent = |path: &str| {
        let prefix = format!("{path}/");
        directories.iter().any(|other| other.starts_with(&prefix))
    };
    let leaves = directories.iter().filter(is_leaf);
    leaves.filter(|path| !is_parent(path)).cloned().collect()
}

/// Checks that `sql` returns the same rows with and without dynamic filters, and with them makes
/// requests only to `wanted` directories.
async fn check(mode: Mode, sql: &str, wanted: &[&str]) {
    let off = fixture(mode).await;
    off.set("partitioned.dynamic_filter.enabled", false).await;
    let expected = off.rows(sql).await;
    // A new session, to which the partitioned tables may be large.
    let fixture = fixture(mode).await;
    assert_eq!(fixture.rows(sql).await, expected, "{mode:?}: {sql}");
    let wanted: BTreeSet<_> = wanted.iter().map(ToString::to_string).collect();
    assert_eq!(
        touched(&fixture),
        wanted,
        "{mode:?}: {sql}\n{}",
        fixture.explain(sql).await
    );
}

fn days<'a>(table: &'a str, days: &'a [i32]) -> impl Iterator<Item = String> + 'a {
    days.iter().map(move |day| format!("{table}/day={day}"))
}

#[tokio::test]
async fn joins_of_equal_keys() {
    let f = [2, 5];
    for sql in [
        "SELECT * FROM f JOIN d ON day = k WHERE name = 'a'",
        "SELECT * FROM d JOIN f ON day = k WHERE name = 'a'",
        "SELECT * FROM (SELECT * FROM d WHERE name = 'a') LEFT JOIN f ON day = k",
        "SELECT * FROM f RIGHT JOIN (SELECT * FROM d WHERE name = 'a') ON day = k",
        "SELECT * FROM f WHERE day IN (SELECT k FROM d WHERE name = 'a')",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE k = day AND name = 'a')",
        "SELECT * FROM d WHERE name = 'a' AND k IN (SELECT day FROM f)",
        "SELECT * FROM d WHERE name = 'a' AND NOT EXISTS (SELECT 1 FROM f WHERE day = k)",
        "SELECT * FROM f JOIN d ON day IS NOT DISTINCT FROM k WHERE name = 'a'",
        "SELECT * FROM f JOIN d ON CAST(day AS BIGINT) = CAST(k AS BIGINT) WHERE name = 'a'",
        "SELECT * FROM f JOIN d ON day = k AND id > k WHERE name = 'a'",
    ] {
        for mode in MODES {
            let wanted: Vec<_> = days("f", &f).collect();
            let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
            check(mode, sql, &wanted).await;
        }
    }
}

#[tokio::test]
async fn sides_whose_rows_are_all_returned_are_read_whole() {
    let all: Vec<_> = days("f", &[1, 2, 3, 4, 5, 6, 7, 8]).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    for sql in [
        "SELECT * FROM f LEFT JOIN d ON day = k AND name = 'a'",
        "SELECT * FROM d RIGHT JOIN f ON day = k AND name = 'a'",
        "SELECT * FROM f FULL JOIN d ON day = k",
        "SELECT * FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = day AND name = 'a')",
        "SELECT * FROM f WHERE day NOT IN (SELECT k FROM d WHERE k IS NOT NULL)",
    ] {
        for mode in MODES {
            check(mode, sql, &all).await;
        }
    }
}

#[tokio::test]
async fn not_in_prunes_the_subquery_as_long_as_no_null_is_looked_for() {
    for mode in [Mode::CollectLeft, Mode::Partitioned] {
        let sql = "SELECT * FROM d WHERE k IS NOT NULL AND k NOT IN (SELECT day FROM f)";
        check(mode, sql, &["f/day=2", "f/day=5", "f/day=7"]).await;
        let all: Vec<_> = days("f", &[1, 2, 3, 4, 5, 6, 7, 8]).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        check(
            mode,
            "SELECT * FROM d WHERE k NOT IN (SELECT day FROM f)",
            &all,
        )
        .await;
    }
}

#[tokio::test]
async fn a_null_that_is_looked_for_is_in_no_table_but_an_empty_one() {
    let fixture = fixture(Mode::CollectLeft).await;
    let sql = "SELECT name FROM d WHERE k NOT IN (SELECT day FROM f WHERE id < 0)";
    assert_eq!(fixture.rows(sql).await.len(), 5);
    let sql = "SELECT name FROM d WHERE k NOT IN (SELECT day + 1000 FROM f)";
    assert_eq!(fixture.rows(sql).await.len(), 4);
}

#[tokio::test]
async fn joins_of_several_keys() {
    for mode in MODES {
        check(
            mode,
            "SELECT * FROM h JOIN (SELECT * FROM d CROSS JOIN e WHERE name = 'a') ON day = k AND town = t",
            &["h/day=2/town=x", "h/day=5/town=x"],
        )
        .await;
        // Two dimensions on two columns.
        check(
            mode,
            "SELECT * FROM h JOIN d ON day = k JOIN e ON town = t WHERE name = 'b' AND size = 1",
            &["h/day=7/town=x"],
        )
        .await;
    }
}

#[tokio::test]
async fn joins_by_comparison() {
    let between = &["f/day=3", "f/day=4", "f/day=5", "f/day=6"][..];
    for (sql, wanted) in [
        (
            "SELECT * FROM f JOIN r ON day BETWEEN low AND high WHERE low > 0",
            between,
        ),
        (
            "SELECT * FROM r LEFT JOIN f ON day >= low AND high >= day WHERE low > 0",
            between,
        ),
        (
            "SELECT * FROM f JOIN r ON day > low AND day < high WHERE low > 0",
            &["f/day=4", "f/day=5"],
        ),
        (
            "SELECT * FROM f JOIN r ON day < low",
            &["f/day=1", "f/day=2", "f/day=3"],
        ),
        (
            "SELECT * FROM r WHERE EXISTS (SELECT 1 FROM f WHERE day > high + 1) AND low > 0",
            &["f/day=6", "f/day=7", "f/day=8"],
        ),
        (
            "SELECT * FROM f WHERE day >= (SELECT min(high) FROM r) + 3",
            &["f/day=7", "f/day=8"],
        ),
        (
            // An equal key and a comparison.
            "SELECT * FROM h JOIN (SELECT * FROM r CROSS JOIN e WHERE low > 0) ON town = t AND day > high",
            &[
                "h/day=5/town=x",
                "h/day=6/town=x",
                "h/day=7/town=x",
                "h/day=8/town=x",
            ],
        ),
    ] {
        check(Mode::CollectLeft, sql, wanted).await;
    }
}

#[tokio::test]
async fn keys_reach_scans_through_other_operators() {
    let both = ["f/day=2", "f/day=5", "g/day=2", "g/day=5"];
    for (sql, wanted) in [
        (
            "SELECT * FROM (SELECT day, count(*) FROM f GROUP BY day, id) JOIN d ON day = k WHERE name = 'a'",
            &both[..2],
        ),
        (
            "SELECT * FROM (SELECT day, sum(id) OVER (PARTITION BY day) FROM f) JOIN d ON day = k WHERE name = 'a'",
            &both[..2],
        ),
        (
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY day, id ORDER BY id) AS n, \
             max(id) OVER (PARTITION BY day) AS m FROM f) JOIN d ON day = k WHERE name = 'a'",
            &both[..2],
        ),
        (
            "SELECT * FROM (SELECT * FROM f UNION ALL SELECT * FROM g) JOIN d ON day = k WHERE name = 'a'",
            &both,
        ),
        (
            "SELECT * FROM (SELECT DISTINCT * FROM (SELECT * FROM f UNION ALL SELECT * FROM g)) \
             JOIN d ON day = k WHERE name = 'a'",
            &both,
        ),
        // By way of the other table's key.
        (
            "SELECT * FROM f JOIN g ON f.day = g.day AND f.id = g.id JOIN d ON g.day = k WHERE name = 'a'",
            &both,
        ),
        (
            "SELECT * FROM f LEFT JOIN g ON f.day = g.day JOIN d ON f.day = k WHERE name = 'a'",
            &both,
        ),
        (
            "SELECT * FROM (SELECT * FROM f WHERE EXISTS (SELECT 1 FROM g WHERE g.day = f.day)) \
             JOIN d ON day = k WHERE name = 'a'",
            &both,
        ),
    ] {
        for mode in MODES {
            check(mode, sql, wanted).await;
        }
    }
}

#[tokio::test]
async fn where_dropping_rows_below_is_something_else_nothing_is_dropped() {
    let all: Vec<_> = days("f", &[1, 2, 3, 4, 5, 6, 7, 8]).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    for sql in [
        "SELECT * FROM (SELECT max(day) AS day FROM f GROUP BY id) JOIN d ON day = k",
        "SELECT * FROM (SELECT id, day, row_number() OVER (ORDER BY id) AS n FROM f) JOIN d ON day = k",
        "SELECT * FROM (SELECT day, sum(id) AS s FROM f GROUP BY ROLLUP (day)) JOIN d ON day IS NOT DISTINCT FROM k",
        "SELECT * FROM (SELECT * FROM f ORDER BY id LIMIT 16) JOIN d ON day = k",
        "SELECT * FROM (SELECT * FROM f OFFSET 1) JOIN d ON day = k",
    ] {
        for mode in MODES {
            check(mode, sql, &all).await;
        }
    }
}

#[tokio::test]
async fn never_on_a_column_of_the_same_name() {
    // `day` of the join is the id of the table.
    let sql = "SELECT * FROM (SELECT id AS day, day AS id FROM f) JOIN d ON day = k * 10 WHERE name = 'a'";
    let fixture = fixture(Mode::CollectLeft).await;
    assert_eq!(fixture.rows(sql).await.len(), 2);
    let sql = "SELECT f.id FROM f JOIN (SELECT id AS day, day AS q FROM g) g ON f.id = g.day \
               JOIN d ON g.day = k * 10 WHERE name = 'a'";
    assert_eq!(fixture.rows(sql).await, ["20", "50"]);
}

#[tokio::test]
async fn a_whole_table_of_as_many_rows_as_partitions_chooses_none() {
    for (rows, has_filter) in [(7, true), (8, false), (100, false)] {
        let fixture = fixture(Mode::CollectLeft).await;
        let sql = format!(
            "CREATE TABLE whole AS SELECT CAST(value AS INT) AS k FROM range(1, {rows} + 1)"
        );
        fixture.run(&sql).await.unwrap();
        for day in 1..=8 {
            let ids: Vec<_> = (1000..3000).collect();
            put(&fixture, Mode::CollectLeft, &format!("f/day={day}"), &ids).await;
        }
        // Now the number of partitions is known.
        fixture.rows("SELECT count(id) FROM f").await;
        for (condition, expected) in [("", has_filter), ("WHERE k % 2 = 0", true)] {
            let sql = format!("SELECT * FROM f JOIN whole ON day = k {condition}");
            let plan = fixture.explain(&sql).await;
            assert_eq!(plan.contains("KeyCollector"), expected, "{plan}");
        }
    }
}

#[tokio::test]
async fn a_sort_merge_join_runs_the_smaller_side_first() {
    let fixture = fixture(Mode::SortMerge).await;
    let sql = "SELECT id FROM f JOIN d ON day = k WHERE name = 'a'";
    insta::assert_snapshot!(fixture.explain(sql).await, @r"
    ProjectionExec: expr=[id@0 as id]
      SortMergeJoinExec: join_type=Inner, on=[(day@1, k@0)]
        SortExec: expr=[day@1 ASC], preserve_partitioning=[true]
          RepartitionExec: partitioning=Hash([day@1], 3), input_partitions=3
            DataSourceExec: partitions=directories(memory://lake/f), partitioned_by=[day], dynamic_filters=[(day@0)], projection=[id, day], file_type=csv, has_header=true
        StartEarlyExec
          SortExec: expr=[k@0 ASC], preserve_partitioning=[true]
            RepartitionExec: partitioning=Hash([k@0], 3), input_partitions=1
              PartitionKeyCollectorExec: keys=[k@0]
                FilterExec: name@1 = a, projection=[k@0]
                  DataSourceExec: partitions=1, partition_sizes=[1]
    ");
    let (rows, plan) = fixture.analyze(sql).await;
    assert_eq!(rows, ["20", "21", "50", "51"]);
    assert_eq!(
        datafusion_partitioned_test_utils::scan_metric(&plan, "dynamic_filters_ready"),
        1
    );
}

#[tokio::test]
async fn half_of_a_sort_merge_join_does_not_wait_for_the_other() {
    use futures::TryStreamExt;
    let fixture = fixture(Mode::SortMerge).await;
    let sql = "SELECT id FROM f JOIN d ON day = k WHERE name = 'a'";
    let plan = fixture.plan(sql).await.unwrap();
    let mut rows = vec![];
    for partition in 0..3 {
        let plan = datafusion::physical_plan::execution_plan::reset_plan_states(Arc::clone(&plan))
            .unwrap();
        let stream = plan.execute(partition, fixture.ctx.task_ctx());
        if let Ok(stream) = stream {
            rows.extend(stream.try_collect::<Vec<_>>().await.unwrap());
        }
    }
    assert_eq!(sorted_rows(&rows), ["20", "21", "50", "51"]);
}

#[tokio::test]
async fn the_plan_and_a_table_tell_what_a_filter_has_done() {
    let fixture = fixture(Mode::CollectLeft).await;
    fixture
        .rows("SELECT * FROM f JOIN d ON f.day = k JOIN g ON g.id = f.id WHERE name = 'a' AND g.day > 6")
        .await;
    let sql = "SELECT scan, \"table\", partition_filters, dynamic_filters, partitions_seen, \
               partitions_listed, partitions_pruned_static, partitions_pruned_dynamic, \
               partitions_scanned, files_scanned, list_requests FROM partition_report()";
    insta::assert_snapshot!(fixture.rows(sql).await.join("\n"), @r"
    1 | directories(memory://lake/f) |  | day@0: 3 keys: 2..99, dropped 6 | 8 | 2 | 0 | 6 | 2 | 2 | 3
    2 | directories(memory://lake/g) | day@0 > 6 |  | 8 | 2 | 6 | 0 | 2 | 2 | 3
    ");
    // Asking is no query of a partitioned table.
    assert_eq!(
        fixture
            .rows("SELECT count(*) FROM partition_report()")
            .await,
        ["2"]
    );
    fixture
        .fails("SELECT * FROM partition_report(1)", &["no arguments"])
        .await;

    let sql = "EXPLAIN ANALYZE SELECT * FROM h JOIN (SELECT * FROM d, e) ON day = k AND town = t";
    let plan = fixture.rows(sql).await.join("\n");
    assert!(plan.contains("key_domain=[4 keys: 2..99]"), "{plan}");
}

/// Each join looks for scans below it, and some find their way by several ways.
#[tokio::test]
async fn many_joins_are_planned_in_time() {
    let fixture = fixture(Mode::CollectLeft).await;
    let joins: String = (1..60)
        .map(|n| format!(" JOIN f AS f{n} ON f{n}.day = f{}.day", n - 1))
        .collect();
    let sql = format!("SELECT f0.id FROM f AS f0{joins} JOIN d ON f0.day = k WHERE name = 'a'");
    let planned = tokio::time::timeout(std::time::Duration::from_secs(60), fixture.plan(&sql));
    planned.await.expect("planned in time").unwrap();
}

/// A probe side that is read ahead comes before the keys, in each step of a recursion: it must wait for
/// those of its own step.
#[tokio::test]
async fn a_step_of_a_recursion_takes_no_keys_of_the_step_before() {
    let mut config = SessionConfig::new().with_target_partitions(4);
    let options = config.options_mut();
    options.execution.hash_join_buffering_capacity = 1_000_000;
    options.optimizer.repartition_joins = false;
    let fixture = Fixture::with_config(config);
    for p in 0..40_i64 {
        let ids: Vec<_> = (0..10).map(|n| n * 40 + p).collect();
        fixture.put_ids(&format!("f/p={p}/f.csv"), &ids).await;
    }
    for q in 0..7_i64 {
        let ids: Vec<_> = (0..40).filter(|id| id % 7 == q).collect();
        fixture.put_ids(&format!("s/q={q}/f.csv"), &ids).await;
    }
    fixture.create("f", "p BIGINT").await;
    fixture.create("s", "q BIGINT").await;
    let sql = "WITH RECURSIVE r AS (SELECT CAST(1 AS BIGINT) AS n UNION ALL \
               SELECT f.p FROM r JOIN s ON r.n = s.id JOIN f ON f.p = s.id + 1 WHERE f.id < 40) \
               SELECT count(*), max(n) FROM r";
    for _ in 0..5 {
        assert_eq!(fixture.rows(sql).await, ["39 | 39"]);
    }
}

/// -0.0 equals 0.0 for joins and groups, and has another text.
#[tokio::test]
async fn keys_computed_from_equal_floats_are_not_taken_for_equal() {
    for mode in MODES {
        let fixture = Fixture::with_config(mode.config());
        for (key, id) in [("a/f=0.0", 1), ("b/f=-0.0", 10), ("b/f=0.0", 20)] {
            fixture.put_ids(&format!("{key}/f.csv"), &[id]).await;
        }
        fixture.create("a", "f DOUBLE").await;
        fixture.create("b", "f DOUBLE").await;
        let s = "CREATE TABLE s AS SELECT column1 AS t, column2 AS k FROM (VALUES ('0.0', 1))";
        fixture.run(s).await.unwrap();
        for sql in [
            "SELECT b.id FROM s JOIN (SELECT a.f AS af, b.f AS bf, b.id FROM a JOIN b ON a.f = b.f) b \
             ON s.t = CAST(b.af AS VARCHAR) WHERE s.k = 1",
            "SELECT n FROM s JOIN (SELECT f, count(*) AS n FROM b GROUP BY f) b \
             ON s.t = CAST(b.f AS VARCHAR) WHERE s.k = 1",
        ] {
            let plan = fixture.explain(sql).await;
            let of_b = plan.lines().filter(|line| line.contains("lake/b"));
            // DataFusion's own filters make the rows of hash joins depend on the plan.
            assert!(of_b.clone().count() > 0, "{plan}");
            for line in of_b {
                assert!(!line.contains("CAST(f@0"), "{plan}");
            }
        }
    }
}

/// The join needs its memory more than the filter.
#[tokio::test]
async fn keys_leave_the_memory_to_the_join() {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(2 << 20, 1.0);
    let config = SessionConfig::new().with_target_partitions(2);
    let fixture = Fixture::with_runtime(config, runtime);
    for p in 0..100 {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[p]).await;
    }
    fixture.create("t", "p BIGINT").await;
    let sql = "SELECT count(*) FROM (SELECT value AS k FROM generate_series(1, 150000) \
               WHERE value % 3 = 0) d JOIN t ON d.k = t.p";
    assert_eq!(fixture.rows(sql).await, ["33"]);
}
