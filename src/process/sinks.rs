//! Where a command's text goes: to a closure, and into events.

use std::fmt;

use super::command::OnOutput;
use super::patient::BlockingEmitter;
use super::recorder::Sink;
use crate::agent::AgentEvent;
use crate::child::OutputStream;
use crate::event::{TdEvent, lines_in};

/// What becomes of text as events.
pub(super) enum Events {
    /// Nothing.
    None,
    /// `ExecutionOutput`.
    Execution(BlockingEmitter),
    /// `ValidationOutput`, a line each.
    Validation { to: BlockingEmitter, iteration: u32 },
}

/// A command has no loop: what its agent does is one iteration.
const ITERATION: u32 = 1;

/// Hands text to whoever wants it.
pub(super) struct Hearers {
    pub on_output: Option<OnOutput>,
    pub events: Events,
}

impl Hearers {
    /// Something that the records of an agent say.
    pub fn agent(&mut self, event: AgentEvent, agent_id: &str) {
        if let Events::Execution(to) = &mut self.events {
            let id = to.emitter.execution_id().clone();
            to.emit(event.into_event(&id, agent_id, ITERATION));
        }
    }
}

impl Sink for Hearers {
    fn text(&mut self, stream: OutputStream, text: String, passing: bool) {
        if let Some(hear) = &mut self.on_output {
            hear(stream, &text);
        }
        match &mut self.events {
            Events::None => {}
            Events::Execution(to) => {
                let event = TdEvent::ExecutionOutput {
                    execution_id: to.emitter.execution_id().clone(),
                    stream: stream.name().to_owned(),
                    text,
                };
                if passing {
                    // The same line comes again for those who keep it.
                    to.emitter.emit_live(event);
                } else {
                    to.emit(event);
                }
            }
            Events::Validation { to, iteration } => {
                for line in lines_in(&text) {
                    let line = line.strip_suffix('\r').unwrap_or(line);
                    to.emit(TdEvent::ValidationOutput {
                        execution_id: to.emitter.execution_id().clone(),
                        iteration: *iteration,
                        // Of a line that came in pieces, one replaces what was handed on.
                        line: line.trim_start_matches('\r').to_owned(),
                        is_stderr: stream == OutputStream::Stderr,
                    });
                }
            }
        }
    }

    fn warning(&mut self, message: &str) {
        match &self.events {
            Events::None => log::warn!("{message}"),
            Events::Execution(to) | Events::Validation { to, .. } => {
                to.emitter.warning("process", message);
            }
        }
    }
}

impl fmt::Debug for Hearers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = match &self.events {
            Events::None => None,
            Events::Execution(to) | Events::Validation { to, .. } => Some(&to.emitter),
        };
        f.debug_struct("Hearers")
            .field("events", &to)
            .finish_non_exhaustive()
    }
}
