//! How far a scan has come, as its report says.

use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::ScanProgressReport;
use datafusion_partitioned::prelude::*;

use crate::common::csv_tree;

async fn progress_of(sql: &str) -> ScanProgressReport {
    let dir = csv_tree(&[("p=1", &[1, 2]), ("p=2", &[3]), ("p=3", &[4])]);
    let context = SessionContext::new().with_partitioned();
    let create = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        dir.path().display()
    );
    context.sql(&create).await.unwrap();
    context.sql(sql).await.unwrap().collect().await.unwrap();
    let scans = context.partition_reports().unwrap().last_query();
    scans[0].metrics.progress.report()
}

#[tokio::test]
async fn a_scan_that_was_read_to_its_end_has_nothing_left_to_do() {
    for sql in ["SELECT id FROM t", "SELECT id FROM t ORDER BY p"] {
        let progress = progress_of(sql).await;
        assert!(progress.is_listed, "{sql}: {progress:?}");
        assert_eq!((progress.files, progress.files_done), (3, 3), "{sql}");
        // A header and the rows of each file.
        assert_eq!((progress.bytes, progress.bytes_done), (17, 17), "{sql}");
        assert!(progress.units > 0, "{sql}");
        assert_eq!(progress.units, progress.units_done, "{sql}");
    }
}

#[tokio::test]
async fn a_scan_that_nothing_is_left_for_is_complete() {
    let progress = progress_of("SELECT id FROM t WHERE p > 7").await;
    let nothing = ScanProgressReport {
        is_listed: true,
        ..ScanProgressReport::default()
    };
    assert_eq!(progress, nothing);
}
