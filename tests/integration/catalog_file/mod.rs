//! Definitions and registered partitions in an SQLite file, `dfp --catalog FILE`.

mod killed;
mod partitions;
mod views;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, config_err};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::catalog_sql::SqliteCatalog;
use datafusion_partitioned::connector::secrecy::{ExposeSecret, SecretString};
use datafusion_partitioned::connector::{
    Connector, ConnectorContext, ConnectorOption, ConnectorRegistry, OptionDescription,
};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned::table::FilesystemConnector;
use datafusion_partitioned_cli::{Input, Outcome, run};
use datafusion_partitioned_test_utils::sorted_rows;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{assert_mentions, csv_tree};

/// A directory with a catalog file.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("tables.db")
    }

    fn session(&self) -> Session {
        Session::new(&self.file()).unwrap()
    }

    /// The bytes of the file and of those beside it.
    fn bytes(&self) -> Vec<u8> {
        let files = fs::read_dir(self.dir.path()).unwrap();
        files
            .flat_map(|file| fs::read(file.unwrap().path()).unwrap())
            .collect()
    }

    fn connection(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }
}

struct Session(SessionContext);

impl Session {
    fn new(file: &Path) -> Result<Self> {
        Self::attached_to(&SqliteCatalog::open(file)?)
    }

    fn attached_to(catalog: &SqliteCatalog) -> Result<Self> {
        let registry = ConnectorRegistry::new();
        registry.replace(Arc::new(FilesystemConnector));
        registry.replace(Arc::new(Vault));
        let config = SessionConfig::new().with_information_schema(true);
        let ctx = SessionContext::new_with_config(config);
        let ctx = ctx.with_partitioned_connectors(&Arc::new(registry));
        catalog.attach(&ctx)?;
        Ok(Self(ctx))
    }

    async fn run(&self, sql: &str) -> Result<Vec<String>> {
        let batches = self.0.partitioned_sql(sql).await?.collect().await?;
        Ok(sorted_rows(&batches))
    }

    async fn rows(&self, sql: &str) -> Vec<String> {
        let rows = self.run(sql).await;
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    #[track_caller]
    fn mentions(error: Result<Vec<String>>, texts: &[&str]) {
        assert_mentions(&error.unwrap_err().strip_backtrace(), texts);
    }

    async fn fails(&self, sql: &str, texts: &[&str]) {
        Self::mentions(self.run(sql).await, texts);
    }
}

/// `CREATE .. EXTERNAL TABLE name (id BIGINT, p INT)` over a tree of CSV files.
fn create(or: &str, name: &str, tree: &Path) -> String {
    format!(
        "CREATE {or} EXTERNAL TABLE {name} (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
         LOCATION '{}' OPTIONS ('connector' 'filesystem')",
        tree.display()
    )
}

/// A connector whose tables have a row with the length of its secret.
#[derive(Debug)]
struct Vault;

const KEY: ConnectorOption<SecretString> = ConnectorOption::new("key", "opens it");

#[async_trait]
impl Connector for Vault {
    fn identifier(&self) -> &str {
        "vault"
    }

    fn options(&self) -> Vec<OptionDescription> {
        vec![KEY.describe()]
    }

    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
        let key = context.options().get(&KEY)?;
        if key.expose_secret().is_empty() {
            return config_err!("an empty key");
        }
        let schema = Arc::clone(context.physical_schema());
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![]])?))
    }
}

#[tokio::test]
async fn the_next_session_has_the_same_tables() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1, 2]), ("p=02", &[3])]));
    let first = home.session();
    first.rows(&create("", "t", tree.path())).await;
    first.rows("CREATE SCHEMA s").await;
    first
        .rows(&create("", "s.\"Odd \"\"name's\"\"\"", tree.path()))
        .await;
    first
        .rows(&create("", "\"Ünï\u{1F4BE}; --\"", tree.path()))
        .await;
    first
        .rows("CREATE VIEW few AS SELECT id FROM t WHERE p = 2")
        .await;
    first.rows("CREATE TABLE copied AS SELECT * FROM t").await;
    assert_eq!(first.rows("SELECT count(*) FROM copied").await, ["3"]);
    drop(first);

    let second = home.session();
    assert_eq!(
        second.rows("SELECT id, p FROM t").await,
        ["1 | 1", "2 | 1", "3 | 2"]
    );
    assert_eq!(second.rows("SELECT * FROM few").await, ["3"]);
    let names = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                 WHERE table_schema <> 'information_schema'";
    let expected = [
        "public | few | VIEW",
        "public | t | BASE TABLE",
        "public | Ünï\u{1F4BE}; -- | BASE TABLE",
        "s | Odd \"name's\" | BASE TABLE",
    ];
    assert_eq!(second.rows(names).await, expected);
    let odd = "SELECT count(*) FROM s.\"Odd \"\"name's\"\"\" WHERE p = 1";
    assert_eq!(second.rows(odd).await, ["2"]);
    let odd = "SELECT count(*) FROM \"Ünï\u{1F4BE}; --\"";
    assert_eq!(second.rows(odd).await, ["3"]);
    second.fails("SELECT * FROM T2", &["t2"]).await;
    second.fails("SELECT * FROM copied", &["copied"]).await;

    second
        .fails(&create("", "t", tree.path()), &["already exists"])
        .await;
    second.rows(&create("", "copied", tree.path())).await;
    second.rows("DROP VIEW few").await;
    second.rows("DROP TABLE copied").await;
    second.rows("DROP TABLE t").await;
    second.fails("DROP SCHEMA s", &["s"]).await;
    second.rows("DROP SCHEMA s CASCADE").await;
    let third = home.session();
    assert_eq!(third.rows(names).await, [expected[2]]);
}

