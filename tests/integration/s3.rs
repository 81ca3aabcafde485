//! The star join over a real S3 protocol server.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{FileKind, Lake, sorted_rows};

use datafusion_partitioned_s3_server::{BUCKET, S3Server};

const DAYS: i64 = 60;

/// A server with `sales/day=0` to `day=59`, two rows each, and `odd/name=..` with names that need
/// escapes in a URL.
async fn server() -> (S3Server, Lake) {
    let server = S3Server::start().await.unwrap();
    let store = Arc::new(server.client().unwrap());
    let lake = Lake::new(&format!("s3://{BUCKET}/"), store).unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("day", DataType::Int64, false),
    ]));
    let ids: Int64Array = (0..2 * DAYS).collect();
    let days: Int64Array = (0..2 * DAYS).map(|id| id % DAYS).collect();
    let sales = RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(days)]).unwrap();
    lake.put_partitioned("sales", FileKind::Parquet, &sales, &["day"])
        .await
        .unwrap();
    for (id, name) in ["a%2Fb", "a b", "50%25", "x%3Dy+z"].into_iter().enumerate() {
        lake.put_text(&format!("odd/name={name}/f.csv"), &format!("id\n{id}\n"))
            .await
            .unwrap();
    }
    server.clear();
    (server, lake)
}

async fn session(lake: &Lake) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(4);
    let ctx = SessionContext::new_with_config(config).with_partitioned();
    lake.register(&ctx);
    for sql in [
        format!(
            "CREATE EXTERNAL TABLE sales (id BIGINT, day BIGINT) STORED AS PARQUET \
             PARTITIONED BY (day) LOCATION 's3://{BUCKET}/sales/' OPTIONS ('connector' 'filesystem')"
        ),
        format!(
            "CREATE EXTERNAL TABLE odd (id BIGINT, name TEXT) STORED AS CSV \
             PARTITIONED BY (name) LOCATION 's3://{BUCKET}/odd' OPTIONS ('connector' 'filesystem')"
        ),
        "CREATE TABLE dates AS SELECT value AS day, value / 30 AS month FROM range(0, 60)"
            .to_owned(),
    ] {
        ctx.sql(&sql).await.unwrap();
    }
    ctx
}

async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    sorted_rows(&ctx.sql(sql).await.unwrap().collect().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_without_a_key_on_the_build_side_appear_in_no_request() {
    let (server, lake) = server().await;
    let ctx = session(&lake).await;
    let join = "SELECT sales.id, sales.day FROM sales JOIN dates ON sales.day = dates.day \
                WHERE dates.month = 1 AND dates.day % 10 = 3";
    let found = rows(&ctx, join).await;
    assert_eq!(
        found,
        [
            "103 | 43", "113 | 53", "33 | 33", "43 | 43", "53 | 53", "93 | 33"
        ]
    );
    for day in 0..DAYS {
        let directory = format!("day={day}/");
        let requests = server.mentioning(&directory);
        let wanted = [33, 43, 53].contains(&day);
        assert_eq!(!requests.is_empty(), wanted, "{directory} in {requests:#?}");
    }
    // The root and the three directories.
    assert_eq!(server.count("ListObjectsV2"), 4);

    ctx.sql("SET partitioned.dynamic_filter.enabled = false")
        .await
        .unwrap();
    server.clear();
    assert_eq!(rows(&ctx, join).await, found);
    assert!(!server.mentioning("day=3/").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_escapes_survive_the_protocol() {
    let (_server, lake) = server().await;
    let ctx = session(&lake).await;
    assert_eq!(
        rows(&ctx, "SELECT name, id FROM odd").await,
        ["50% | 2", "a b | 1", "a/b | 0", "x=y+z | 3"]
    );
    assert_eq!(
        rows(&ctx, "SELECT id FROM odd WHERE name = 'a/b'").await,
        ["0"]
    );
    assert_eq!(
        rows(&ctx, "SELECT id FROM odd WHERE name LIKE '50%'").await,
        ["2"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_is_an_error() {
    let (server, _) = server().await;
    let store = Arc::new(server.client_of("missing").unwrap());
    let lake = Lake::new("s3://missing/", store).unwrap();
    let ctx = SessionContext::new().with_partitioned();
    lake.register(&ctx);
    ctx.sql(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS PARQUET PARTITIONED BY (p) \
         LOCATION 's3://missing/t/' OPTIONS ('connector' 'filesystem')",
    )
    .await
    .unwrap();
    for query in ["SELECT * FROM t", "SELECT count(*) FROM t WHERE p = 1"] {
        let error = ctx
            .sql(query)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cannot list the partitions in 's3://missing/t'"),
            "{error}"
        );
    }
}
