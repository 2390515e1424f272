//! The libFuzzer target of `bodies/mcp.rs`.
#![no_main]

#[path = "../bodies/mcp.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
