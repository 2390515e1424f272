//! Code that the benchmarks share, one idea per file; the private tmux server is that of the tests.

// Each benchmark uses its part of this.
#![allow(dead_code)]

#[path = "../../tests/it/resources.rs"]
pub mod resources;
#[path = "../../tests/it/support.rs"]
pub mod support;

pub mod commands;
pub mod cpu;
pub mod drains;
pub mod fake_agent;
pub mod mixed;
pub mod paired;
pub mod panes;
pub mod program;
pub mod stats;
pub mod streams;
pub mod table;
pub mod ways;
