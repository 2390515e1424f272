//! Emits the outputs of cells as events, and passes them on to the outputs of this program.

use std::time::{Duration, Instant};

use super::cell::CellOutput;
use super::content::LogLine;
use super::feed::MissedOutputs;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::event::OutputStream;
use crate::observe::SourceContext;
use crate::process::{ByteSink, TextEvents};
use crate::thread::{self, Stop, is_stopped};

/// The poll interval while the reader of the passed-on output has no room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);

/// Emits the outputs of cells and passes them on.
pub(super) struct OutputEvents {
    emitter: EventEmitter,
    text: TextEvents,
    byte_sink: Option<Box<dyn ByteSink>>,
    clock: Clock,
    stop: Stop,
}

impl OutputEvents {
    pub fn new(
        emitter: &EventEmitter,
        lines_max: Option<u64>,
        byte_sink: Option<Box<dyn ByteSink>>,
        context: &SourceContext,
    ) -> Self {
        Self {
            emitter: emitter.clone(),
            text: TextEvents::of_execution(emitter, lines_max),
            byte_sink,
            clock: context.clock.clone(),
            stop: context.stop.clone(),
        }
    }

    pub fn is_stopped(&self) -> bool {
        is_stopped(&self.stop)
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    pub fn push(&mut self, output: &CellOutput, now: Instant) {
        if let Some(line) = output.log_line() {
            return self.log_line(&line);
        }
        if let Some((stream, text)) = output.text() {
            self.pass_on(stream, &text);
            self.text.push(stream, text.as_bytes(), now);
        }
    }

    /// Emits a log line of the code.
    fn log_line(&mut self, line: &LogLine) {
        let now = self.clock.now();
        self.end_lines(now);
        match line.level.to_ascii_lowercase().as_str() {
            "error" | "critical" | "fatal" => drop(self.emitter.error("log", &line.message)),
            "warning" | "warn" => drop(self.emitter.warning("log", &line.message)),
            level => self.text(&format!("[{level}] {}\n", line.message)),
        }
    }

    /// Emits text of standard output.
    pub fn text(&mut self, text: &str) {
        self.pass_on(OutputStream::Stdout, text);
        let now = self.clock.now();
        self.text.push(OutputStream::Stdout, text.as_bytes(), now);
    }

    /// Passes text on unchanged. While a slow reader blocks this call, the kernel's outputs queue up, and the
    /// excess is dropped.
    fn pass_on(&mut self, stream: OutputStream, text: &str) {
        if let Some(sink) = &mut self.byte_sink {
            while !sink.has_room(stream) && !sink.is_closed(stream) && !is_stopped(&self.stop) {
                thread::park(Some(ROOM_PAUSE));
            }
            sink.take(stream, text.as_bytes());
        }
    }

    /// Returns true if the reader of the passed-on output has gone.
    pub fn is_closed(&mut self) -> bool {
        let sink = self.byte_sink.as_mut();
        sink.is_some_and(|sink| sink.is_closed(OutputStream::Stdout))
    }

    /// Stops passing output on, for example before an interrupt that the user has not sent prints a
    /// traceback.
    pub fn stop_passing(&mut self) {
        self.byte_sink = None;
    }

    /// Emits a warning about dropped outputs.
    pub fn missed(&mut self, missed: MissedOutputs) {
        self.end_lines(self.clock.now());
        let message = format!(
            "{} outputs of the kernel ({} bytes) came faster than they were taken, and are missing here",
            missed.messages, missed.bytes
        );
        self.emitter.warning("kernel", &message);
    }

    /// Emits text that has been held long enough; returns the time of the next call.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.text.tick(now)
    }

    /// Emits everything, open lines included.
    pub fn end_lines(&mut self, now: Instant) {
        self.text.end_lines(now);
    }

    /// Emits everything; returns the number of lines beyond the limit.
    pub fn finish(self, now: Instant) -> u64 {
        self.text.finish(now).1
    }
}
