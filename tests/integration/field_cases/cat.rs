//! CAT: catalogs.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned::catalog::{
    MemoryPartitionStore, PartitionStore, RegisteredCatalog, StoredPartitions,
};
use datafusion_partitioned::core::{
    ListingContext, MemoryCatalog, Partition, PartitionBatch, PartitionCatalog, PartitionEstimate,
    PartitionPredicate, PartitionSpec, PartitionValues,
};
use datafusion_partitioned::table::PartitionedTableProvider;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use super::modes::Mode;
use super::{Case, Table};

/// Values and location come from the catalog: a partition may be outside of the table's directory, and its
/// path may say something else (apache/spark#13022, apache/paimon#9748).
#[tokio::test]
async fn cat_01_registered_partition_is_where_the_catalog_says() {
    let table = Table::new("t", "id BIGINT, p INT", "p").registered(&[
        (&[Some("1")], "T/p=1", 0),
        (&[Some("2")], "elsewhere/xyz", 0),
        (&[Some("3")], "T/p=99", 0),
    ]);
    let sessions = Case::new()
        .ids("T/p=1/f.parquet", &[1])
        .ids("elsewhere/xyz/f.parquet", &[2])
        .ids("T/p=99/f.parquet", &[3])
        .table(table)
        .open()
        .await;
    let all = ["1 | 1", "2 | 2", "3 | 3"];
    sessions
        .ordered("SELECT id, p FROM t ORDER BY id", &all)
        .await;
    sessions
        .files("SELECT id FROM t WHERE p = 3", &["3"], 1)
        .await;
    sessions
        .files("SELECT id FROM t WHERE p = 99", &[], 0)
        .await;
    let sql = "SELECT id FROM t WHERE p IN (SELECT column1 FROM (VALUES (2), (99)))";
    sessions.rows(sql, &["2"]).await;
    sessions.rows("SELECT max(p) FROM t", &["3"]).await;
    let listings = sessions.listings("SELECT id FROM t WHERE p = 2").await;
    assert_eq!(listings, ["LIST /elsewhere/xyz/"]);
}

/// A registered partition without files is an error that says which one and what to do, or has no rows when
/// the table says so; a directory that is not registered is no partition (trinodb/trino#3919,
/// prestodb/presto#10142, apache/spark#16326).
#[tokio::test]
async fn cat_02_registered_without_files_is_an_error_and_unregistered_is_not_there() {
    let declared = |table: Table| {
        let table = table.registered(&[
            (&[Some("1")], "T/p=1", 0),
            (&[Some("2")], "T/p=2", 0),
            (&[Some("3")], "T/p=3", 0),
            (&[None], "T/p=__HIVE_DEFAULT_PARTITION__", 0),
        ]);
        Case::new()
            .ids("T/p=1/f.parquet", &[1])
            .bytes("T/p=3/_SUCCESS", "")
            .ids("T/p=7/f.parquet", &[7])
            .table(table)
    };
    let table = || Table::new("t", "id BIGINT, p INT", "p");
    let sessions = declared(table()).open_broken().await;
    let way_out = "'partition.on-missing' 'skip'";
    let of_two = ["(p = 2)", "memory://lake/T/p=2'", way_out];
    let errors = sessions.fails("SELECT id FROM t", &[way_out]).await;
    let named = ["(p = 2)", "(p = NULL)"];
    assert!(
        errors
            .iter()
            .all(|e| named.iter().any(|name| e.contains(name)))
    );
    let of_one = "SELECT id FROM t WHERE p = 1";
    sessions.rows_where_pruned(of_one, &["1"]).await;
    sessions.fails_where_not_pruned(of_one, &[way_out]).await;
    sessions
        .fails("SELECT count(*) FROM t WHERE p = 2 OR id < 0", &[way_out])
        .await;
    sessions
        .fails_in(
            |mode| mode.prunes,
            "SELECT count(*) FROM t WHERE p = 2",
            &of_two,
        )
        .await;
    let null = ["(p = NULL)", "p=__HIVE_DEFAULT_PARTITION__'", way_out];
    sessions
        .fails_in(
            |mode| mode.prunes,
            "SELECT id FROM t WHERE p IS NULL",
            &null,
        )
        .await;
    // A marker shows that somebody has written no rows.
    sessions
        .rows_where_pruned("SELECT count(*) FROM t WHERE p = 3", &["0"])
        .await;
    // What a join turns out not to need is not looked at.
    let join = "SELECT id FROM t JOIN (VALUES (1)) v(x) ON p = x";
    let is_filtered = |mode: &Mode| mode.prunes && mode.filters_by_keys();
    sessions.rows_in(is_filtered, join, &["1"]).await;

    let table = table().option("partition.on-missing", "skip");
    let sessions = declared(table).open().await;
    sessions.rows("SELECT id FROM t", &["1"]).await;
    sessions.rows(of_one, &["1"]).await;
    sessions
        .rows("SELECT count(*) FROM t WHERE p = 2", &["0"])
        .await;
    sessions.rows("SELECT DISTINCT p FROM t", &["1"]).await;
    sessions
        .rows("SELECT max(p), count(*) FROM t", &["1 | 1"])
        .await;
    sessions.rows("SELECT id FROM t WHERE p = 7", &[]).await;
}

