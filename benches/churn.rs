//! Sessions come and go for as long as one likes: nothing is lost unsaid, and nothing piles up.
//!
//! `cargo bench --bench churn` starts a session each 200 ms on a private tmux server, for
//! `TD_SECONDS` (defaults to 600). Each prints 1,000 lines and ends after five seconds,
//! while the program watches and keeps them. At the end each line must be in its session's log once,
//! or a gap in its place; memory, threads and descriptors must be flat; nobody may be left behind.
//! What does not hold is said, and the exit code is 1.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// The integration tests have the short form of it, and cases of their own.
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

/// Above the fluctuation of a second: pollers and runs of sessions that come at one moment.
const THREADS: usize = 5;
const DESCRIPTORS: usize = 15;
/// Memory that an allocator may keep, beyond a tenth.
const RSS_KB: u64 = 1024;

fn main() -> ExitCode {
    // `cargo bench` and `cargo test --benches` both come here; the latter has the short form.
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
    summary.faults.extend(what_rises(&summary));
    println!("{summary}");
    if summary.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Lists the values of which the last quarter has more than the first.
fn what_rises(summary: &Summary) -> Vec<String> {
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
