//! Dynamic partition filters: one side of a join tells the partitioned scans of the other which
//! partitions can find a match.
//!
//! | type | role |
//! |---|---|
//! | [`InsertDynamicPartitionFilter`] | the optimizer rule: finds joins one side of which reaches a partitioned scan |
//! | [`PartitionKeyCollectorExec`] | passes the other side on and collects its keys |
//! | [`DynamicPartitionFilter`] | connects the two |
//! | [`StartEarlyExec`] | lets a sort-merge join read the side with the keys first |
//! | [`PushSubqueryFilter`] | the optimizer rule for conditions with scalar subqueries |
//! | [`DeclineUnsafeFilters`] | the optimizer rule that keeps wrong filters of DataFusion's away from scans |
//!
//! A hash join, with the build side first:
//!
//! ```text
//! before                                  after
//!
//! HashJoinExec                            HashJoinExec
//!   CoalescePartitionsExec                  CoalescePartitionsExec
//!     build side                              PartitionKeyCollectorExec ---+
//!                                               build side                 | keys
//!   DataSourceExec: PartitionScan           DataSourceExec: PartitionScan <+
//! ```
//!
//! The join works as before: with the rule switched off, or a filter that never learns its keys, the
//! rows are the same.

mod accumulator;
mod collection;
mod collector;
mod column;
mod domain;
mod early;
mod join;
mod key_path;
mod producer;
mod rule;
mod subquery;
mod transparent;
mod unsafe_filters;

pub use collector::{KeyMatching, PartitionKeyCollectorExec};
pub use datafusion_partitioned_core::DynamicPartitionFilter;
pub use early::StartEarlyExec;
pub use rule::InsertDynamicPartitionFilter;
pub use subquery::PushSubqueryFilter;
pub use unsafe_filters::DeclineUnsafeFilters;
