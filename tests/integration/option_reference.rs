//! `docs/options.md` says what the definitions of the options say.

use std::path::Path;

#[test]
fn option_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/options.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        text == datafusion_partitioned::option_reference(),
        "docs/options.md is out of date; run: \
         cargo run --locked --example option_reference > docs/options.md"
    );
}
