//! The libFuzzer target of `bodies/api.rs`.
#![no_main]

#[path = "../bodies/api.rs"]
mod body;
#[path = "../bodies/cut.rs"]
mod cut;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
