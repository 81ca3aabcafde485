//! Readers that break one rule each. The suite must find it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::source::DataSource;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::contract::{ReaderFixture, check_reader};
use datafusion_partitioned::core::{
    Partition, PartitionBatch, PartitionReader, PartitionSpec, ReadContext,
};
use datafusion_partitioned_test_utils::FileKind;

use super::readers::{Files, sessions, spec};

/// What a reader does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    DropsNull,
    GivesAllOneValue,
    FailsWithoutPartitions,
    ReversesOrder,
    IgnoresTemplates,
    HalvesLimits,
    HidesThatItFilters,
    SkipsWhatItCannotRead,
    HasOtherColumns,
}

/// Files, read wrongly.
#[derive(Debug, Clone)]
struct Reader {
    inner: Arc<dyn PartitionReader>,
    wrong: Wrong,
}

#[async_trait]
impl PartitionReader for Reader {
    fn template(&self) -> &Arc<dyn DataSource> {
        self.inner.template()
    }

    fn with_template(&self, template: Arc<dyn DataSource>) -> Arc<dyn PartitionReader> {
        let template = match (self.wrong, template.fetch()) {
            (Wrong::IgnoresTemplates, _) => return Arc::new(self.clone()),
            (Wrong::HalvesLimits, Some(limit)) => template.with_fetch(Some(limit / 2)).unwrap(),
            _ => template,
        };
        Arc::new(Self {
            inner: self.inner.with_template(template),
            wrong: self.wrong,
        })
    }

    fn filters_rows(&self) -> bool {
        self.wrong != Wrong::HidesThatItFilters && self.inner.filters_rows()
    }

    async fn read(
        &self,
        partitions: PartitionBatch,
        context: &ReadContext,
    ) -> Result<Arc<dyn DataSource>> {
        let rows = 0..partitions.len() as u32;
        let partitions = match self.wrong {
            Wrong::FailsWithoutPartitions if partitions.is_empty() => {
                return exec_err!("nothing to read");
            }
            Wrong::DropsNull => {
                let keep: BooleanArray = rows
                    .map(|row| Some(partitions.values().column(0).is_valid(row as usize)))
                    .collect();
                partitions.filter(&keep)?
            }
            Wrong::GivesAllOneValue => {
                let first = partitions.take(&vec![0; partitions.len()])?;
                PartitionBatch::try_new(first.values().clone(), partitions.sources().to_vec())?
            }
            Wrong::ReversesOrder => partitions.take(&rows.rev().collect::<Vec<_>>())?,
            Wrong::SkipsWhatItCannotRead => {
                let sources = partitions.sources().iter();
                let keep: BooleanArray = sources
                    .map(|source| Some(source.location.as_ref() != "t/gone"))
                    .collect();
                partitions.filter(&keep)?
            }
            _ => partitions,
        };
        self.inner.read(partitions, context).await
    }
}

struct Fixture<'a> {
    files: &'a Files,
    wrong: Wrong,
}

impl ReaderFixture for Fixture<'_> {
    fn reader(&self) -> Arc<dyn PartitionReader> {
        Arc::new(Reader {
            inner: self.files.reader(),
            wrong: self.wrong,
        })
    }

    fn spec(&self) -> PartitionSpec {
        let (all, first) = (spec(), spec().split_at(1).0);
        if self.wrong == Wrong::HasOtherColumns {
            first
        } else {
            all
        }
    }

    fn partitions(&self) -> Vec<(Partition, RecordBatch)> {
        self.files.partitions()
    }

    fn unreadable(&self) -> Option<Partition> {
        self.files.unreadable()
    }

    fn session(&self) -> SessionContext {
        self.files.session()
    }
}

#[tokio::test]
async fn each_mistake_of_a_reader_is_found() {
    let [_, pushing] = sessions();
    let files = Files::new(FileKind::Parquet, ParquetFormat::default(), pushing).await;
    let fixture = |wrong| Fixture {
        files: &files,
        wrong,
    };
    check_reader(&fixture(Wrong::Nothing)).await.unwrap();
    for (wrong, rule) in [
        (Wrong::DropsNull, "the rows of read are exactly those"),
        (
            Wrong::GivesAllOneValue,
            "the rows of read are exactly those",
        ),
        (Wrong::FailsWithoutPartitions, "without an error"),
        (Wrong::ReversesOrder, "in the order of the partitions"),
        (Wrong::IgnoresTemplates, "a projection of the template"),
        (Wrong::HalvesLimits, "at least that many rows come"),
        (Wrong::HidesThatItFilters, "says so in filters_rows"),
        (
            Wrong::SkipsWhatItCannotRead,
            "what cannot be read is an error",
        ),
        (
            Wrong::HasOtherColumns,
            "the template has the columns of the source",
        ),
    ] {
        let violation = check_reader(&fixture(wrong)).await.unwrap_err();
        assert!(violation.rule().contains(rule), "{wrong:?}: {violation}");
    }
}
