//! Random faults for any length of time, against a model of what must hold.
//!
//! `cargo bench --bench chaos` observes two private tmux servers whose panes print numbered lines, and kills, stops,
//! resizes, renames, respawns, fills the disk, cuts connections and moves the clock at random. `TD_SECONDS` (defaults
//! to 60) is the length, `TD_SEED` (defaults to 1) chooses the faults, which are printed at the end with their numbers;
//! the same seed chooses the same ones. Then each line must be in the log once, or a gap in its place, and nothing may be
//! left. Violations are printed, and the exit code is 1.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

#[path = "../../tests/it/resources.rs"]
mod resources;
#[path = "../../tests/it/support.rs"]
mod support;

mod fault;
// The soak has its parts in them, too.
#[allow(dead_code)]
mod model;
mod printer;
mod watcher;
#[allow(dead_code)]
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fault::Fault;
use support::Dice;
use world::{Plan, World};

/// The time of a fault is random; no condition depends on it.
fn pause(time: Duration) {
    let _ = support::within(time, || Err::<(), ()>(()));
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn main() -> ExitCode {
    if printer::has_run() {
        return ExitCode::SUCCESS;
    }
    // `cargo bench` and `cargo test --benches` both run this; only the former has enough time.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    model::assert_it_finds_faults();
    let (seed, seconds) = (number("TD_SEED", 1), number("TD_SECONDS", 60));
    let mut dice = Dice(seed);
    let mut world = World::new(Plan {
        servers: 2,
        sessions: 3,
        panes: 1,
        rates: &[2, 20, 200, 1000],
        options: &["--rotate-size", "1MiB", "--keep-size", "none"],
    });
    let mut counts: BTreeMap<Fault, u64> = BTreeMap::new();
    let began = Instant::now();
    let mut told = began;
    while began.elapsed() < Duration::from_secs(seconds) {
        let fault = Fault::any(&mut dice);
        if std::env::var_os("TD_VERBOSE").is_some() {
            eprintln!("{:.1} {fault:?}", began.elapsed().as_secs_f64());
        }
        if fault.happens(&mut world, &mut dice) {
            *counts.entry(fault).or_default() += 1;
        }
        world.check_observer();
        pause(Duration::from_millis(dice.roll(600)));
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            eprintln!(
                "{} s, {} faults, {} kB",
                began.elapsed().as_secs(),
                counts.values().sum::<u64>(),
                world.memory_kb().unwrap_or(0)
            );
        }
    }
    let verdict = world.end();
    println!("seed {seed}, {} s", began.elapsed().as_secs());
    for (fault, count) in &counts {
        println!("{count:6} {fault:?}");
    }
    println!("{verdict}");
    if verdict.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
