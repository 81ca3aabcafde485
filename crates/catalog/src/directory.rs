//! [`DirectoryCatalog`]: the directories are the catalog.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned_core::{
    HiveLayout, ListingContext, PartitionBatch, PartitionCatalog, PartitionEstimate,
    PartitionPredicate, PartitionSpec,
};
use futures::stream::BoxStream;

use crate::data_file::url_of;
use crate::lister::Lister;
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

    fn walk(
        &self,
        wanted: PartitionPredicate,
        context: ListingContext,
        observed: &Arc<Observed>,
    ) -> Walk {
        Walk {
            root: self.root.clone(),
            spec: self.spec.clone(),
            layout: self.layout.clone(),
            observed: Arc::clone(observed),
            wanted,
            context,
            found: Found::default(),
        }
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
        self.walk(wanted, context, &self.observed).run()
    }

    /// Makes no request. Where the listing cache has the directories that a walk would list, these
    /// are added up; what it does not have is multiplied from what earlier walks have seen, and
    /// where none has been yet a large table is assumed.
    async fn estimate(
        &self,
        wanted: &PartitionPredicate,
        context: &ListingContext,
    ) -> Result<PartitionEstimate> {
        let observed = self.observed.estimate(wanted);
        let lister = Lister::try_new(&self.root.object_store(), context);
        let Some(lister) = lister.ok().and_then(Lister::without_requests) else {
            return Ok(observed);
        };
        // Looking at the same directories again teaches nothing.
        let nothing = Arc::new(Observed::new(self.spec.len()));
        let walk = self.walk(wanted.clone(), context.clone(), &nothing);
        let sizes = walk.remembered_sizes(&lister).await;
        Ok(match sizes {
            Ok(sizes) => self.observed.add_up(&sizes, observed.distinct),
            Err(_) => observed,
        })
    }

    fn describe(&self) -> String {
        format!(
            "directories({})",
            url_of(&self.root.object_store(), self.root.prefix())
        )
    }
}
