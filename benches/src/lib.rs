//! What the benchmarks `pruning` and `tpcds` are made of.
//!
//! For `pruning`, a [`Case`] is a query over a partitioned table that lies in a lake twice: whole, and reduced to
//! the partitions that the query needs. A [`Provider`] is one way to read it, [`measure()`] runs all
//! of them side by side, and [`Measurement`]s print as the rows of a Markdown table.
//! The module [`tpcds`] is for the other.

mod case;
mod measure;
mod report;
pub mod tpcds;

pub use case::{Case, Provider, Sizes};
pub use measure::{Caches, Measurement, measure};
pub use report::markdown_table;
