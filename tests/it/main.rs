//! What the rooms do together, on the real things.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;
mod tmux;
mod tmux_gateway;
