//! The tests from outside: what an embedder or a user sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

mod support;

mod bus;
mod log;
mod tmux;
mod tmux_gateway;
mod wire;
