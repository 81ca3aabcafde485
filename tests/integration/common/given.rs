//! Tables of given partitions.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned::core::{Partition, PartitionCatalog, PartitionSpec, PartitionValues};
use datafusion_partitioned::table::PartitionedTableProvider;

use super::Fixture;

/// A partition with these values at a key of the lake.
pub(crate) fn partition(
    spec: &PartitionSpec,
    values: impl IntoIterator<Item = ScalarValue>,
    location: &str,
) -> Partition {
    let values = PartitionValues::try_new(spec, values.into_iter().collect()).unwrap();
    Partition::new(values, location.into())
}

impl Fixture {
    /// Registers a table of the partitions of a catalog, whose files have the column `id`.
    pub(crate) fn register(
        &self,
        name: &str,
        catalog: impl PartitionCatalog + 'static,
        format: impl FileFormat + 'static,
    ) {
        let root = ListingTableUrl::parse(self.lake.location("")).unwrap();
        let ids = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
        let (catalog, format) = (Arc::new(catalog), Arc::new(format));
        let store = root.object_store();
        let table = PartitionedTableProvider::try_new(catalog, format, store, Arc::new(ids));
        let table = Arc::new(table.unwrap());
        self.ctx.register_table(name, table).unwrap();
    }

    /// The same for CSV files with a header.
    pub(crate) fn register_csv(&self, name: &str, catalog: impl PartitionCatalog + 'static) {
        self.register(name, catalog, CsvFormat::default().with_has_header(true));
    }
}
