//! What happens in a conversation, told: as events, and in full to whoever keeps it.

use crossbeam_channel::Receiver;

use super::model::{Response, StreamChunk, ToolCall};
use super::tool::ToolOutcome;
use super::turns::Part;
use crate::agent::AgentEvent;
use crate::agent::summary::summary;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::event::{ExecutionId, TdEvent};
use crate::process::BlockingEmitter;

/// Who hears every part in full.
pub(super) type Hear<'a> = &'a mut (dyn FnMut(Part<'_>) + Send);

/// Tells what happens.
pub(super) struct Teller<'a> {
    to: Option<To>,
    hear: Option<Hear<'a>>,
}

/// Where events go.
struct To {
    emitter: EventEmitter,
    /// Tokens come from a program that may be made to wait.
    patient: BlockingEmitter,
    id: ExecutionId,
    iteration: u32,
}

/// What the chunks of one answer had in them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// An agent has told itself what its messages were.
    pub has_response: bool,
}

impl<'a> Teller<'a> {
    pub fn new(
        emitter: Option<(&EventEmitter, u32)>,
        hear: Option<Hear<'a>>,
        clock: &Clock,
    ) -> Self {
        let to = emitter.map(|(emitter, iteration)| To {
            emitter: emitter.clone(),
            patient: BlockingEmitter::new(emitter.clone(), clock.clone()),
            id: emitter.execution_id().clone(),
            iteration,
        });
        Self { to, hear }
    }

    fn part(&mut self, part: Part<'_>) {
        if let Some(hear) = &mut self.hear {
            hear(part);
        }
    }

    /// A prompt goes out.
    pub fn prompt(&mut self, turn: u32, text: &str) {
        if let Some(to) = &self.to {
            // How many tokens it is, only the answer says.
            to.emitter.prompt_sent(to.iteration, &summary(text), 0);
        }
        self.part(Part::Prompt { turn, text });
    }

    /// An answer comes: until its sender is gone. `prompt` is what was asked.
    pub fn answer(&mut self, chunks: &Receiver<StreamChunk>, prompt: &str) -> Told {
        let mut told = Told::default();
        for chunk in chunks {
            match chunk {
                StreamChunk::TextDelta(token) => {
                    self.part(Part::Text(&token));
                    if let Some(to) = &mut self.to {
                        to.patient.emit(TdEvent::TokenReceived {
                            execution_id: to.id.clone(),
                            iteration: to.iteration,
                            token,
                            pane: None,
                        });
                    }
                }
                StreamChunk::Agent(event) => self.agent(event, prompt, &mut told),
                // A call is told when it is done.
                _ => {}
            }
        }
        told
    }

    fn agent(&mut self, event: AgentEvent, prompt: &str, told: &mut Told) {
        match &event {
            AgentEvent::ResponseCompleted { .. } => told.has_response = true,
            // Its own copy of what it was asked.
            AgentEvent::PromptSent { prompt_summary, .. } if *prompt_summary == summary(prompt) => {
                return;
            }
            _ => {}
        }
        self.part(Part::Agent(&event));
        if let Some(to) = &mut self.to {
            // One agent: the loop's own.
            let event = event.into_event(&to.id, to.id.as_str(), to.iteration);
            to.patient.emit(event);
        }
    }

    /// An answer is whole.
    pub fn response(&mut self, response: &Response, told: Told) {
        if let Some(to) = &self.to
            && !told.has_response
        {
            to.emitter.response_completed(
                to.iteration,
                &summary(&response.text),
                response.usage.input_tokens,
                response.usage.output_tokens,
                !response.tool_calls.is_empty(),
            );
        }
        self.part(Part::Response(response));
    }

    /// A tool is called.
    pub fn call(&mut self, call: &ToolCall) {
        if let Some(to) = &self.to {
            let args = summary(&call.input_text());
            to.emitter
                .tool_call_started(to.iteration, &summary(&call.name), &args);
        }
        self.part(Part::ToolCall(call));
    }

    /// A tool has answered.
    pub fn result(&mut self, call: &ToolCall, outcome: &ToolOutcome, duration_ms: u64) {
        if let Some(to) = &self.to {
            to.emitter.tool_call_completed(
                to.iteration,
                &summary(&call.name),
                !outcome.is_error,
                &summary(&outcome.content),
                duration_ms,
            );
        }
        self.part(Part::ToolResult { call, outcome });
    }

    /// Something that whoever watches should know.
    pub fn warning(&mut self, message: &str) {
        if let Some(to) = &self.to {
            to.emitter.warning("model", message);
        }
    }

    /// The model could not be asked, or gave no whole answer.
    pub fn error(&mut self, message: &str) {
        if let Some(to) = &self.to {
            to.emitter.error("model", message);
        }
    }
}
