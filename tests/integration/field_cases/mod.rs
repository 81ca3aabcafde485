//! Field cases: ways in which partitioned tables went wrong for somebody. `CONTRIBUTING.md` says
//! what their ids mean and how to add one.
//!
//! A [`Case`] is a tree of files and the tables over it. Opened, it has one session for each mode,
//! and every query is asked in all of them:
//!
//! ```text
//!   Case::new().ids("T/p=1/f.parquet", &[1]).table(Table::new("t", "id BIGINT, p INT", "p"))
//!       .open()                 a session for each mode, and the laws for each table
//!       .rows(sql, &["1 | 1"])  the same rows in each mode
//! ```
//!
//! Modes that could remember something ask twice: the second answer is that of warm caches.

/// A batch of rows: `rows!(("id", Int64, [1, 2]), ("name", Utf8, ["x", "y"]))`.
macro_rules! rows {
    ($(($name:expr, $type:ident, $($values:tt)+)),*) => {
        datafusion::arrow::array::RecordBatch::try_from_iter_with_nullable([$((
            $name,
            datafusion::arrow::array::create_array!($type, $($values)+)
                as datafusion::arrow::array::ArrayRef,
            true,
        )),*])
        .unwrap()
    };
}

mod agg;
mod case;
mod cat;
mod col;
mod dec;
mod dyl;
mod dyn_key_types;
mod dyn_rows;
mod key_server;
mod lay;
mod modes;
mod nul;
mod ops;
mod prc;
mod pru;
mod sessions;
mod table;
mod typ;
mod wri;

use case::Case;
use sessions::Sessions;
use table::Table;
