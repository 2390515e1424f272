//! Work of this program itself, emitted as an execution with the events of a child process.

use std::time::Instant;

use super::writer::OutputWriter;
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::clock::Clock;

/// The exit code of unfinished work: that of a Rust program that panicked.
const PANICKED: i32 = 101;

/// An execution within this program, from [`EventEmitter::begin`]. Counts as failed if it is dropped without
/// [`InProcessExecution::finish`], for example by a panic.
///
/// ```
/// use std::io::Write;
/// use td_observe::EventBus;
///
/// let bus = EventBus::new(10_000);
/// let execution = bus.emitter_for("analysis").begin("long_running_analysis");
/// let mut out = execution.stdout();
/// writeln!(out, "Starting analysis...").unwrap();
/// drop(out);
/// execution.finish(0);
/// ```
#[derive(Debug)]
#[must_use = "an execution that is dropped has failed"]
pub struct InProcessExecution {
    emitter: EventEmitter,
    clock: Clock,
    began: Instant,
    exit_code: i32,
}

impl EventEmitter {
    /// Begins an execution within this program and emits `ExecutionStarted`.
    pub fn begin(&self, command: &str) -> InProcessExecution {
        let clock = Clock::system();
        let directory = std::env::current_dir().unwrap_or_default();
        self.execution_started(command, &directory.to_string_lossy());
        InProcessExecution {
            emitter: self.clone(),
            began: clock.now(),
            clock,
            exit_code: PANICKED,
        }
    }
}

impl InProcessExecution {
    /// Returns a writer for its standard output.
    pub fn stdout(&self) -> OutputWriter {
        self.emitter.writer(OutputStream::Stdout)
    }

    /// Returns a writer for its standard error.
    pub fn stderr(&self) -> OutputWriter {
        self.emitter.writer(OutputStream::Stderr)
    }

    /// Ends the execution and emits `ExecutionCompleted`. Drop its writers first, because text that they
    /// still hold would follow the end.
    pub fn finish(mut self, exit_code: i32) {
        self.exit_code = exit_code;
    }
}

impl Drop for InProcessExecution {
    fn drop(&mut self) {
        let duration = self.clock.now().saturating_duration_since(self.began);
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.emitter
            .execution_completed(Some(self.exit_code), None, duration_ms);
    }
}
