//! Every form of a condition with every catalog: nothing is asked for beyond what survives.

use std::fmt::Write;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion_partitioned::core::{MemoryCatalog, PartitionSpec};
use datafusion_partitioned_test_utils::RequestKind;
use insta::assert_snapshot;

use crate::common::{Fixture, partition};

const COLUMNS: &str = "id BIGINT, year INT, month INT, town TEXT";

const YEARS: &str = "'projection.enabled' 'true', 'projection.year.type' 'integer', \
    'projection.year.range' '2022,2024'";

const ALL: &str = "'projection.enabled' 'true', 'projection.year.type' 'integer', \
    'projection.year.range' '2022,2024', 'projection.month.type' 'integer', \
    'projection.month.range' '1,12', 'projection.month.digits' '2', \
    'projection.town.type' 'enum', 'projection.town.values' 'Bonn,Ulm'";

const CATALOGS: [&str; 5] = ["walk", "warm", "memory", "projection", "hybrid"];

/// Twelve partitions, found by one of the catalogs. Their files have one row each.
async fn fixture(catalog: &str) -> Fixture {
    let fixture = Fixture::new();
    let mut partitions = vec![];
    let spec = PartitionSpec::try_new([
        Field::new("year", DataType::Int32, true),
        Field::new("month", DataType::Int32, true),
        Field::new("town", DataType::Utf8, true),
    ])
    .unwrap();
    for year in [2023, 2024] {
        for month in [1, 2, 12] {
            for town in ["Bonn", "Ulm"] {
                let location = format!("t/year={year}/month={month:02}/town={town}");
                let id = year * 1000 + month * 10 + town.len() as i64;
                fixture.put_ids(&format!("{location}/f.csv"), &[id]).await;
                let values = vec![
                    ScalarValue::from(year as i32),
                    ScalarValue::from(month as i32),
                    ScalarValue::from(town),
                ];
                partitions.push(partition(&spec, values, &location));
            }
        }
    }
    match catalog {
        "memory" => {
            let catalog = MemoryCatalog::try_new(spec, &partitions).unwrap();
            fixture.register_csv("t", catalog);
        }
        directories => {
            let options = match directories {
                "projection" => ALL,
                "hybrid" => YEARS,
                _ => "",
            };
            let declared = fixture.declare(COLUMNS, "CSV", "year, month, town", options);
            declared.await.unwrap();
        }
    }
    if catalog == "warm" {
        fixture.set("partitioned.list_cache.ttl", "1h").await;
    }
    fixture
}

const CONDITIONS: [&str; 24] = [
    "year = 2024",
    "month = 2",
    "town = 'Ulm'",
    "year = 2023 AND month = 12 AND town = 'Bonn'",
    "year <> 2024",
    "month IN (1, 7, 12)",
    "month NOT IN (1, 12)",
    "month BETWEEN 2 AND 6",
    "year > 2023 AND month < 2",
    "town LIKE 'B%'",
    "town NOT LIKE '%o%'",
    "town ILIKE 'b_NN'",
    "year IS DISTINCT FROM 2024",
    "month IS NOT DISTINCT FROM 1",
    "year IS NULL",
    "town IS NOT NULL AND year = 2024",
    "CAST(month AS TEXT) = '12'",
    "CAST(year AS BIGINT) = 2024 AND CAST('2' AS INT) = month",
    "year * 100 + month >= 202402",
    "upper(substr(town, 1, 1)) = 'U' AND year = 2023",
    "(year = 2023 AND month = 1) OR (year = 2024 AND month = 12)",
    "(year = 2023 AND id > 0) OR (year = 2022 AND id < 0)",
    "year = extract(year FROM TIMESTAMP '2024-05-05') AND now() > TIMESTAMP '2000-01-01'",
    "month = (SELECT max(column1) FROM (VALUES (1), (2)))",
];

