//! All catalogs and readers of this project against what the traits promise, and some that break it.

mod catalogs;
mod readers;
mod wrong_catalogs;
mod wrong_readers;
