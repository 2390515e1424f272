//! The body of the fuzz target `kernel` on random bytes and on its corpus.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::fuzz::cut;

#[path = "../../fuzz/bodies/kernel.rs"]
mod body;

const TYPES: &str =
    "stream|display_data|update_display_data|error|clear_output|status|execute_input|.{0,9}";

const CONTENT: &str = "[{\\[]?(\"(data|text|name|text/plain|wait|traceback|nbformat|cells)\":([0-9]|\"[a-z\\\\n]{0,9}\"|\\[\\]|\\{\\}|true),?){0,5}[}\\]]?";

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(
        how in 0..6u8,
        kind in TYPES,
        content in prop_oneof![vec(any::<u8>(), 0..200), CONTENT.prop_map(String::into_bytes)],
        cuts in any::<u8>(),
    ) {
        body::run(&[&[how, cuts], kind.as_bytes(), b"\n", &content].concat());
        body::run(&[&[how, cuts], &content[..]].concat());
    }
}

#[test]
fn corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/kernel");
    let mut inputs = 0;
    for entry in fs::read_dir(root).unwrap() {
        body::run(&fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0);
}
