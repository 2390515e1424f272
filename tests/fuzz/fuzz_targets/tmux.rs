//! The libFuzzer target of `bodies/tmux.rs`.
#![no_main]

#[path = "../bodies/tmux.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
