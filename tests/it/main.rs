//! Integration tests: the crate as an embedder or a user uses it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod agent;
mod agent_ends;
#[cfg(feature = "cli")]
mod agent_hooks;
mod agent_states;
mod agents;
mod bench;
mod observed;
mod observer;
mod recordings;
#[cfg(feature = "redis")]
mod redis;
mod resources;
mod support;

mod agent_loop;
mod bus;
#[cfg(feature = "cli")]
mod churn;
#[cfg(feature = "cli")]
mod ci_scripts;
#[cfg(feature = "cli")]
mod cli;
mod configuration;
mod conversations;
mod embedding;
#[cfg(feature = "cli")]
mod ends;
mod everyday;
mod faults;
mod fuzz;
#[cfg(feature = "cli")]
mod help;
mod history;
#[cfg(feature = "hosts")]
mod hosts;
#[cfg(all(feature = "cli", feature = "kernel"))]
mod kernel;
#[cfg(feature = "cli")]
mod lab;
mod law;
mod layers;
mod logger;
mod loops;
mod losses;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "notify")]
mod notifications;
#[cfg(all(feature = "cli", feature = "tui"))]
mod own_reports;
mod packaging;
#[cfg(feature = "tui")]
mod plugin;
mod printing;
mod process;
mod redact_samples;
#[cfg(feature = "report")]
mod report;
mod schema;
#[cfg(feature = "cli")]
mod secret_paths;
#[cfg(feature = "cli")]
mod seen;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "cli")]
mod shells;
mod source_text;
#[cfg(feature = "cli")]
mod sqlite;
#[cfg(feature = "cli")]
mod starts;
mod states;
#[cfg(feature = "cli")]
mod strangers;
#[cfg(feature = "cli")]
mod stream;
mod stream_programs;
mod stream_recordings;
mod stream_resizes;
mod tmux;
mod tmux_gateway;
#[cfg(feature = "tui")]
mod tui;
mod turns;
#[cfg(feature = "cli")]
mod typing;
mod unknown_agents;
mod versions;
mod wait;
mod watch;
mod wire;
mod writer;
