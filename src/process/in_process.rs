//! Work of this program itself, emitted as an execution with the events of a child process; and records of the
//! `log` crate as its output.

use std::io;
use std::time::Instant;

use log::{Level, LevelFilter, Log, Metadata, Record};

use super::output::OutputBatcher;
use super::run::CommandSink;
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::TdEvent;

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
            // The exit code of unfinished work: that of a Rust program that panicked.
            exit_code: 101,
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

/// Emits written text as `ExecutionOutput` events, like the output of a child process: a line when it is
/// complete, an open line when it is flushed, or continued after 100 ms. Dropping the writer emits the rest.
///
/// While the log is full, writing blocks, as on a slow terminal, for at most 5 s without progress of the log.
/// Writing never fails.
#[derive(Debug)]
pub struct OutputWriter {
    stream: OutputStream,
    batcher: OutputBatcher<CommandSink>,
    clock: Clock,
}

impl EventEmitter {
    /// Returns a writer whose text becomes output of this execution.
    ///
    /// ```
    /// use std::io::Write;
    /// use td_observe::EventBus;
    /// use td_observe::event::OutputStream;
    ///
    /// let bus = EventBus::new(10_000);
    /// let mut out = bus.emitter_for("analysis").writer(OutputStream::Stdout);
    /// for i in 0..100 {
    ///     writeln!(out, "Progress: {i}%").unwrap();
    /// }
    /// ```
    pub fn writer(&self, stream: OutputStream) -> OutputWriter {
        OutputWriter {
            stream,
            batcher: OutputBatcher::unbatched(CommandSink::of_execution(self)),
            clock: Clock::system(),
        }
    }
}

impl io::Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = self.clock.now();
        self.batcher.push(self.stream, bytes, now);
        self.batcher.tick(now);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.batcher.flush_line(self.stream, self.clock.now());
        Ok(())
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        self.batcher.end_lines(self.clock.now());
    }
}

/// A logger that emits records as `ExecutionOutput` events on `stderr`, one line each: `WARN target:
/// message`. Never blocks; records that do not fit are dropped and counted.
///
/// ```
/// use td_observe::{EventBus, process::LogBridge};
///
/// let bus = EventBus::new(10_000);
/// let mut events = bus.subscribe();
/// LogBridge::new(bus.emitter_for("analysis"), log::LevelFilter::Info).install().unwrap();
/// log::info!("half of it is done");
/// bus.close();
/// assert_eq!(events.iter().count(), 1);
/// ```
pub struct LogBridge {
    emitter: EventEmitter,
    level: LevelFilter,
    next: Option<Box<dyn Log>>,
}

impl LogBridge {
    /// Creates a logger that emits records up to `level`.
    pub fn new(emitter: EventEmitter, level: LevelFilter) -> Self {
        Self {
            emitter,
            level,
            next: None,
        }
    }

    /// Also passes all records to another logger, for example `env_logger`.
    #[must_use = "the logger is not installed yet"]
    pub fn and_to(mut self, next: impl Log + 'static) -> Self {
        self.next = Some(Box::new(next));
        self
    }

    /// Installs this as the program's logger, and raises `log::max_level` to its level. Use
    /// `log::set_max_level` to set the level of another logger.
    ///
    /// # Errors
    /// When the program already has a logger.
    pub fn install(self) -> Result<()> {
        let level = self.level.max(log::max_level());
        log::set_boxed_logger(Box::new(self))
            .map_err(|cause| Error::other("the program already has a logger").because(cause))?;
        log::set_max_level(level);
        Ok(())
    }

    fn accepts(&self, level: Level, target: &str) -> bool {
        // This library's own records are not emitted, because they are about events and would cause further events
        // endlessly.
        let rest = target.strip_prefix(env!("CARGO_CRATE_NAME"));
        let is_own = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        level <= self.level && !is_own
    }
}

impl Log for LogBridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let next = self.next.as_ref();
        self.accepts(metadata.level(), metadata.target())
            || next.is_some_and(|next| next.enabled(metadata))
    }

    fn log(&self, record: &Record<'_>) {
        if self.accepts(record.level(), record.target()) {
            let text = format!(
                "{} {}: {}\n",
                record.level(),
                record.target(),
                record.args()
            );
            self.emitter.emit(TdEvent::ExecutionOutput {
                execution_id: self.emitter.execution_id().clone(),
                stream: OutputStream::Stderr.into(),
                text,
            });
        }
        if let Some(next) = &self.next {
            next.log(record);
        }
    }

    fn flush(&self) {
        if let Some(next) = &self.next {
            next.flush();
        }
    }
}

impl std::fmt::Debug for LogBridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogBridge")
            .field("emitter", &self.emitter)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}
