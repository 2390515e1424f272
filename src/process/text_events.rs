//! Text that is no command's output, as the events of a command: `ExecutionOutput`, in batches.

use std::time::Instant;

use super::output_batcher::OutputBatcher;
use super::sink::{CommandSink, EventTarget};
use crate::bus::EventEmitter;
use crate::child::OutputStream;

/// Emits text as a command's output: complete lines at once, an open line after 100 ms, a line that is
/// rewritten with carriage returns in its states.
pub(crate) struct TextEvents(OutputBatcher<CommandSink>);

impl TextEvents {
    /// Creates the events of an execution, for at most `lines_max` lines.
    pub fn new(emitter: &EventEmitter, lines_max: Option<u64>) -> Self {
        let sink = CommandSink {
            on_output: None,
            events: EventTarget::execution(emitter),
        };
        Self(OutputBatcher::new(sink, false, lines_max))
    }

    /// Takes text.
    pub fn push(&mut self, stream: OutputStream, text: &str, now: Instant) {
        self.0.push(stream, text.as_bytes(), now);
    }

    /// Emits what has waited long enough; returns the time of the next call.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.0.tick(now)
    }

    /// Emits everything, open lines included. Text that follows begins new lines.
    pub fn end_lines(&mut self, now: Instant) {
        self.0.end_lines(now);
    }

    /// Emits everything; returns the number of lines beyond the limit.
    pub fn finish(self, now: Instant) -> u64 {
        self.0.finish(now).1
    }
}
