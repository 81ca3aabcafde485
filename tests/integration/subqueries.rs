//! Conditions with scalar subqueries choose partitions before anything is listed.

use datafusion::physical_plan::{collect, displayable};
use datafusion_partitioned_test_utils::sorted_rows;
use insta::assert_snapshot;

use crate::common::Fixture;

async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    for p in 1..=4 {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[p]).await;
        fixture.put_ids(&format!("u/p={p}/f.csv"), &[p * 10]).await;
    }
    fixture.create("t", "p INT").await;
    fixture.create("u", "p INT").await;
    fixture
        .run("CREATE TABLE d AS VALUES (3, 'three'), (4, 'four')")
        .await
        .unwrap();
    fixture
}

#[tokio::test]
async fn equality_with_a_subquery() {
    let fixture = fixture().await;
    let sql = "SELECT id FROM t WHERE p = (SELECT column1 FROM d WHERE column2 = 'three')";
    assert_eq!(fixture.rows(sql).await, ["3"]);
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=3/f.csv
    LIST /t/ (delimiter)
    LIST /t/p=3/
    ");
    fixture
        .run("SET partitioned.dynamic_filter.enabled = false")
        .await
        .unwrap();
    assert_eq!(fixture.rows(sql).await, ["3"]);
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/p=1/f.csv
    GET /t/p=2/f.csv
    GET /t/p=3/f.csv
    GET /t/p=4/f.csv
    LIST /t/
    ");
}

#[tokio::test]
async fn ranges_expressions_and_other_conditions_beside_it() {
    let fixture = fixture().await;
    for (filter, ids, lists) in [
        ("p >= (SELECT max(column1) FROM d)", vec!["4"], 2),
        (
            "p + 1 = (SELECT min(column1) FROM d) AND id > 0",
            vec!["2"],
            2,
        ),
        (
            "(SELECT max(column1) FROM d) - p > 2 OR p IS NULL",
            vec!["1"],
            2,
        ),
        ("p < (SELECT max(column1) FROM d WHERE false)", vec![], 1),
        ("p = (SELECT max(column1) FROM d) AND p = 3", vec![], 1),
        (
            "p = (SELECT max(column1) FROM d) OR id = 1",
            vec!["1", "4"],
            5,
        ),
    ] {
        let sql = format!("SELECT id FROM (SELECT id, p FROM t) WHERE {filter}");
        assert_eq!(fixture.rows(&sql).await, ids, "{filter}");
        let requests = fixture.take_requests();
        let found = requests
            .lines()
            .filter(|line| line.starts_with("LIST"))
            .count();
        assert!(found <= lists, "{filter}: {requests}");
    }
}

#[tokio::test]
async fn a_subquery_on_one_of_two_columns_with_the_same_name() {
    let fixture = fixture().await;
    let sql = "SELECT t.id, u.id FROM t JOIN u ON t.id * 10 = u.id \
               WHERE u.p = (SELECT min(column1) FROM d)";
    assert_eq!(fixture.rows(sql).await, ["3 | 30"]);
    let requests = fixture.take_requests();
    assert!(
        requests.contains("/t/p=1/") && !requests.contains("/u/p=1/"),
        "{requests}"
    );
    // Not below an outer join, whose other rows the condition does not see.
    let sql = "SELECT t.id, u.id FROM t LEFT JOIN (SELECT * FROM u WHERE id < 30) u ON t.p = u.p \
               WHERE coalesce(u.p, 3) = (SELECT min(column1) FROM d) AND t.id < 4";
    assert_eq!(fixture.rows(sql).await, ["3 | <null>"]);
}

#[tokio::test]
async fn a_limit_in_between_sees_all_rows() {
    let fixture = fixture().await;
    let sql = "SELECT id FROM (SELECT id, p FROM t ORDER BY id LIMIT 2) \
               WHERE p >= (SELECT min(column1) FROM d)";
    assert!(fixture.rows(sql).await.is_empty());
}

#[tokio::test]
async fn the_plan_runs_twice_and_is_optimised_twice() {
    let fixture = fixture().await;
    let sql = "SELECT id FROM t WHERE p = (SELECT max(column1) FROM d)";
    let plan = fixture.plan(sql).await.unwrap();
    let again = fixture
        .ctx
        .state()
        .physical_optimizers()
        .iter()
        .filter(|rule| rule.name() == "PushSubqueryFilter")
        .try_fold(plan, |plan, rule| {
            rule.optimize(plan, fixture.ctx.state().config_options())
        })
        .unwrap();
    let text = displayable(again.as_ref()).indent(false).to_string();
    assert_eq!(text.matches("partition_filters").count(), 1, "{text}");
    assert_eq!(text.matches("scalar_subquery").count(), 2, "{text}");
    for _ in 0..2 {
        let plan = datafusion::physical_plan::execution_plan::reset_plan_states(
            std::sync::Arc::clone(&again),
        )
        .unwrap();
        let rows = collect(plan, fixture.ctx.task_ctx()).await.unwrap();
        assert_eq!(sorted_rows(&rows), ["4"]);
    }
}

/// Whether there is a row that it fails for is found out where rows are filtered.
#[tokio::test]
async fn a_condition_that_fails_for_a_partition_without_such_rows() {
    let fixture = fixture().await;
    let sql = "SELECT id FROM t WHERE id < 3 AND 12 / (p - (SELECT min(column1) FROM d)) < 0";
    assert_eq!(fixture.rows(sql).await, ["1", "2"]);
    let sql = "SELECT id FROM t WHERE 12 / (p - (SELECT min(column1) FROM d)) < 0";
    fixture.fails(sql, &["Divide by zero"]).await;
}
