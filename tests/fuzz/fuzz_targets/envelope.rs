//! The libFuzzer target of `bodies/envelope.rs`.
#![no_main]

#[path = "../bodies/envelope.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