#[tokio::test]
async fn columns_that_are_left_to_the_files_are_found_again() {
    let (home, tree) = (Home::new(), csv_tree(&[("P=x", &[1])]));
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV PARTITIONED BY (\"P\") LOCATION '{}' \
         OPTIONS ('connector' 'filesystem', 'has_header' 'true')",
        tree.path().display()
    );
    home.session().rows(&sql).await;
    let rows = home.session().rows("SELECT id, \"P\" FROM t").await;
    assert_eq!(rows, ["1 | x"]);
}

#[tokio::test]
async fn sessions_see_what_the_others_do() {
    let home = Home::new();
    let [first, second] = [[1], [2]].map(|ids| csv_tree(&[("p=1", &ids)]));
    let (here, there) = (home.session(), home.session());
    here.rows(&create("", "t", first.path())).await;
    assert_eq!(there.rows("SELECT id FROM t").await, ["1"]);
    there.rows(&create("OR REPLACE", "t", second.path())).await;
    assert_eq!(here.rows("SELECT id FROM t").await, ["2"]);
    here.rows("DROP TABLE t").await;
    there
        .fails("SELECT id FROM t", &["'datafusion.public.t' not found"])
        .await;
    there.fails("DROP TABLE t", &["doesn't exist"]).await;
    there.rows(&create("", "t", first.path())).await;
    here.fails(&create("", "t", second.path()), &["already exists"])
        .await;
    assert_eq!(here.rows("SELECT id FROM t").await, ["1"]);
    here.rows("CREATE SCHEMA s").await;
    there.rows(&create("", "s.t", second.path())).await;
    assert_eq!(here.rows("SELECT id FROM s.t").await, ["2"]);
}

#[tokio::test]
async fn a_replacement_that_fails_leaves_what_was_there() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    let session = home.session();
    session.rows(&create("OR REPLACE", "t", tree.path())).await;
    let nowhere = create("OR REPLACE", "t", &tree.path().join("nowhere"));
    session.fails(&nowhere, &["nowhere"]).await;
    assert_eq!(session.rows("SELECT id FROM t").await, ["1"]);
    let secret = "CREATE OR REPLACE EXTERNAL TABLE t (id BIGINT) STORED AS CSV LOCATION '/x' \
                  OPTIONS ('connector' 'vault', 'key' 'K-AAAA')";
    session.fails(secret, &["option 'key' is a secret"]).await;
    assert_eq!(home.session().rows("SELECT id FROM t").await, ["1"]);
}

#[tokio::test]
async fn a_replacement_with_a_secret_leaves_a_table_that_this_session_has_not_made() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    let registered = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) LOCATION '{}' \
         OPTIONS ('connector' 'filesystem', 'partition.catalog' 'registered')",
        tree.path().display()
    );
    let session = home.session();
    session.rows(&registered).await;
    session.rows("ALTER TABLE t ADD PARTITION (p = 1)").await;
    let secret = "CREATE OR REPLACE EXTERNAL TABLE t (id BIGINT) STORED AS CSV LOCATION '/x' \
                  OPTIONS ('connector' 'vault', 'key' 'K-AAAA')";
    // The one that has made it, and one that has not.
    for session in [session, home.session()] {
        session.fails(secret, &["option 'key' is a secret"]).await;
        assert_eq!(session.rows("SELECT id FROM t").await, ["1"]);
        assert_eq!(home.session().rows("SELECT id FROM t").await, ["1"]);
    }
}

