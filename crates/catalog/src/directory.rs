//! [`DirectoryCatalog`]: the directories are the catalog.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_partitioned_core::{
    Committer, ListingContext, Mismatch, Partition, PartitionBatch, PartitionCatalog,
    PartitionError, PartitionEstimate, PartitionLayout, PartitionPredicate, PartitionSpec,
    PartitionValues, WrittenPartition, filter_by_text,
};
use futures::stream::BoxStream;
use object_store::ObjectMeta;
use object_store::path::Path;
use regex::Regex;

use crate::commit_record::CommitRecord;
use crate::data_file::url_of;
use crate::observed::Observed;
use crate::walk::Walk;

/// The partitions of a table whose directories spell them, such as
/// `sales/year=2024/month=07/part-0.parquet`.
///
/// Each listing walks the directories anew, see [`PartitionCatalog::list`]: level by level as long
/// as a deeper level is restricted, then with one flat listing for each subtree that is left.
///
/// # What is a data file
///
/// | found | taken as |
/// |---|---|
/// | names that start with `_` or `.`, on every level below the root | hidden: skipped with all below |
/// | objects without bytes, such as markers of directories | skipped |
/// | files above the last partition level | skipped |
/// | files in further directories below the last level | files of the partition |
/// | a directory that does not fit the layout, or whose value is not of the column's type | an error, see [`OnMismatch`] |
#[derive(Debug, Clone)]
pub struct DirectoryCatalog {
    table: Arc<Table>,
}

/// A table of directories, as its walks know it.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) store_url: ObjectStoreUrl,
    pub(crate) roots: Vec<Path>,
    pub(crate) spec: PartitionSpec,
    pub(crate) layout: PartitionLayout,
    pub(crate) on_mismatch: OnMismatch,
    /// Over the texts of the partition columns.
    pub(crate) text_filter: Option<PartitionPredicate>,
    path_pattern: Option<Regex>,
    /// For errors.
    pub(crate) name: Option<String>,
    pub(crate) observed: Arc<Observed>,
}

/// What to do with a directory whose value is not of its column's type, or which does not fit the
/// layout at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMismatch {
    /// The query fails, if the directory holds data files. The default.
    #[default]
    Error,
    /// The value is NULL. A directory that does not fit the layout remains an error.
    Null,
    /// The directory is left out, with all below it.
    Skip,
}

impl OnMismatch {
    /// What to do with this one.
    pub(crate) fn of(self, mismatch: &Mismatch) -> Self {
        match (self, &mismatch.error) {
            (Self::Null, PartitionError::Value { .. }) => Self::Null,
            (Self::Null, _) => Self::Error,
            (other, _) => other,
        }
    }
}

impl DirectoryCatalog {
    /// The partitions below `roots`, whose directories are spelled by `layout`.
    ///
    /// # Errors
    /// Without a root; when the roots are in different stores; when one is twice there or within
    /// another, since its rows would count twice.
    pub fn try_new(
        roots: &[ListingTableUrl],
        spec: PartitionSpec,
        layout: PartitionLayout,
    ) -> Result<Self> {
        let Some(first) = roots.first() else {
            return plan_err!("a table of directories needs a location");
        };
        let store_url = first.object_store();
        for (index, root) in roots.iter().enumerate() {
            if root.object_store() != store_url {
                return plan_err!(
                    "the locations '{}' and '{}' are in different stores",
                    url_of(&store_url, first.prefix()),
                    url_of(&root.object_store(), root.prefix())
                );
            }
            let overlaps = |other: &&ListingTableUrl| {
                other.prefix().prefix_matches(root.prefix())
                    || root.prefix().prefix_matches(other.prefix())
            };
            if let Some(other) = roots[..index].iter().find(overlaps) {
                return plan_err!(
                    "the locations '{}' and '{}' overlap, so that rows would count twice; leave one out",
                    url_of(&store_url, other.prefix()),
                    url_of(&store_url, root.prefix())
                );
            }
        }
        Ok(Self {
            table: Arc::new(Table {
                store_url,
                roots: roots.iter().map(|root| root.prefix().clone()).collect(),
                observed: Arc::new(nothing_observed(roots.len(), &layout)),
                spec,
                layout,
                on_mismatch: OnMismatch::default(),
                text_filter: None,
                path_pattern: None,
                name: None,
            }),
        })
    }

