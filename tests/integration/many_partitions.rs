//! Far more partitions in one statement than files may be open, and a bound for its memory.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::ordered_rows;

/// The variable that makes [`process`] work.
const TABLE: &str = "DFP_TEST_MANY_PARTITIONS";

const ROWS: u64 = 200_000;
const PARTITIONS: u64 = 20_000;

/// What the soft limit of open files is while the process writes and reads.
const OPEN_FILES: u64 = 256;

/// Of the memory pool of the session.
const POOL: usize = 512 << 20;

/// Of all memory of the process, in KiB: the pool, and what it does not account for.
const MOST_MEMORY: u64 = 1 << 20;

/// Is run as a process of its own, so that the limit and the peak of memory are those of the statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let Ok(table) = std::env::var(TABLE) else {
        return;
    };
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let open_files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = open_files.and_then(|limits| limits.split_whitespace().next());
    assert_eq!(soft, Some(OPEN_FILES.to_string().as_str()));

    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(POOL)));
    let config = SessionConfig::new().with_target_partitions(4);
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
    let context = context.with_partitioned();
    let run = async |name: &str, sql: &str| {
        let start = Instant::now();
        let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
        println!("{name}: {:?}", start.elapsed());
        ordered_rows(&rows)
    };
    let create = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p BIGINT) STORED AS PARQUET PARTITIONED BY (p) LOCATION '{table}' \
         OPTIONS ('connector' 'filesystem')"
    );
    run("create", &create).await;
    // Neighbours in the input are of different partitions.
    let insert =
        format!("INSERT INTO t SELECT value, (value * 7919) % {PARTITIONS} FROM range(0, {ROWS})");
    assert_eq!(run("insert", &insert).await, [ROWS.to_string()]);
    let written = peak_memory();
    println!("peak of the statement: {written} KiB");

    let counts = "SELECT count(*), count(DISTINCT p), count(DISTINCT id) FROM t";
    let expected = format!("{ROWS} | {PARTITIONS} | {ROWS}");
    assert_eq!(run("select", counts).await, [expected]);
    let wrong = format!("SELECT count(*) FROM t WHERE p <> (id * 7919) % {PARTITIONS}");
    assert_eq!(run("select", &wrong).await, ["0"]);
    let peak = peak_memory();
    println!("peak of the process: {peak} KiB");
    assert!(
        peak < MOST_MEMORY,
        "{peak} KiB, {written} KiB of them to write"
    );
}

/// The most memory that this process has had, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.unwrap().trim().parse().unwrap()
}

/// The number of files, and of those that no partition should have.
fn files(directory: &Path) -> (u64, u64) {
    let (mut files, mut others) = (0, 0);
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (inner_files, inner_others) = self::files(&path);
            files += inner_files;
            others += inner_others;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            files += 1;
        } else {
            others += 1;
        }
    }
    (files, others)
}

/// Limits and peaks are read from `/proc`.
#[cfg(target_os = "linux")]
#[test]
fn partitions_without_number_need_few_open_files_and_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let limited = format!("ulimit -S -n {OPEN_FILES}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .args(["many_partitions::process", "--exact", "--nocapture"])
        .env(TABLE, directory.path())
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}\n{errors}");
    println!("{text}");
    assert_eq!(files(directory.path()), (PARTITIONS, 0));
}
