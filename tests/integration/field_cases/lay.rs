//! LAY: the layout of directories, and their listing.

use std::sync::Arc;

use datafusion_partitioned_test_utils::{Fault, FaultyStore, FileKind, RequestKind, scan_metric};
use object_store::memory::InMemory;

use super::key_server::Bucket;
use super::{Case, Sessions, Table, modes};

/// Job markers, staging trees, checksums and dot files are no data, whatever partitions their paths
/// look like (aws/aws-sdk-pandas #326, apache/spark #6091 and #31169).
#[tokio::test]
async fn lay_01_markers_staging_trees_and_dot_files() {
    let case = Case::new()
        .bytes("T/_SUCCESS", "")
        .ids("T/_temporary/0/task_1/p=1/f.parquet", &[900])
        .ids("T/.hive-staging_9/p=1/f.parquet", &[901])
        .bytes("T/p=1/.f.parquet.crc", "checksum")
        .bytes("T/p=1/_metadata", "PAR1....PAR1")
        .bytes("T/p=1/_other.txt", "x")
        .ids("T/p=1/f.parquet", &[1])
        .ids("T/p=2/f.parquet", &[2])
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .table(Table::new("inferred", "", "p"))
        .open()
        .await;
    for table in ["t", "inferred"] {
        let query = format!("SELECT id, p FROM {table} ORDER BY id");
        case.ordered(&query, &["1 | 1", "2 | 2"]).await;
        case.rows(&format!("SELECT count(*) FROM {table}"), &["2"])
            .await;
        let query = format!("SELECT count(*) FROM {table} WHERE p = 1");
        case.rows(&query, &["1"]).await;
    }
}

/// An object without bytes holds no rows, and no columns to infer (apache/datafusion #13737).
#[tokio::test]
async fn lay_03_zero_byte_data_file() {
    let case = Case::new()
        .bytes("T/p=1/a.parquet", "")
        .ids("T/p=1/b.parquet", &[1])
        .bytes("T/p=2/a.parquet", "")
        .table(Table::new("t", "", "p"))
        .open()
        .await;
    case.rows("SELECT id, p FROM t", &["1 | 1"]).await;
    case.rows("SELECT count(*) FROM t WHERE p = 2", &["0"])
        .await;
    case.rows("SELECT DISTINCT p FROM t", &["1"]).await;
}

/// Consoles make empty objects that stand for directories, with and without a slash
/// (apache/arrow #24093, ClickHouse/ClickHouse #72007).
#[tokio::test]
async fn lay_04_directory_marker_objects() {
    // Of a Parquet file without bytes not even the schema can be read.
    let file = FileKind::Parquet.encode(&rows!(("id", Int64, [1])));
    let bucket = Bucket::new()
        .with("T", "")
        .with("T/", "")
        .with("T/p=1", "")
        .with("T/p=1/", "")
        .with("T/p=1_$folder$", "")
        .with("T/p=1/f.parquet", file.unwrap())
        .with("U/", "")
        .with("U/p=7/", "");
    let (_server, case) = bucket.serve().await;
    let columns = "id BIGINT, p INT";
    let case = case
        .table(Table::new("t", columns, "p"))
        .table(Table::new("u", columns, "p").at(&["T"]))
        .table(Table::new("inferred", "", "p").at(&["T"]))
        .table(Table::new("v", columns, "p").at(&["U/"]))
        .open()
        .await;
    for table in ["t", "u", "inferred"] {
        case.rows(&format!("SELECT id, p FROM {table}"), &["1 | 1"])
            .await;
        let query = format!("SELECT id, p FROM {table} WHERE p >= 1");
        case.files(&query, &["1 | 1"], 1).await;
    }
    case.rows("SELECT id FROM v", &[]).await;
    case.rows("SELECT id FROM v WHERE p = 7", &[]).await;
}

/// A file above the partitions, left from before the table was partitioned, is skipped by every
/// query (apache/datafusion #21755 and #18083).
#[tokio::test]
async fn lay_05_file_in_the_root_is_skipped() {
    let case = Case::new()
        .ids("T/old.parquet", &[900])
        .ids("T/p=1/f.parquet", &[1])
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .open()
        .await;
    case.rows("SELECT id, p FROM t", &["1 | 1"]).await;
    case.rows("SELECT count(*) FROM t", &["1"]).await;
    case.rows("SELECT p, count(*) FROM t GROUP BY p", &["1 | 1"])
        .await;
    case.rows("SELECT count(*) FROM t WHERE p IS NULL", &["0"])
        .await;
    case.files("SELECT id FROM t WHERE p IS NOT NULL", &["1"], 1)
        .await;
    assert_eq!(files_misplaced(&case, "SELECT id FROM t").await, 1);
}

