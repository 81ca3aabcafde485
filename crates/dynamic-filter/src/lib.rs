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
mod collector;
mod key_path;
mod rule;
mod subquery;

pub use collector::PartitionKeyCollectorExec;
pub use datafusion_partitioned_core::DynamicPartitionFilter;
pub use rule::InsertDynamicPartitionFilter;
pub use subquery::PushSubqueryFilter;
