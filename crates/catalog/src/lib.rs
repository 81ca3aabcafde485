//! Catalogs without heavy dependencies. So far one: [`DirectoryCatalog`], which finds the
//! partitions of a table by listing its directories, through a [`Lister`] that may remember
//! listings in a [`ListingCache`].

mod data_file;
mod directory;
mod level;
mod lister;
mod listing;
mod listing_cache;
mod local;
mod observed;
mod walk;

pub use data_file::{list_data_files, url_of};
pub use directory::{DirectoryCatalog, OnMismatch};
pub use lister::Lister;
pub use listing_cache::ListingCache;
