//! Directory names and layout templates of any kind: no panic, and what is written is read again.

#![no_main]

// The integration tests check the same with random input.
#[path = "../../tests/integration/parse_path.rs"]
mod parse_path;

libfuzzer_sys::fuzz_target!(|text: &str| parse_path::check(text));
