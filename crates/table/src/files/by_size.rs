//! Small Parquet files, for which some of what lets a reader skip rows is not worth its price.
//!
//! | files below | are read without | since |
//! |---|---|---|
//! | 1 MiB | dynamic filters, unless rows are filtered while reading | predicates over row groups and pages would be made of them anew for each file |
//! | 256 KiB | the page index | it takes another request and another pass over the footer, neither of which DataFusion's cache spares |
//!
//! The rows that are not skipped then are left to operators which look at them anyway.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileSource, ParquetSource};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion_datasource::morsel::{MorselPlanner, Morselizer};

const WITHOUT_DYNAMIC_FILTERS: u64 = 1024 * 1024;
const WITHOUT_PAGE_INDEX: u64 = 256 * 1024;

/// Something for files of less than these many bytes, the smallest files first.
type BySize<T> = Vec<(u64, T)>;

/// The sources for files that are too small for all that `source` does.
pub(crate) fn sources_by_size(source: &dyn FileSource) -> BySize<Arc<dyn FileSource>> {
    let Some(source) = source.downcast_ref::<ParquetSource>() else {
        return vec![];
    };
    let filters_rows = source.table_parquet_options().global.pushdown_filters;
    let plain = (!filters_rows)
        .then(|| without_dynamic_filters(source))
        .flatten();
    let mut sources: BySize<Arc<dyn FileSource>> = vec![];
    let smallest = plain.as_ref().unwrap_or(source);
    if smallest.filter().is_some() && smallest.table_parquet_options().global.enable_page_index {
        let source = smallest.clone().with_enable_page_index(false);
        sources.push((WITHOUT_PAGE_INDEX, Arc::new(source)));
    }
    if let Some(source) = plain {
        sources.push((WITHOUT_DYNAMIC_FILTERS, Arc::new(source)));
    }
    sources
}

/// `None` if there are no dynamic filters.
pub(crate) fn without_dynamic_filters(source: &ParquetSource) -> Option<ParquetSource> {
    let filter = source.filter()?;
    let (dynamic, others): (Vec<_>, Vec<_>) = split_conjunction(&filter)
        .into_iter()
        .partition(|conjunct| DynamicFilterTracking::classify(conjunct).contains_dynamic_filter());
    if dynamic.is_empty() {
        return None;
    }
    let others = conjunction(others.into_iter().map(Arc::clone));
    Some(source.with_predicate(others))
}

/// A [`Morselizer`] with others for small files.
#[derive(Debug)]
pub(crate) struct BySizeMorselizer {
    pub(crate) small: BySize<Box<dyn Morselizer>>,
    pub(crate) large: Box<dyn Morselizer>,
}

impl Morselizer for BySizeMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let bytes = file.object_meta.size;
        let small = self.small.iter().find(|(below, _)| bytes < *below);
        let morselizer = small.map_or(&self.large, |(_, morselizer)| morselizer);
        morselizer.plan_file(file)
    }
}
