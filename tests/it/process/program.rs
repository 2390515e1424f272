//! Helpers that run `td-observe run` and read its events.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use td_observe::Envelope;

use crate::cli::{self, Running};
use crate::support::CEILING;

/// `td-observe run` with these arguments.
pub fn command(args: &[&str], data: &Path) -> Command {
    cli::program(&[&["run"], args].concat(), data)
}

/// Runs a shell script under `td-observe run`, with these options, to its end.
#[track_caller]
pub fn script(options: &[&str], script: &str, data: &Path) -> Output {
    let args = [options, &["--", "sh", "-c", script]].concat();
    Running::start(command(&args, data)).end()
}

/// Runs a script with `--json`; returns the output and the events.
#[track_caller]
pub fn events_of(options: &[&str], script_: &str, data: &Path) -> (Output, Vec<Envelope>) {
    let output = script(&[&["--json"], options].concat(), script_, data);
    let events = events(&output.stdout);
    (output, events)
}

/// Parses a stream in JSON, each line of which must be an event; returns those after its opening.
#[track_caller]
pub fn events(stdout: &[u8]) -> Vec<Envelope> {
    let text = std::str::from_utf8(cli::after_opening(stdout)).unwrap();
    text.lines().map(event).collect()
}

#[track_caller]
pub fn event(line: &str) -> Envelope {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A running program, whose lines are read as they arrive.
pub struct Arriving {
    pub running: Running,
    began: Instant,
    pub lines: Vec<(Duration, String)>,
}

impl Arriving {
    #[track_caller]
    pub fn start(command: Command) -> Self {
        Self {
            running: Running::start(command),
            began: Instant::now(),
            lines: Vec::new(),
        }
    }

    /// Reads the next line; returns false at the end.
    #[track_caller]
    pub fn next(&mut self) -> bool {
        match self.running.lines.recv_timeout(CEILING) {
            Ok(line) => self.lines.push((self.began.elapsed(), line)),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("no more lines; seen: {:#?}", self.lines),
        }
        true
    }

    /// Reads lines until one contains the text; returns it.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        while self.next() {
            let (_, line) = self.lines.last().unwrap();
            if line.contains(text) {
                return line.clone();
            }
        }
        panic!("it ended without {text:?}; seen: {:#?}", self.lines);
    }

    /// Reads lines to the end; returns the output and the lines with their times.
    #[track_caller]
    pub fn end(mut self) -> (Output, Vec<(Duration, String)>) {
        while self.next() {}
        let mut output = self.running.end();
        for (_, line) in &self.lines {
            output.stdout.extend_from_slice(line.as_bytes());
            output.stdout.push(b'\n');
        }
        (output, self.lines)
    }
}
