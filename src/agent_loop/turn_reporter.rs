//! The reporter of a conversation, which emits its events and passes its parts to a callback.

use crossbeam_channel::Receiver;

use super::model::{Response, StreamChunk, ToolCall};
use super::tool::ToolOutcome;
use crate::agent::AgentEvent;
use crate::agent::summary::summary;
use crate::bus::{BlockingEmitter, EventEmitter};
use crate::event::{Completion, ExecutionId, TdEvent, ToolCalls};

/// A part of a conversation, with its full text.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ConversationPart<'a> {
    /// A prompt is sent to the model.
    Prompt {
        /// The number of the answer, from 1.
        turn: u32,
        /// The new text of the prompt, for people.
        text: &'a str,
    },
    /// A piece of the answer's text.
    Text(&'a str),
    /// An event of an agent that works on its own.
    Agent(&'a AgentEvent),
    /// The answer is complete.
    Response(&'a Response),
    /// A tool is called.
    ToolCall(&'a ToolCall),
    /// A tool has returned its result.
    ToolResult {
        /// The call.
        call: &'a ToolCall,
        /// The result.
        outcome: &'a ToolOutcome,
    },
}

pub(super) type OnPart<'a> = &'a mut (dyn FnMut(ConversationPart<'_>) + Send);

pub(super) struct TurnReporter<'a> {
    target: Option<EventTarget>,
    on_part: Option<OnPart<'a>>,
}

/// The emitter, the execution and the iteration of a conversation's events.
struct EventTarget {
    emitter: EventEmitter,
    /// The emitter of tokens and agent events, which waits for room in the log.
    blocking: BlockingEmitter,
    id: ExecutionId,
    iteration: u32,
}

impl<'a> TurnReporter<'a> {
    pub fn new(emitter: Option<(&EventEmitter, u32)>, on_part: Option<OnPart<'a>>) -> Self {
        let target = emitter.map(|(emitter, iteration)| EventTarget {
            emitter: emitter.clone(),
            blocking: BlockingEmitter::new(emitter.clone()),
            id: emitter.execution_id().clone(),
            iteration,
        });
        Self { target, on_part }
    }

    fn part(&mut self, part: ConversationPart<'_>) {
        if let Some(on_part) = &mut self.on_part {
            on_part(part);
        }
    }

    /// Reports a prompt that is sent to the model.
    pub fn prompt(&mut self, turn: u32, text: &str) {
        if let Some(target) = &self.target {
            // Only the answer reports the number of tokens.
            target
                .emitter
                .prompt_sent(target.iteration, &summary(text), 0);
        }
        self.part(ConversationPart::Prompt { turn, text });
    }

    /// Reports an answer as it arrives, until its sender is dropped. `prompt` is the prompt of the answer.
    /// Returns true if an agent has reported its own `ResponseCompleted`.
    pub fn stream(&mut self, chunks: &Receiver<StreamChunk>, prompt: &str) -> bool {
        let mut has_response = false;
        for chunk in chunks {
            match chunk {
                StreamChunk::TextDelta(token) => {
                    self.part(ConversationPart::Text(&token));
                    if let Some(target) = &mut self.target {
                        target.blocking.emit(TdEvent::TokenReceived {
                            execution_id: target.id.clone(),
                            iteration: target.iteration,
                            token,
                            pane: None,
                        });
                    }
                }
                StreamChunk::Agent(event) => {
                    has_response |= matches!(event, AgentEvent::ResponseCompleted { .. });
                    self.agent(event, prompt);
                }
                // Tool calls are reported when they are complete.
                _ => {}
            }
        }
        has_response
    }

    fn agent(&mut self, event: AgentEvent, prompt: &str) {
        if let AgentEvent::PromptSent { prompt_summary, .. } = &event
            && *prompt_summary == summary(prompt)
        {
            // The agent's own copy of the prompt, which is already reported.
            return;
        }
        self.part(ConversationPart::Agent(&event));
        if let Some(target) = &mut self.target {
            // The only agent is the loop itself.
            let event = event.into_event(&target.id, target.id.as_str(), target.iteration);
            target.blocking.emit(event);
        }
    }

    /// Reports a complete answer, whose event an agent may already have reported.
    pub fn response(&mut self, response: &Response, is_reported: bool) {
        if let Some(target) = &self.target
            && !is_reported
        {
            target.emitter.response_completed(
                target.iteration,
                &summary(&response.text),
                response.usage.input_tokens,
                response.usage.output_tokens,
                if response.tool_calls.is_empty() {
                    ToolCalls::Absent
                } else {
                    ToolCalls::Requested
                },
            );
        }
        self.part(ConversationPart::Response(response));
    }

    pub fn call(&mut self, call: &ToolCall) {
        if let Some(target) = &self.target {
            let args = summary(&call.input_text());
            target
                .emitter
                .tool_call_started(target.iteration, &summary(&call.name), &args);
        }
        self.part(ConversationPart::ToolCall(call));
    }

    pub fn result(&mut self, call: &ToolCall, outcome: &ToolOutcome, duration_ms: u64) {
        if let Some(target) = &self.target {
            target.emitter.tool_call_completed(
                target.iteration,
                &summary(&call.name),
                if outcome.is_error {
                    Completion::Failed
                } else {
                    Completion::Succeeded
                },
                &summary(&outcome.content),
                duration_ms,
            );
        }
        self.part(ConversationPart::ToolResult { call, outcome });
    }

    pub fn warning(&mut self, message: &str) {
        if let Some(target) = &self.target {
            target.emitter.warning("model", message);
        }
    }

    pub fn error(&mut self, message: &str) {
        if let Some(target) = &self.target {
            target.emitter.error("model", message);
        }
    }
}
