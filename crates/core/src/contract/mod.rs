//! What every catalog and every reader must do, as checks that their own tests can run. Behind the
//! feature `contract`.
//!
//! An implementation describes a small table of known partitions by a fixture and hands it to a suite.
//! The first rule that does not hold is returned as a [`Violation`], which says what was asked and
//! what came back:
//!
//! | suite | fixture | checks |
//! |---|---|---|
//! | [`check_catalog`] | [`CatalogFixture`] | a [`PartitionCatalog`](crate::PartitionCatalog) |
//! | [`check_reader`] | [`ReaderFixture`] | a [`PartitionReader`](crate::PartitionReader) |
//!
//! ```
//! # use std::sync::Arc;
//! # use datafusion::arrow::datatypes::{DataType, Field};
//! # use datafusion::scalar::ScalarValue;
//! # use datafusion_partitioned_core::contract::{CatalogFixture, Violation, check_catalog};
//! # use datafusion_partitioned_core::*;
//! struct Days(MemoryCatalog, Vec<PartitionValues>);
//!
//! impl CatalogFixture for Days {
//!     fn catalog(&self) -> Arc<dyn PartitionCatalog> {
//!         Arc::new(self.0.clone())
//!     }
//!
//!     fn partitions(&self) -> Vec<PartitionValues> {
//!         self.1.clone()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = PartitionSpec::try_new([Field::new("day", DataType::Int32, true)])?;
//! let values = [Some(1), Some(2), None].map(|day| vec![ScalarValue::Int32(day)]);
//! let values = values.map(|day| PartitionValues::try_new(&spec, day));
//! let values = values.into_iter().collect::<datafusion::error::Result<Vec<_>>>()?;
//! # let partitions = values.iter().enumerate();
//! # let partitions = partitions.map(|(i, day)| Partition::new(day.clone(), format!("{i}").into()));
//! # let partitions = partitions.collect::<Vec<_>>();
//! let catalog = MemoryCatalog::try_new(spec, &partitions)?;
//! check_catalog(&Days(catalog, values)).await?;
//! # Ok(())
//! # }
//! ```

mod catalog;
mod predicates;
mod reader;

use std::error::Error;
use std::fmt::{self, Debug, Display};

pub use catalog::{CatalogFixture, check_catalog};
pub use reader::{ReaderFixture, check_reader};

/// A rule that an implementation breaks.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    rule: &'static str,
    found: String,
}

impl Violation {
    /// The rule, as a sentence.
    pub fn rule(&self) -> &str {
        self.rule
    }

    /// What was asked, and what came back instead of what had to.
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken rule: {}\n  {}", self.rule, self.found)
    }
}

/// The same text, since tests show errors by it.
impl Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Error for Violation {}

type Checked<T = ()> = Result<T, Violation>;

/// Fails unless the rule `holds`.
fn ensure(holds: bool, rule: &'static str, found: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Violation {
        rule,
        found: found(),
    })
}

/// What failed while `doing` something that must not fail.
fn must_work<T, E: Display>(
    result: Result<T, E>,
    rule: &'static str,
    doing: impl Display,
) -> Checked<T> {
    result.map_err(|error| Violation {
        rule,
        found: format!("{doing}: {error}"),
    })
}

/// The fixture itself has to show something.
const FIXTURE: &str = "the fixture describes a table on which the rules can be seen";
