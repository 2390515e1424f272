//! The libFuzzer target of `bodies/report.rs`.
#![no_main]

#[path = "../bodies/report.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
