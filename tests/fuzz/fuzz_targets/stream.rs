//! The libFuzzer target of `bodies/stream.rs`.
#![no_main]

#[path = "../bodies/stream.rs"]
mod body;
#[path = "../bodies/cut.rs"]
mod cut;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