/// Whatever a catalog can do with filters, the rows are the same (apache/spark#15673, #26807, #11607). None that
/// a store offers is used: the catalog evaluates all of them, and the scan once more.
#[tokio::test]
async fn cat_05_a_catalog_that_cannot_filter_is_filtered_here() {
    let day = |day: &str| ScalarValue::from(format!("2019-{day}"));
    let rows = [
        ("a", Some(4), day("11-30 23:59:59")),
        ("b", Some(5), day("12-01 00:00:00")),
        ("c", Some(6), day("12-02 00:00:00")),
        ("d", None, ScalarValue::Utf8(None)),
    ];
    let fields = [
        Field::new("p", DataType::Int32, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
    ];
    let spec = PartitionSpec::try_new(fields).unwrap();
    let mut case = Case::new();
    let mut partitions = vec![];
    for (id, (location, p, ts)) in (1..).zip(rows) {
        case = case.ids(&format!("T/{location}/f.parquet"), &[id]);
        let values = vec![ScalarValue::from(p), ts];
        let values = PartitionValues::try_new(&spec, values).unwrap();
        let location = Path::from(format!("T/{location}"));
        partitions.push(Partition::new(values, location));
    }
    let sessions = case.open().await;
    let given = MemoryCatalog::try_new(spec.clone(), &partitions).unwrap();
    let catalogs: [(&str, Arc<dyn PartitionCatalog>); 3] = [
        (
            "only_loads",
            Arc::new(over_a_store_that_only_loads(&partitions, &spec)),
        ),
        (
            "ignores",
            Arc::new(Careless {
                given: given.clone(),
                uses_equality: false,
            }),
        ),
        (
            "equality",
            Arc::new(Careless {
                given,
                uses_equality: true,
            }),
        ),
    ];
    for (name, catalog) in catalogs {
        for session in sessions.usable() {
            let table = parquet_table(Arc::clone(&catalog));
            session.ctx.register_table(name, table).unwrap();
        }
        for (filter, expected) in [
            ("p = 5", &["2"][..]),
            ("p > 5", &["3"]),
            ("ts >= TIMESTAMP '2019-12-01'", &["2", "3"]),
            ("p IN (4, 6, 7)", &["1", "3"]),
            ("p IS NULL", &["4"]),
            ("p <> 5", &["1", "3"]),
            ("NOT (p = 5)", &["1", "3"]),
            ("p IS DISTINCT FROM 5", &["1", "3", "4"]),
            ("ts IS NOT NULL AND p < 6", &["1", "2"]),
            ("p IN (SELECT column1 FROM (VALUES (5), (NULL)))", &["2"]),
        ] {
            sessions
                .rows(&format!("SELECT id FROM {name} WHERE {filter}"), expected)
                .await;
        }
        sessions.check_laws(name).await;
    }
}

fn parquet_table(catalog: Arc<dyn PartitionCatalog>) -> Arc<dyn TableProvider> {
    let id = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    let store = ListingTableUrl::parse("memory://lake/")
        .unwrap()
        .object_store();
    let format = Arc::new(ParquetFormat::default());
    Arc::new(PartitionedTableProvider::try_new(catalog, format, store, Arc::new(id)).unwrap())
}

/// Knows no filters at all, and another version each time.
#[derive(Debug)]
struct OnlyLoads(MemoryPartitionStore);

fn over_a_store_that_only_loads(
    partitions: &[Partition],
    spec: &PartitionSpec,
) -> RegisteredCatalog {
    let store = MemoryPartitionStore::new(spec.clone());
    futures::executor::block_on(store.add(partitions.to_vec(), false)).unwrap();
    let catalog = RegisteredCatalog::new(spec.clone());
    catalog.attach(Arc::new(OnlyLoads(store))).unwrap();
    catalog
}

#[async_trait]
impl PartitionStore for OnlyLoads {
    async fn load(&self) -> Result<StoredPartitions> {
        self.0.load().await
    }

    async fn version(&self) -> Result<u64> {
        Ok(std::process::id().into())
    }

    async fn add(&self, partitions: Vec<Partition>, if_not_exists: bool) -> Result<Vec<Partition>> {
        self.0.add(partitions, if_not_exists).await
    }

    async fn remove(&self, partitions: Vec<PartitionValues>) -> Result<Vec<Partition>> {
        self.0.remove(partitions).await
    }
}

/// Returns all partitions, or all whose `p` is one that the filters list where they list some.
#[derive(Debug)]
struct Careless {
    given: MemoryCatalog,
    uses_equality: bool,
}

#[async_trait]
impl PartitionCatalog for Careless {
    fn spec(&self) -> &PartitionSpec {
        self.given.spec()
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let all = PartitionPredicate::all(self.spec());
        let candidates = wanted.candidates(0).filter(|_| self.uses_equality);
        let is_kept = move |values: &ArrayRef, row: usize| {
            let Some(candidates) = candidates.as_ref().filter(|_| values.is_valid(row)) else {
                return true;
            };
            let value = ScalarValue::try_from_array(values, row).unwrap();
            let mut rows = 0..candidates.len();
            rows.any(|row| ScalarValue::try_from_array(candidates, row).unwrap() == value)
        };
        let batches = self.given.list(all, context);
        batches
            .and_then(move |batch| {
                let values = batch.values().column(0);
                let keep = (0..batch.len()).map(|row| Some(is_kept(values, row)));
                let keep: BooleanArray = keep.collect();
                std::future::ready(batch.filter(&keep))
            })
            .boxed()
    }

    async fn estimate(
        &self,
        _wanted: &PartitionPredicate,
        _context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        Ok(PartitionEstimate::default())
    }

    fn describe(&self) -> String {
        "careless".to_owned()
    }
}

/// The name of a column is kept as it was declared, whatever its case (apache/spark#47998, #28724, #35409, #9226).
#[tokio::test]
async fn cat_06_upper_case_columns_are_found_by_their_name_alone() {
    let table = Table::new(
        "t",
        "id BIGINT, \"DT\" TEXT, \"a.B\" INT",
        "\"DT\", \"a.B\"",
    )
    .registered(&[(&[Some("2024-08-20"), Some("1")], "T/DT=2024-08-20/a.B=1", 0)]);
    let sessions = Case::new()
        .ids("T/DT=2024-08-20/a.B=1/f.parquet", &[1])
        .table(table)
        .open()
        .await;
    let row = ["1 | 2024-08-20 | 1"];
    sessions
        .rows("SELECT * FROM t WHERE \"DT\" = '2024-08-20'", &row)
        .await;
    sessions
        .rows("SELECT * FROM t WHERE \"a.B\" = 1", &row)
        .await;
    let text_as_number = "Cannot cast string '2024-08-20' to value of Int64";
    sessions
        .fails(
            "SELECT id FROM t WHERE \"DT\" = 20240820",
            &[text_as_number],
        )
        .await;
    sessions
        .fails(
            "SELECT id FROM t WHERE dt = '2024-08-20'",
            &["dt", "t.\"DT\""],
        )
        .await;
}

/// Row counts of a catalog are for the join order: nothing is answered from them, and zero says that nobody has
/// counted (apache/paimon#9351, prestodb/presto#16497).
#[tokio::test]
async fn cat_07_row_counts_of_the_catalog_are_hints() {
    let table = Table::new("t", "id BIGINT, p INT", "p")
        .registered(&[(&[Some("1")], "T/p=1", 0), (&[Some("2")], "T/p=2", 5)]);
    let sessions = Case::new()
        .ids("T/p=1/f.parquet", &[1, 2, 3])
        .ids("T/p=2/f.parquet", &[4, 5])
        .ids("U/p=1/f.parquet", &[10, 11])
        .table(table)
        .table(Table::new("big", "id BIGINT, p INT", "p").at(&["U/"]))
        .open()
        .await;
    sessions.rows("SELECT count(*) FROM t", &["5"]).await;
    sessions
        .rows("SELECT count(*) FROM t WHERE p = 1", &["3"])
        .await;
    sessions
        .rows("SELECT p, count(*) FROM t GROUP BY p", &["1 | 3", "2 | 2"])
        .await;
    let join = "SELECT count(*) FROM big JOIN t ON big.p = t.p WHERE t.p = 1";
    sessions.rows(join, &["6"]).await;
}
