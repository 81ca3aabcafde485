//! [`FilePartitionReader`]: partitions of files, read by DataFusion's own file scan.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, ScalarValue, Statistics, internal_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSource;
use datafusion::physical_plan::DisplayFormatType;
use datafusion_partitioned_catalog::{Lister, list_data_files};
use datafusion_partitioned_core::{ListingContext, PartitionBatch, PartitionReader, ReadContext};

/// How many units of work each stream gets on average from one batch of partitions. More units
/// even out differences between files, and each costs a little.
const UNITS_PER_STREAM: usize = 4;

/// Reads partitions whose locations are directories with files of one format.
///
/// The template is a [`FileScanConfig`] without files. Reading gives it the files of the
/// partitions; large files are split as DataFusion splits them
/// (`datafusion.optimizer.repartition_file_scans` and `repartition_file_min_size`).
#[derive(Debug, Clone)]
pub struct FilePartitionReader {
    template: Arc<dyn DataSource>,
    /// Says nothing about any column. Without it the Parquet reader would not look at the
    /// partition values of a file before opening it.
    statistics: Arc<Statistics>,
}

impl FilePartitionReader {
    /// A reader whose files are scanned as `template` says.
    pub fn new(template: FileScanConfig) -> Self {
        let schema = template.file_source().table_schema().table_schema();
        Self {
            statistics: Arc::new(Statistics::new_unknown(schema)),
            template: Arc::new(template),
        }
    }

    fn config(&self) -> Result<&FileScanConfig> {
        self.template
            .downcast_ref::<FileScanConfig>()
            .ok_or_else(|| internal_datafusion_err!("the template is no FileScanConfig"))
    }

    async fn files(
        &self,
        config: &FileScanConfig,
        partitions: &PartitionBatch,
        context: &ReadContext,
    ) -> Result<Vec<PartitionedFile>> {
        let listing = ListingContext::new(
            Arc::clone(&context.runtime),
            context.config.clone(),
            context.metrics.clone(),
        );
        let lister = Lister::try_new(&config.object_store_url, &listing)?;
        let mut files = vec![];
        for (row, source) in partitions.sources().iter().enumerate() {
            let listed;
            let objects = match &source.objects {
                Some(objects) => objects,
                None => {
                    listed = list_data_files(&lister, &source.location).await?;
                    &listed
                }
            };
            let values = partitions.partition_values(row)?.into_inner();
            files.extend(
                objects
                    .iter()
                    .map(|object| self.file(object.clone(), values.clone())),
            );
        }
        Ok(files)
    }

    fn file(&self, object: object_store::ObjectMeta, values: Vec<ScalarValue>) -> PartitionedFile {
        let mut file = PartitionedFile::new_from_meta(object).with_partition_values(values);
        // Not `with_statistics`, which would claim that the partition values are never NULL.
        file.statistics = Some(Arc::clone(&self.statistics));
        file
    }
}

#[async_trait]
impl PartitionReader for FilePartitionReader {
    fn template(&self) -> &Arc<dyn DataSource> {
        &self.template
    }

    fn with_template(&self, template: Arc<dyn DataSource>) -> Arc<dyn PartitionReader> {
        Arc::new(Self {
            template,
            statistics: Arc::clone(&self.statistics),
        })
    }

    async fn read(
        &self,
        partitions: PartitionBatch,
        context: &ReadContext,
    ) -> Result<Arc<dyn DataSource>> {
        let config = self.config()?;
        let files = self.files(config, &partitions, context).await?;
        context.metrics.files_scanned.add(files.len());

        let with_groups = |groups| {
            FileScanConfigBuilder::from(config.clone())
                .with_file_groups(groups)
                .build()
        };
        let units = context.streams * UNITS_PER_STREAM;
        let whole = with_groups(vec![FileGroup::new(files)]);
        let optimizer = &context.config.options().optimizer;
        if optimizer.repartition_file_scans
            && let Some(split) =
                whole.repartitioned(units, optimizer.repartition_file_min_size, None)?
        {
            return Ok(split);
        }
        let groups = whole
            .file_groups
            .into_iter()
            .flat_map(|group| group.split_files(units));
        Ok(Arc::new(with_groups(groups.collect())))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(config) = self.config() else {
            return self.template.fmt_as(t, f);
        };
        let format = config.file_source().file_type();
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "format={format}")?;
        } else {
            let schema = config.projected_schema().map_err(|_| fmt::Error)?;
            let columns: Vec<_> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            write!(f, "projection=[{}], file_type={format}", columns.join(", "))?;
        }
        config.file_source().fmt_extra(t, f)
    }
}