/// The number that shows the files that were skipped.
async fn files_misplaced(case: &Sessions, query: &str) -> usize {
    let (_, plan) = case.default().run(query).await.unwrap();
    scan_metric(&plan, "files_misplaced")
}

/// A file above the last level of partitions is skipped by every query
/// (apache/spark #6610 and #47668, spiceai/spiceai #4247).
#[tokio::test]
async fn lay_07_files_at_other_depths_are_skipped() {
    let case = Case::new()
        .ids("T/p=1/q=a/f.parquet", &[1])
        .ids("T/p=1/f.parquet", &[900])
        .ids("T/p=2/q=b/f.parquet", &[2])
        .table(Table::new("t", "id BIGINT, p INT, q TEXT", "p, q"))
        .open()
        .await;
    case.rows("SELECT count(*) FROM t", &["2"]).await;
    case.rows("SELECT count(*) FROM t WHERE p = 1", &["1"])
        .await;
    case.rows("SELECT count(*) FROM t WHERE q = 'a'", &["1"])
        .await;
    case.rows("SELECT q FROM t WHERE id = 900", &[]).await;
    assert_eq!(files_misplaced(&case, "SELECT id FROM t").await, 1);
    let query = "SELECT id FROM t WHERE p = 1";
    assert_eq!(files_misplaced(&case, query).await, 1);
}

/// A root with spaces and percent signs, as a path and as a URL (apache/datafusion #8009 and #7877,
/// pola-rs/polars #12773).
#[tokio::test]
async fn lay_10_root_with_spaces_and_percent_signs() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("my set/50%25 off");
    std::fs::create_dir_all(root.join("p=1")).unwrap();
    std::fs::write(root.join("p=1/f.csv"), "id\n1\n").unwrap();
    let path = directory.path().display();
    let columns = "id BIGINT, p INT";
    let table = |name| Table::new(name, columns, "p").stored_as("CSV");
    let case = Case::new()
        .table(table("t").at(&[&format!("{path}/my set/50%25 off")]))
        .table(table("u").at(&[&format!("file://{path}/my%20set/50%2525%20off/")]))
        .open()
        .await;
    for table in ["t", "u"] {
        let query = format!("SELECT id, p FROM {table} WHERE p = 1");
        case.files(&query, &["1 | 1"], 1).await;
    }
}

/// A key with an empty name is refused when the table is declared (pola-rs/polars #25217).
#[tokio::test]
async fn lay_10_root_with_an_empty_name_is_refused() {
    let case = Case::new().table(Table::new("t", "id BIGINT, p INT", "p").at(&["x//T/"]));
    let error = case.declaration_error().await;
    assert!(error.contains("x//T") && error.contains("empty"), "{error}");
}

/// Partitions begin below the root, whatever its own path says (pola-rs/polars #17055).
#[tokio::test]
async fn lay_11_root_that_contains_a_partition() {
    let case = Case::new()
        .ids("T/year=2024/m=1/f.parquet", &[1])
        .ids("T/year=2024/m=2/f.parquet", &[2])
        .ids("T/year=2025/m=1/f.parquet", &[3])
        .table(Table::new("a", "id BIGINT, m INT", "m").at(&["T/year=2024/"]))
        .open()
        .await;
    case.ordered("SELECT * FROM a ORDER BY id", &["1 | 1", "2 | 2"])
        .await;
    case.files("SELECT * FROM a WHERE m = 2", &["2 | 2"], 1)
        .await;
}

/// A pattern as the root is refused when the table is declared, in a URL too.
#[tokio::test]
async fn lay_11_pattern_as_root_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let local = format!("{}/year=*/m=1/", directory.path().display());
    for location in [
        "T/year=*/m=1/",
        "T/year=202[45]/m=1/",
        "T/year=202?/m=1/",
        &local,
    ] {
        let case = Case::new()
            .ids("T/year=2024/m=1/f.parquet", &[1])
            .table(Table::new("b", "id BIGINT, year INT, m INT", "year, m").at(&[location]));
        let error = case.declaration_error().await;
        assert!(error.contains("pattern"), "{location}: {error}");
    }
}

