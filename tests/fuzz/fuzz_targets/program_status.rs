//! The libFuzzer target of `bodies/program_status.rs`.
#![no_main]

#[path = "../bodies/program_status.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
