//! The libFuzzer target of `bodies/redact.rs`.
#![no_main]

#[path = "../bodies/redact.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
