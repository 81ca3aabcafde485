//! [`FilePartitionReader`]: partitions of files, read by DataFusion's own file scan.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{
    DataFusionError, Result, ScalarValue, Statistics, exec_datafusion_err, internal_datafusion_err,
};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSource;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::DisplayFormatType;
use datafusion_partitioned_catalog::{Lister, list_data_files, url_of};
use datafusion_partitioned_core::{
    Division, Partition, PartitionBatch, PartitionReader, PartitionSpec, ReadContext,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::ObjectMeta;

use crate::files::{
    FileReadOptions, PartitionFileSource, StillWanted, with_partition_values,
    without_dynamic_filters,
};
use crate::metadata::MetadataColumn;

/// How many units of work each stream gets on average from one batch of partitions. More units
/// even out differences between files, and each costs a little.
const UNITS_PER_STREAM: usize = 4;
/// Up to this size, partitions that are read in order share a unit. Streams take units in turn, and
/// whoever merges them waits for the one that is behind: large units would leave one stream to work.
const SMALL_GROUP_BYTES: u64 = 1024 * 1024;

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
    on_missing: OnMissing,
    metadata_columns: Arc<[MetadataColumn]>,
    /// What the values of a file's partition and metadata columns must satisfy, over the columns of
    /// the table.
    file_filters: Arc<[Arc<dyn PhysicalExpr>]>,
}

/// What to do with a partition of the catalog in whose directory there is no data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// The query fails when it reads the partition.
    Error,
    /// The partition has no rows. The default, since most catalogs find directories and not files.
    #[default]
    Skip,
}

impl FilePartitionReader {
    /// A reader whose files are scanned as `template` says.
    pub fn new(template: FileScanConfig) -> Self {
        let schema = template.file_source().table_schema().table_schema();
        Self {
            statistics: Arc::new(Statistics::new_unknown(schema)),
            template: Arc::new(template),
            options: FileReadOptions::default(),
            on_missing: OnMissing::default(),
            metadata_columns: Arc::default(),
            file_filters: Arc::default(),
        }
    }

