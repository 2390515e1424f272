//! The tests from outside: what an embedder or a user sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

mod support;

mod bus;
mod fuzz;
mod layers;
mod log;
mod source_text;
mod tmux;
mod tmux_gateway;
mod wire;
