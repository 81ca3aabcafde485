//! [`DirectoryCatalog`]: the directories are the catalog.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_partitioned_core::{
    HiveLayout, ListingContext, PartitionBatch, PartitionCatalog, PartitionEstimate,
    PartitionPredicate, PartitionSpec,
};
use futures::stream::BoxStream;

use crate::data_file::url_of;
use crate::observed::Observed;
use crate::walk::{Found, Walk};

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
/// | a directory that is not `column=value` or whose value is not of the column's type | an error |
#[derive(Debug)]
pub struct DirectoryCatalog {
    root: ListingTableUrl,
    spec: PartitionSpec,
    layout: HiveLayout,
    observed: Arc<Observed>,
}

impl DirectoryCatalog {
    /// The partitions below `root`, whose directories are spelled by `layout`.
    pub fn new(root: ListingTableUrl, spec: PartitionSpec, layout: HiveLayout) -> Self {
        let observed = Arc::new(Observed::new(spec.len()));
        Self {
            root,
            spec,
            layout,
            observed,
        }
    }

    /// The directory of the table.
    pub fn root(&self) -> &ListingTableUrl {
        &self.root
    }
}

#[async_trait]
impl PartitionCatalog for DirectoryCatalog {
    fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    fn list(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
    ) -> BoxStream<'static, Result<PartitionBatch>> {
        let walk = Walk {
            root: self.root.clone(),
            spec: self.spec.clone(),
            layout: self.layout.clone(),
            observed: Arc::clone(&self.observed),
            wanted,
            context,
            found: Found::default(),
        };
        walk.run()
    }

    /// Makes no request: multiplies what earlier walks have seen, and where none has been yet
    /// assumes a large table.
    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        _runtime: &RuntimeEnv,
    ) -> Result<PartitionEstimate> {
        Ok(self.observed.estimate(wanted))
    }

    fn describe(&self) -> String {
        format!(
            "directories({})",
            url_of(&self.root.object_store(), self.root.prefix())
        )
    }
}
