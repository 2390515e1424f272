//! The tests from outside: what an embedder or a user sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

mod support;

mod bus;
#[cfg(feature = "cli")]
mod cli;
mod log;
mod tmux;
mod tmux_gateway;
