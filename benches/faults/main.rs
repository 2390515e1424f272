//! Hundreds of faults, and their cost: lines, numbers, processes, sockets, files.
//!
//! `cargo bench --bench faults` kills, stops and starves the program while panes and commands flood, and
//! prints a row for each fault. `-- PART…` names some of `run`, `watch`, `server`, `stopped`, `clock`
//! and `limits`; `TD_ROUNDS` sets the number of rounds of each part. Every count must be 0; otherwise
//! the exit code is 1.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

// The private tmux server and the resources of processes come from the tests.
#[path = "../../tests/it/support.rs"]
mod support;

mod clock;
mod commands;
mod left;
mod limits;
mod log_check;
mod panes;
mod program;

use std::process::ExitCode;

use left::Leftovers;

/// The cost of the rounds of one part.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: usize,
    /// Lines that were complete in the log or the pane, and are in the log neither whole nor as a gap.
    lost_lines: u64,
    /// Numbers without an event and without a `LogGap`.
    missing_numbers: u64,
    left: Leftovers,
    /// Ends in another way than the fault allows, such as an abort.
    wrong_ends: u64,
}

impl Tally {
    fn is_clean(&self) -> bool {
        self.lost_lines == 0
            && self.missing_numbers == 0
            && self.left == Leftovers::default()
            && self.wrong_ends == 0
    }
}

type Part = (&'static str, &'static str, usize, fn(usize) -> Tally);

const PARTS: &[Part] = &[
    (
        "run",
        "kill -9 of a flooding `run` that rotates",
        1_000,
        commands::killed,
    ),
    (
        "watch",
        "kill -9 of a streaming `watch`",
        200,
        panes::observer_killed,
    ),
    (
        "server",
        "kill -9 of the tmux server",
        200,
        panes::server_killed,
    ),
    (
        "stopped",
        "SIGSTOP and SIGCONT of a `watch`",
        50,
        panes::observer_stopped,
    ),
    (
        "clock",
        "a clock that jumps an hour, both ways",
        100,
        clock::jumps,
    ),
    ("limits", "`ulimit -n`, `-v` and `-u`", 1, limits::small),
];

fn main() -> ExitCode {
    // `cargo bench` and `cargo test --benches` both run this; only the former has enough time.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let rounds = std::env::var("TD_ROUNDS")
        .ok()
        .map(|text| text.parse().unwrap());
    println!(
        "| fault | rounds | lost lines | missing numbers | processes, sockets, files left | wrong ends |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    log_check::assert_it_finds_losses();
    let mut is_clean = true;
    for (name, what, usual, part) in PARTS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let tally = part(rounds.unwrap_or(*usual));
        let Leftovers {
            processes,
            sockets,
            files,
        } = tally.left;
        println!(
            "| {what} | {} | {} | {} | {processes}, {sockets}, {files} | {} |",
            tally.rounds, tally.lost_lines, tally.missing_numbers, tally.wrong_ends
        );
        is_clean &= tally.is_clean();
    }
    if is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
