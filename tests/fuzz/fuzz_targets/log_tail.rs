//! The libFuzzer target of `bodies/log_tail.rs`.
#![no_main]

#[path = "../bodies/log_tail.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