#[tokio::test]
async fn every_condition_with_every_catalog() {
    let mut lists = [const { String::new() }; CONDITIONS.len()];
    let mut gets = [const { String::new() }; CONDITIONS.len()];
    for catalog in CATALOGS {
        let fixture = fixture(catalog).await;
        if catalog == "warm" {
            fixture.rows("SELECT * FROM t WHERE town = 'Bonn'").await;
            fixture.rows("SELECT * FROM t").await;
        }
        for (row, condition) in CONDITIONS.iter().enumerate() {
            let sql = format!("SELECT * FROM t WHERE {condition}");
            fixture.requests.clear();
            let found = fixture.rows(&sql).await;
            let list_count = fixture.requests.list_count();
            let get_count = fixture.requests.count(RequestKind::Get);
            assert_eq!(get_count, found.len(), "{catalog}: {condition}");
            write!(lists[row], "{list_count:>11}").unwrap();
            let rows = format!("{found:?}");
            assert!(
                gets[row].is_empty() || gets[row] == rows,
                "{catalog}: {condition}"
            );
            gets[row] = rows;
            fixture.set("partitioned.static_pruning", "false").await;
            assert_eq!(
                fixture.rows(&sql).await,
                found,
                "unpruned {catalog}: {condition}"
            );
            fixture.set("partitioned.static_pruning", "true").await;
        }
    }
    let head = CATALOGS.map(|name| format!("{name:>11}")).concat();
    let mut table = format!("GET {head}  (LIST)\n");
    for ((condition, lists), gets) in CONDITIONS.iter().zip(&lists).zip(&gets) {
        let gets = gets.matches('"').count() / 2;
        writeln!(table, "{gets:>3} {lists}  {condition}").unwrap();
    }
    assert_snapshot!(table, @r"
    GET        walk       warm     memory projection     hybrid  (LIST)
      6           2          1          6         24          1  year = 2024
      4           5          2          4          6          5  month = 2
      6          15          6          6         36         15  town = 'Ulm'
      1           4          0          1          1          3  year = 2023 AND month = 12 AND town = 'Bonn'
      6           2          1          6         48          2  year <> 2024
      8           7          4          8         18          7  month IN (1, 7, 12)
      4           5          0          4         60          5  month NOT IN (1, 12)
      4           5          0          4         30          5  month BETWEEN 2 AND 6
      2           3          0          2          2          2  year > 2023 AND month < 2
      6          15          0          6         36         15  town LIKE 'B%'
      6          15          0          6         36         15  town NOT LIKE '%o%'
      6          15          0          6         36         15  town ILIKE 'b_NN'
      6           2          0          6         48          2  year IS DISTINCT FROM 2024
      4           5          0          4          6          5  month IS NOT DISTINCT FROM 1
      0           1          0          0          0          0  year IS NULL
      6           8          0          6         24          7  town IS NOT NULL AND year = 2024
      4           5          0          4          6          5  CAST(month AS TEXT) = '12'
      2           3          0          2          2          2  CAST(year AS BIGINT) = 2024 AND CAST('2' AS INT) = month
      4           5          0          4         22          5  year * 100 + month >= 202402
      3           8          0          3         12          7  upper(substr(town, 1, 1)) = 'U' AND year = 2023
      4           5          0          4          4          4  (year = 2023 AND month = 1) OR (year = 2024 AND month = 12)
      6           2          0          6         48          2  (year = 2023 AND id > 0) OR (year = 2022 AND id < 0)
      6           2          0          6         24          1  year = extract(year FROM TIMESTAMP '2024-05-05') AND now() > TIMESTAMP '2000-01-01'
      4           5          0          4          6          5  month = (SELECT max(column1) FROM (VALUES (1), (2)))
    ");
}

#[tokio::test]
async fn parameters_and_long_lists_prune() {
    for catalog in CATALOGS {
        let fixture = fixture(catalog).await;
        let prepare = "PREPARE p(INT, TEXT) AS SELECT id FROM t WHERE month = $1 AND town = $2";
        fixture.run(prepare).await.unwrap();
        fixture.requests.clear();
        assert_eq!(
            fixture.rows("EXECUTE p(12, 'Ulm')").await.len(),
            2,
            "{catalog}"
        );
        assert_eq!(fixture.requests.count(RequestKind::Get), 2, "{catalog}");
        let months: Vec<String> = (2..3000).map(|month| month.to_string()).collect();
        let sql = format!("SELECT id FROM t WHERE month IN ({})", months.join(", "));
        fixture.requests.clear();
        assert_eq!(fixture.rows(&sql).await.len(), 8, "{catalog}");
        assert_eq!(fixture.requests.count(RequestKind::Get), 8, "{catalog}");
    }
}

#[tokio::test]
async fn what_is_known_to_be_small_is_not_spread() {
    let fixture = fixture("walk").await;
    let partitions = async |sql: &str| {
        let plan = fixture.plan(sql).await.unwrap();
        plan.output_partitioning().partition_count()
    };
    let one = "SELECT id FROM t WHERE year = 2024 AND month = 2 AND town = 'Ulm'";
    let some = "SELECT id FROM t WHERE month = 2";
    assert_eq!((partitions(one).await, partitions(some).await), (2, 2));
    let rows = fixture.rows(one).await;
    assert_eq!(rows.len(), 1);
    // Once it has been read.
    assert_eq!((partitions(one).await, partitions(some).await), (1, 2));
    let sum = "SELECT sum(id) FROM t WHERE year = 2024 AND month = 2 AND town = 'Ulm'";
    assert!(!fixture.explain(sum).await.contains("Repartition"));
    assert_eq!(fixture.rows(one).await, rows);
    let key = "t/year=2024/month=2/town=Ulm/f.csv";
    fixture.put_ids(key, &[7]).await;
    assert_eq!(fixture.rows(one).await.len(), 2);
}
