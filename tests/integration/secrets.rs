//! OPS-05: secrets are in no output (duckdb/duckdb-postgres#368, duckdb/ducklake#553, risingwavelabs/risingwave#19766,
//! RUSTSEC-2024-0358). Five of them are planted, and statements are made to fail and to succeed in many ways; every
//! text that comes out of that is searched: results, errors as text and for debugging, plans, `SHOW CREATE TABLE`, the
//! information schema, public types printed for debugging, the log at its finest level, the shell's two streams, its
//! history, and the bytes of a catalog file.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::catalog_sql::SqliteCatalog;
use datafusion_partitioned::connector::secrecy::{ExposeSecret, SecretString};
use datafusion_partitioned::connector::{
    Connector, ConnectorContext, ConnectorOption, ConnectorRegistry, OptionDescription,
    TableDefinitions,
};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned::table::FilesystemConnector;
use datafusion_partitioned_cli::{Input, run};

use datafusion_partitioned_s3_server::{BUCKET, S3Server};

const KEY: &str = "K-AAAA";
const SECRET: &str = "S-BBBB";
const TOKEN: &str = "Tk-CCCC";
const PASSWORD: &str = "Pw-DDDD";
const SIGNATURE: &str = "E-EEEE";
const PLANTED: [&str; 5] = [KEY, SECRET, TOKEN, PASSWORD, SIGNATURE];

/// Everything that was said.
#[derive(Default)]
struct Said(Vec<String>);

impl Said {
    fn text(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    fn debug(&mut self, value: &impl Debug) {
        self.text(format!("{value:?} {value:#?}"));
    }

    fn error(&mut self, error: &DataFusionError) {
        self.text(error.to_string());
        self.debug(error);
    }

    #[track_caller]
    fn holds_no_secret(&self) {
        assert!(!self.0.is_empty());
        for text in &self.0 {
            for secret in PLANTED {
                assert!(!text.contains(secret), "{secret} is in: {text}");
            }
        }
    }
}

/// Opens a table with a secret, or fails as it is told.
#[derive(Debug)]
struct Vault;

const VAULT_KEY: ConnectorOption<SecretString> = ConnectorOption::new("key", "to the vault");
const LIMIT: ConnectorOption<usize> = ConnectorOption::new("limit", "").with_default("1");
const URL: ConnectorOption<Option<String>> = ConnectorOption::new("url", "");

#[async_trait]
impl Connector for Vault {
    fn identifier(&self) -> &str {
        "vault"
    }

    fn options(&self) -> Vec<OptionDescription> {
        vec![VAULT_KEY.describe(), LIMIT.describe(), URL.describe()]
    }

    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
        let options = context.options();
        let key = options.get(&VAULT_KEY)?;
        let url = options.get(&URL)?;
        said(&format!(
            "{context:?} {options:?} {:?}",
            context.definition()
        ));
        if options.get(&LIMIT)? == 0 {
            // As careless connectors do.
            return exec_err!("cannot open {url:?} with {}", key.expose_secret());
        }
        let schema = Arc::clone(context.physical_schema());
        Ok(Arc::new(EmptyTable::new(schema)))
    }
}

