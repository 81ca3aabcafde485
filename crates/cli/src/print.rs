//! Results as text. All formats but the table are written while the rows arrive.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::common::Result;
use datafusion::common::config::FormatOptions as FormatConfig;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::args::{Args, OutputFormat};

/// Writes the results of statements in one format.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    format: OutputFormat,
    max_rows: usize,
    quiet: bool,
}

impl Printer {
    /// The printer that the flags ask for.
    pub(crate) fn new(args: &Args) -> Self {
        Self {
            format: args.format,
            max_rows: args.maxrows,
            quiet: args.quiet,
        }
    }

    /// Writes the result of the statement that was started at `started`.
    ///
    /// A statement without a result, such as `CREATE TABLE`, has no columns, and writes no rows.
    pub(crate) async fn print(
        &self,
        rows: SendableRecordBatchStream,
        config: &FormatConfig,
        started: Instant,
        output: &mut (impl Write + Send),
    ) -> Result<()> {
        let has_columns = !rows.schema().fields().is_empty();
        match self.format {
            OutputFormat::Table => self.print_table(rows, config, started, output).await?,
            _ if !has_columns => drain(rows).await?,
            OutputFormat::Csv => print_csv(rows, b',', output).await?,
            OutputFormat::Tsv => print_csv(rows, b'\t', output).await?,
            OutputFormat::NdJson => print_json::<LineDelimited, _>(rows, output).await?,
            OutputFormat::Json => {
                print_json::<JsonArray, _>(rows, output).await?;
                writeln!(output)?;
            }
        }
        Ok(output.flush()?)
    }

    async fn print_table(
        &self,
        mut rows: SendableRecordBatchStream,
        config: &FormatConfig,
        started: Instant,
        output: &mut (impl Write + Send),
    ) -> Result<()> {
        let schema = rows.schema();
        // An empty batch draws the header of an empty result.
        let mut shown = vec![RecordBatch::new_empty(Arc::clone(&schema))];
        let mut count = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            let room = self.max_rows.saturating_sub(count).min(batch.num_rows());
            if room > 0 {
                shown.push(batch.slice(0, room));
            }
            count += batch.num_rows();
        }
        if !schema.fields().is_empty() {
            let options = FormatOptions::try_from(config)?;
            writeln!(
                output,
                "{}",
                pretty_format_batches_with_options(&shown, &options)?
            )?;
        }
        if !self.quiet {
            write!(output, "{count} row(s) fetched.")?;
            if count > self.max_rows {
                let max_rows = self.max_rows;
                write!(
                    output,
                    " (First {max_rows} displayed. Use --maxrows to adjust)"
                )?;
            }
            let seconds = started.elapsed().as_secs_f64();
            writeln!(output, "\nElapsed {seconds:.3} seconds.\n")?;
        }
        Ok(())
    }
}

/// Runs a statement without a result to its end.
async fn drain(mut rows: SendableRecordBatchStream) -> Result<()> {
    while rows.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn print_csv(
    mut rows: SendableRecordBatchStream,
    delimiter: u8,
    output: &mut (impl Write + Send),
) -> Result<()> {
    let header = RecordBatch::new_empty(rows.schema());
    let mut writer = csv::WriterBuilder::new()
        .with_header(true)
        .with_delimiter(delimiter)
        .build(output);
    writer.write(&header)?;
    while let Some(batch) = rows.next().await.transpose()? {
        writer.write(&batch)?;
    }
    Ok(())
}

async fn print_json<F, W>(mut rows: SendableRecordBatchStream, output: &mut W) -> Result<()>
where
    F: JsonFormat + Send,
    W: Write + Send,
{
    let mut writer = json::WriterBuilder::new().build::<_, F>(output);
    while let Some(batch) = rows.next().await.transpose()? {
        writer.write(&batch)?;
    }
    writer.finish().map_err(ArrowError::into)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    const TWO_ROWS: &str = "SELECT * FROM (VALUES (1, 'a,b'), (2, NULL)) AS t(x, y) ORDER BY x";
    const NO_ROWS: &str = "SELECT 1 AS x WHERE false";

    #[tokio::test]
    async fn csv_and_tsv_quote_what_needs_it() {
        assert_eq!(
            print(OutputFormat::Csv, TWO_ROWS).await,
            "x,y\n1,\"a,b\"\n2,\n"
        );
        assert_eq!(
            print(OutputFormat::Tsv, TWO_ROWS).await,
            "x\ty\n1\ta,b\n2\t\n"
        );
        assert_eq!(print(OutputFormat::Csv, NO_ROWS).await, "x\n");
    }

    #[tokio::test]
    async fn json_is_one_array_or_one_object_a_line() {
        assert_eq!(
            print(OutputFormat::Json, TWO_ROWS).await,
            "[{\"x\":1,\"y\":\"a,b\"},{\"x\":2}]\n"
        );
        assert_eq!(
            print(OutputFormat::NdJson, TWO_ROWS).await,
            "{\"x\":1,\"y\":\"a,b\"}\n{\"x\":2}\n"
        );
        assert_eq!(print(OutputFormat::Json, NO_ROWS).await, "[]\n");
        assert_eq!(print(OutputFormat::NdJson, NO_ROWS).await, "");
    }

    #[tokio::test]
    async fn empty_tables_have_a_header() {
        assert_eq!(
            print(OutputFormat::Table, NO_ROWS).await,
            "+---+\n| x |\n+---+\n+---+\n"
        );
    }

    #[tokio::test]
    async fn statements_without_a_result_write_no_rows() {
        for format in [OutputFormat::Table, OutputFormat::Csv, OutputFormat::Json] {
            assert_eq!(print(format, "CREATE VIEW v AS SELECT 1").await, "");
        }
    }

    #[tokio::test]
    async fn tables_stop_at_the_limit_and_say_so() {
        let printer = Printer {
            max_rows: 1,
            quiet: false,
            ..printer(OutputFormat::Table)
        };
        let text = print_with(&printer, TWO_ROWS).await;
        assert!(
            text.starts_with("+---+-----+\n| x | y   |\n+---+-----+\n| 1 | a,b |\n"),
            "{text}"
        );
        assert!(
            text.contains("\n2 row(s) fetched. (First 1 displayed."),
            "{text}"
        );
        assert!(text.contains("\nElapsed 0."), "{text}");
    }

    fn printer(format: OutputFormat) -> Printer {
        Printer {
            format,
            max_rows: usize::MAX,
            quiet: true,
        }
    }

    async fn print(format: OutputFormat, sql: &str) -> String {
        print_with(&printer(format), sql).await
    }

    async fn print_with(printer: &Printer, sql: &str) -> String {
        let context = SessionContext::new();
        let rows = context
            .sql(sql)
            .await
            .unwrap()
            .execute_stream()
            .await
            .unwrap();
        let mut output = vec![];
        let config = FormatConfig::default();
        printer
            .print(rows, &config, Instant::now(), &mut output)
            .await
            .unwrap();
        String::from_utf8(output).unwrap()
    }
}
