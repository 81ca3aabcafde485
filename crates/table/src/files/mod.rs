//! How the files of a scan are read: a [`FileSource`] around that of the format.
//!
//! ```text
//!   FileScanConfig ── PartitionFileSource
//!                       PruningMorselizer        skips what is not wanted now  all formats
//!                       NamingMorselizer         errors name the file          all formats
//!                         ReadingStore           decompresses whole files      CSV, JSON
//!                         ByNameOpener           columns by their names        CSV, Arrow, Avro
//!                         BySizeMorselizer       less to skip rows if small    Parquet
//!                           the format's own source
//! ```

mod by_name;
mod by_size;
mod compression;
mod morsel;
mod probe;
mod store;
mod wanted;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::avro::AvroFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    ArrowSource, AvroSource, CsvSource, FileOpener, FileScanConfig, FileScanConfigBuilder,
    FileSource, JsonSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::morsel::Morselizer;
use datafusion_partitioned_core::{FileInProgress, FilePart, ScanProgress};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use by_name::{ByNameOpener, Files, SeenFiles};
use by_size::{BySizeMorselizer, sources_by_size};
use compression::Compression;
use morsel::{NamingMorselizer, OpenerMorselizer};
use probe::{HeaderFormat, SchemaProbe};
use store::ReadingStore;
use wanted::PruningMorselizer;

pub(crate) use by_name::with_partition_values;
pub(crate) use by_size::without_dynamic_filters;
pub(crate) use wanted::StillWanted;

/// How the columns of CSV files are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MatchBy {
    /// By the names in the header of each file, so that files may differ in their columns and their
    /// order. A missing column is NULL. Files without a header go by position.
    #[default]
    Name,
    /// By their position, whatever the header says.
    Position,
}

/// How files are read, beyond what their format decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileReadOptions {
    /// How the columns of CSV files are found; the other formats always go by name.
    pub match_by: MatchBy,
    /// Whether the names of CSV and JSON files say how they are compressed (`.gz`, `.bz2`, `.xz`,
    /// `.zst`), where their format itself is set to no compression.
    pub compression_by_extension: bool,
}

impl Default for FileReadOptions {
    fn default() -> Self {
        Self {
            match_by: MatchBy::Name,
            compression_by_extension: true,
        }
    }
}

impl FileReadOptions {
    fn compression(self, of_format: FileCompressionType) -> Compression {
        match of_format.is_compressed() || !self.compression_by_extension {
            true => Compression::All(of_format),
            false => Compression::ByExtension,
        }
    }

    /// `store` as `format` wants to see it when it infers a schema.
    pub(crate) fn store_for_inference(
        self,
        store: Arc<dyn ObjectStore>,
        format: &dyn FileFormat,
    ) -> Arc<dyn ObjectStore> {
        match format.compression_type() {
            Some(compression) if !compression.is_compressed() => {
                Arc::new(ReadingStore::new(store, self.compression(compression)))
            }
            // The format decompresses by itself, or never does.
            _ => store,
        }
    }
}

/// The columns of a file whose format describes them in front, in more detail than DataFusion finds
/// them: it does not find those of Arrow files with wide alignment, such as its own. `None` for other
/// formats.
pub(crate) async fn described_columns(
    format: &dyn FileFormat,
    store: &dyn ObjectStore,
    location: &Path,
) -> Result<Option<SchemaRef>> {
    let probe = match () {
        () if format.is::<ArrowFormat>() => SchemaProbe::Arrow,
        () if format.is::<AvroFormat>() => SchemaProbe::Avro,
        () => return Ok(None),
    };
    let (found, _) = probe.look_at(store.get(location).await?).await?;
    Ok(found.schema())
}

/// Reads files for one scan. Made when the scan runs: what planning pushes down is in the source that
/// it wraps.
#[derive(Clone)]
pub(crate) struct PartitionFileSource {
    inner: Arc<dyn FileSource>,
    /// Other sources for files below so many bytes, the smallest first.
    small: Vec<(u64, Arc<dyn FileSource>)>,
    batch_size: usize,
    compression: Compression,
    probe: Option<SchemaProbe>,
    seen: Arc<SeenFiles>,
    wanted: Option<StillWanted>,
    progress: ScanProgress,
}

impl PartitionFileSource {
    /// The source of `config`, with these options.
    pub(crate) fn new(config: &FileScanConfig, options: FileReadOptions) -> Self {
        let inner = config.file_source();
        let is_text = inner.is::<CsvSource>() || inner.is::<JsonSource>();
        let compression = match is_text {
            true => options.compression(config.file_compression_type),
            false => Compression::All(FileCompressionType::UNCOMPRESSED),
        };
        Self {
            inner: Arc::clone(inner),
            small: sources_by_size(inner.as_ref()),
            batch_size: 0,
            compression,
            probe: probe(inner.as_ref(), options),
            seen: Arc::default(),
            wanted: None,
            progress: ScanProgress::default(),
        }
    }

