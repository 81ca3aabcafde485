//! The integration tests, in one binary. One module for each subject.

mod catalogs;
mod common;

mod compression;
mod contract;
mod csv_by_name;
mod differential;
mod dynamic_filter;
mod errors;
mod execution;
mod field_cases;
mod formats;
mod joins;
mod known_counts;
mod layouts;
mod list_cache;
mod listing;
mod metadata_answers;
mod metadata_columns;
mod order;
mod order_limits;
mod parse_path;
mod projected_types;
mod projection;
mod properties;
mod reading;
mod row_source;
mod s3;
mod s3_server;
mod schema_evolution;
mod shell;
mod subqueries;
mod tidy;
mod tpcds;
mod type_evolution;
