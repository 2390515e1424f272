//! The program in the panes: this binary, started again with a hidden argument.

#![allow(clippy::print_stdout)]

use std::io::{Write, stdout};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the clock that all processes share, in ns.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The output of the program.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// `count` lines, one every `period_ms`, each with the time of its writing.
    Stamps { period_ms: u64, count: u64 },
    /// `rate` lines per second for `time_ms`, in bursts of 10 ms; then `end` and the elapsed time.
    Bursts { rate: u64, time_ms: u64 },
    /// A line per second without end, as a live job.
    Alive,
    /// Long lines as fast as they are read, without end.
    Flood,
    /// The endless output of Claude Code at work: see [`super::fake_agent`].
    Agent,
}

impl Program {
    /// Returns the shell command, whose process becomes this program.
    pub fn command(self) -> String {
        let binary = std::env::current_exe().unwrap();
        let arguments = match self {
            Self::Stamps { period_ms, count } => format!("stamps {period_ms} {count}"),
            Self::Bursts { rate, time_ms } => format!("bursts {rate} {time_ms}"),
            Self::Alive => "alive".to_owned(),
            Self::Flood => "flood".to_owned(),
            Self::Agent => "agent".to_owned(),
        };
        format!("exec '{}' print-in-a-pane {arguments}", binary.display())
    }

    /// Returns a command that starts on `tmux wait-for -S go`; the pane stays afterwards.
    pub fn command_on_go(self) -> String {
        let command = self.command();
        let command = command.trim_start_matches("exec ");
        format!("printf 'ready\\n'; tmux wait-for go; {command}; exec cat")
    }

    fn of(arguments: &[String]) -> Self {
        let number = |at: usize| arguments[at].parse().unwrap();
        match arguments[0].as_str() {
            "stamps" => Self::Stamps {
                period_ms: number(1),
                count: number(2),
            },
            "bursts" => Self::Bursts {
                rate: number(1),
                time_ms: number(2),
            },
            "alive" => Self::Alive,
            "flood" => Self::Flood,
            "agent" => Self::Agent,
            other => panic!("no program {other}"),
        }
    }

    fn run(self) {
        match self {
            Self::Stamps { period_ms, count } => {
                thread::sleep(phase(period_ms));
                for number in 0..count {
                    println!("stamp {number} {}", monotonic_ns());
                    thread::sleep(Duration::from_millis(period_ms));
                }
                println!("end");
            }
            Self::Bursts { rate, time_ms } => bursts(rate, time_ms),
            Self::Agent => super::fake_agent::run(),
            Self::Alive => {
                thread::sleep(phase(1000));
                for number in 0_u64.. {
                    println!("some line that a job prints {number}");
                    thread::sleep(Duration::from_secs(1));
                }
            }
            Self::Flood => {
                let filling = "x".repeat(200);
                for number in 0_u64.. {
                    println!("{number} {filling}");
                }
            }
        }
    }
}

/// Programs that start at the same time must not print at the same time.
fn phase(period_ms: u64) -> Duration {
    Duration::from_millis(u64::from(std::process::id()) * 379 % period_ms)
}

const BURST: Duration = Duration::from_millis(10);

fn bursts(rate: u64, time_ms: u64) {
    let (count, began) = (time_ms / 10, Instant::now());
    let mut printed = 0;
    for burst in 1..=count {
        let due = rate * burst / 100;
        let mut text = String::new();
        for number in printed + 1..=due {
            text.push_str(&format!("line {number} of a program that prints a lot\n"));
        }
        printed = due;
        stdout().write_all(text.as_bytes()).unwrap();
        thread::sleep((BURST * burst as u32).saturating_sub(began.elapsed()));
    }
    println!("end {printed} {}", began.elapsed().as_millis());
}

/// Runs the program and returns true if this process was started for it.
pub fn has_run() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = arguments
        .first()
        .is_some_and(|one| one == "print-in-a-pane");
    if is_asked {
        Program::of(&arguments[1..]).run();
    }
    is_asked
}
