//! The libFuzzer target of `bodies/agent.rs`.
#![no_main]

#[path = "../bodies/agent.rs"]
mod body;
#[path = "../bodies/cut.rs"]
mod cut;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
