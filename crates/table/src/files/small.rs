//! Small Parquet files, for which dynamic filters are not worth their price.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileSource, ParquetSource};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion_datasource::morsel::{MorselPlanner, Morselizer};

/// For each file that it opens, the Parquet reader makes predicates over row groups and pages of a
/// dynamic filter, which takes longer than to read a file of this size.
const SMALL_FILE_BYTES: u64 = 1024 * 1024;

/// `source` without its dynamic filters, which leave rows to operators that look at them anyway.
/// `None` if it has none, or is to filter rows while it reads.
pub(crate) fn without_dynamic_filters(source: &dyn FileSource) -> Option<Arc<dyn FileSource>> {
    let source = source.downcast_ref::<ParquetSource>()?;
    if source.table_parquet_options().global.pushdown_filters {
        return None;
    }
    let filter = source.filter()?;
    let (dynamic, others): (Vec<_>, Vec<_>) = split_conjunction(&filter)
        .into_iter()
        .partition(|conjunct| DynamicFilterTracking::classify(conjunct).contains_dynamic_filter());
    if dynamic.is_empty() {
        return None;
    }
    let others = conjunction(others.into_iter().map(Arc::clone));
    Some(Arc::new(source.with_predicate(others)))
}

/// A [`Morselizer`] with another one for small files.
#[derive(Debug)]
pub(crate) struct BySizeMorselizer {
    pub(crate) small: Box<dyn Morselizer>,
    pub(crate) large: Box<dyn Morselizer>,
}

impl Morselizer for BySizeMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let is_small = file.object_meta.size < SMALL_FILE_BYTES;
        let morselizer = if is_small { &self.small } else { &self.large };
        morselizer.plan_file(file)
    }
}
