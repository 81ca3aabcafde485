//! [`FilePartitionReader`]: partitions of files, read by DataFusion's own file scan.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue, Statistics, internal_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSource;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::DisplayFormatType;
use datafusion_partitioned_catalog::list_data_files;
use datafusion_partitioned_core::{PartitionBatch, PartitionReader, ReadContext};

use crate::files::{FileReadOptions, PartitionFileSource, with_partition_values};
use crate::metadata::MetadataColumn;

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
    options: FileReadOptions,
    metadata_columns: Arc<[MetadataColumn]>,
    /// What the values of a file's partition and metadata columns must satisfy, over the columns of
    /// the table.
    file_filters: Arc<[Arc<dyn PhysicalExpr>]>,
}

impl FilePartitionReader {
    /// A reader whose files are scanned as `template` says.
    pub fn new(template: FileScanConfig) -> Self {
        let schema = template.file_source().table_schema().table_schema();
        Self {
            statistics: Arc::new(Statistics::new_unknown(schema)),
            template: Arc::new(template),
            options: FileReadOptions::default(),
            metadata_columns: Arc::default(),
            file_filters: Arc::default(),
        }
    }

    /// Sets how the files are read, beyond what their format decides.
    pub fn with_options(mut self, options: FileReadOptions) -> Self {
        self.options = options;
        self
    }

    /// Says that the last partition columns of the template are these, and not the catalog's.
    pub fn with_metadata_columns(mut self, columns: &[MetadataColumn]) -> Self {
        self.metadata_columns = columns.into();
        self
    }

    /// Leaves out files for which a filter is not true. The filters are over the columns of the table,
    /// of which they mention partition and metadata columns alone, and the rows are filtered again.
    pub fn with_file_filters(mut self, filters: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        self.file_filters = filters.into();
        self
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
        let mut files = vec![];
        for (row, source) in partitions.sources().iter().enumerate() {
            let listed;
            let objects = match &source.objects {
                Some(objects) => objects,
                None => {
                    let store = context.runtime.object_store(&config.object_store_url)?;
                    context.metrics.list_requests.add(1);
                    listed =
                        list_data_files(store.as_ref(), &config.object_store_url, &source.location)
                            .await?;
                    &listed
                }
            };
            let values = partitions.partition_values(row)?.into_inner();
            for object in objects {
                let metadata = self.metadata_columns.iter();
                let metadata = metadata.map(|c| c.value(&config.object_store_url, object));
                let values: Vec<_> = values.iter().cloned().chain(metadata).collect();
                if self.is_wanted(config, &values) {
                    files.push(self.file(object.clone(), values));
                }
            }
        }
        Ok(files)
    }

    /// A filter that fails is left to the rows, of which there may be none.
    fn is_wanted(&self, config: &FileScanConfig, values: &[ScalarValue]) -> bool {
        let file_columns = config.file_schema().fields().len();
        let holds = |filter: &Arc<dyn PhysicalExpr>| -> Result<bool> {
            let filter = with_partition_values(Arc::clone(filter), file_columns, values)?;
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let row = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options)?;
            let answer = ScalarValue::try_from_array(&filter.evaluate(&row)?.into_array(1)?, 0)?;
            Ok(answer == ScalarValue::Boolean(Some(true)))
        };
        let mut filters = self.file_filters.iter();
        filters.all(|filter| holds(filter).unwrap_or(true))
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
            ..self.clone()
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

        let source = PartitionFileSource::new(config, self.options);
        let units = context.streams * UNITS_PER_STREAM;
        let optimizer = &context.config.optimizer;
        let (splittable, whole): (Vec<_>, Vec<_>) = files
            .into_iter()
            .partition(|file| source.is_splittable(file));
        let scan = FileScanConfigBuilder::from(config.clone())
            .with_source(Arc::new(source))
            .with_file_groups(vec![FileGroup::new(splittable)])
            .build();
        let split = match optimizer.repartition_file_scans {
            true => scan.repartitioned(units, optimizer.repartition_file_min_size, None)?,
            false => None,
        };
        let split = split.as_ref().and_then(|split| split.downcast_ref());
        let mut groups = match split {
            Some(FileScanConfig { file_groups, .. }) => file_groups.clone(),
            None => scan
                .file_groups
                .iter()
                .flat_map(|group| group.clone().split_files(units))
                .collect(),
        };
        groups.extend(FileGroup::new(whole).split_files(units));
        Ok(Arc::new(
            FileScanConfigBuilder::from(scan)
                .with_file_groups(groups)
                .build(),
        ))
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
