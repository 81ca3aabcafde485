//! [`TimePartitions`]: partition columns that are parts of a time, as Alink's `partitionsFormat` writes them.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::{and, is_not_null};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::{Column, DFSchema, Result, config_err, exec_err};
use datafusion::execution::SessionState;
use datafusion::functions::expr_fn::to_char;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF, Volatility, cast, create_udf, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion_partitioned_core::PartitionSpec;

/// How partition columns follow from a column with timestamps.
#[derive(Debug, Clone)]
pub(crate) struct TimePartitions {
    time_column: String,
    time_zone: Arc<str>,
    /// The name of each column, and its format in the letters of `strftime`.
    parts: Vec<(String, String)>,
}

impl TimePartitions {
    /// Reads a format such as `year=yyyy/month=MM/day=dd`, in the letters of Java's `SimpleDateFormat`.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn try_new(format: &str, time_column: &str, time_zone: &str) -> Result<Self> {
        let parts = format.split('/').map(|part| match part.split_once('=') {
            Some((name, pattern)) if !name.is_empty() && !pattern.is_empty() => {
                Ok((name.to_owned(), strftime(pattern)?))
            }
            _ => config_err!(
                "'{format}' is no format of partitions, since '{part}' is not like year=yyyy; write it like \
                 year=yyyy/month=MM/day=dd"
            ),
        });
        if let Err(error) = time_zone.parse::<Tz>() {
            return config_err!(
                "'{time_zone}' of the option 'sink.partitions-format.time-zone' is no time zone, such as Asia/Shanghai or \
                 +08:00: {error}"
            );
        }
        Ok(Self {
            time_column: time_column.to_owned(),
            time_zone: time_zone.into(),
            parts: parts.collect::<Result<_>>()?,
        })
    }

    /// Fails unless these are all partition columns of the table, and the times one of its other columns.
    pub(crate) fn check(&self, file_schema: &Schema, spec: &PartitionSpec) -> Result<()> {
        let names = self.parts.iter().map(|(name, _)| name.as_str());
        if !names.clone().eq(spec.column_names()) {
            return config_err!(
                "the partition columns are {}, but those of the option 'sink.partitions-format' {}; make them the same",
                spec.column_names().collect::<Vec<_>>().join(", "),
                names.collect::<Vec<_>>().join(", ")
            );
        }
        let field = file_schema.field_with_name(&self.time_column).ok();
        match field.map(|field| field.data_type()) {
            Some(DataType::Timestamp(..)) => Ok(()),
            Some(other) => config_err!(
                "the column '{}' of the option 'sink.partitions-format.time-column' is of type {other}, where a \
                 TIMESTAMP is expected",
                self.time_column
            ),
            None => config_err!(
                "the option 'sink.partitions-format.time-column' names '{}', which is no column of the files",
                self.time_column
            ),
        }
    }

    /// The same rows with the partition columns that their times say. `input` has the columns of `schema`, the
    /// partition columns last.
    pub(crate) fn apply(
        &self,
        input: Arc<dyn ExecutionPlan>,
        schema: &SchemaRef,
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let df_schema = DFSchema::try_from(Arc::clone(schema))?;
        let first = schema.fields().len() - self.parts.len();
        let mut columns: Vec<(Arc<dyn PhysicalExpr>, String)> = vec![];
        for (index, field) in schema.fields().iter().enumerate() {
            let expr: Arc<dyn PhysicalExpr> = match index.checked_sub(first) {
                None => Arc::new(PhysicalColumn::new(field.name(), index)),
                Some(part) => {
                    let expr = self.value(schema, part, field.data_type())?;
                    let given = Expr::from(Column::new_unqualified(field.name()));
                    let checked = checked(field.name(), &self.time_column, field.data_type());
                    state.create_physical_expr(checked.call(vec![given, expr]), &df_schema)?
                }
            };
            columns.push((expr, field.name().clone()));
        }
        Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
    }

    /// A part of the time, as a value of the partition column.
    fn value(&self, schema: &Schema, part: usize, data_type: &DataType) -> Result<Expr> {
        let mut time = Expr::from(Column::new_unqualified(&self.time_column));
        let field = schema.field_with_name(&self.time_column)?;
        if let DataType::Timestamp(unit, zone) = field.data_type() {
            if zone.is_none() {
                // Without a zone it counts from 1970 in UTC.
                time = cast(time, DataType::Timestamp(*unit, Some("UTC".into())));
            }
            let zone = Some(Arc::clone(&self.time_zone));
            time = cast(time, DataType::Timestamp(*unit, zone));
        }
        let text = to_char(time, lit(self.parts[part].1.as_str()));
        Ok(cast(text, data_type.clone()))
    }
}

/// The second of two values, after a look at the first, which has to be NULL or the same.
fn checked(name: &str, time_column: &str, data_type: &DataType) -> ScalarUDF {
    let (name, time_column) = (name.to_owned(), time_column.to_owned());
    let check = move |values: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(values)?;
        let [given, computed] = &arrays[..] else {
            return exec_err!("expected two values");
        };
        let differs = and(&is_not_null(given)?, &distinct(given, computed)?)?;
        if let Some(row) = differs.iter().position(|differs| differs == Some(true)) {
            return exec_err!(
                "the partition column '{name}' is given as '{}', where it is '{}' by the column '{time_column}'; leave it \
                 out of the statement, or NULL",
                array_value_to_string(given, row)?,
                array_value_to_string(computed, row)?
            );
        }
        Ok(ColumnarValue::Array(Arc::clone(computed)))
    };
    create_udf(
        "partition_of_time",
        vec![data_type.clone(), data_type.clone()],
        data_type.clone(),
        Volatility::Immutable,
        Arc::new(check),
    )
}

/// A pattern of Java's `SimpleDateFormat` in the letters of `strftime`.
fn strftime(pattern: &str) -> Result<String> {
    let mut format = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| c != first).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        if first == '%' {
            format.push_str(&run.replace('%', "%%"));
            continue;
        }
        format.push_str(match run {
            "yyyy" => "%Y",
            "yy" => "%y",
            "MM" => "%m",
            "M" => "%-m",
            "dd" => "%d",
            "d" => "%-d",
            "HH" => "%H",
            "H" => "%-H",
            "mm" => "%M",
            "m" => "%-M",
            "ss" => "%S",
            "s" => "%-S",
            _ if first.is_ascii_alphabetic() || first == '\'' => {
                return config_err!(
                    "'{run}' in the format '{pattern}' of a partition is not known; there are yyyy, yy, MM, M, dd, d, HH, \
                     H, mm, m, ss and s"
                );
            }
            other => other,
        });
    }
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_java_become_those_of_strftime() {
        for (pattern, expected) in [
            ("yyyy", Some("%Y")),
            ("yyyyMMdd", Some("%Y%m%d")),
            ("yyyy-M-d H:m:s", Some("%Y-%-m-%-d %-H:%-M:%-S")),
            ("dd%%", Some("%d%%%%")),
            ("MMM", None),
            ("yyyy'T'", None),
            ("Q", None),
        ] {
            assert_eq!(strftime(pattern).ok().as_deref(), expected, "{pattern}");
        }
        for wrong in ["yyyy", "year=", "=yyyy", "year=yyyy/", ""] {
            assert!(
                TimePartitions::try_new(wrong, "ts", "UTC").is_err(),
                "{wrong}"
            );
        }
    }
}
