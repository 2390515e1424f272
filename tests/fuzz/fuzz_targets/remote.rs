//! The libFuzzer target of `bodies/remote.rs`.
#![no_main]

#[path = "../bodies/remote.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
