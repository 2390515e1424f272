//! The check of a loop: a shell command whose lines are events, and whose end is a result (`001…`).

use std::path::Path;
use std::time::Duration;

use super::command::Command;
use super::patient::BlockingEmitter;
use super::run::{Keeping, attend, never};
use super::sinks::{Events, Hearers};
use super::start::start;
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::thread::Stop;

/// What is kept of each output of a check: what failed stands at its end.
const COLLECTED_BYTES: usize = 1024 * 1024;

/// Lines of a check that become events, unless told otherwise (`001…`, edge case 5): as many as
/// anybody reads in a week.
const LINES_MAX: u64 = 1_000_000;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValidationResult {
    /// The exit code; 128 and the signal that ended it; 124 when its time was up.
    pub exit_code: i32,
    /// Its standard output: of more than 1 MiB the beginning and the end.
    pub stdout: String,
    /// Its standard error, likewise.
    pub stderr: String,
    /// How long it ran.
    pub duration_ms: u64,
    /// Its time was up.
    pub timed_out: bool,
    /// It was asked to end before it did: whatever it exited with, it has not passed.
    pub was_ended: bool,
    /// Lines that became no events, beyond the limit.
    pub lost_lines: u64,
}

impl ValidationResult {
    /// Whether the check passed.
    pub fn passed(&self) -> bool {
        self.exit_code == 0 && !self.was_ended
    }
}

/// Runs a shell command as the check of an iteration: `ValidationStarted`, a `ValidationOutput` for
/// each line while it is printed, `ValidationCompleted`. Without an emitter there are no events,
/// and the result is the same.
///
/// A check that takes too long is ended, with its whole group, and that is a result.
///
/// ```no_run
/// use std::{path::Path, time::Duration};
/// use td_observe::process::run_validation;
///
/// # fn main() -> td_observe::Result<()> {
/// let timeout = Duration::from_secs(600);
/// let result = run_validation("cargo test", Path::new("."), timeout, None, 1)?;
/// println!("{} after {} ms", result.exit_code, result.duration_ms);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When there is no `sh`, or no such directory; what the system says.
pub fn run_validation(
    command: &str,
    workdir: &Path,
    timeout: Duration,
    emitter: Option<&EventEmitter>,
    iteration: u32,
) -> Result<ValidationResult> {
    validate(
        Command::shell(command)
            .directory(workdir)
            .timeout(timeout)
            .line_limit(LINES_MAX)
            .collect(COLLECTED_BYTES * 2),
        command,
        emitter,
        iteration,
    )
}

/// The same for a command with bounds of its own; `line` is what the events call it.
///
/// # Errors
/// As for [`run_validation`].
pub fn validate(
    command: Command,
    line: &str,
    emitter: Option<&EventEmitter>,
    iteration: u32,
) -> Result<ValidationResult> {
    validate_until_stopped(command, line, emitter, iteration, &never())
}

/// The same, ended when `stop` is closed.
pub(crate) fn validate_until_stopped(
    mut command: Command,
    line: &str,
    emitter: Option<&EventEmitter>,
    iteration: u32,
    stop: &Stop,
) -> Result<ValidationResult> {
    let began = command.clock.now();
    let events = match emitter {
        Some(emitter) => Events::Validation {
            to: BlockingEmitter::new(emitter.clone(), command.clock.clone()),
            iteration,
        },
        None => Events::None,
    };
    let hearers = Hearers {
        on_output: command.on_output.take(),
        events,
    };
    let started = start(&command)?;
    if let Some(emitter) = emitter {
        emitter.validation_started(iteration, line);
    }
    let ran = attend(command, started, began, hearers, Keeping::Lines, stop)?;
    let outcome = ran.outcome;
    let ((stdout, _), (stderr, _)) = ran.collected;
    let result = ValidationResult {
        exit_code: outcome.code(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        duration_ms: outcome.duration_ms(),
        timed_out: outcome.timed_out,
        was_ended: outcome.was_ended,
        lost_lines: outcome.lost_lines,
    };
    if let Some(emitter) = emitter {
        emitter.validation_completed(iteration, result.exit_code, result.duration_ms);
    }
    Ok(result)
}
