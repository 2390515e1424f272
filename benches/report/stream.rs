//! Streamed panes, compared with unobserved ones and with `pipe-pane 'cat >> file'` and `tail -F`.
//!
//! Other sizes: `TD_BENCH_LINES` (the lines of the pane, 1,000,000), `TD_BENCH_PAIRS` (20),
//! `TD_BENCH_SESSIONS` (at rest, 200), `TD_BENCH_LONG=1` (50,000,000 lines while the observer is
//! stopped), and `TD_BENCH_ROWS=pane,late,speed,many,stopped` for some of the rows.

mod flood;
mod late;
mod many;
mod observer;
mod pane;
mod speed;
mod stopped;

use std::fs;

use crate::common::table::Table;

type Part = (&'static str, fn(&mut Table));

/// In the order of the table.
const PARTS: &[Part] = &[
    ("pane", pane::run),
    ("late", late::run),
    ("speed", speed::run),
    ("many", many::run),
    ("stopped", stopped::run),
];

pub fn run(table: &mut Table) {
    let wanted = std::env::var("TD_BENCH_ROWS").ok();
    let is_wanted = |rows: &str| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| wanted.split(',').any(|one| one == rows))
    };
    for (name, part) in PARTS {
        if is_wanted(name) {
            // With only two cores, other load matters.
            let load = fs::read_to_string("/proc/loadavg").unwrap();
            eprintln!("  {name}; load {}", load.trim_end());
            part(table);
        }
    }
}

/// Returns a size that the environment may override.
fn size(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Returns the number of lines that a pane prints.
fn lines() -> u64 {
    size("TD_BENCH_LINES", 1_000_000)
}

/// Returns the number of rounds of each way.
fn pairs() -> u64 {
    size("TD_BENCH_PAIRS", 20)
}

/// Formats a number with separators.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn mb(kb: u64) -> String {
    format!("{:.0} MB", kb as f64 / 1024.0)
}