#[tokio::test]
async fn what_is_not_kept_does_not_replace_a_table_of_the_file() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    home.session().rows(&create("", "t", tree.path())).await;
    let temporary = "CREATE OR REPLACE TEMPORARY TABLE t (id BIGINT) WITH \
                     ('connector' = 'vault', 'key' = '${env:CARGO_PKG_NAME}', 'format' = 'csv', 'path' = '/x')";
    let session = home.session();
    let texts = [
        "table 't' is kept in the catalog file",
        "DROP TABLE t first",
    ];
    session.fails(temporary, &texts).await;
    assert_eq!(session.rows("SELECT id FROM t").await, ["1"]);
    assert_eq!(home.session().rows("SELECT id FROM t").await, ["1"]);
    session.rows("DROP TABLE t").await;
    session.rows(temporary).await;
    assert_eq!(session.rows("SELECT count(*) FROM t").await, ["0"]);
    home.session()
        .fails("SELECT * FROM t", &["not found"])
        .await;
}

#[tokio::test]
async fn a_schema_with_a_table_of_another_process_is_not_dropped() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    let session = home.session();
    session.rows("CREATE SCHEMA s").await;
    home.session().rows(&create("", "s.t", tree.path())).await;
    session.fails("DROP SCHEMA s", &["'s'", "depend"]).await;
    assert_eq!(session.rows("SELECT id FROM s.t").await, ["1"]);
    session.rows("DROP SCHEMA s CASCADE").await;
    home.session()
        .fails("SELECT * FROM s.t", &["not found"])
        .await;
}

#[tokio::test]
async fn enrichment_options_are_of_a_process_and_not_of_the_file() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1]), ("p=2", &[2])]));
    home.session().rows(&create("", "t", tree.path())).await;
    let open = |table: &str, options: &[(&str, &str)]| {
        let options = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let catalog = SqliteCatalog::open(home.file()).unwrap();
        Session::attached_to(&catalog.with_enrichment_options(table, options.collect()))
    };
    let limits = [("partition.max", "1"), ("has_header", "true")];
    for name in ["t", "public.t", "datafusion.public.t"] {
        let limited = open(name, &limits).unwrap();
        assert_eq!(limited.rows("SELECT id FROM t WHERE p = 2").await, ["2"]);
        limited.fails("SELECT id FROM t", &["partition.max"]).await;
    }
    assert_eq!(
        open("other", &limits)
            .unwrap()
            .rows("SELECT id FROM t")
            .await,
        ["1", "2"]
    );
    assert_eq!(home.session().rows("SELECT id FROM t").await, ["1", "2"]);
    let error = open("elsewhere.public.t", &limits).err().unwrap();
    assert_mentions(
        &error.to_string(),
        &["'elsewhere.public.t'", "'datafusion'"],
    );
}

#[tokio::test]
async fn a_table_that_cannot_be_made_says_why_and_can_be_dropped() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    home.session().rows(&create("", "t", tree.path())).await;
    let path = tree.path().display().to_string();
    drop(tree);
    let session = home.session();
    let file = home.file().display().to_string();
    let texts = ["cannot make 't' from the catalog file", &file, &path];
    session.fails("SELECT * FROM t", &texts).await;
    session
        .fails("DROP VIEW t", &["View 't' doesn't exist"])
        .await;
    session.rows("DROP TABLE t").await;
    session.fails("DROP TABLE t", &["doesn't exist"]).await;
}

#[tokio::test]
async fn secrets_are_not_in_the_file() {
    let home = Home::new();
    let session = home.session();
    let create = |key: &str, location: &str| {
        format!(
            "CREATE EXTERNAL TABLE v (id BIGINT) STORED AS CSV LOCATION '{location}' \
             OPTIONS ('connector' 'vault', 'key' '{key}')"
        )
    };
    let texts = ["table 'v'", "option 'key' is a secret", "'${env:NAME}'"];
    session.fails(&create("K-AAAA", "/x"), &texts).await;
    let texts = ["credentials"];
    let url = create("${env:CARGO_PKG_NAME}", "s3://me:K-AAAA@lake/x");
    session.fails(&url, &texts).await;
    session.rows(&create("${env:CARGO_PKG_NAME}", "/x")).await;
    assert_eq!(home.session().rows("SELECT count(*) FROM v").await, ["0"]);

    let bytes = home.bytes();
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(has("${env:CARGO_PKG_NAME}"));
    assert!(!has("K-AAAA") && !has(env!("CARGO_PKG_NAME")));
}

