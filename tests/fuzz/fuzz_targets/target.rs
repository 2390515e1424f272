//! The libFuzzer target of `bodies/target.rs`.
#![no_main]

#[path = "../bodies/target.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
