//! [`ProjectedLocations`]: where the partitions of a projection are.

use std::borrow::Cow;

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion_partitioned_core::{PartitionLayout, PartitionSpec, unescape_path_name};
use object_store::path::Path;

use crate::data_file::url_of;

/// Computes the location of a partition from its values.
#[derive(Debug, Clone)]
pub struct ProjectedLocations {
    root: ListingTableUrl,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Layout(PartitionLayout),
    Template { base: Path, parts: Vec<Part> },
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    /// The index of a column.
    Column(usize),
}

impl ProjectedLocations {
    /// Directories below `root` that a layout spells, values escaped.
    pub fn layout(root: ListingTableUrl, layout: PartitionLayout) -> Self {
        let kind = Kind::Layout(layout);
        Self { root, kind }
    }

    /// Directories such as `s3://lake/${tenant}/${day}` (Athena: `storage.location.template`), or
    /// below `root` when the template has no scheme and no `/` in front. Values stand there as they
    /// are written, nothing is escaped; of a URL the rest is decoded once.
    ///
    /// # Errors
    /// When a column of `spec` is missing or another one is named, when two columns have nothing in
    /// between, when a level has no name or is a pattern, and when the template is in another store
    /// than `root`.
    pub fn template(root: ListingTableUrl, template: &str, spec: &PartitionSpec) -> Result<Self> {
        Self::try_template(root, template, spec)
            .map_err(|error| error.context(format!("the location template '{template}'")))
    }

    fn try_template(root: ListingTableUrl, template: &str, spec: &PartitionSpec) -> Result<Self> {
        let fixed = template.split("${").next().unwrap_or_default();
        let (base, rest) = template.split_at(fixed.rfind('/').map_or(0, |slash| slash + 1));
        let path = template.split_once("://").map(|(_, path)| path);
        let is_url = path.is_some();
        if path
            .unwrap_or(template)
            .trim_end_matches('/')
            .contains("//")
        {
            return plan_err!("has an empty level; write one '/' between two names");
        }
        if is_url && template.contains(['?', '#', '*', '[']) || base.contains(['?', '*', '[']) {
            return plan_err!(
                "contains '?', '#', '*' or '[', which mean more than themselves; give a URL and \
                 write %3F, %23, %2A and %5B"
            );
        }
        let base = match is_url || base.starts_with('/') {
            true => {
                let base = ListingTableUrl::parse(base)?;
                if base.object_store() != root.object_store() {
                    return plan_err!(
                        "is in another store than '{}'",
                        url_of(&root.object_store(), root.prefix())
                    );
                }
                base.prefix().clone()
            }
            false => child(root.prefix(), base.trim_end_matches('/'))?,
        };
        let mut parts = vec![];
        let mut rest = rest.trim_end_matches('/');
        while !rest.is_empty() {
            let (text, behind) = rest.split_once("${").unwrap_or((rest, ""));
            if !text.is_empty() {
                // As in the base, a URL is decoded once.
                let fixed = match is_url {
                    true => unescape_path_name(text),
                    false => Cow::from(text),
                };
                parts.push(Part::Text(fixed.into_owned()));
            }
            if text.len() == rest.len() {
                break;
            }
            let (name, behind) = behind
                .split_once('}')
                .ok_or_else(|| plan_datafusion_err!("has '${{' without '}}'"))?;
            let column = spec.column_names().position(|column| column == name);
            let column = column.ok_or_else(|| {
                plan_datafusion_err!(
                    "names '{name}'; the projected columns are: {}",
                    spec.column_names().collect::<Vec<_>>().join(", ")
                )
            })?;
            if matches!(parts.last(), Some(Part::Column(_))) {
                return plan_err!("has nothing between two columns");
            }
            parts.push(Part::Column(column));
            rest = behind;
        }
        let is_named = |column| parts.contains(&Part::Column(column));
        if let Some(missing) = (0..spec.len()).find(|column| !is_named(*column)) {
            let name = spec.fields()[missing].name();
            return plan_err!("does not name the projected column '{name}'; add ${{{name}}}");
        }
        let kind = Kind::Template { base, parts };
        Ok(Self { root, kind })
    }

