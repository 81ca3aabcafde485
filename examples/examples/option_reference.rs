//! Prints `docs/options.md`: `cargo run --locked --example option_reference > docs/options.md`.

fn main() {
    print!("{}", datafusion_partitioned::option_reference());
}
