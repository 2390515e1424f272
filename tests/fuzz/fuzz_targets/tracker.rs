//! The libFuzzer target of `bodies/tracker.rs`.
#![no_main]

#[path = "../bodies/tracker.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