    /// Sets what to do with directories that do not fit.
    pub fn with_on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        Arc::make_mut(&mut self.table).on_mismatch = on_mismatch;
        self
    }

    /// Names the table, so that errors about its directories can tell which it is.
    pub fn with_table_name(mut self, name: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.table).name = Some(name.into());
        self
    }

    /// Takes only files whose whole path matches `pattern`: the path in the store with a `/` in
    /// front (Flink: `source.path.regex-pattern`). `None` takes all.
    ///
    /// # Errors
    /// When `pattern` is not a regular expression.
    pub fn with_path_pattern(mut self, pattern: Option<&str>) -> Result<Self> {
        let anchored = pattern.map(|pattern| Regex::new(&format!("^(?:{pattern})$")));
        let anchored = anchored.transpose();
        Arc::make_mut(&mut self.table).path_pattern =
            anchored.map_err(|error| plan_datafusion_err!("{error}"))?;
        Ok(self)
    }

    /// The directories of the table.
    pub fn roots(&self) -> &[Path] {
        &self.table.roots
    }

    /// Where a writer would put a partition of these values: below the first root.
    ///
    /// # Errors
    /// When the layout cannot spell the values.
    pub fn location_of(&self, values: &PartitionValues) -> Result<Path> {
        let path = self.table.layout.path(values)?;
        let root = self.table.roots.first().map_or("", Path::as_ref);
        let location = match root {
            "" => path,
            root => format!("{root}/{path}"),
        };
        Path::parse(&location).map_err(|error| {
            plan_datafusion_err!("'{location}' cannot be the location of a partition: {error}")
        })
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The store of the table.
    pub fn store_url(&self) -> &ObjectStoreUrl {
        &self.table.store_url
    }
}

/// What is known of a table before any walk: that a level with a fixed name has one directory.
fn nothing_observed(roots: usize, layout: &PartitionLayout) -> Observed {
    let observed = Observed::new(roots, layout.levels());
    for level in (0..layout.levels()).filter(|level| layout.columns(*level).is_empty()) {
        observed.record_directories(level, 1, 1);
    }
    observed
}

impl Table {
    /// The error, behind the name of the table.
    pub(crate) fn named(&self, error: DataFusionError) -> DataFusionError {
        match &self.name {
            Some(name) => error.context(format!("table '{name}'")),
            None => error,
        }
    }

    /// The partition columns as texts, when there is a filter on these.
    pub(crate) fn text_spec(&self) -> Option<&PartitionSpec> {
        self.text_filter.as_ref().map(PartitionPredicate::spec)
    }

    /// Whether only some of the data files are those of this table.
    pub(crate) fn selects_files(&self) -> bool {
        self.path_pattern.is_some()
    }

    /// Below each root, the directory that is the first to be listed: what is noted there is noticed.
    fn first_directories(&self) -> impl Iterator<Item = Path> {
        self.roots.iter().map(|root| {
            let levels = 0..self.layout.fixed_levels();
            let names = levels.filter_map(|level| self.layout.fixed_name(level));
            names.fold(root.clone(), |path, name| {
                let directory = Path::parse(format!("{path}/{name}"));
                directory.unwrap_or(path)
            })
        })
    }

    /// Where the records of unfinished commits are.
    pub(crate) fn commit_directories(&self) -> impl Iterator<Item = Path> {
        let directories = self.first_directories();
        directories.map(|directory| directory.join(CommitRecord::DIRECTORY))
    }

