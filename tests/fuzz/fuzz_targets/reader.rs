//! The libFuzzer target of `bodies/reader.rs`.
#![no_main]

#[path = "../bodies/reader.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
