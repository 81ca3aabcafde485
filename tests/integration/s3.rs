//! A star join over a real S3 protocol server.
