//! libFuzzer's way into `bodies/agent.rs`.
#![no_main]

#[path = "../bodies/agent.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
