//! Validates a loop's iteration with a shell command, whose lines become events.

use std::path::Path;
use std::time::Duration;

use super::command::Command;
use super::head_tail::HeadTailBuffer;
use super::run::{OutputMode, run};
use super::sink::EventTarget;
use super::start::StartedCommand;
use crate::bus::{BlockingEmitter, EventEmitter};
use crate::error::Result;
use crate::thread::Stop;

/// The most bytes that are kept of each half of a validation's output.
const COLLECTED_BYTES: usize = 1024 * 1024;

/// The default limit of lines that become events: more than a person reads in a week.
const LINES_MAX: u64 = 1_000_000;

/// The result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValidationResult {
    /// The exit code; 128 plus the signal that ended the command; 124 for a timeout.
    pub exit_code: i32,
    /// The standard output; its beginning and end if it is longer than 2 MiB.
    pub stdout: String,
    /// The standard error, with the same limit.
    pub stderr: String,
    /// The duration of the command.
    pub duration_ms: u64,
    /// True if the command was terminated because of its timeout.
    pub timed_out: bool,
    /// True if the command was terminated on request. It has not passed then, regardless of its exit code.
    pub was_ended: bool,
    /// The number of lines beyond the limit, which were not emitted.
    pub lost_lines: u64,
}

impl ValidationResult {
    /// Returns true if the validation passed.
    pub fn passed(&self) -> bool {
        self.exit_code == 0 && !self.was_ended
    }
}

/// Runs a shell command as the validation of an iteration and emits `ValidationStarted`, one
/// `ValidationOutput` per line as it is printed, and `ValidationCompleted`. Without an emitter it emits
/// nothing and returns the same result.
///
/// A validation that exceeds its timeout is terminated with its whole group, which is a result and not an
/// error.
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
/// If `sh` or the directory does not exist; the system's errors for starting and reading the command.
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

/// Runs a validation with the limits of `command`; `line` is its name in the events.
///
/// # Errors
/// The errors of [`run_validation`].
pub fn validate(
    command: Command,
    line: &str,
    emitter: Option<&EventEmitter>,
    iteration: u32,
) -> Result<ValidationResult> {
    let stop = crossbeam_channel::never();
    validate_until_stopped(command, line, emitter, iteration, &stop)
}

/// Runs a validation and terminates it when `stop` is closed.
pub(crate) fn validate_until_stopped(
    command: Command,
    line: &str,
    emitter: Option<&EventEmitter>,
    iteration: u32,
    stop: &Stop,
) -> Result<ValidationResult> {
    let started = StartedCommand::start(&command)?;
    let target = match emitter {
        Some(emitter) => {
            emitter.validation_started(iteration, line);
            EventTarget::Validation {
                emitter: BlockingEmitter::new(emitter.clone()),
                iteration,
            }
        }
        None => EventTarget::None,
    };
    let (outcome, outputs) = run(command, started, target, OutputMode::CollectLines, stop)?;
    let text =
        |output: HeadTailBuffer| String::from_utf8_lossy(&output.into_bytes().0).into_owned();
    let [stdout, stderr] = outputs.map(text);
    let result = ValidationResult {
        exit_code: outcome.code(),
        stdout,
        stderr,
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
