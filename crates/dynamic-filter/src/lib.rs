//! Dynamic partition filters: joins tell a partitioned scan which partitions can find a match.
//!
//! | type | role |
//! |---|---|
//! | [`InsertDynamicPartitionFilter`] | the optimizer rule: finds joins whose probe side reaches a partitioned scan |
//! | [`PartitionKeyCollectorExec`] | passes the build side on and collects its keys |
//! | [`DynamicPartitionFilter`] | connects the two |
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

pub use collector::{KeyMatching, PartitionKeyCollectorExec};
pub use datafusion_partitioned_core::DynamicPartitionFilter;
pub use early::StartEarlyExec;
pub use rule::InsertDynamicPartitionFilter;
pub use subquery::PushSubqueryFilter;
