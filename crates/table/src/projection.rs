//! The table options of partition projection, under the keys that Athena gives them.

use std::num::NonZeroU32;
use std::sync::Arc;

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned_catalog::{
    ColumnProjection, DateFormat, DateProjection, DateUnit, DirectoryCatalog, HybridCatalog,
    ProjectedLocations, ProjectionCatalog,
};
use datafusion_partitioned_connector::{
    ConnectorOption, ConnectorOptions, OptionDescription, OptionValue, did_you_mean, parse_choice,
};
use datafusion_partitioned_core::{PartitionCatalog, PartitionSpec};

use crate::columns::DeclaredColumns;
use crate::options::DirectoryOptions;

const ENABLED: ConnectorOption<Option<bool>> = ConnectorOption::new(
    "projection.enabled",
    "whether partitions are computed by the other options projection.* instead of listed",
);

const TYPE: ConnectorOption<Option<ProjectionType>> = ConnectorOption::new(
    "projection.*.type",
    "the rule for the values of a partition column: enum, integer, date or injected",
);

const VALUES: ConnectorOption<Vec<String>> = ConnectorOption::new(
    "projection.*.values",
    "the values of an enum column, with commas in between",
);

const RANGE: ConnectorOption<String> = ConnectorOption::new(
    "projection.*.range",
    "the first and the last value of an integer or a date column, with a comma in between; dates may \
     be NOW, NOW-3DAYS, NOW+1MONTH",
);

const INTERVAL: ConnectorOption<Option<NonZeroInterval>> = ConnectorOption::new(
    "projection.*.interval",
    "the distance from one value of an integer or a date column to the next; 1 if not given",
);

const INTERVAL_UNIT: ConnectorOption<Option<IntervalUnit>> = ConnectorOption::new(
    "projection.*.interval.unit",
    "the unit of the interval of a date column; the finest part of the format if not given",
);

const DIGITS: ConnectorOption<Digits> = ConnectorOption::new(
    "projection.*.digits",
    "the least number of digits of an integer column; 0 for as many as it takes",
)
.with_default("0");

const FORMAT: ConnectorOption<String> = ConnectorOption::new(
    "projection.*.format",
    "how a date column is written, such as yyyy-MM-dd",
);

const TEMPLATE: ConnectorOption<Option<String>> = ConnectorOption::new(
    "storage.location.template",
    "where a projected partition is, such as s3://lake/${tenant}/${day}",
);

/// The most digits that an option may ask for; more than any integer has.
const MOST_DIGITS: usize = 100;

/// Rules for the first partition columns of a table.
#[derive(Debug)]
pub(crate) struct Projection {
    columns: Vec<ColumnProjection>,
    template: Option<String>,
}

impl Projection {
    pub(crate) fn descriptions() -> Vec<OptionDescription> {
        vec![
            ENABLED.describe(),
            TYPE.describe(),
            VALUES.describe(),
            RANGE.describe(),
            INTERVAL.describe(),
            INTERVAL_UNIT.describe(),
            DIGITS.describe(),
            FORMAT.describe(),
            TEMPLATE.describe(),
        ]
    }

    /// Reads the options, also where they are switched off. `None` when there is no projection.
    pub(crate) fn try_new(
        options: &ConnectorOptions,
        declared: &DeclaredColumns,
    ) -> Result<Option<Self>> {
        let enabled = options.get(&ENABLED)?;
        let template = options.get(&TEMPLATE)?;
        let names = || declared.partition_columns.iter().map(|c| c.name.as_str());
        refuse_other_columns(options, names)?;
        let mut columns = vec![];
        let mut listed: Option<&str> = None;
        for name in names() {
            match (column(options, name)?, listed) {
                (None, _) => listed = listed.or(Some(name)),
                (Some(column), None) => columns.push(column),
                (Some(_), Some(listed)) => {
                    return plan_err!(
                        "partition column '{name}' has a projection, and '{listed}' before it has \
                         none; put the projected columns first in PARTITIONED BY"
                    );
                }
            }
        }
        match enabled {
            None if !columns.is_empty() || template.is_some() => plan_err!(
                "there are options 'projection.*' or 'storage.location.template', but not \
                 'projection.enabled'; set it to true to compute the partitions, or to false to list them"
            ),
            Some(true) if columns.is_empty() => plan_err!(
                "option 'projection.enabled' is true, but no partition column has a projection; add \
                 'projection.<column>.type' for one of: {}",
                names().collect::<Vec<_>>().join(", ")
            ),
            Some(true) => Ok(Some(Self { columns, template })),
            Some(false) | None => Ok(None),
        }
    }

    /// The catalog of a table with these partition columns.
    ///
    /// # Errors
    /// When the rules do not fit the columns or other options.
    pub(crate) fn catalog(
        &self,
        roots: &[ListingTableUrl],
        spec: &PartitionSpec,
        options: &DirectoryOptions,
        given: &ConnectorOptions,
    ) -> Result<Arc<dyn PartitionCatalog>> {
        let [root] = roots else {
            return plan_err!("a table with a partition projection has one LOCATION");
        };
        let (first, rest) = spec.split_at(self.columns.len());
        let is_hybrid = !rest.is_empty();
        self.refuse_options(is_hybrid, given)?;
        let locations = match &self.template {
            Some(template) => ProjectedLocations::template(root.clone(), template, &first)
                .map_err(|error| error.context("option 'storage.location.template'"))?,
            None => ProjectedLocations::layout(root.clone(), options.layout(&first)?),
        };
        let projection = ProjectionCatalog::try_new(first, self.columns.clone(), locations)?;
        if !is_hybrid {
            return Ok(Arc::new(projection));
        }
        let layout = options.layout(&rest)?;
        let rest = options.rules_of(DirectoryCatalog::try_new(roots, rest, layout)?)?;
        Ok(Arc::new(HybridCatalog::try_new(
            Arc::new(projection),
            &rest,
        )?))
    }

