//! The destinations of a command's bytes and of its text: a terminal, its callback, events.

use std::fmt;
use std::io::Write;

#[cfg(all(feature = "cli", feature = "kernel"))]
use super::output_batcher::OutputBatcher;
use super::output_batcher::TextSink;
use crate::agent::AgentEvent;
use crate::bus::{BlockingEmitter, EventEmitter};
use crate::child::OutputStream;
use crate::event::{TdEvent, lines_in};

/// Receives every byte of a command's outputs as printed. Runs on the thread that supervises the command, and
/// must not block it.
pub(crate) trait ByteSink: Send {
    fn take(&mut self, stream: OutputStream, bytes: &[u8]);

    /// Returns false while the sink has no room for this output, which is not read then.
    fn has_room(&self, stream: OutputStream) -> bool;

    /// Returns true if the reader of this output has gone; the command's output is closed then.
    fn is_closed(&mut self, _stream: OutputStream) -> bool {
        false
    }
}

/// A writer that gets both outputs, such as a terminal.
pub(super) struct Mirror<W> {
    to: Option<W>,
}

impl<W: Write + Send> Mirror<W> {
    pub fn new(to: W) -> Self {
        Self { to: Some(to) }
    }
}

impl<W: Write + Send> ByteSink for Mirror<W> {
    fn take(&mut self, _: OutputStream, bytes: &[u8]) {
        if let Some(to) = &mut self.to
            && to.write_all(bytes).and_then(|()| to.flush()).is_err()
        {
            // The writer's reader is gone; the command continues.
            self.to = None;
        }
    }

    fn has_room(&self, _: OutputStream) -> bool {
        true
    }
}

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
pub(crate) struct CommandSink {
    pub(super) on_output: Option<OnOutput>,
    pub(super) events: EventTarget,
}

/// Emits text of other sources than commands like a command's output: as batched `ExecutionOutput`.
#[cfg(all(feature = "cli", feature = "kernel"))]
pub(crate) type TextEvents = OutputBatcher<CommandSink>;

#[cfg(all(feature = "cli", feature = "kernel"))]
impl TextEvents {
    /// Creates a batcher that emits at most `lines_max` lines for an execution.
    pub fn of_execution(emitter: &EventEmitter, lines_max: Option<u64>) -> Self {
        Self::new(CommandSink::of_execution(emitter), false, lines_max)
    }
}

impl CommandSink {
    /// Creates a sink that emits `ExecutionOutput`.
    pub fn of_execution(emitter: &EventEmitter) -> Self {
        Self {
            on_output: None,
            events: EventTarget::execution(emitter),
        }
    }

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
