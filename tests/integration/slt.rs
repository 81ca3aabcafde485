//! The files in `slt/`: statements with the rows and the errors that they give, in the format of
//! sqllogictest. `{lake}` stands for an empty directory that each file has for itself.
//!
//! `SLT_UPDATE=1` writes what statements give into the files instead of comparing.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

/// A session with a lake.
struct Session {
    context: SessionContext,
    lake: tempfile::TempDir,
}

impl Session {
    fn new() -> Self {
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_target_partitions(2);
        Self {
            context: SessionContext::new_with_config(config).with_partitioned(),
            lake: tempfile::tempdir().unwrap(),
        }
    }

    fn lake(&self) -> &str {
        self.lake.path().to_str().unwrap()
    }

    fn rows(&self, batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
        let options = FormatOptions::new().with_null("NULL");
        let mut rows = vec![];
        for batch in batches {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let values = columns.iter().map(|column| {
                    let text = column.value(row).to_string();
                    let text = text.replace(self.lake(), "{lake}").replace('\n', "\\n");
                    match text.is_empty() {
                        true => "(empty)".to_owned(),
                        false => text,
                    }
                });
                rows.push(values.collect());
            }
        }
        Ok(rows)
    }
}

#[derive(Debug)]
struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Session {
    fn failure(&self, error: &DataFusionError) -> Failure {
        let text = error.strip_backtrace().replace(self.lake(), "{lake}");
        // A path of an object store has no slash in front.
        Failure(text.replace(&self.lake()[1..], "{lake}"))
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let sql = sql.replace("{lake}", self.lake());
        let run = async {
            let frame = self.context.partitioned_sql(&sql).await?;
            let columns = frame.schema().fields().len();
            Ok((columns, frame.collect().await?))
        };
        let (columns, batches) = run.await.map_err(|error| self.failure(&error))?;
        let rows = self.rows(&batches).map_err(|error| self.failure(&error))?;
        match columns {
            0 => Ok(DBOutput::StatementComplete(0)),
            _ => Ok(DBOutput::Rows {
                types: vec![DefaultColumnType::Any; columns],
                rows,
            }),
        }
    }

    async fn shutdown(&mut self) {}
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("integration/slt");
    let files = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

async fn run(name: &str) {
    let path = files()
        .into_iter()
        .find(|path| path.file_stem().is_some_and(|stem| stem == name))
        .unwrap();
    let runner = || Runner::new(async || Ok(Session::new()));
    if std::env::var_os("SLT_UPDATE").is_some() {
        let mut runner = runner();
        let update = runner.update_test_file(
            &path,
            " ",
            sqllogictest::default_validator,
            sqllogictest::default_normalizer,
            sqllogictest::default_column_validator,
        );
        update.await.unwrap();
    }
    if let Err(error) = runner().run_file_async(&path).await {
        panic!("{}", error.display(false));
    }
}

macro_rules! slt {
    ($($name:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            run(stringify!($name)).await;
        })*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

slt! {
    alter_table,
    copy,
    create_table,
    create_table_as,
    create_table_flink,
    describe,
    explain,
    insert,
    msck_repair,
    options_hint,
    partitions_format,
    partitions_function,
    refresh_table,
    show_create_table,
    show_partitions,
    table_options_function,
    truncate_table,
    wrong_ddl,
}

#[test]
fn every_file_is_a_test() {
    let stems = files()
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    assert_eq!(stems, NAMES);
}
