//! The libFuzzer target of `bodies/tcp.rs`.
#![no_main]

#[path = "../bodies/tcp.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
