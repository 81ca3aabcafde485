//! What the benchmark `tpcds` is made of: the queries, the sessions that read the tables in different
//! ways, the comparison of their answers, and their times.

mod answer;
mod check;
mod lake;
mod query;
mod setting;
mod times;

pub use check::{Checked, Checker, Partitions, Verdict};
pub use lake::tpcds_lake;
pub use query::{Query, load_queries};
pub use setting::{Limits, Setting};
pub use times::{Timer, Times};
