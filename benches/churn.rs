//! Sessions come and go for any length of time: no line is lost silently, and no resource accumulates.
//!
//! `cargo bench --bench churn` starts a session every 200 ms on a private tmux server, for `TD_SECONDS`
//! (defaults to 600). Each prints 1,000 lines and ends after five seconds, while the program watches and
//! logs it. At the end each line must be in its session's log once, or a gap in its place; memory,
//! threads and descriptors must be flat; no process may be left. Violations are printed, and the exit
//! code is 1.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// The integration tests run the short form, and further cases.
#[allow(dead_code)]
#[path = "../tests/it/churn/mod.rs"]
mod churn;
#[allow(dead_code)]
#[path = "../tests/it/observed.rs"]
mod observed;
#[path = "../tests/it/resources.rs"]
mod resources;
#[path = "../tests/it/support.rs"]
mod support;

use std::process::ExitCode;
use std::time::Duration;

use churn::{Plan, Summary};

/// More than the fluctuation within a second: pollers and runs of sessions that start at the same time.
const THREADS: usize = 5;
const DESCRIPTORS: usize = 15;
/// Memory in addition to 10 % that an allocator may keep.
const RSS_KB: u64 = 1024;

fn main() -> ExitCode {
    // `cargo bench` and `cargo test --benches` both run this; the latter runs the short form.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let seconds = std::env::var("TD_SECONDS").map_or(600, |text| text.parse().unwrap());
    let mut summary = churn::churn(&Plan {
        time: Duration::from_secs(seconds),
        every: Duration::from_millis(200),
        life: Duration::from_secs(5),
        lines: 1_000,
    });
    summary.faults.extend(rising(&summary));
    println!("{summary}");
    if summary.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Lists the values whose last quarter is higher than the first.
fn rising(summary: &Summary) -> Vec<String> {
    let Some((first, last)) = summary.quarters() else {
        return vec!["too short to tell what rises".to_owned()];
    };
    let rises = [
        (
            "memory",
            last.rss_kb > first.rss_kb + first.rss_kb / 10 + RSS_KB,
        ),
        ("threads", last.threads > first.threads + THREADS),
        (
            "descriptors",
            last.descriptors > first.descriptors + DESCRIPTORS,
        ),
    ];
    let risen = rises.into_iter().filter(|(_, rises)| *rises);
    risen.map(|(what, _)| format!("{what} rises")).collect()
}
