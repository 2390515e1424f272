//! Text that this program prints, as events: an `io::Write`.

use std::io;

use super::lines::Lines;
use super::patient::BlockingEmitter;
use super::recorder::Sink;
use super::sinks::{Events, Hearers};
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::clock::Clock;

/// Writes `ExecutionOutput` events, as a child process's output becomes them: each line when it is
/// whole; an open one when it is flushed, and when it has stood for a moment and goes on. Dropped,
/// it writes what is left.
///
/// Where the log is behind, writing waits, as on a terminal; not for longer than 5 s, when the disk
/// stands still. It never fails.
#[derive(Debug)]
pub struct OutputWriter {
    stream: OutputStream,
    lines: Lines,
    to: Hearers,
    clock: Clock,
    has_told: bool,
}

impl EventEmitter {
    /// CommandOutput of this execution, to write to.
    ///
    /// ```
    /// use std::io::Write;
    /// use td_observe::{EventBus, process::OutputStream};
    ///
    /// let bus = EventBus::new(10_000);
    /// let mut out = bus.emitter_for("analysis").writer(OutputStream::Stdout);
    /// for i in 0..100 {
    ///     writeln!(out, "Progress: {i}%").unwrap();
    /// }
    /// ```
    pub fn writer(&self, stream: OutputStream) -> OutputWriter {
        OutputWriter::new(self, stream, Clock::system())
    }
}

impl OutputWriter {
    pub(super) fn new(emitter: &EventEmitter, stream: OutputStream, clock: Clock) -> Self {
        let events = Events::Execution(BlockingEmitter::new(emitter.clone(), clock.clone()));
        let on_output = None;
        Self {
            stream,
            lines: Lines::new(false),
            to: Hearers { on_output, events },
            clock,
            has_told: false,
        }
    }

    fn give(&mut self, passing: Option<String>) {
        if !self.lines.ready().is_empty() {
            let text = self.lines.take_ready();
            self.to.text(self.stream, text, false);
        }
        if let Some(text) = passing {
            self.to.text(self.stream, text, true);
        }
        if self.lines.invalid() > 0 && !std::mem::replace(&mut self.has_told, true) {
            self.to.warning(super::recorder::NOT_TEXT);
        }
    }
}

impl io::Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = self.clock.now();
        self.lines.push(bytes, now);
        let passing = self.lines.tick(now);
        self.give(passing);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let passing = self.lines.flush(self.clock.now());
        self.give(passing);
        Ok(())
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        self.lines.finish(self.clock.now());
        self.give(None);
    }
}
