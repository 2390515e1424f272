//! The outcome and the output of a command.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::child::{ExitCause, ExitReport};

/// The exit code of a timeout, as in `timeout(1)`.
const TIMED_OUT: i32 = 124;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// The exit code; `None` when a signal ended the command.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// The time from the start of the command to its end.
    pub duration: Duration,
    /// True if the command was terminated because of its timeout.
    pub timed_out: bool,
    /// True if the command was terminated through its control or because the observer stopped.
    pub was_ended: bool,
    /// The number of lines beyond the limit, which were only counted: see
    /// [`Command::line_limit`](super::Command::line_limit).
    pub lost_lines: u64,
}

impl CommandOutcome {
    pub(super) fn new(report: &ExitReport, duration: Duration, lost_lines: u64) -> Self {
        Self {
            exit_code: report.status.code(),
            signal: report.status.signal(),
            duration,
            timed_out: report.cause == ExitCause::TimedOut,
            was_ended: report.cause == ExitCause::Terminated,
            lost_lines,
        }
    }

    /// Returns true if the command exited with 0 before its timeout.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// Returns the outcome as one number, as shells do: the exit code, 128 plus the signal, or 124 for a
    /// timeout.
    pub fn code(&self) -> i32 {
        if self.timed_out {
            return TIMED_OUT;
        }
        match (self.exit_code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            // A child always has an exit code or a signal.
            (None, None) => 1,
        }
    }

    /// Returns the duration in whole milliseconds.
    pub fn duration_ms(&self) -> u64 {
        u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The outcome of a command, with everything that it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The end of the command.
    pub outcome: CommandOutcome,
    /// Its standard output, byte for byte.
    pub stdout: Vec<u8>,
    /// Its standard error, byte for byte. Empty for a command with its own terminal, which has only one
    /// output.
    pub stderr: Vec<u8>,
    /// The number of bytes missing in the middle of `stdout` and `stderr`: see
    /// [`Command::collect`](super::Command::collect).
    pub lost_bytes: u64,
}
