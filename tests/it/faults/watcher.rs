//! The program as a process that watches a test's server and prints its events as JSON.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::Pid;
use td_observe::{Envelope, TdEvent};

use crate::cli::{Running, assert_code, on, program};
use crate::observed::shown;
use crate::resources::children_of;
use crate::support::{CEILING, TmuxServer, wait_for};

/// `td-observe watch --json`, and its output so far.
pub struct Watcher {
    pub running: Running,
    pub seen: Vec<Envelope>,
}

impl Watcher {
    /// Watches all sessions of a server.
    pub fn start(server: &TmuxServer, data: &Path, more: &[&str]) -> Self {
        let socket = server.socket().display().to_string();
        let args: Vec<&str> = ["watch", "--json"].iter().chain(more).copied().collect();
        Self::of(program(&on(&socket, &args), data))
    }

    /// Starts a command that watches with `--json`.
    pub fn of(command: Command) -> Self {
        Self {
            running: Running::start(command),
            seen: Vec::new(),
        }
    }

    /// Kills the program and returns its output.
    #[track_caller]
    pub fn killed(self) -> Vec<Envelope> {
        let Self { running, mut seen } = self;
        let output = running.end();
        let text = String::from_utf8_lossy(&output.stdout);
        // The last line may be incomplete.
        seen.extend(
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok()),
        );
        seen
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.running.child)
    }

    /// Receives events until they satisfy the predicate.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&[Envelope]) -> bool) {
        let deadline = Instant::now() + CEILING;
        while !done(&self.seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.running.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(read(&line)),
                Err(error) => panic!("waited for {what} ({error}); seen:\n{}", shown(&self.seen)),
            }
        }
    }

    /// Waits until this many sessions of this name have started.
    #[track_caller]
    pub fn until_started(&mut self, name: &str, times: usize) {
        self.until(&format!("the start of {name}"), |seen| {
            super::runs_of(seen, name).len() >= times
        });
    }

    /// Waits until the last run of a session has this line.
    #[track_caller]
    pub fn until_line(&mut self, name: &str, line: &str) {
        // Each event is checked once, because a flood has many.
        let (mut checked, mut run) = (0, None);
        self.until(&format!("the line {line:?} of {name}"), |seen| {
            let new = &seen[std::mem::replace(&mut checked, seen.len())..];
            run = super::runs_of(new, name).pop().or_else(|| run.take());
            new.iter().any(|envelope| match &envelope.event {
                TdEvent::OutputUpdate {
                    execution_id,
                    chunk,
                    ..
                } => {
                    Some(execution_id.as_str()) == run.as_deref()
                        && chunk.lines().any(|other| other == line)
                }
                _ => false,
            })
        });
    }

    /// Returns the children that still exist, unreaped ones included.
    pub fn children(&self) -> Vec<Pid> {
        let children = children_of(self.running.child.id()).into_iter();
        children
            .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
            .collect()
    }

    /// Waits until the program has started a child process.
    #[track_caller]
    pub fn until_child(&self) -> Pid {
        wait_for("a process of the observer", CEILING, || {
            self.children().first().copied().ok_or("none")
        })
    }

    /// Stops the program with a signal; returns its output.
    #[track_caller]
    pub fn stop(self) -> Vec<Envelope> {
        let Self { running, mut seen } = self;
        running.signal(rustix::process::Signal::INT);
        let output = running.end();
        let text = String::from_utf8_lossy(&output.stdout);
        seen.extend(text.lines().map(read));
        assert_code(&output, 0);
        seen
    }
}

#[track_caller]
fn read(line: &str) -> Envelope {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}