    /// Sets how the files are read, beyond what their format decides.
    pub fn with_options(mut self, options: FileReadOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets what to do with a partition that has no files.
    pub fn with_on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
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

    /// The scan of no files, with the filters that may be used.
    fn config_for(&self, context: &ReadContext) -> Result<FileScanConfig> {
        let config = self.config()?.clone();
        if context.uses_running_filters {
            return Ok(config);
        }
        let parquet = config.file_source().downcast_ref::<ParquetSource>();
        Ok(match parquet.and_then(without_dynamic_filters) {
            Some(source) => FileScanConfigBuilder::from(config)
                .with_source(Arc::new(source))
                .build(),
            None => config,
        })
    }

    /// The files of each partition.
    async fn files(
        &self,
        config: &FileScanConfig,
        partitions: &PartitionBatch,
        context: &ReadContext,
    ) -> Result<Vec<Vec<PartitionedFile>>> {
        let lister = &Lister::try_new(&config.object_store_url, &context.listing())?;
        let listings = partitions
            .sources()
            .iter()
            .cloned()
            .map(|source| async move {
                if let Some(objects) = source.objects {
                    return Ok(Some(objects));
                }
                list_data_files(lister, &source.location).await
            });
        let objects: Vec<Option<Vec<ObjectMeta>>> = stream::iter(listings)
            .buffered(context.concurrency)
            .try_collect()
            .await?;
        objects
            .into_iter()
            .enumerate()
            .map(|(row, objects)| {
                if objects.is_none() && self.on_missing == OnMissing::Error {
                    return Err(missing_files(&config.object_store_url, partitions, row));
                }
                let objects = objects.unwrap_or_default();
                let values = partitions.partition_values(row)?.into_inner();
                let files = objects.into_iter().map(|object| {
                    let metadata = self.metadata_columns.iter();
                    let metadata = metadata.map(|c| c.value(&config.object_store_url, &object));
                    let values = values.iter().cloned().chain(metadata).collect();
                    self.file(object, values)
                });
                Ok(files
                    .filter(|file| self.is_wanted(config, &file.partition_values))
                    .collect())
            })
            .collect()
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

    fn file(&self, object: ObjectMeta, values: Vec<ScalarValue>) -> PartitionedFile {
        let mut file = PartitionedFile::new_from_meta(object).with_partition_values(values);
        // Not `with_statistics`, which would claim that the partition values are never NULL.
        file.statistics = Some(Arc::clone(&self.statistics));
        file
    }
}

fn missing_files(
    store_url: &ObjectStoreUrl,
    partitions: &PartitionBatch,
    row: usize,
) -> DataFusionError {
    let found = || {
        let partition = partitions.partition(row)?;
        let fields = partitions.values().schema();
        let fields = fields.fields().iter().map(|field| field.as_ref().clone());
        Ok((PartitionSpec::try_new(fields)?, partition))
    };
    match found() {
        Ok((spec, Partition { values, source })) => exec_datafusion_err!(
            "there is no file at '{}', where the partition ({}) is registered; put the files back, or drop the \
             partition, after which MSCK REPAIR TABLE adds the directories that are there, or read it as empty with the \
             table option 'partition.on-missing' 'skip'",
            url_of(store_url, &source.location),
            spec.describe(&values)
        ),
        Err(error) => error,
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
        let config = &self.config_for(context)?;
        let files = self.files(config, &partitions, context).await?;
        let wanted = context.still_wanted.clone().map(|partitions| StillWanted {
            partitions,
            pruned: context.metrics.files_pruned_dynamic.clone(),
            progress: context.metrics.progress.clone(),
        });
        let bytes = files.iter().flatten().map(|file| file.object_meta.size);
        let progress = &context.metrics.progress;
        progress.add_files(files.iter().map(Vec::len).sum(), bytes.sum());
        let source = PartitionFileSource::new(config, self.options)
            .with_wanted(wanted)
            .with_progress(progress.clone());
        let scan = FileScanConfigBuilder::from(config.clone())
            .with_source(Arc::new(source.clone()))
            .build();
        let division = FileDivision {
            source,
            scan,
            context,
        };
        let groups = match context.division {
            Division::Balanced => {
                let files: Vec<_> = files.into_iter().flatten().collect();
                context.metrics.files_scanned.add(files.len());
                division.by_size(files, context.streams * UNITS_PER_STREAM)?
            }
            Division::InOrder => {
                let files_scanned = files.iter().map(Vec::len).sum();
                context.metrics.files_scanned.add(files_scanned);
                division.in_order(files)?
            }
            // Counted by whoever opens them.
            Division::Smallest => {
                let files = files.into_iter().flatten();
                files.map(|file| FileGroup::new(vec![file])).collect()
            }
        };
        Ok(Arc::new(division.with_groups(groups)))
    }

    fn filters_rows(&self) -> bool {
        !self.file_filters.is_empty()
            || self
                .config()
                .map_or(true, |config| config.file_source().filter().is_some())
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

/// Divides the files of one batch of partitions into groups, each of which is a unit of work.
struct FileDivision<'a> {
    source: PartitionFileSource,
    /// A scan of no files through the source.
    scan: FileScanConfig,
    context: &'a ReadContext,
}

impl FileDivision<'_> {
    fn with_groups(&self, groups: Vec<FileGroup>) -> FileScanConfig {
        FileScanConfigBuilder::from(self.scan.clone())
            .with_file_groups(groups)
            .build()
    }

    /// About `units` groups of about the same size, with large files cut, where DataFusion cuts files.
    fn by_size(&self, files: Vec<PartitionedFile>, units: usize) -> Result<Vec<FileGroup>> {
        let (files, uncut): (Vec<_>, Vec<_>) = files
            .into_iter()
            .partition(|file| self.source.is_splittable(file));
        let uncut = FileGroup::new(uncut).split_files(units);
        let optimizer = &self.context.config.options().optimizer;
        let whole = self.with_groups(vec![FileGroup::new(files)]);
        let cut = match optimizer.repartition_file_scans {
            true => whole.repartitioned(units, optimizer.repartition_file_min_size, None)?,
            false => None,
        };
        let cut = cut.as_ref().and_then(|cut| cut.downcast_ref());
        let mut groups = match cut {
            Some(FileScanConfig { file_groups, .. }) => file_groups.clone(),
            None => {
                let groups = whole.file_groups.into_iter();
                groups.flat_map(|group| group.split_files(units)).collect()
            }
        };
        groups.extend(uncut);
        Ok(groups)
    }

    /// Groups that hold the files in the order of their partitions. Small partitions share a group;
    /// only those are cut that are large, since the parts of one have no order.
    fn in_order(&self, partitions: Vec<Vec<PartitionedFile>>) -> Result<Vec<FileGroup>> {
        let size_of = |files: &[PartitionedFile]| -> u64 {
            files.iter().map(|file| file.object_meta.size).sum()
        };
        let mut groups = vec![];
        let mut small: Vec<PartitionedFile> = vec![];
        for files in partitions {
            if size_of(&small) + size_of(&files) > SMALL_GROUP_BYTES && !small.is_empty() {
                groups.push(FileGroup::new(std::mem::take(&mut small)));
            }
            if size_of(&files) <= SMALL_GROUP_BYTES {
                small.extend(files);
            } else {
                groups.extend(self.by_size(files, self.context.streams)?);
            }
        }
        if !small.is_empty() {
            groups.push(FileGroup::new(small));
        }
        Ok(groups)
    }
}
