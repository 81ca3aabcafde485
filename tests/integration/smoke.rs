//! smoke
use datafusion::prelude::*;
use datafusion_partitioned::prelude::*;

#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    for (d, rows) in [
        ("1", "id\n1\n2\n"),
        ("2", "id\n3\n"),
        ("03", "id\n4\n"),
        ("__HIVE_DEFAULT_PARTITION__", "id\n9\n"),
    ] {
        let p = dir.path().join(format!("t/day={d}"));
        std::fs::create_dir_all(&p).unwrap();
        std::fs::write(p.join("f.csv"), rows).unwrap();
    }
    let ctx = SessionContext::new().with_partitioned();
    let loc = dir.path().join("t");
    ctx.sql(&format!("CREATE EXTERNAL TABLE t (id BIGINT, day INT) STORED AS CSV PARTITIONED BY (day) LOCATION '{}' OPTIONS ('connector' 'filesystem')", loc.display())).await.unwrap();
    ctx.sql("CREATE TABLE d AS VALUES (3, 'x'), (1, 'x'), (2, 'y')")
        .await
        .unwrap();
    for q in [
        "SELECT * FROM t ORDER BY id",
        "SELECT day, id FROM t WHERE day = 3",
        "SELECT count(*) FROM t",
        "SELECT day FROM t WHERE day IS NULL",
        "SELECT count(*) FROM t JOIN d ON day = column1 WHERE column2 = 'x'",
        "EXPLAIN SELECT count(*) FROM t JOIN d ON day = column1 WHERE column2 = 'x'",
        "EXPLAIN ANALYZE SELECT count(*) FROM t JOIN d ON day = column1 WHERE column2 = 'x'",
    ] {
        println!("{q}");
        ctx.sql(q).await.unwrap().show().await.unwrap();
    }
}
