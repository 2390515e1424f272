//! Emits text of other sources than commands like a command's output: as batched `ExecutionOutput`.

use std::time::Instant;

use super::output_batcher::OutputBatcher;
use super::sink::{CommandSink, EventTarget};
use crate::bus::EventEmitter;
use crate::child::OutputStream;

/// Emits text like a command's output: complete lines immediately, an open line after 100 ms, and a line that
/// is rewritten with carriage returns in states.
pub(crate) struct TextEvents(OutputBatcher<CommandSink>);

impl TextEvents {
    /// Creates a handle that emits at most `lines_max` lines for an execution.
    pub fn new(emitter: &EventEmitter, lines_max: Option<u64>) -> Self {
        let sink = CommandSink {
            on_output: None,
            events: EventTarget::execution(emitter),
        };
        Self(OutputBatcher::new(sink, false, lines_max))
    }

    /// Adds text.
    pub fn push(&mut self, stream: OutputStream, text: &str, now: Instant) {
        self.0.push(stream, text.as_bytes(), now);
    }

    /// Emits text that was held long enough; returns the time of the next call.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.0.tick(now)
    }

    /// Emits all text, including open lines. Later text begins new lines.
    pub fn end_lines(&mut self, now: Instant) {
        self.0.end_lines(now);
    }

    /// Emits all text; returns the number of lines beyond the limit.
    pub fn finish(self, now: Instant) -> u64 {
        self.0.finish(now).1
    }
}