#[tokio::test]
async fn files_that_are_none_are_refused_and_left_alone() {
    let home = Home::new();
    let open = |path: &Path| SqliteCatalog::open(path).unwrap_err().to_string();
    let file = home.file();
    let shown = file.display().to_string();

    drop(home.session());
    home.connection()
        .pragma_update(None, "user_version", 2)
        .unwrap();
    assert_mentions(
        &open(&file),
        &[&shown, "version 2", "up to 1", "newer program"],
    );

    for (name, content) in [("text", &b"id\n1\n"[..]), ("bytes", &[7; 8192])] {
        let file = home.dir.path().join(name);
        fs::write(&file, content).unwrap();
        let shown = file.display().to_string();
        assert_mentions(&open(&file), &[&shown, "damaged or no catalog file"]);
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    let foreign = home.dir.path().join("foreign.db");
    let connection = Connection::open(&foreign).unwrap();
    connection
        .execute_batch("CREATE TABLE schemas (name TEXT)")
        .unwrap();
    assert_mentions(&open(&foreign), &["foreign.db", "of another program"]);

    assert_mentions(&open(home.dir.path()), &["cannot be opened"]);
    let nowhere = home.dir.path().join("none/tables.db");
    assert_mentions(
        &open(&nowhere),
        &["none/tables.db", "its directory must be there"],
    );
}

#[tokio::test]
async fn a_change_of_a_file_that_is_gone_is_an_error() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    let session = home.session();
    fs::remove_file(home.file()).unwrap();
    let texts = ["has been removed", &home.file().display().to_string()];
    session.fails(&create("", "t", tree.path()), &texts).await;
}

#[tokio::test]
async fn a_name_is_that_of_a_file_and_no_uri() {
    let home = Home::new();
    let file = home.dir.path().join("file:x.db?mode=memory");
    let session = Session::new(&file).unwrap();
    session.rows("CREATE VIEW v AS SELECT 1 AS x").await;
    assert!(file.exists());
    let again = Session::new(&file).unwrap();
    assert_eq!(again.rows("SELECT * FROM v").await, ["1"]);
}

#[tokio::test]
async fn a_view_with_credentials_is_not_kept() {
    let home = Home::new();
    let session = home.session();
    let view = "CREATE VIEW v AS SELECT 's3://me:K-AAAA@lake/x' AS url";
    session.fails(view, &["credentials in a URL"]).await;
    assert!(!home.bytes().windows(6).any(|bytes| bytes == b"K-AAAA"));
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_damaged() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    home.session().rows(&create("", "t", tree.path())).await;
    let file = fs::OpenOptions::new()
        .write(true)
        .open(home.file())
        .unwrap();
    file.set_len(5000).unwrap();
    let error = match Session::new(&home.file()) {
        Err(error) => Err(error),
        Ok(session) => session.run("SELECT * FROM t").await,
    };
    Session::mentions(error, &["tables.db", "damaged or no catalog file"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_cannot_be_written_can_be_read() {
    use std::os::unix::fs::PermissionsExt;

    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    home.session().rows(&create("", "t", tree.path())).await;
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&home.file(), 0o444);
    if fs::OpenOptions::new()
        .append(true)
        .open(home.file())
        .is_ok()
    {
        // Permissions do not bind this user.
        return;
    }
    let session = home.session();
    assert_eq!(session.rows("SELECT id FROM t").await, ["1"]);
    let texts = ["tables.db", "cannot be written", "permissions"];
    session.fails("DROP TABLE t", &texts).await;
    session.fails(&create("", "u", tree.path()), &texts).await;
    assert_eq!(session.rows("SELECT id FROM t").await, ["1"]);
}

#[tokio::test]
async fn the_shell_keeps_tables_with_a_flag() {
    let (home, tree) = (Home::new(), csv_tree(&[("p=1", &[1])]));
    let file = home.file();
    let dfp = async |sql: &str| {
        let (mut output, mut errors) = (vec![], vec![]);
        let file = file.to_str().unwrap();
        let arguments = ["dfp", "-q", "--format", "csv", "--catalog", file, "-c", sql];
        let outcome = run(arguments, Input::Stream(&b""[..]), &mut output, &mut errors).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (outcome, text(output), text(errors))
    };
    let (outcome, _, errors) = dfp(&create("OR REPLACE", "t", tree.path())).await;
    assert_eq!((outcome, errors.as_str()), (Outcome::Success, ""));
    let (_, output, errors) = dfp("SELECT * FROM t").await;
    assert_eq!((output.as_str(), errors.as_str()), ("id,p\n1,1\n", ""));
    fs::write(home.file(), "no catalog").unwrap();
    let (outcome, _, errors) = dfp("SELECT 1").await;
    assert_eq!(outcome, Outcome::Failure);
    assert_mentions(&errors, &["tables.db", "damaged"]);
}
