//! Statements at the same time, while requests take their time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::common::Result;
use datafusion_partitioned_test_utils::{Fault, FaultyStore, Lake};
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};

use super::{OLD, Table, rows, run, session};

const ROUNDS: u64 = 25;

/// Two overwrites that have a partition in common, and two appends.
const STATEMENTS: [&str; 4] = [
    "INSERT OVERWRITE t VALUES (10, 0), (11, 1), (12, 1)",
    "INSERT OVERWRITE t VALUES (20, 1), (21, 2)",
    "INSERT INTO t VALUES (30, 1), (31, 2), (32, 9)",
    "INSERT INTO t VALUES (40, 0), (41, 3)",
];

/// What a statement makes of rows, in ascending order of their ids.
fn after(rows: &BTreeMap<i64, i64>, statement: usize) -> BTreeMap<i64, i64> {
    let (replaced, added): (&[i64], &[(i64, i64)]) = match statement {
        0 => (&[0, 1], &[(10, 0), (11, 1), (12, 1)]),
        1 => (&[1, 2], &[(20, 1), (21, 2)]),
        2 => (&[], &[(30, 1), (31, 2), (32, 9)]),
        _ => (&[], &[(40, 0), (41, 3)]),
    };
    let kept = rows.iter().filter(|(_, p)| !replaced.contains(p));
    let added = added.iter().map(|(id, p)| (id, p));
    kept.chain(added).map(|(id, p)| (*id, *p)).collect()
}

/// All that these statements can make of rows, one after the other in any order.
fn outcomes(rows: &BTreeMap<i64, i64>, statements: &[usize]) -> Vec<BTreeMap<i64, i64>> {
    if statements.is_empty() {
        return vec![rows.clone()];
    }
    let first = statements.iter().flat_map(|first| {
        let others: Vec<_> = statements.iter().copied().filter(|s| s != first).collect();
        outcomes(&after(rows, *first), &others)
    });
    first.collect()
}

/// Delays of some requests of a session, the same for the same seed as long as they come in the same order.
fn delays(store: &FaultyStore, seed: u64) {
    for (bit, millis) in [1, 2, 5, 9].into_iter().enumerate() {
        let sent = AtomicUsize::new(0);
        store.inject(Fault::delay(Duration::from_millis(millis), move |_| {
            let sent = sent.fetch_add(1, Ordering::Relaxed) as u64;
            let mixed = (seed * 1009 + sent + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> (40 + bit * 4)).is_multiple_of(4)
        }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_statements_at_once_are_as_one_after_the_other() {
    let (mut conflicts, mut reads, mut gone) = (0, 0, 0);
    for round in 0..ROUNDS {
        let table = Table::new(Lake::in_memory().unwrap(), "t/", "").await;
        let done = AtomicBool::new(false);
        let writers = (0..STATEMENTS.len()).map(|statement| {
            let table = &table;
            async move {
                let store = FaultyStore::new(Arc::clone(table.lake.store()));
                delays(&store, round * 10 + statement as u64);
                let context = session(&table.lake.clone().with_store(Arc::new(store)));
                table.declare(&context).await;
                // They overlap in other ways each time.
                let pause = (round * 7 + statement as u64 * 11) % 30;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                run(&context, STATEMENTS[statement]).await
            }
        });
        let writers = async {
            let results = futures::future::join_all(writers).await;
            done.store(true, Ordering::Relaxed);
            results
        };
        let reader = async {
            let mut results = vec![];
            while !done.load(Ordering::Relaxed) {
                results.push(table.rows().await);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            results
        };
        let (results, read) = tokio::join!(writers, reader);
        reads += read.len();
        // Files can be replaced between the first listing and the last reading.
        for error in read.into_iter().filter_map(Result::err) {
            let error = error.strip_backtrace();
            assert!(
                error.contains("run the query again"),
                "round {round}, a reader: {error}"
            );
            gone += 1;
        }

        let mut successful = vec![];
        for (statement, result) in results.into_iter().enumerate() {
            match result {
                Ok(_) => successful.push(statement),
                Err(error) => {
                    let error = error.strip_backtrace();
                    let is_overwrite = statement < 2;
                    assert!(
                        is_overwrite && error.contains("conflict"),
                        "round {round}, {}: {error}",
                        STATEMENTS[statement]
                    );
                    conflicts += 1;
                }
            }
        }
        let found = table.rows().await.unwrap();
        let outcomes = outcomes(&OLD.iter().copied().collect(), &successful);
        let is_one = outcomes.into_iter().any(|outcome| rows(outcome) == found);
        assert!(is_one, "round {round}, of {successful:?}: {found:?}");
        assert_eq!(
            table.leftovers().await,
            Vec::<String>::new(),
            "round {round}"
        );
    }
    println!("{conflicts} conflicts in {ROUNDS} rounds; {reads} reads, of {gone} a file was gone");
}

#[tokio::test]
async fn statements_are_whole_in_a_throttled_store() {
    let wait = Duration::from_millis(2);
    let config = ThrottleConfig {
        wait_delete_per_call: wait,
        wait_get_per_call: wait,
        wait_list_per_call: wait,
        wait_list_with_delimiter_per_call: wait,
        wait_put_per_call: wait,
        ..ThrottleConfig::default()
    };
    let store = Arc::new(ThrottledStore::new(InMemory::new(), config));
    let lake = Lake::new("memory://lake/", store).unwrap();
    let table = Table::new(lake, "t/", "").await;
    let mut expected: BTreeMap<i64, i64> = OLD.iter().copied().collect();
    for (statement, sql) in STATEMENTS.into_iter().enumerate() {
        table.write(sql).await.unwrap();
        expected = after(&expected, statement);
        assert_eq!(table.rows().await.unwrap(), rows(expected.clone()), "{sql}");
    }
    assert_eq!(table.leftovers().await, Vec::<String>::new());
}
