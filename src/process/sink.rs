//! The destinations of a command's text: its callback and events.

use std::fmt;

use super::output_batcher::TextSink;
use crate::agent::AgentEvent;
use crate::bus::BlockingEmitter;
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::event::{TdEvent, lines_in};

/// The kind of events for the text.
pub(super) enum EventTarget {
    None,
    /// `ExecutionOutput`.
    Execution(BlockingEmitter),
    /// One `ValidationOutput` per line.
    Validation {
        emitter: BlockingEmitter,
        iteration: u32,
    },
}

impl EventTarget {
    /// Creates a target for `ExecutionOutput` events.
    pub fn execution(emitter: &EventEmitter) -> Self {
        Self::Execution(BlockingEmitter::new(emitter.clone()))
    }

    fn emitter(&self) -> Option<&EventEmitter> {
        match self {
            Self::None => None,
            Self::Execution(to) | Self::Validation { emitter: to, .. } => Some(&to.emitter),
        }
    }
}

/// The iteration of all agent events of a command, which has no loop.
const ITERATION: u32 = 1;

/// A callback for printed text.
pub(super) type OnOutput = Box<dyn FnMut(OutputStream, &str) + Send>;

/// Passes text to the callback and emits it.
pub(super) struct CommandSink {
    pub on_output: Option<OnOutput>,
    pub events: EventTarget,
}

impl CommandSink {
    /// Emits an event that an agent's record contains.
    pub fn agent(&mut self, event: AgentEvent, agent_id: &str) {
        if let EventTarget::Execution(emitter) = &mut self.events {
            let id = emitter.emitter.execution_id().clone();
            emitter.emit(event.into_event(&id, agent_id, ITERATION));
        }
    }
}

impl TextSink for CommandSink {
    fn text(&mut self, stream: OutputStream, text: String, is_transient: bool) {
        if let Some(on_output) = &mut self.on_output {
            on_output(stream, &text);
        }
        match &mut self.events {
            EventTarget::None => {}
            EventTarget::Execution(emitter) => {
                let event = TdEvent::ExecutionOutput {
                    execution_id: emitter.emitter.execution_id().clone(),
                    stream: stream.into(),
                    text,
                };
                if is_transient {
                    // The history gets a later state of the same line.
                    emitter.emitter.emit_live(event);
                } else {
                    emitter.emit(event);
                }
            }
            EventTarget::Validation { emitter, iteration } => {
                for line in lines_in(&text) {
                    let line = line.strip_suffix('\r').unwrap_or(line);
                    emitter.emit(TdEvent::ValidationOutput {
                        execution_id: emitter.emitter.execution_id().clone(),
                        iteration: *iteration,
                        // A leading `\r` marks the replacement of an emitted part of a long line.
                        line: line.trim_start_matches('\r').to_owned(),
                        is_stderr: stream == OutputStream::Stderr,
                    });
                }
            }
        }
    }

    fn warning(&mut self, message: &str) {
        match self.events.emitter() {
            None => log::warn!("{message}"),
            Some(emitter) => drop(emitter.warning("process", message)),
        }
    }
}

impl fmt::Debug for CommandSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSink")
            .field("emitter", &self.events.emitter())
            .finish_non_exhaustive()
    }
}
