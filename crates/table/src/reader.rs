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
use datafusion_partitioned_core::{Division, PartitionBatch, PartitionReader, ReadContext};
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::ObjectMeta;

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
                    return Ok(objects);
                }
                list_data_files(lister, &source.location).await
            });
        let objects: Vec<Vec<ObjectMeta>> = stream::iter(listings)
            .buffered(context.concurrency)
            .try_collect()
            .await?;
        objects
            .into_iter()
            .enumerate()
            .map(|(row, objects)| {
                let values = partitions.partition_values(row)?.into_inner();
                let files = objects.into_iter();
                Ok(files
                    .map(|object| self.file(object, values.clone()))
                    .collect())
            })
            .collect()
    }

    fn file(&self, object: ObjectMeta, values: Vec<ScalarValue>) -> PartitionedFile {
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
        let groups = match context.division {
            Division::Balanced => {
                let files: Vec<_> = files.into_iter().flatten().collect();
                context.metrics.files_scanned.add(files.len());
                let units = context.streams * UNITS_PER_STREAM;
                let whole = FileGroup::new(files);
                match split_by_size(config, whole.clone(), units, context)? {
                    Some(groups) => groups,
                    None => whole.split_files(units),
                }
            }
            Division::InOrder => {
                let files_scanned = files.iter().map(Vec::len).sum();
                context.metrics.files_scanned.add(files_scanned);
                groups_in_order(config, files, context)?
            }
            // Counted by whoever opens them.
            Division::Smallest => {
                let files = files.into_iter().flatten();
                files.map(|file| FileGroup::new(vec![file])).collect()
            }
        };
        Ok(Arc::new(with_groups(config, groups)))
    }

    fn filters_rows(&self) -> bool {
        self.config()
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

fn with_groups(config: &FileScanConfig, groups: Vec<FileGroup>) -> FileScanConfig {
    FileScanConfigBuilder::from(config.clone())
        .with_file_groups(groups)
        .build()
}

/// The files of `group` in `units` groups of about the same size, with large files cut, where
/// DataFusion cuts files.
fn split_by_size(
    config: &FileScanConfig,
    group: FileGroup,
    units: usize,
    context: &ReadContext,
) -> Result<Option<Vec<FileGroup>>> {
    let optimizer = &context.config.options().optimizer;
    if !optimizer.repartition_file_scans {
        return Ok(None);
    }
    let whole = with_groups(config, vec![group]);
    let split = whole.repartitioned(units, optimizer.repartition_file_min_size, None)?;
    Ok(split
        .as_ref()
        .and_then(|split| split.downcast_ref::<FileScanConfig>())
        .map(|split| split.file_groups.clone()))
}

/// Groups that hold the files in the order of their partitions. Small partitions share a group;
/// only those are cut that are large, since the parts of one have no order.
fn groups_in_order(
    config: &FileScanConfig,
    partitions: Vec<Vec<PartitionedFile>>,
    context: &ReadContext,
) -> Result<Vec<FileGroup>> {
    let mut groups = vec![];
    let mut small: Vec<PartitionedFile> = vec![];
    for files in partitions {
        let size_of = |files: &[PartitionedFile]| -> u64 {
            files.iter().map(|file| file.object_meta.size).sum()
        };
        if size_of(&small) + size_of(&files) > SMALL_GROUP_BYTES && !small.is_empty() {
            groups.push(FileGroup::new(std::mem::take(&mut small)));
        }
        if size_of(&files) <= SMALL_GROUP_BYTES {
            small.extend(files);
            continue;
        }
        let whole = FileGroup::new(files);
        match split_by_size(config, whole.clone(), context.streams, context)? {
            Some(split) => groups.extend(split),
            None => groups.extend(whole.split_files(context.streams)),
        }
    }
    if !small.is_empty() {
        groups.push(FileGroup::new(small));
    }
    Ok(groups)
}
