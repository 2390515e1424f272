//! The table of the README: each figure measured side by side with an alternative, in one run.
//!
//! `cargo bench --profile dist --bench report` measures everything, built as packages are; sections can be
//! named: `cargo bench --profile dist --bench report -- bus polling`. Rounds of the two sides alternate and the
//! figures are medians, so that other load on the machine affects both.
//! Progress is printed on stderr.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;

mod bus;
mod history;
mod log;
#[cfg(feature = "report")]
mod nights;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
#[path = "../../tests/it/redis/server.rs"]
#[allow(dead_code)]
mod redis_server;
#[cfg(feature = "sqlite")]
mod sqlite;

mod neighbours;
mod polling;

mod latency;
mod rate;
mod stream;
mod waits;

mod agents;
mod loops;
mod processes;

mod disks;
mod kernel;
mod memory;
mod rest;
mod start;

mod tui;

use std::process::{Command, ExitCode};

#[cfg(feature = "redis")]
use common::support;
use common::table::Table;

type Section = (&'static str, fn(&mut Table));

/// In the order of the table.
const SECTIONS: &[Section] = &[
    ("bus", bus::run),
    ("log", log::run),
    ("history", history::run),
    #[cfg(feature = "report")]
    ("nights", nights::run),
    #[cfg(feature = "sqlite")]
    ("sqlite", sqlite::run),
    #[cfg(feature = "redis")]
    ("redis", redis::run),
    ("polling", polling::run),
    ("neighbours", neighbours::run),
    ("latency", latency::run),
    ("rate", rate::run),
    ("stream", stream::run),
    ("waits", waits::run),
    ("processes", processes::run),
    ("agents", agents::run),
    ("loops", loops::run),
    ("memory", memory::run),
    ("rest", rest::run),
    ("start", start::run),
    ("disks", disks::run),
    ("tui", tui::run),
    ("kernel", kernel::run),
];

/// Says on what the figures were measured: the commit, and the machine.
fn circumstances() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let commit = git.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!(
        "on commit {}, {cores} cores, load {load}",
        commit.unwrap_or_default()
    )
}

fn main() -> ExitCode {
    if common::program::has_run() || history::has_run() || memory::has_run() || disks::has_run() {
        return ExitCode::SUCCESS;
    }
    // `cargo bench` and `cargo test --benches` both run this; the latter only needs a sign of life.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let names: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("no section {unknown}: there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    println!("Measured {}.\n", circumstances());
    let mut table = Table::default();
    for (name, run) in SECTIONS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            eprintln!("measuring {name} …");
            run(&mut table);
        }
    }
    eprintln!("bars missed: {}", table.missed());
    ExitCode::SUCCESS
}
