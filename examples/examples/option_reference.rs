//! Prints `docs/options.md`: `cargo run --locked --example option_reference > docs/options.md`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

fn main() {
    print!("{}", datafusion_partitioned::option_reference());
}
