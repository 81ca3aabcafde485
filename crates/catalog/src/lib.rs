//! Catalogs without heavy dependencies. So far one: [`DirectoryCatalog`], which finds the
//! partitions of a table by listing its directories.

mod data_file;
mod directory;
mod level;
mod local;
mod observed;
mod walk;

pub use data_file::{list_data_files, url_of};
pub use directory::{DirectoryCatalog, OnMismatch};
