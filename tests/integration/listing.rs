//! Which directories are listed: the request log of queries over a tree of three levels.

use datafusion_partitioned_test_utils::RequestKind;
use insta::assert_snapshot;

use crate::common::Fixture;

/// `t/year=Y/month=M/town=T/f.csv` for two years, three months and two towns.
async fn three_levels() -> Fixture {
    let fixture = Fixture::new();
    for year in [2023, 2024] {
        for month in ["01", "02", "12"] {
            for town in ["Bonn", "K%C3%B6ln"] {
                let key = format!("t/year={year}/month={month}/town={town}/f.csv");
                fixture.put_ids(&key, &[1]).await;
            }
        }
    }
    fixture.create("t", "year INT, month INT, town TEXT").await;
    fixture
}

/// The LIST and GET requests of a query, after checking its number of rows.
async fn requests(filter: &str, rows: usize) -> String {
    let fixture = three_levels().await;
    let found = fixture
        .rows(&format!("SELECT * FROM t WHERE {filter}"))
        .await;
    assert_eq!(found.len(), rows, "{filter}");
    fixture.take_requests()
}

#[tokio::test]
async fn equality_on_the_first_level() {
    assert_snapshot!(requests("year = 2024", 6).await, @r"
    GET /t/year=2024/month=01/town=Bonn/f.csv
    GET /t/year=2024/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=02/town=Bonn/f.csv
    GET /t/year=2024/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=12/town=Bonn/f.csv
    GET /t/year=2024/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2024/
    ");
}

#[tokio::test]
async fn equality_on_the_middle_level() {
    assert_snapshot!(requests("month = 2", 4).await, @r"
    GET /t/year=2023/month=02/town=Bonn/f.csv
    GET /t/year=2023/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=02/town=Bonn/f.csv
    GET /t/year=2024/month=02/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=02/
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=02/
    ");
}

#[tokio::test]
async fn equality_on_the_last_level() {
    assert_snapshot!(requests("town = 'Köln'", 6).await, @r"
    GET /t/year=2023/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2023/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2023/month=12/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=01/ (delimiter)
    LIST /t/year=2023/month=01/town=K%C3%B6ln/
    LIST /t/year=2023/month=02/ (delimiter)
    LIST /t/year=2023/month=02/town=K%C3%B6ln/
    LIST /t/year=2023/month=12/ (delimiter)
    LIST /t/year=2023/month=12/town=K%C3%B6ln/
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=01/ (delimiter)
    LIST /t/year=2024/month=01/town=K%C3%B6ln/
    LIST /t/year=2024/month=02/ (delimiter)
    LIST /t/year=2024/month=02/town=K%C3%B6ln/
    LIST /t/year=2024/month=12/ (delimiter)
    LIST /t/year=2024/month=12/town=K%C3%B6ln/
    ");
}

#[tokio::test]
async fn equality_on_all_levels() {
    assert_snapshot!(requests("year = 2024 AND month = 12 AND town = 'Bonn'", 1).await, @r"
    GET /t/year=2024/month=12/town=Bonn/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=12/ (delimiter)
    LIST /t/year=2024/month=12/town=Bonn/
    ");
}

#[tokio::test]
async fn in_list_on_the_middle_level() {
    assert_snapshot!(requests("year = 2023 AND month IN (1, 12, 77)", 4).await, @r"
    GET /t/year=2023/month=01/town=Bonn/f.csv
    GET /t/year=2023/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2023/month=12/town=Bonn/f.csv
    GET /t/year=2023/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=01/
    LIST /t/year=2023/month=12/
    ");
}

#[tokio::test]
async fn range_on_the_first_and_the_middle_level() {
    assert_snapshot!(requests("year > 2023 AND month BETWEEN 2 AND 6", 2).await, @r"
    GET /t/year=2024/month=02/town=Bonn/f.csv
    GET /t/year=2024/month=02/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=02/
    ");
}

#[tokio::test]
async fn like_on_the_last_level() {
    assert_snapshot!(requests("year = 2024 AND town LIKE 'K_l%'", 3).await, @r"
    GET /t/year=2024/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=01/ (delimiter)
    LIST /t/year=2024/month=01/town=K%C3%B6ln/
    LIST /t/year=2024/month=02/ (delimiter)
    LIST /t/year=2024/month=02/town=K%C3%B6ln/
    LIST /t/year=2024/month=12/ (delimiter)
    LIST /t/year=2024/month=12/town=K%C3%B6ln/
    ");
}

#[tokio::test]
async fn function_on_the_last_level() {
    assert_snapshot!(requests("month = 1 AND substr(town, 1, 1) = 'B'", 2).await, @r"
    GET /t/year=2023/month=01/town=Bonn/f.csv
    GET /t/year=2024/month=01/town=Bonn/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=01/ (delimiter)
    LIST /t/year=2023/month=01/town=Bonn/
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=01/ (delimiter)
    LIST /t/year=2024/month=01/town=Bonn/
    ");
}

#[tokio::test]
async fn disjunction_over_two_levels() {
    let filter = "(year = 2023 AND month = 1) OR (year = 2024 AND month = 12)";
    assert_snapshot!(requests(filter, 4).await, @r"
    GET /t/year=2023/month=01/town=Bonn/f.csv
    GET /t/year=2023/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=12/town=Bonn/f.csv
    GET /t/year=2024/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/ (delimiter)
    LIST /t/year=2023/month=01/
    LIST /t/year=2024/ (delimiter)
    LIST /t/year=2024/month=12/
    ");
}

#[tokio::test]
async fn disjunction_with_a_file_column() {
    let filter = "(year = 2023 AND id = 1) OR (year = 2022 AND id = 2)";
    assert_snapshot!(requests(filter, 6).await, @r"
    GET /t/year=2023/month=01/town=Bonn/f.csv
    GET /t/year=2023/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2023/month=02/town=Bonn/f.csv
    GET /t/year=2023/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2023/month=12/town=Bonn/f.csv
    GET /t/year=2023/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2023/
    ");
}

#[tokio::test]
async fn no_filter_is_one_flat_listing() {
    let fixture = three_levels().await;
    assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["12"]);
    assert_eq!(fixture.requests.list_count(), 1);
    assert_eq!(fixture.requests.count(RequestKind::List), 1);
}

#[tokio::test]
async fn nothing_that_matches_lists_the_root_alone() {
    assert_snapshot!(requests("year = 1999", 0).await, @"LIST /t/ (delimiter)");
    assert_snapshot!(requests("year = 2024 AND year = 2023", 0).await, @"");
}

#[tokio::test]
async fn explaining_and_describing_make_no_request() {
    let fixture = three_levels().await;
    fixture
        .run("EXPLAIN SELECT * FROM t WHERE year = 2024")
        .await
        .unwrap();
    fixture
        .run("EXPLAIN FORMAT TREE SELECT count(*) FROM t")
        .await
        .unwrap();
    fixture.run("DESCRIBE t").await.unwrap();
    fixture
        .plan("SELECT a.id FROM t a JOIN t b ON a.year = b.year")
        .await
        .unwrap();
    assert_eq!(fixture.take_requests(), "");
}

#[tokio::test]
async fn without_declared_columns_one_listing_and_one_partition_are_looked_at() {
    let fixture = three_levels().await;
    let sql = format!(
        "CREATE EXTERNAL TABLE u STORED AS CSV PARTITIONED BY (year, month, town) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        fixture.lake.location("t/")
    );
    fixture.run(&sql).await.unwrap();
    assert_snapshot!(fixture.take_requests(), @r"
    GET /t/year=2024/month=12/town=K%C3%B6ln/f.csv
    LIST /t/
    ");
    assert_eq!(
        fixture
            .rows("SELECT * FROM u WHERE month = '02' AND town = 'Bonn'")
            .await
            .len(),
        2
    );
}

#[tokio::test]
async fn static_pruning_can_be_switched_off() {
    let fixture = three_levels().await;
    let query = "SELECT id, month FROM t WHERE year = 2024 AND town = 'Bonn' ORDER BY month";
    let pruned = fixture.rows(query).await;
    fixture.take_requests();
    fixture
        .run("SET partitioned.static_pruning = false")
        .await
        .unwrap();
    assert_eq!(fixture.rows(query).await, pruned);
    assert_eq!(fixture.requests.count(RequestKind::List), 1);
    assert_eq!(fixture.requests.count(RequestKind::Get), 12);
}

#[tokio::test]
async fn a_filter_that_keeps_every_directory_ends_in_flat_listings() {
    assert_snapshot!(requests("year = 2024 AND month IS NOT NULL", 6).await, @r"
    GET /t/year=2024/month=01/town=Bonn/f.csv
    GET /t/year=2024/month=01/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=02/town=Bonn/f.csv
    GET /t/year=2024/month=02/town=K%C3%B6ln/f.csv
    GET /t/year=2024/month=12/town=Bonn/f.csv
    GET /t/year=2024/month=12/town=K%C3%B6ln/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=2024/
    LIST /t/year=2024/ (delimiter)
    ");
}
