//! An `io::Write` that emits text of this program as events.

use std::io;

use super::line_assembler::LineAssembler;
use super::output_batcher::{NOT_TEXT, TextSink};
use super::sink::{CommandSink, EventTarget};
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::clock::Clock;

/// Emits written text as `ExecutionOutput` events, like the output of a child process: a line when it is
/// complete, an open line when it is flushed, or continued after 100 ms. Dropping the writer emits the rest.
///
/// While the log is full, writing blocks, as on a slow terminal, for at most 5 s without progress of the log.
/// Writing never fails.
#[derive(Debug)]
pub struct OutputWriter {
    stream: OutputStream,
    lines: LineAssembler,
    sink: CommandSink,
    clock: Clock,
    has_warned: bool,
}

impl EventEmitter {
    /// Returns a writer whose text becomes output of this execution.
    ///
    /// ```
    /// use std::io::Write;
    /// use td_observe::{EventBus, OutputStream};
    ///
    /// let bus = EventBus::new(10_000);
    /// let mut out = bus.emitter_for("analysis").writer(OutputStream::Stdout);
    /// for i in 0..100 {
    ///     writeln!(out, "Progress: {i}%").unwrap();
    /// }
    /// ```
    pub fn writer(&self, stream: OutputStream) -> OutputWriter {
        let clock = Clock::system();
        OutputWriter {
            stream,
            lines: LineAssembler::new(false),
            sink: CommandSink {
                on_output: None,
                events: EventTarget::execution(self),
            },
            clock,
            has_warned: false,
        }
    }
}

impl OutputWriter {
    fn emit(&mut self, transient: Option<String>) {
        if !self.lines.ready().is_empty() {
            let text = self.lines.take_ready();
            self.sink.text(self.stream, text, false);
        }
        if let Some(text) = transient {
            self.sink.text(self.stream, text, true);
        }
        if self.lines.invalid() > 0 && !std::mem::replace(&mut self.has_warned, true) {
            self.sink.warning(NOT_TEXT);
        }
    }
}

impl io::Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = self.clock.now();
        self.lines.push(bytes, now);
        let transient = self.lines.tick(now);
        self.emit(transient);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let transient = self.lines.flush(self.clock.now());
        self.emit(transient);
        Ok(())
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        self.lines.finish(self.clock.now());
        self.emit(None);
    }
}
