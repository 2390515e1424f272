//! The libFuzzer target of `bodies/hook.rs`.
#![no_main]

#[path = "../bodies/hook.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
