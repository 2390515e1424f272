//! The libFuzzer target of `bodies/query.rs`.
#![no_main]

#[path = "../bodies/query.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
