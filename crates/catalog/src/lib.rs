//! Catalogs without heavy dependencies:
//!
//! | catalog | partitions are |
//! |---|---|
//! | [`DirectoryCatalog`] | found by listing directories, through a [`Lister`] that may remember listings in a [`ListingCache`] |
//! | [`ProjectionCatalog`] | computed from rules |
//! | [`RegisteredCatalog`] | added and removed by statements, and kept in a [`PartitionStore`] |
//! | [`HybridCatalog`] | found by listing the directories below those of another catalog |

mod commit_record;
mod data_file;
mod directory;
mod hybrid;
mod level;
mod lister;
mod listing;
mod listing_cache;
mod local;
mod observed;
mod projection;
mod registered;
mod seen;
mod walk;

pub use commit_record::{CommitRecord, TRUNCATED, pending_path, published_path};
pub use data_file::{list_data_files, location_of, url_of};
pub use directory::{DirectoryCatalog, OnMismatch};
pub use hybrid::HybridCatalog;
pub use lister::Lister;
pub use listing_cache::ListingCache;
pub use local::local_path;
pub use projection::{
    ColumnProjection, DateFormat, DateProjection, DateUnit, ProjectedLocations, ProjectionCatalog,
};
pub use registered::{
    MemoryPartitionStore, PartitionStore, RegisteredCatalog, StoredPartitions, already_registered,
};
