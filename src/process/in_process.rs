//! InProcessExecution that this program does itself, seen as an execution: the same events as of a child process.

use std::time::Instant;

use super::writer::OutputWriter;
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::clock::Clock;

/// What is said to have been exited with when it was not finished: as of a Rust program that
/// panicked.
const PANICKED: i32 = 101;

/// A piece of work that is under way; from [`EventEmitter::begin`]. Dropped without
/// [`InProcessExecution::finish`], as by a panic, it has failed.
///
/// ```
/// use std::io::Write;
/// use td_observe::EventBus;
///
/// let bus = EventBus::new(10_000);
/// let work = bus.emitter_for("analysis").begin("long_running_analysis");
/// let mut out = work.stdout();
/// writeln!(out, "Starting analysis...").unwrap();
/// drop(out);
/// work.finish(0);
/// ```
#[derive(Debug)]
#[must_use = "dropped, the work has failed"]
pub struct InProcessExecution {
    emitter: EventEmitter,
    clock: Clock,
    began: Instant,
    is_finished: bool,
}

impl EventEmitter {
    /// Begins a piece of work: `ExecutionStarted`.
    pub fn begin(&self, command: &str) -> InProcessExecution {
        let clock = Clock::system();
        let here = std::env::current_dir().unwrap_or_default();
        self.execution_started(command, &here.to_string_lossy());
        InProcessExecution {
            emitter: self.clone(),
            began: clock.now(),
            clock,
            is_finished: false,
        }
    }
}

impl InProcessExecution {
    /// Where its output is written.
    pub fn stdout(&self) -> OutputWriter {
        self.emitter.writer(OutputStream::Stdout)
    }

    /// Where it writes what is no result.
    pub fn stderr(&self) -> OutputWriter {
        self.emitter.writer(OutputStream::Stderr)
    }

    /// Ends it: `ExecutionCompleted`. Drop its writers before: what they hold still comes too late.
    pub fn finish(mut self, exit_code: i32) {
        self.end(exit_code);
    }

    fn end(&mut self, exit_code: i32) {
        self.is_finished = true;
        let duration = self.clock.now().saturating_duration_since(self.began);
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.emitter
            .execution_completed(Some(exit_code), None, duration_ms);
    }
}

impl Drop for InProcessExecution {
    fn drop(&mut self) {
        if !self.is_finished {
            self.end(PANICKED);
        }
    }
}
