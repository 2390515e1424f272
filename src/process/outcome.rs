//! How a command ended, and what it printed.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::child::{Attended, End};

/// The exit code of a timeout, as `timeout(1)` has it.
const TIMED_OUT: i32 = 124;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// What it exited with; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it ran.
    pub duration: Duration,
    /// Its time was up, and it was ended.
    pub timed_out: bool,
    /// It was asked to end, and did.
    pub was_ended: bool,
    /// Lines that were read and counted, but not handed on: see
    /// [`Command::line_limit`](super::Command::line_limit).
    pub lost_lines: u64,
}

impl CommandOutcome {
    pub(super) fn new(attended: &Attended, duration: Duration, lost_lines: u64) -> Self {
        let status: ExitStatus = attended.status;
        Self {
            exit_code: status.code(),
            signal: status.signal(),
            duration,
            timed_out: attended.end == End::Timeout,
            was_ended: attended.end == End::Asked,
            lost_lines,
        }
    }

    /// Whether it ended by itself, with 0.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// One number for all of it, as shells have it: the exit code, 128 and the signal, or 124 for
    /// a timeout.
    pub fn code(&self) -> i32 {
        if self.timed_out {
            return TIMED_OUT;
        }
        match (self.exit_code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            // A child that has ended did it in one of the two ways.
            (None, None) => 1,
        }
    }

    /// How long it ran, in whole milliseconds.
    pub fn duration_ms(&self) -> u64 {
        u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX)
    }
}

/// How a command ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// How it ended.
    pub outcome: CommandOutcome,
    /// Its standard output, byte for byte.
    pub stdout: Vec<u8>,
    /// Its standard error, byte for byte; nothing with a terminal of its own, which has one output.
    pub stderr: Vec<u8>,
    /// Bytes that are missing in the middle of `stdout` or `stderr`: see
    /// [`Command::collect`](super::Command::collect).
    pub lost_bytes: u64,
}