    /// Whether a data file is one of this table by its path.
    pub(crate) fn is_selected(&self, object: &ObjectMeta) -> bool {
        self.is_selected_path(&object.location)
    }

    fn is_selected_path(&self, path: &Path) -> bool {
        let pattern = self.path_pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.is_match(&format!("/{path}")))
    }

    /// What walks have seen below one root.
    pub(crate) fn estimate_below_one(&self) -> PartitionEstimate {
        self.with_columns(self.observed.average())
    }

    /// An estimate with distinct values for each level, as one with those for each column.
    fn with_columns(&self, mut estimate: PartitionEstimate) -> PartitionEstimate {
        let levels = estimate.distinct.iter().enumerate();
        let columns = levels.flat_map(|(level, distinct)| {
            let columns = self.layout.columns(level);
            columns.map(move |_| *distinct)
        });
        estimate.distinct = columns.collect();
        estimate
    }

    pub(crate) fn url_of(&self, path: &Path) -> String {
        url_of(&self.store_url, path)
    }

    /// The roots, for people.
    pub(crate) fn describe_roots(&self) -> String {
        let urls: Vec<_> = self.roots.iter().map(|root| self.url_of(root)).collect();
        urls.join(", ")
    }
}

#[async_trait]
impl PartitionCatalog for DirectoryCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.table.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        Walk::new(Arc::clone(&self.table), wanted, context).run()
    }

    /// Makes no request: adds up what earlier walks have seen. Where none has been yet a large table
    /// is assumed.
    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        _context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let estimate = self.table.observed.estimate(wanted);
        Ok(self.table.with_columns(estimate))
    }

    fn with_text_filter(&self, filter: PartitionPredicate) -> Option<Arc<dyn PartitionCatalog>> {
        let mut table = Table::clone(&self.table);
        table.text_filter = Some(filter);
        table.observed = Arc::new(nothing_observed(table.roots.len(), &table.layout));
        Some(Arc::new(Self {
            table: Arc::new(table),
        }))
    }

    /// Writes below the first root.
    fn committer(&self) -> Option<Arc<dyn Committer>> {
        Some(Arc::new(self.clone()))
    }

    fn describe(&self) -> String {
        format!("directories({})", self.table.describe_roots())
    }
}

#[async_trait]
impl Committer for DirectoryCatalog {
    fn root(&self) -> Path {
        self.table.first_directories().next().unwrap_or_default()
    }

    async fn location(&self, values: &PartitionValues) -> Result<Path> {
        let spec = &self.table.spec;
        refuse_empty_text(spec, values)?;
        let partition = Partition::new(values.clone(), self.location_of(values)?);
        if let Some(filter) = &self.table.text_filter {
            let batch = PartitionBatch::from_partitions(spec, std::slice::from_ref(&partition))?;
            if filter_by_text(batch, filter)?.is_empty() {
                return plan_err!(
                    "the partition ({}) is none of those that the option 'partitions' leaves in the table",
                    spec.describe(values)
                );
            }
        }
        Ok(partition.source.location)
    }

    fn owns(&self, file: &Path) -> bool {
        self.table.is_selected_path(file)
    }

    /// Whoever lists the directories finds them.
    async fn commit(&self, _written: &[WrittenPartition]) -> Result<()> {
        Ok(())
    }
}

/// The name of a directory cannot tell empty text from NULL, in Hive, Spark and Flink neither.
pub(crate) fn refuse_empty_text(spec: &PartitionSpec, values: &PartitionValues) -> Result<()> {
    let mut named = spec.column_names().zip(values.values());
    match named.find(|(_, value)| matches!(value.try_as_str(), Some(Some("")))) {
        None => Ok(()),
        Some((column, _)) => plan_err!(
            "partition column '{column}': the name of a directory cannot tell empty text from NULL; write \
             nullif({column}, '') to make it NULL"
        ),
    }
}
