//! The integration tests, in one binary. One module for each subject.

mod common;

mod differential;
mod dynamic_filter;
mod errors;
mod execution;
mod layouts;
mod list_cache;
mod listing;
mod metadata_answers;
mod order;
mod reading;
mod s3;
mod s3_server;
mod shell;
mod subqueries;
mod tidy;
