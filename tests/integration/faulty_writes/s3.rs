//! The same over a real S3 protocol server: faults between the statement and its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_partitioned_s3_server::{BUCKET, S3Server};
use datafusion_partitioned_test_utils::Lake;

use super::{APPEND, DYNAMIC, Kind, Table, fail_each_request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_whole_over_s3() {
    let server = S3Server::start().await.unwrap();
    let store = Arc::new(server.client().unwrap());
    let lake = Lake::new(&format!("s3://{BUCKET}/"), store).unwrap();
    let tables = AtomicUsize::new(0);
    // An attempt takes its time here; what else can happen is the same as in memory.
    for (statement, kind) in [(&APPEND, Kind::Fails), (&DYNAMIC, Kind::LosesItsAnswer)] {
        let (attempts, _) = fail_each_request(statement, &[kind], async || {
            let name = format!("t{}/", tables.fetch_add(1, Ordering::Relaxed));
            Table::new(lake.clone(), &name, statement.options).await
        })
        .await;
        assert!(attempts > 5, "{attempts}");
    }
}
