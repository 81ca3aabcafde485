//! Parquet footers in which a missing number of NULLs is unknown.
//!
//! DataFusion skips row groups by statistics in which a missing `null_count` is zero, since
//! arrow-rs before 53 left zeros out. Other writers leave the number out although there are NULLs,
//! as the format allows, and `k IS NULL` or `ORDER BY k NULLS FIRST LIMIT 1` lost their rows
//! (apache/datafusion #25239). Here such statistics are left out, so that nothing is skipped by them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;

/// The same scan; one of Parquet files takes no missing number of NULLs for zero.
pub(crate) fn with_unknown_null_counts(config: FileScanConfig) -> FileScanConfig {
    let source = config.file_source().downcast_ref::<ParquetSource>();
    let Some((source, files)) = source.and_then(|s| Some((s, s.parquet_file_reader_factory()?)))
    else {
        return config;
    };
    let files = Arc::new(Files(Arc::clone(files)));
    let source = source.clone().with_parquet_file_reader_factory(files);
    FileScanConfigBuilder::from(config)
        .with_source(Arc::new(source))
        .build()
}

#[derive(Debug)]
struct Files(Arc<dyn ParquetFileReaderFactory>);

impl ParquetFileReaderFactory for Files {
    fn create_reader(
        &self,
        partition_index: usize,
        partitioned_file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let reader = self.0.create_reader(
            partition_index,
            partitioned_file,
            metadata_size_hint,
            metrics,
        )?;
        Ok(Box::new(File(reader)))
    }
}

struct File(Box<dyn AsyncFileReader + Send>);

#[deny(clippy::missing_trait_methods)]
impl AsyncFileReader for File {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.0.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.0.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let metadata = self.0.get_metadata(options);
        async move { without_doubtful_statistics(metadata.await?) }.boxed()
    }
}

fn without_doubtful_statistics(
    metadata: Arc<ParquetMetaData>,
) -> ParquetResult<Arc<ParquetMetaData>> {
    let mut columns = metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns);
    if !columns.any(is_doubtful) {
        return Ok(metadata);
    }
    let mut metadata = Arc::unwrap_or_clone(metadata).into_builder();
    let row_groups = metadata.take_row_groups().into_iter().map(|row_group| {
        let columns = row_group.columns().iter().cloned().map(|column| {
            if is_doubtful(&column) {
                column.into_builder().clear_statistics().build()
            } else {
                Ok(column)
            }
        });
        let columns = columns.collect::<ParquetResult<_>>()?;
        let row_group = row_group.into_builder();
        row_group.set_column_metadata(columns).build()
    });
    let row_groups = row_groups.collect::<ParquetResult<_>>()?;
    Ok(Arc::new(metadata.set_row_groups(row_groups).build()))
}

/// Whether a column may hold NULLs and its statistics do not say how many.
fn is_doubtful(column: &ColumnChunkMetaData) -> bool {
    column.column_descr().max_def_level() > 0
        && column
            .statistics()
            .is_some_and(|statistics| statistics.null_count_opt().is_none())
}
