//! Failures of the program: an exit code, and one line with the problem, its place and the remedy.

use std::io;
use std::process::ExitCode;

use crate::error::Error;
use crate::redact::Rules;

/// Creates a failure for wrong usage or bad input; takes the arguments of `format!`.
macro_rules! usage {
    ($($text:tt)*) => { $crate::cli::failure::Failure::usage(format!($($text)*)) };
}

/// Creates a failure that wrong usage did not cause; takes the arguments of `format!`.
macro_rules! failure {
    ($($text:tt)*) => { $crate::cli::failure::Failure::other(format!($($text)*)) };
}

/// The observed execution failed, or an operation failed without wrong usage.
const FAILED: u8 = 1;
/// Wrong usage or bad input.
const USAGE: u8 = 2;
/// The time is up.
pub(super) const TIMED_OUT: u8 = 124;
/// `run` refuses what was typed, or fails before the command runs.
const REFUSED: u8 = 125;
/// The command cannot be started.
const NOT_STARTED: u8 = 126;
/// The program to run is missing.
const MISSING: u8 = 127;
/// The user has interrupted the program.
pub(super) const INTERRUPTED: u8 = 130;

/// The reason why a command fails.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// Creates a failure for wrong usage or bad input.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(USAGE, text)
    }

    /// Creates a failure that wrong usage did not cause.
    pub fn other(text: impl Into<String>) -> Self {
        Self::new(FAILED, text)
    }

    /// Creates a failure for work that the user has interrupted.
    #[cfg(any(feature = "report", feature = "sqlite"))]
    pub fn interrupted(text: impl Into<String>) -> Self {
        Self::new(INTERRUPTED, text)
    }

    /// Creates a failure for a program that is not installed.
    pub fn missing(text: impl Into<String>) -> Self {
        Self::new(MISSING, text)
    }

    fn new(code: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// Creates a failure for a command that cannot be started.
    pub fn not_started(error: Error, rules: &Rules) -> Self {
        let code = if error.is_missing_program() {
            MISSING
        } else {
            NOT_STARTED
        };
        // The message names the command, which may contain a secret.
        Self::new(code, rules.text(&format!("{error:?}")))
    }

    /// Returns the failure with the code for what `run` refuses on its own account, so that it differs from what its
    /// command exits with, as far as possible. `env`, `nice` and `timeout` exit in the same way.
    pub fn of_run(self) -> Self {
        match self.code {
            USAGE | FAILED => Self::new(REFUSED, self.text),
            _ => self,
        }
    }

    /// Creates the early end of a command whose standard output is closed, which is no error.
    pub fn closed() -> Self {
        Self::new(0, "")
    }

    /// Returns true if standard output is closed.
    pub fn is_closed(&self) -> bool {
        self.code == 0
    }

    /// Returns the line that describes the failure.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<io::Error> for Failure {
    /// Takes an error of standard output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::closed(),
            _ => failure!("cannot write to standard output: {error}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = if error.is_missing_program() {
            MISSING
        } else if error.is_invalid_input() {
            USAGE
        } else {
            FAILED
        };
        Self::new(code, format!("{error:?}"))
    }
}