/// A pattern character of a directory is written with its escape.
#[tokio::test]
async fn lay_11_escaped_pattern_characters_are_a_directory() {
    let case = Case::new()
        .ids("T/a*[1]?/p=1/f.parquet", &[1])
        .table(Table::new("t", "id BIGINT, p INT", "p").at(&["T/a%2A%5B1%5D%3F/"]))
        .open()
        .await;
    case.files("SELECT id, p FROM t WHERE p = 1", &["1 | 1"], 1)
        .await;
}

/// Files below plain directories of a partition belong to it (apache/spark #52694).
#[tokio::test]
async fn lay_12_plain_directories_below_the_last_level() {
    let case = Case::new()
        .ids("T/p=1/SUB_1/f.parquet", &[1])
        .ids("T/p=1/SUB_2/deep/f.parquet", &[2])
        .ids("T/p=1/f.parquet", &[3])
        .table(Table::new("t", "id BIGINT, p INT", "p"))
        .open()
        .await;
    case.rows("SELECT count(*) FROM t WHERE p = 1", &["3"])
        .await;
    case.rows("SELECT count(*) FROM t", &["3"]).await;
}

/// The number of files on the pages of a listing does not matter, nor that a page has hidden names
/// alone (apache/pinot #6002, afreidah/s3-orchestrator #198, mojatter/s2 #215).
#[tokio::test]
async fn lay_13_pages_of_exactly_1000_keys() {
    let tables = [("a", 999), ("b", 1000), ("c", 1001), ("d", 2000), ("e", 30)];
    let mut bucket = Bucket::new();
    for (name, files) in tables {
        for file in 0..files {
            bucket = bucket.with(format!("{name}/p=1/f{file:04}.json"), "{\"id\":1}");
        }
    }
    // The first page of this one has nothing but hidden names.
    for file in 0..1000 {
        bucket = bucket.with(format!("e/p=1/_x{file:04}"), "hidden");
    }
    let (_server, mut case) = bucket.serve().await;
    for (name, _) in tables {
        let table = Table::new(name, "id BIGINT, p INT", "p").stored_as("JSON");
        case = case.table(table.at(&[&format!("{name}/")]));
    }
    let case = case.modes(modes::FEW).open_broken().await;
    for (name, files) in tables {
        let query = format!("SELECT count(*) FROM {name} WHERE p = 1");
        case.rows(&query, &[&files.to_string()]).await;
    }
}

