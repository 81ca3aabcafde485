//! What the tests, examples and measurements of `datafusion-partitioned` share.
//!
//! | question | answer |
//! |---|---|
//! | Which requests did a query send? | [`RequestCountingStore`] |
//! | What happens when a request fails, is slow, or never returns? | [`FaultyStore`] |
//! | How do I get a partitioned table to query? | [`Lake`], [`TpcdsTable`] |
//! | Are these the rows that I expected? | [`compare_rows`], [`sorted_rows`], [`ordered_rows`] |
//! | How many partitions did the scan drop? | [`scan_metric`] |
//!
//! The crate knows DataFusion and object stores and nothing of the project, so that every member
//! of the workspace can use it in its tests. It is not published.

mod counting_store;
mod faulty_store;
mod lake;
mod metrics;
mod request;
mod rows;
mod tpcds;

pub use counting_store::RequestCountingStore;
pub use faulty_store::{Fault, FaultyStore, Gate};
pub use lake::{FileKind, Lake};
pub use metrics::{node_metric, scan_metric};
pub use request::{Request, RequestKind};
pub use rows::{RowDifference, compare_rows, ordered_rows, sorted_rows};
pub use tpcds::{TpcdsTable, TpcdsWritten};