    /// Asks before each file whether it is still wanted.
    pub(crate) fn with_wanted(mut self, wanted: Option<StillWanted>) -> Self {
        self.wanted = wanted;
        self
    }

    /// Counts the files that are done with.
    pub(crate) fn with_progress(mut self, progress: ScanProgress) -> Self {
        self.progress = progress;
        self
    }

    /// Whether the file can be read in ranges.
    pub(crate) fn is_splittable(&self, file: &PartitionedFile) -> bool {
        let compression = self.compression.of(&file.object_meta.location);
        !compression.is_compressed()
    }

    fn morselizer_of_format(
        &self,
        store: &Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let create = |source: &Arc<dyn FileSource>| {
            source.create_morselizer(Arc::clone(store), config, partition)
        };
        let small = self.small.iter();
        Ok(Box::new(BySizeMorselizer {
            small: small
                .map(|(below, source)| Ok((*below, create(source)?)))
                .collect::<Result<_>>()?,
            large: create(&self.inner)?,
        }))
    }

    fn file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        // The store decompresses.
        let config = FileScanConfigBuilder::from(config.clone())
            .with_file_compression_type(FileCompressionType::UNCOMPRESSED)
            .build();
        let Some(probe) = self.probe.clone() else {
            let store = Arc::new(ReadingStore::new(store, self.compression));
            return self.inner.create_file_opener(store, &config, partition);
        };
        Ok(Arc::new(ByNameOpener::new(Files {
            source: Arc::clone(&self.inner),
            batch_size: self.batch_size,
            config,
            partition,
            store,
            compression: self.compression,
            probe,
            seen: Arc::clone(&self.seen),
        })))
    }
}

/// Of a file that is read in ranges, the one with its first byte stands for the file.
fn start_file(progress: &ScanProgress, file: &PartitionedFile) -> FileInProgress {
    let part = match &file.range {
        None => FilePart {
            bytes: file.object_meta.size,
            is_whole_or_first: true,
        },
        Some(range) => FilePart {
            bytes: range.end.saturating_sub(range.start).unsigned_abs(),
            is_whole_or_first: range.start == 0,
        },
    };
    progress.start_file(part)
}

/// How the columns of a file are found out, if that is needed.
fn probe(source: &dyn FileSource, options: FileReadOptions) -> Option<SchemaProbe> {
    if source.is::<ArrowSource>() {
        return Some(SchemaProbe::Arrow);
    }
    if source.is::<AvroSource>() {
        return Some(SchemaProbe::Avro);
    }
    let csv = source.downcast_ref::<CsvSource>()?;
    if options.match_by == MatchBy::Position || !csv.has_header() {
        return None;
    }
    let mut format = Format::default()
        .with_header(true)
        .with_delimiter(csv.delimiter())
        .with_quote(csv.quote());
    if let Some(escape) = csv.escape() {
        format = format.with_escape(escape);
    }
    if let Some(terminator) = csv.terminator() {
        format = format.with_terminator(terminator);
    }
    if let Some(comment) = csv.comment() {
        format = format.with_comment(comment);
    }
    Some(SchemaProbe::Csv(HeaderFormat {
        format,
        terminator: csv.terminator(),
        comment: csv.comment(),
    }))
}

impl FileSource for PartitionFileSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.file_opener(store, config, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let reads_whole_files =
            self.probe.is_some() || self.inner.is::<CsvSource>() || self.inner.is::<JsonSource>();
        let morselizer = if reads_whole_files {
            Box::new(OpenerMorselizer(
                self.file_opener(store, config, partition)?,
            ))
        } else {
            self.morselizer_of_format(&store, config, partition)?
        };
        let inner = Box::new(NamingMorselizer {
            inner: morselizer,
            store_url: config.object_store_url.clone(),
            progress: self.progress.clone(),
        });
        Ok(match self.wanted.clone() {
            Some(wanted) => Box::new(PruningMorselizer { inner, wanted }),
            None => inner,
        })
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            inner: self.inner.with_batch_size(batch_size),
            small: self
                .small
                .iter()
                .map(|(below, source)| (*below, source.with_batch_size(batch_size)))
                .collect(),
            batch_size,
            ..self.clone()
        })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(t, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        partitions: usize,
        min_size: usize,
        ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner
            .repartitioned(partitions, min_size, ordering, config)
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}