/// A log of everything that this process logs at any level.
struct Log(Mutex<Vec<String>>);

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // DataFusion logs the plans of its own statements at the level DEBUG, with the URL of a COPY as it was given.
        let target = record.target();
        let is_datafusions =
            target.starts_with("datafusion") && !target.starts_with("datafusion_partitioned");
        if !is_datafusions {
            said(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

static LOG: OnceLock<Log> = OnceLock::new();

fn log() -> &'static Log {
    LOG.get_or_init(|| Log(Mutex::default()))
}

fn said(text: &str) {
    let mut lines = log().0.lock().unwrap_or_else(PoisonError::into_inner);
    if PLANTED.iter().any(|secret| text.contains(secret)) {
        lines.push(text.to_owned());
    }
}

fn session() -> SessionContext {
    let registry = ConnectorRegistry::new();
    registry.replace(Arc::new(FilesystemConnector));
    registry.replace(Arc::new(Vault));
    let config = SessionConfig::new().with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    context.with_partitioned_connectors(&Arc::new(registry))
}

/// Runs a statement in both ways, and says what comes of it.
async fn run_both(said: &mut Said, context: &SessionContext, sql: &str) {
    let results = [
        async { context.partitioned_sql(sql).await?.collect().await }.await,
        async {
            context
                .partitioned_sql(&format!("EXPLAIN {sql}"))
                .await?
                .collect()
                .await
        }
        .await,
    ];
    for result in results {
        match result {
            Ok(batches) => {
                let text = datafusion::arrow::util::pretty::pretty_format_batches(&batches);
                said.text(text.unwrap().to_string());
            }
            Err(error) => said.error(&error),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ops_05_secrets_are_in_no_output() {
    if log::set_logger(log()).is_ok() {
        log::set_max_level(log::LevelFilter::Trace);
    }
    let mut said = Said::default();
    let context = session();
    let directory = tempfile::tempdir().unwrap();
    let lake = directory.path().display().to_string();
    std::fs::create_dir_all(directory.path().join("t/p=1")).unwrap();

    // Statements that fail, each in its own way.
    for sql in [
        format!(
            "CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}', 'limit' = 'x')"
        ),
        format!(
            "CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}', 'limit' = '0')"
        ),
        format!(
            "CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}', 'token' = '{TOKEN}')"
        ),
        format!("CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' '{SECRET}')"),
        format!("CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' = {SECRET})"),
        format!("CREATE TABLE t (a INT) WITH ('connector' = 'vualt', 'password' = '{SECRET}')"),
        format!("CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}"),
        format!(
            "CREATE TABLE t (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}', 'limit' = '0', \
             'url' = 'https://user:{PASSWORD}@host/x?sig={SIGNATURE}')"
        ),
        format!(
            "CREATE EXTERNAL TABLE t (a INT, p INT) STORED AS CSV PARTITIONED BY (p) LOCATION '{lake}/t' \
             OPTIONS ('connector' 'filesystem', 'aws.access_key_id' '{KEY}', 'aws.secret_access_key' '{SECRET}', \
             'aws.session_token' '{TOKEN}')"
        ),
        format!(
            "CREATE EXTERNAL TABLE t (a INT, p INT) STORED AS CSV PARTITIONED BY (p) \
             LOCATION 's3://user:{PASSWORD}@lake/t' OPTIONS ('connector' 'filesystem')"
        ),
        format!(
            "CREATE EXTERNAL TABLE t (a INT, p INT) STORED AS CSV PARTITIONED BY (p) \
             LOCATION 'https://host/t?sig={SIGNATURE}' OPTIONS ('connector' 'filesystem')"
        ),
        format!(
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'https://user:{PASSWORD}@host/t?sig={SIGNATURE}'"
        ),
    ] {
        run_both(&mut said, &context, &sql).await;
    }

    // Tables with secrets, and everything that tells about them.
    for (name, sql) in [
        (
            "v",
            format!(
                "CREATE TABLE v (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}', \
                 'url' = 'https://user:{PASSWORD}@host/x?sig={SIGNATURE}')"
            ),
        ),
        (
            "w",
            format!(
                "CREATE EXTERNAL TABLE w (a INT) STORED AS CSV LOCATION 'https://user:{PASSWORD}@host/x?sig={SIGNATURE}' \
                 OPTIONS ('connector' 'vault', 'KEY' '{SECRET}')"
            ),
        ),
    ] {
        context.partitioned_sql(&sql).await.unwrap();
        let table = context.table_provider(name).await.unwrap();
        let definition = TableDefinitions::in_session(&context.state(), &table).unwrap();
        said.debug(&definition);
        said.text(definition.to_sql().unwrap());
        said.error(&definition.to_lasting_sql().unwrap_err());
        said.debug(&table.get_table_definition());
        for sql in [
            format!("SELECT * FROM {name}"),
            format!("SHOW CREATE TABLE {name}"),
            format!("DESCRIBE {name}"),
            format!("SHOW PARTITIONS {name}"),
            "SELECT * FROM information_schema.views".to_owned(),
            "SELECT * FROM information_schema.tables".to_owned(),
            format!("SELECT * FROM {name} /*+ OPTIONS('key' = '{KEY}') */"),
            format!("SELECT * FROM {name} /*+ OPTIONS('key' = '{KEY}', 'limit' = '0') */"),
            format!("EXPLAIN ANALYZE SELECT * FROM {name} /*+ OPTIONS('key' = '{KEY}') */"),
            format!("INSERT INTO {name} VALUES (1)"),
        ] {
            run_both(&mut said, &context, &sql).await;
        }
    }
    said.debug(&context.table_provider("v").await.unwrap());
    said.debug(&context.state().config().get_extension::<TableDefinitions>());
    said.debug(
        &context
            .state()
            .config()
            .get_extension::<ConnectorRegistry>(),
    );

    // A catalog file refuses them.
    let file = directory.path().join("tables.db");
    let lasting = session();
    SqliteCatalog::open(&file)
        .unwrap()
        .attach(&lasting)
        .unwrap();
    let sql = format!("CREATE TABLE v (a INT) WITH ('connector' = 'vault', 'key' = '{SECRET}')");
    said.error(&lasting.partitioned_sql(&sql).await.unwrap_err());
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            said.text(String::from_utf8_lossy(&std::fs::read(path).unwrap()));
        }
    }

    // The shell, over a server that refuses these keys, and one that is not there.
    let server = S3Server::start().await.unwrap();
    for endpoint in [
        server.endpoint().to_owned(),
        "http://127.0.0.1:1".to_owned(),
    ] {
        let options = format!(
            "'aws.endpoint' '{endpoint}', 'aws.allow_http' 'true', 'aws.region' 'us-east-1', \
             'aws.access_key_id' '{KEY}', 'aws.secret_access_key' '{SECRET}', 'aws.session_token' '{TOKEN}'"
        );
        let sql = format!(
            "CREATE EXTERNAL TABLE t (a INT, p INT) STORED AS CSV PARTITIONED BY (p) \
             LOCATION 's3://{BUCKET}/t/' OPTIONS ('connector' 'filesystem', {options}); \
             SHOW CREATE TABLE t; EXPLAIN SELECT * FROM t; EXPLAIN ANALYZE SELECT * FROM t"
        );
        let unknown = sql.replace("aws.session_token", "aws.token");
        let copies = [
            format!(
                "COPY (SELECT 1) TO 'https://user:{PASSWORD}@host/t?sig={SIGNATURE}' STORED AS CSV"
            ),
            format!("COPY (SELECT 1) TO 's3://none/t' STORED AS CSV OPTIONS ({options})"),
        ];
        for sql in copies.into_iter().chain([sql, unknown]) {
            for format in ["table", "json"] {
                let (mut output, mut errors) = (vec![], vec![]);
                let arguments = ["dfp", "--format", format, "-c", &sql];
                let input = Input::Stream(std::io::empty());
                run(arguments, input, &mut output, &mut errors).await;
                said.text(String::from_utf8(output).unwrap());
                said.text(String::from_utf8(errors).unwrap());
            }
        }
    }
    let lines = log().0.lock().unwrap_or_else(PoisonError::into_inner);
    said.text(lines.join("\n"));
    drop(lines);
    said.holds_no_secret();
}
