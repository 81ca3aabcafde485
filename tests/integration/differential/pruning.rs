//! Random filters over random trees: with static pruning a query has the rows that it has without.
//!
//! The trees have directories without rows, markers, staging trees and empty files besides their
//! data, none of which may be seen.

use datafusion_partitioned_test_utils::scan_metric;
use proptest::collection::vec;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::queries::{Output, Predicate, Query, Relation, predicate};
use super::*;

/// Without `PROPTEST_CASES`.
const CASES: u32 = 40;

#[test]
fn pruned_tables_answer_as_unpruned_ones() {
    let thread = std::thread::Builder::new().stack_size(STACK);
    let outcome = thread.spawn(run_cases).unwrap().join();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn run_cases() {
    let runtime = runtime();
    let case = (dataset(), vec((predicate(), settings()), 1..=4));
    let pruned = RefCell::new(0);
    let result = TestRunner::new(property_config(CASES)).run(&case, |(dataset, filters)| {
        let check = check(&dataset, &filters);
        *pruned.borrow_mut() += runtime.block_on(check).map_err(TestCaseError::fail)?;
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let pruned = pruned.into_inner();
    assert!(pruned > 50, "only {pruned} directories were pruned");
}

/// Asks with each filter; the number of directories that were pruned.
async fn check(dataset: &Dataset, filters: &[(Predicate, Settings)]) -> Result<usize, String> {
    let lake = Lake::in_memory().unwrap();
    let ctx = SessionContext::new().with_partitioned();
    dataset.register_partitioned(&ctx, &lake).await.unwrap();
    clutter(dataset, &lake).await.unwrap();

    let mut pruned = 0;
    for (filter, settings) in filters {
        let table = Box::new(Relation::Table(0));
        let query = Query {
            from: Relation::Filter(table, filter.clone()),
            filter: None,
            output: Output::Rows,
            renamed: false,
        };
        let sql = query.sql(dataset);
        settings.apply(&ctx, true);
        let mut answers = vec![];
        for pruning in ["true", "false"] {
            let set = format!("SET partitioned.static_pruning = {pruning}");
            ctx.sql(&set).await.unwrap();
            answers.push(run(&ctx, &sql, 1).await);
        }
        let mut rows = answers.iter().map(|answer| &answer.rows);
        if rows
            .clone()
            .any(|rows| rows.as_ref().is_err_and(|e| depends_on_order(e)))
        {
            continue;
        }
        let [Some(with), Some(without)] = [rows.next(), rows.next()] else {
            unreachable!("two answers");
        };
        if with != without || with.is_err() {
            return Err(format!(
                "{dataset}\n{sql}\n\n{settings:?}\n\npruned {with:#?}\n\nunpruned {without:#?}"
            ));
        }
        if let Some(plan) = &answers[0].plan {
            pruned += scan_metric(plan, "directories_pruned");
        }
    }
    Ok(pruned)
}

/// Adds what is no data of the table `f`: in its directories, and in directories that it has not.
async fn clutter(dataset: &Dataset, lake: &Lake) -> Result<()> {
    lake.put_text("f/_SUCCESS", "").await?;
    for (key, _) in dataset.files(0) {
        // Alone, a file above all partitions is an error.
        lake.put_text("f/old.csv", "no partition").await?;
        lake.put_text(&format!("f/_temporary/0/{key}"), "staged")
            .await?;
        lake.put_text(&format!("f/{key}.crc"), "").await?;
        let directory = key.rsplit_once('/').map_or("", |(directory, _)| directory);
        lake.put_text(&format!("f/{directory}/.part-0.crc"), "sum")
            .await?;
    }
    for (key, _) in dataset.files(1) {
        // Mostly directories that `f` has not: the keys of `g`, without rows.
        let key = key.replace("g_p", "f_p");
        lake.put_text(&format!("f/{key}.empty"), "").await?;
    }
    Ok(())
}
