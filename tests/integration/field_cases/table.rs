//! [`Table`]: a declaration, and the same table from a catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::{
    ListingContext, MemoryCatalog, Partition, PartitionBatch, PartitionCatalog, PartitionPredicate,
    PartitionValues,
};
use datafusion_partitioned::table::PartitionedTableProvider;
use datafusion_partitioned_test_utils::Lake;
use futures::TryStreamExt;
use object_store::path::Path;

/// A declaration: `CREATE EXTERNAL TABLE name (columns) PARTITIONED BY (partitioned_by) ..`.
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: String,
    partitioned_by: String,
    format: &'static str,
    locations: Vec<String>,
    options: String,
    rows_in_catalog: fn(&Path) -> usize,
    registered: Vec<Registered>,
}

/// A registered partition: its values as texts, its location and its number of rows.
pub(super) type Registered = (&'static [Option<&'static str>], &'static str, usize);

impl Table {
    /// A table of Parquet files at `T/`. Without `columns` they are left to the files.
    pub(super) fn new(name: &'static str, columns: &str, partitioned_by: &str) -> Self {
        Self {
            name,
            columns: columns.to_owned(),
            partitioned_by: partitioned_by.to_owned(),
            format: "PARQUET",
            locations: vec!["T/".to_owned()],
            options: String::new(),
            rows_in_catalog: |_| 0,
            registered: vec![],
        }
    }

    pub(super) fn stored_as(mut self, format: &'static str) -> Self {
        self.format = format;
        self
    }

    /// Keys of the lake, or absolute locations.
    pub(super) fn at(mut self, locations: &[&str]) -> Self {
        self.locations = locations.iter().map(|l| (*l).to_owned()).collect();
        self
    }

    pub(super) fn option(mut self, key: &str, value: &str) -> Self {
        self.options.push_str(&format!(", '{key}' '{value}'"));
        self
    }

    /// What a catalog says about the number of rows of a partition: 0, that it does not know, unless
    /// told otherwise.
    pub(super) fn rows_in_catalog(mut self, rows: fn(&Path) -> usize) -> Self {
        self.rows_in_catalog = rows;
        self
    }

    /// Registers the partitions of the table, which has only these.
    pub(super) fn registered(self, partitions: &[Registered]) -> Self {
        let mut table = self.option("partition.catalog", "registered");
        table.registered = partitions.to_vec();
        table
    }

    /// Whether the partitions come from a catalog in any mode.
    pub(super) fn is_registered(&self) -> bool {
        !self.registered.is_empty()
    }

    pub(super) fn location(&self, lake: &Lake) -> Vec<String> {
        let locations = self.locations.iter();
        locations
            .map(
                |location| match location.starts_with('/') || location.contains("://") {
                    true => location.clone(),
                    false => lake.location(location),
                },
            )
            .collect()
    }

    pub(super) fn sql(&self, locations: &[String]) -> String {
        let columns = match self.columns.as_str() {
            "" => String::new(),
            columns => format!("({columns})"),
        };
        let location = match locations {
            [one] => format!("'{one}'"),
            several => format!("('{}')", several.join("', '")),
        };
        format!(
            "CREATE EXTERNAL TABLE {} {columns} STORED AS {} PARTITIONED BY ({}) \
             LOCATION {location} OPTIONS ('connector' 'filesystem'{})",
            self.name, self.format, self.partitioned_by, self.options
        )
    }
}

/// Registers the partitions of a table that has been declared.
pub(super) async fn register(ctx: &SessionContext, table: &Table) -> Result<()> {
    let provider = ctx.table_provider(table.name).await?;
    let catalog = catalog_of(&provider);
    let partitions = table.registered.iter().map(|(texts, location, rows)| {
        let texts = texts.iter().map(|text| ScalarValue::from(*text)).collect();
        let values = PartitionValues::try_new(catalog.spec(), texts)?;
        Ok(Partition::new(values, Path::parse(location)?).with_rows(*rows))
    });
    let registry = catalog.registry().unwrap();
    registry
        .add(partitions.collect::<Result<_>>()?, false)
        .await?;
    Ok(())
}

/// Puts a table with the same partitions, from a catalog that knows their locations and the given
/// numbers of rows, in the place of one that finds them in directories.
pub(super) async fn replace_by_catalog(
    ctx: &SessionContext,
    table: &Table,
    locations: &[String],
) -> Result<()> {
    let provider = ctx.table_provider(table.name).await?;
    let spec = catalog_of(&provider).spec().clone();
    // One partition can be in several batches, each with some of its files.
    let mut partitions = BTreeMap::new();
    for batch in list_all(ctx, &provider).await? {
        for (row, source) in batch.sources().iter().enumerate() {
            let location = source.location.clone();
            partitions.insert(location, batch.partition_values(row)?);
        }
    }
    let partitions: Vec<_> = partitions
        .into_iter()
        .map(|(location, values)| {
            let rows = (table.rows_in_catalog)(&location);
            Partition::new(values, location).with_rows(rows)
        })
        .collect();
    let catalog = MemoryCatalog::try_new(spec.clone(), &partitions)?;

    let state = ctx.state();
    let format = state.get_file_format_factory(&table.format.to_lowercase());
    let format = format.unwrap().create(&state, &Default::default())?;
    let schema = provider.schema();
    let fields = schema.fields().iter().cloned();
    let is_of_files = |name: &str| !spec.column_names().any(|column| column == name);
    let file_schema = Schema::new(
        fields
            .filter(|field| is_of_files(field.name()))
            .collect::<Vec<_>>(),
    );
    let url = ListingTableUrl::parse(&locations[0])?.object_store();
    let replacement =
        PartitionedTableProvider::try_new(Arc::new(catalog), format, url, Arc::new(file_schema))?;
    ctx.deregister_table(table.name)?;
    ctx.register_table(table.name, Arc::new(replacement))?;
    Ok(())
}

pub(super) fn catalog_of(table: &Arc<dyn TableProvider>) -> &Arc<dyn PartitionCatalog> {
    let table = table.downcast_ref::<PartitionedTableProvider>().unwrap();
    table.catalog()
}

async fn list_all(
    ctx: &SessionContext,
    table: &Arc<dyn TableProvider>,
) -> Result<Vec<PartitionBatch>> {
    let listing = ListingContext::for_planning(&ctx.state());
    let catalog = catalog_of(table);
    let all = PartitionPredicate::all(catalog.spec());
    catalog.list(all, listing).try_collect().await
}
