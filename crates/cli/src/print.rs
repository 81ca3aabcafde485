//! Results as text. All formats but the table are written while the rows arrive.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use console::Term;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::Result;
use datafusion::common::config::FormatOptions as FormatConfig;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::args::{Args, MaxRows, OutputFormat, Width};
use crate::environment::Environment;
use crate::layout::layout;
use crate::progress::Progress;
use crate::query::{Answer, AnswerKind};

/// How the results of statements are written.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    pub(crate) format: OutputFormat,
    pub(crate) max_rows: MaxRows,
    /// What sets the most rows.
    pub(crate) max_rows_by: &'static str,
    pub(crate) width: Width,
    /// Whether nothing but results is written.
    pub(crate) quiet: bool,
    /// Whether the time that a statement took is written behind a table.
    pub(crate) timing: bool,
    is_terminal: bool,
}

impl Printer {
    /// The printer that the flags ask for.
    pub(crate) fn new(args: &Args, environment: &Environment) -> Self {
        Self {
            format: args.format,
            max_rows: args.maxrows,
            max_rows_by: "--maxrows",
            width: args.width,
            quiet: args.quiet,
            timing: !args.quiet,
            is_terminal: environment.output_is_terminal,
        }
    }

    /// The columns that a table may take now; any number for `None`.
    pub(crate) fn columns(&self) -> Option<usize> {
        match self.width {
            Width::Auto if self.is_terminal => {
                let size = Term::stdout().size_checked();
                let columns = size.map(|(_, columns)| usize::from(columns));
                columns.filter(|columns| *columns > 0)
            }
            Width::Auto | Width::Unlimited => None,
            Width::Columns(columns) => Some(columns),
        }
    }

    /// Writes the result of the statement that was started at `started`.
    ///
    /// A statement without a result, such as `CREATE TABLE`, has no columns, and writes no rows.
    /// Its progress goes before anything else comes to the terminal.
    pub(crate) async fn print(
        &self,
        answer: Answer,
        config: &FormatConfig,
        started: Instant,
        progress: &Progress,
        output: &mut (impl Write + Send),
    ) -> Result<()> {
        let Answer { rows, kind } = answer;
        let has_columns = !rows.schema().fields().is_empty();
        let format = match self.format {
            OutputFormat::Automatic if kind == AnswerKind::Endless => OutputFormat::Csv,
            OutputFormat::Automatic => OutputFormat::Table,
            format => format,
        };
        let rows = match format {
            OutputFormat::Table => {
                let table = self.collect(rows, kind).await?;
                progress.end();
                self.print_table(&table, config, started, output)?;
                return Ok(output.flush()?);
            }
            _ if self.is_terminal && has_columns => before_first(rows, progress).await,
            _ => rows,
        };
        match format {
            _ if !has_columns => drain(rows).await?,
            OutputFormat::Csv => print_csv(rows, b',', output).await?,
            OutputFormat::Tsv => print_csv(rows, b'\t', output).await?,
            OutputFormat::Table | OutputFormat::Automatic => {}
            OutputFormat::NdJson => print_json::<LineDelimited, _>(rows, output).await?,
            OutputFormat::Json => {
                print_json::<JsonArray, _>(rows, output).await?;
                writeln!(output)?;
            }
        }
        Ok(output.flush()?)
    }

    /// As many rows as are shown.
    async fn collect(
        &self,
        mut rows: SendableRecordBatchStream,
        kind: AnswerKind,
    ) -> Result<Table> {
        let schema = rows.schema();
        let max_rows = match kind {
            AnswerKind::Rows | AnswerKind::Endless => self.max_rows.0,
            AnswerKind::Plan | AnswerKind::Description => usize::MAX,
        };
        // An empty batch draws the header of an empty result.
        let mut batches = vec![RecordBatch::new_empty(Arc::clone(&schema))];
        let mut count = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            let room = max_rows.saturating_sub(count).min(batch.num_rows());
            if room > 0 {
                batches.push(batch.slice(0, room));
            }
            count += batch.num_rows();
        }
        Ok(Table {
            batches,
            kind,
            count,
            max_rows,
        })
    }

    fn print_table(
        &self,
        table: &Table,
        config: &FormatConfig,
        started: Instant,
        output: &mut impl Write,
    ) -> Result<()> {
        let Table {
            batches,
            kind,
            count,
            max_rows,
        } = table;
        if batches.iter().any(|batch| batch.num_columns() > 0) {
            let options = FormatOptions::try_from(config)?;
            let text = layout(batches, *kind, self.columns(), &options)?;
            output.write_all(text.as_bytes())?;
        }
        if !self.quiet {
            write!(output, "{count} row(s) fetched.")?;
            if count > max_rows {
                write!(
                    output,
                    " (First {max_rows} displayed. Use {} to adjust)",
                    self.max_rows_by
                )?;
            }
            writeln!(output)?;
        }
        if self.timing {
            let seconds = started.elapsed().as_secs_f64();
            writeln!(output, "Elapsed {seconds:.3} seconds.")?;
        }
        if self.timing || !self.quiet {
            writeln!(output)?;
        }
        Ok(())
    }
}

/// The rows of a result that are shown, and how many there are.
struct Table {
    batches: Vec<RecordBatch>,
    kind: AnswerKind,
    count: usize,
    max_rows: usize,
}

/// The same rows. Waits for the first of them, and takes the progress away then.
async fn before_first(
    mut rows: SendableRecordBatchStream,
    progress: &Progress,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let first = rows.next().await;
    progress.end();
    let rows = stream::iter(first).chain(rows);
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
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
    async fn automatic_is_a_table_unless_there_is_no_end() {
        let table = print(OutputFormat::Table, TWO_ROWS).await;
        assert_eq!(print(OutputFormat::Automatic, TWO_ROWS).await, table);
        let printer = printer(OutputFormat::Automatic);
        let text = print_as(&printer, TWO_ROWS, AnswerKind::Endless).await;
        assert_eq!(text, "x,y\n1,\"a,b\"\n2,\n");
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
            max_rows: MaxRows(1),
            quiet: false,
            timing: true,
            ..printer(OutputFormat::Table)
        };
        let text = print_with(&printer, TWO_ROWS).await;
        assert!(
            text.starts_with("+---+-----+\n| x | y   |\n+---+-----+\n| 1 | a,b |\n"),
            "{text}"
        );
        assert!(
            text.contains("\n2 row(s) fetched. (First 1 displayed. Use --maxrows to adjust)"),
            "{text}"
        );
        assert!(text.contains("\nElapsed 0."), "{text}");
    }

    fn printer(format: OutputFormat) -> Printer {
        Printer {
            format,
            max_rows: MaxRows(usize::MAX),
            max_rows_by: "--maxrows",
            width: Width::Auto,
            quiet: true,
            timing: false,
            is_terminal: false,
        }
    }

    async fn print(format: OutputFormat, sql: &str) -> String {
        print_with(&printer(format), sql).await
    }

    async fn print_with(printer: &Printer, sql: &str) -> String {
        print_as(printer, sql, AnswerKind::Rows).await
    }

    async fn print_as(printer: &Printer, sql: &str, kind: AnswerKind) -> String {
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
        let answer = Answer { rows, kind };
        printer
            .print(
                answer,
                &config,
                Instant::now(),
                &Progress::hidden(),
                &mut output,
            )
            .await
            .unwrap();
        String::from_utf8(output).unwrap()
    }
}