    /// The location of the partition whose values are written so. `is_free` says which of them may
    /// be any text.
    ///
    /// # Errors
    /// When another partition could have this location.
    pub(super) fn location(
        &self,
        texts: &[String],
        is_free: impl Fn(usize) -> bool,
    ) -> Result<Path> {
        let (base, parts) = match &self.kind {
            Kind::Layout(layout) => {
                let texts: Vec<_> = texts.iter().cloned().map(Some).collect();
                return child(self.root.prefix(), &layout.spell(&texts)?);
            }
            Kind::Template { base, parts } => (base, parts),
        };
        let mut location = String::new();
        for (index, part) in parts.iter().enumerate() {
            let column = match part {
                Part::Text(text) => {
                    location.push_str(text);
                    continue;
                }
                Part::Column(column) => *column,
            };
            let text = &texts[column];
            // The value must end where the text behind it first occurs.
            let is_cut = match parts.get(index + 1) {
                Some(Part::Text(behind)) if index + 2 < parts.len() => {
                    format!("{text}{behind}").find(behind.as_str()) != Some(text.len())
                }
                _ => false,
            };
            if is_free(column) && (is_cut || text.contains('/')) {
                return plan_err!(
                    "the value '{text}' cannot be told apart in the location template; it has a '/' \
                     or what comes behind it there"
                );
            }
            location.push_str(text);
        }
        child(base, &location)
    }

    /// The URL of the table.
    pub fn root(&self) -> &ListingTableUrl {
        &self.root
    }
}

/// `path` below `directory`, as it stands.
fn child(directory: &Path, path: &str) -> Result<Path> {
    let path = match (directory.as_ref(), path) {
        ("", path) => Path::parse(path),
        (_, "") => return Ok(directory.clone()),
        (directory, path) => Path::parse(format!("{directory}/{path}")),
    };
    Ok(path.map_err(object_store::Error::from)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    fn location(template: &str, texts: [&str; 2]) -> Result<String> {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true));
        let spec = PartitionSpec::try_new(fields)?;
        let root = ListingTableUrl::parse("s3://lake/t/")?;
        let locations = ProjectedLocations::template(root, template, &spec)?;
        let location = locations.location(&texts.map(str::to_owned), |_| true)?;
        Ok(location.to_string())
    }

    #[test]
    fn values_stand_in_the_template_as_they_are_written() {
        for (template, expected) in [
            ("s3://lake/x/${b}/${a}/", "x/2=%20/1 %"),
            ("s3://lake/${a}/${b}", "1 %/2=%20"),
            ("s3://lake/x/y-${a}_${b}.d/z", "x/y-1 %_2=%20.d/z"),
            ("in/${a}-${b}", "t/in/1 %-2=%20"),
            ("s3://lake/x%20y/${a}/z%20z/${b}", "x y/1 %/z z/2=%20"),
            ("x%20y/${a}/z%20z/${b}", "t/x%20y/1 %/z%20z/2=%20"),
            ("${a}/#?*[/${b}//", "t/1 %/#?*[/2=%20"),
            ("${a}/${b}/${a}", "t/1 %/2=%20/1 %"),
        ] {
            assert_eq!(location(template, ["1 %", "2=%20"]).unwrap(), expected);
        }
    }

    #[test]
    fn one_location_never_means_two_partitions() {
        for texts in [["1-2", "3"], ["1/2", "3"], ["1", "2/3"], ["..", "3"]] {
            assert!(
                location("${a}-${b}/c", texts).is_err() || texts[0] == "..",
                "{texts:?}"
            );
        }
        assert!(location("${a}/${b}", ["..", "3"]).is_err());
        assert!(location("${a}--${b}", ["1-", "3"]).is_err());
        assert_eq!(location("${a}-${b}", ["1", "2-3"]).unwrap(), "t/1-2-3");
    }

    #[test]
    fn bad_templates_say_what_is_wrong() {
        for (template, message) in [
            ("${a}", "does not name the projected column 'b'"),
            (
                "${a}/${b}/${c}",
                "names 'c'; the projected columns are: a, b",
            ),
            ("${a}${b}", "nothing between two columns"),
            ("${a}/${b", "without '}'"),
            ("x//${a}/${b}", "has an empty level"),
            ("s3://lake//${a}/${b}", "has an empty level"),
            ("${a}//${b}", "has an empty level"),
            ("s3://lake/x*/${a}/${b}", "write %3F, %23, %2A and %5B"),
            ("s3://lake/${a}/${b}#1", "write %3F, %23, %2A and %5B"),
            ("/x[1]/${a}/${b}", "write %3F, %23, %2A and %5B"),
            (
                "s3://other/${a}/${b}",
                "in another store than 's3://lake/t'",
            ),
        ] {
            let error = location(template, ["1", "2"]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