/// Partitions that begin and end on any page, found by one listing of the table and by one of each
/// partition: every file counts once. A page that is lost is an error.
#[tokio::test]
async fn lay_13_partitions_over_several_pages() {
    let store = FaultyStore::new(Arc::new(InMemory::new()));
    let mut case = Case::in_store("memory://lake/", Arc::new(store.clone()));
    let tables: [(&str, &[usize]); 6] = [
        ("a", &[999]),
        ("b", &[1000]),
        ("c", &[1001]),
        ("d", &[2000]),
        // The second one goes over the end of a page, the third one over a whole page.
        ("e", &[700, 700, 1700, 1]),
        // The first page has nothing but hidden names.
        ("f", &[30]),
    ];
    for file in 0..1000 {
        case = case.bytes(&format!("f/p=0/_x{file:04}"), "hidden");
    }
    for (name, partitions) in tables {
        for (p, files) in partitions.iter().enumerate() {
            for file in 0..*files {
                case = case.bytes(&format!("{name}/p={p}/f{file:04}.json"), "{\"id\":1}");
            }
        }
        let table = Table::new(name, "id BIGINT, p INT", "p").stored_as("JSON");
        case = case.table(table.at(&[&format!("{name}/")]));
    }
    let case = case.modes(modes::FEW).open_broken().await;
    for (name, partitions) in tables {
        let all = format!("SELECT count(*) FROM {name}");
        case.rows(&all, &[&partitions.iter().sum::<usize>().to_string()])
            .await;
        let listings = case.listings(&all).await;
        assert_eq!(listings, [format!("LIST /{name}/")]);

        let some = format!("SELECT p, count(*) FROM {name} WHERE p >= 0 AND p <> 3 GROUP BY p");
        let wanted = partitions.iter().enumerate().take(3);
        let expected: Vec<_> = wanted.map(|(p, files)| format!("{p} | {files}")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        case.rows(&some, &expected).await;
    }
    let listings = case.listings("SELECT count(*) FROM e WHERE p <> 1").await;
    insta::assert_snapshot!(listings.join("\n"), @r"
    LIST /e/ (delimiter)
    LIST /e/p=0/
    LIST /e/p=2/
    LIST /e/p=3/
    ");

    store.inject(Fault::fail_after(1000, |request| {
        request.kind == RequestKind::List
    }));
    for query in [
        "SELECT count(*) FROM c",
        "SELECT count(*) FROM c WHERE p = 0",
        "SELECT count(*) FROM e",
        "SELECT count(*) FROM e WHERE p = 2",
    ] {
        case.fails(query, &["cannot list the partitions in 'memory://lake/"])
            .await;
    }
}

/// The same for directories, which a listing returns in pages too.
#[tokio::test]
async fn lay_13_pages_of_directories() {
    for (page, partitions) in [(7, 6), (7, 7), (7, 8), (7, 14), (1, 5), (1000, 1001)] {
        let mut bucket = Bucket::new().with_page(page);
        for p in 0..partitions {
            bucket = bucket.with(format!("T/p={p}/f.json"), "{\"id\":1}");
        }
        let (_server, case) = bucket.serve().await;
        let few = if page < 1000 {
            modes::PRUNING
        } else {
            modes::FEW
        };
        let case = case
            .table(Table::new("t", "id BIGINT, p INT", "p").stored_as("JSON"))
            .modes(few)
            .open_broken()
            .await;
        let last = (partitions - 1).to_string();
        let query = format!("SELECT p FROM t WHERE p >= {last}");
        case.files(&query, &[&last], 1).await;
        let query = format!("SELECT count(*) FROM t WHERE p <> {last}");
        case.files(&query, &[&last], partitions - 1).await;
        case.rows("SELECT count(*) FROM t", &[&partitions.to_string()])
            .await;
    }
}

/// One directory twice, or one inside the other, would count rows twice and is refused
/// (apache/hudi #3714, apache/paimon #9712).
#[tokio::test]
async fn lay_14_overlapping_locations_are_refused() {
    for locations in [
        &["T/", "T/"][..],
        &["T/", "T/p=1/"],
        &["T/p=1/", "T"],
        &["T/", "T"],
    ] {
        let case = Case::new()
            .ids("T/p=1/f.parquet", &[1])
            .table(Table::new("t", "id BIGINT, p INT", "p").at(locations));
        let error = case.declaration_error().await;
        for text in ["table 't'", "'memory://lake/T'", "overlap", "leave one out"] {
            assert!(error.contains(text), "{locations:?}: {error}");
        }
    }
}

/// Partitions of a catalog must not overlap either, unless it names their files.
#[tokio::test]
async fn lay_14_overlapping_partitions_of_a_catalog_are_refused() {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion_partitioned::core::{MemoryCatalog, Partition, PartitionBatch, PartitionSpec};

    use crate::common::partition;

    let spec = PartitionSpec::try_new([Field::new("p", DataType::Int32, true)]).unwrap();
    let partition = |p: i32, location: &str| partition(&spec, [p.into()], location);
    // One by one, and in columns.
    let catalogs = |partitions: &[Partition]| {
        let batch = PartitionBatch::from_partitions(&spec, partitions).unwrap();
        [
            MemoryCatalog::try_new(spec.clone(), partitions),
            MemoryCatalog::from_batch(spec.clone(), batch),
        ]
    };
    let partitions = |locations: &[&str]| -> Vec<_> {
        (0..).zip(locations).map(|(p, l)| partition(p, l)).collect()
    };
    for (locations, message) in [
        (
            &["T/a", "T/a"][..],
            "two partitions have the location 'T/a'",
        ),
        (&["T/a", "T/b", "T"], "'T/a' is inside the partition at 'T'"),
        (
            &["T/a/b", "T/a-b", "T/a"],
            "'T/a/b' is inside the partition at 'T/a'",
        ),
    ] {
        for catalog in catalogs(&partitions(locations)) {
            let error = catalog.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
    for catalog in catalogs(&partitions(&["T/a", "T/ab", "T/a-b", "T/b/a"])) {
        catalog.unwrap();
    }

    let shared = [partition(1, "T"), partition(2, "T")].map(|mut partition| {
        partition.source = partition.source.with_objects(vec![]);
        partition
    });
    for catalog in catalogs(&shared) {
        catalog.unwrap();
    }
}
