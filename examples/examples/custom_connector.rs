//! A connector of one's own: `cargo run --locked --example custom_connector`.
//!
//! Its tables are calendars, with a partition for each year. A year that a query does not need is never made.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion_partitioned::connector::{
    Connector, ConnectorAbility, ConnectorContext, ConnectorOption, ConnectorRegistry,
    OptionDescription,
};
use datafusion_partitioned::core::{
    MemoryCatalog, Partition, PartitionSpec, PartitionValues, RowSource, RowSourceReader,
};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned::table::PartitionedSourceProvider;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

const FIRST_YEAR: ConnectorOption<i64> = ConnectorOption::new("first-year", "the first year");
const LAST_YEAR: ConnectorOption<i64> =
    ConnectorOption::new("last-year", "the last year").with_default("2030");

#[derive(Debug)]
struct CalendarConnector;

#[async_trait]
impl Connector for CalendarConnector {
    fn identifier(&self) -> &str {
        "calendar"
    }

    fn options(&self) -> Vec<OptionDescription> {
        vec![FIRST_YEAR.describe(), LAST_YEAR.describe()]
    }

    fn ability(&self) -> ConnectorAbility {
        ConnectorAbility::Source
    }

    async fn create_table(&self, context: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
        let options = context.options();
        let years = options.get(&FIRST_YEAR)?..=options.get(&LAST_YEAR)?;
        let spec = PartitionSpec::try_new([Field::new("year", DataType::Int64, true)])?;
        let partitions = years.map(|year| {
            let values = PartitionValues::try_new(&spec, vec![ScalarValue::from(year)])?;
            Ok(Partition::new(values, format!("year={year}").into()))
        });
        let partitions = partitions.collect::<Result<Vec<_>>>()?;
        let catalog = MemoryCatalog::try_new(spec.clone(), &partitions)?;
        let reader = RowSourceReader::new(Arc::new(Months::new()), &spec);
        let table = PartitionedSourceProvider::try_new(Arc::new(catalog), Arc::new(reader))?;
        Ok(Arc::new(table))
    }
}

/// The twelve months of a year.
#[derive(Debug)]
struct Months {
    schema: SchemaRef,
}

impl Months {
    fn new() -> Self {
        let month = Field::new("month", DataType::Int32, false);
        let name = Field::new("name", DataType::Utf8, false);
        Self {
            schema: Arc::new(Schema::new(vec![month, name])),
        }
    }
}

impl RowSource for Months {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn rows(
        &self,
        partition: Partition,
        columns: Vec<usize>,
        _context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let schema = Arc::clone(&self.schema);
        let months = async move {
            let names = (1..=12).map(|month| format!("{}/{month:02}", partition.source.location));
            let months = Arc::new(Int32Array::from_iter_values(1..=12));
            let names = Arc::new(StringArray::from_iter_values(names));
            let batch = RecordBatch::try_new(schema, vec![months, names])?;
            Ok(batch.project(&columns)?)
        };
        stream::once(months).boxed()
    }

    fn describe(&self) -> String {
        "months".to_owned()
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let registry = Arc::new(ConnectorRegistry::new());
    registry.register(Arc::new(CalendarConnector))?;
    let context = SessionContext::new().with_partitioned_connectors(&registry);

    let create = "CREATE TABLE months WITH ('connector' = 'calendar', 'first-year' = '1900')";
    context.partitioned_sql(create).await?;
    for sql in [
        "SELECT count(*) AS months FROM months",
        "SELECT name FROM months WHERE year = 2024 AND month < 3",
        "SHOW PARTITIONS months WHERE year > 2028",
        "SELECT partitions_listed, partitions_scanned FROM partition_report()",
    ] {
        println!("{sql}");
        context.partitioned_sql(sql).await?.show().await?;
    }
    Ok(())
}