    /// Refuses other options that would do nothing.
    fn refuse_options(&self, is_hybrid: bool, given: &ConnectorOptions) -> Result<()> {
        let is_refused = |key: &str| match key {
            "partition.type-inference" | "schema.sample" => true,
            "partition.layout" => self.template.is_some() && !is_hybrid,
            "partition.default-name" | "partition.on-mismatch" | "source.path.regex-pattern" => {
                !is_hybrid
            }
            "partitions" => is_hybrid,
            _ => false,
        };
        match given.keys().find(|key| is_refused(key)) {
            None => Ok(()),
            Some(key) => plan_err!(
                "option '{key}' does not go with this partition projection, which lists {}; leave \
                 one of them out",
                if is_hybrid {
                    "only some levels"
                } else {
                    "nothing"
                }
            ),
        }
    }
}

/// Refuses a rule for what is no partition column.
fn refuse_other_columns<'a, N>(options: &ConnectorOptions, names: impl Fn() -> N) -> Result<()>
where
    N: Iterator<Item = &'a str>,
{
    let rules = Projection::descriptions();
    for key in options.keys() {
        let Some(name) = rules.iter().find_map(|rule| rule.name_in(key)) else {
            continue;
        };
        if !name.is_empty() && !names().any(|column| column.to_lowercase() == name) {
            return plan_err!(
                "option '{key}': there is no partition column '{name}'{}; the partition columns are: \
                 {}",
                did_you_mean(name, names()),
                names().collect::<Vec<_>>().join(", ")
            );
        }
    }
    Ok(())
}

/// The rule for one column, if it has one.
fn column(options: &ConnectorOptions, name: &str) -> Result<Option<ColumnProjection>> {
    let Some(kind) = options.get_named(&TYPE, name)? else {
        return Ok(None);
    };
    let context = |key: &ConnectorOption<String>| {
        let key = key.key().replacen('*', name, 1);
        move |error: datafusion::error::DataFusionError| error.context(format!("option '{key}'"))
    };
    let interval = || options.get_named(&INTERVAL, name);
    Ok(Some(match kind {
        ProjectionType::Injected => ColumnProjection::Injected,
        ProjectionType::Enum => ColumnProjection::Enum(options.get_named(&VALUES, name)?),
        ProjectionType::Integer => {
            let range = options.get_named(&RANGE, name)?;
            let (first, last) = integers(&range)
                .ok_or_else(|| plan_datafusion_err!("'{range}' must be two integers: first,last"))
                .map_err(context(&RANGE))?;
            ColumnProjection::Integer {
                first,
                last,
                step: interval()?.map_or(NonZeroU32::MIN, |interval| interval.0),
                digits: options.get_named(&DIGITS, name)?.0,
            }
        }
        ProjectionType::Date => {
            let format = DateFormat::try_new(&options.get_named(&FORMAT, name)?)
                .map_err(context(&FORMAT))?;
            let precision = format.precision();
            let range = options.get_named(&RANGE, name)?;
            let dates = DateProjection::try_new(format, &range).map_err(context(&RANGE))?;
            let unit = options.get_named(&INTERVAL_UNIT, name)?;
            let interval = interval()?.map_or(1, |interval| interval.0.get());
            let dates = dates
                .with_interval(interval, unit.map_or(precision, |unit| unit.0))
                .map_err(|error| error.context(format!("the projection of column '{name}'")))?;
            ColumnProjection::Date(dates)
        }
    }))
}

fn integers(range: &str) -> Option<(i64, i64)> {
    let (first, last) = range.split_once(',')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

#[derive(Clone, Copy)]
enum ProjectionType {
    Enum,
    Integer,
    Date,
    Injected,
}

impl OptionValue for ProjectionType {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let types = [
            ("enum", Self::Enum),
            ("integer", Self::Integer),
            ("date", Self::Date),
            ("injected", Self::Injected),
        ];
        parse_choice(text, &types)
    }
}

struct NonZeroInterval(NonZeroU32);

impl OptionValue for NonZeroInterval {
    const TYPE_NAME: &'static str = "integer from 1";

    fn parse(text: &str) -> Result<Self, String> {
        let interval = text.parse().map(Self);
        interval.map_err(|_| format!("an integer from 1 to {}", u32::MAX))
    }
}

struct IntervalUnit(DateUnit);

impl OptionValue for IntervalUnit {
    const TYPE_NAME: &'static str = "enum";

    fn parse(text: &str) -> Result<Self, String> {
        let unit = DateUnit::parse(text).map(Self);
        unit.ok_or_else(|| "YEARS, MONTHS, WEEKS, DAYS, HOURS, MINUTES or SECONDS".to_owned())
    }
}

struct Digits(usize);

impl OptionValue for Digits {
    const TYPE_NAME: &'static str = "integer";

    fn parse(text: &str) -> Result<Self, String> {
        let digits = text.parse().ok().filter(|digits| *digits <= MOST_DIGITS);
        let digits = digits.map(Self);
        digits.ok_or_else(|| format!("an integer from 0 to {MOST_DIGITS}"))
    }
}
