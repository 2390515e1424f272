//! A conversation with a model, which answers and calls tools until an answer calls none.

use std::fmt;

use super::model::{
    CHUNKS, Cancel, ContentBlock, LlmClient, LlmError, Message, Request, Response, Role,
    StreamChunk, ToolCall, Usage,
};
use super::tool::{ToolOutcome, Toolbox};
use crate::agent::AgentEvent;
use crate::agent::summary::summary;
use crate::bus::{BlockingEmitter, EventEmitter};
use crate::clock::Clock;
use crate::event::{Completion, ExecutionId, IterationOutcome, TdEvent, ToolCalls};
use crate::thread::run_beside;
use crossbeam_channel::{Receiver, bounded};
use serde_json::{Map, Value};

/// Options of a conversation.
#[must_use = "options have no effect until they are passed to `converse`"]
pub struct Converse<'a> {
    max_turns: u32,
    emitter: Option<(&'a EventEmitter, u32)>,
    on_part: Option<OnPart<'a>>,
    clock: Clock,
}

impl Default for Converse<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Converse<'a> {
    /// Creates options with at most 50 answers and no emitter.
    pub fn new() -> Self {
        Self {
            // Default maximum number of answers, as in TaskDaemon.
            max_turns: 50,
            emitter: None,
            on_part: None,
            clock: Clock::system(),
        }
    }

    /// Sets the maximum number of answers.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = turns;
        self
    }

    /// Sets the emitter of the conversation's events and their iteration: `PromptSent`,
    /// `TokenReceived`, `ResponseCompleted`, `ToolCallStarted` and `ToolCallCompleted`, `Warning` and
    /// `Error`, and the events of an agent.
    pub fn emitter(mut self, emitter: &'a EventEmitter, iteration: u32) -> Self {
        self.emitter = Some((emitter, iteration));
        self
    }

    /// Sets a callback that receives each part of the conversation in order, for example to store it.
    /// The model waits while the callback runs.
    pub fn on_part(mut self, on_part: &'a mut (dyn FnMut(ConversationPart<'_>) + Send)) -> Self {
        self.on_part = Some(on_part);
        self
    }

    /// Sets the clock; defaults to the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl fmt::Debug for Converse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converse")
            .field("max_turns", &self.max_turns)
            .field("emitter", &self.emitter)
            .finish_non_exhaustive()
    }
}

/// The result of a conversation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Conversation {
    /// The text of all answers, separated by blank lines, including an incomplete one.
    pub text: String,
    /// The tokens of all answers.
    pub usage: Usage,
    /// The number of prompts sent.
    pub turns: u32,
    /// The number of tool calls.
    pub tool_calls: u32,
    /// The reason why the conversation ended.
    pub end: ConversationEnd,
    /// All messages, starting with the first prompt.
    pub messages: Vec<Message>,
}

/// The reason why a conversation ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConversationEnd {
    /// The model's answer called no tool.
    Ended,
    /// The maximum number of answers was reached; the tools of the last answer were run.
    MaxTurnsReached,
    /// A tool failed fatally.
    ToolError {
        /// The tool's name.
        tool: String,
        /// The tool's error message.
        error: String,
    },
    /// The answer is missing or incomplete, or the conversation was cancelled.
    LlmError(LlmError),
}

impl ConversationEnd {
    /// Returns the reason as a name.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::MaxTurnsReached => "max_turns_reached",
            Self::ToolError { .. } => "tool_error",
            Self::LlmError(_) => "llm_error",
        }
    }

    /// Returns the outcome of the iteration, unless the check decides it.
    pub fn outcome(&self) -> Option<IterationOutcome> {
        match self {
            Self::Ended => None,
            Self::MaxTurnsReached => Some(IterationOutcome::MaxTurnsReached),
            Self::ToolError { tool, error } => Some(IterationOutcome::ToolError {
                tool: tool.clone(),
                error: error.clone(),
            }),
            Self::LlmError(error) => Some(IterationOutcome::LlmError {
                error: error.to_string(),
            }),
        }
    }
}

/// Converses with a model until an answer calls no tool.
///
/// The model may call the tools of the toolbox in addition to those of the request. A failed call is
/// answered with an error, and the model continues.
///
/// ```
/// use td_observe::EventBus;
/// use td_observe::agent_loop::{Cancel, CommandClient, Converse, Request, Toolbox, converse};
///
/// let bus = EventBus::new(10_000);
/// let mut model = CommandClient::shell("tr a-z A-Z");
/// let conversation = converse(
///     &mut model,
///     &mut Toolbox::new(),
///     Request::prompt("hello"),
///     Converse::new().emitter(&bus.emitter_for("loop-1"), 1),
///     &Cancel::new(),
/// );
/// assert_eq!(conversation.text, "HELLO");
/// ```
pub fn converse(
    client: &mut dyn LlmClient,
    toolbox: &mut Toolbox,
    mut request: Request,
    options: Converse<'_>,
    cancel: &Cancel,
) -> Conversation {
    request.tools.extend(toolbox.specs());
    let mut runner = TurnRunner {
        reporter: TurnReporter::new(options.emitter, options.on_part),
        clock: options.clock,
        conversation: Conversation {
            text: String::new(),
            usage: Usage::default(),
            turns: 0,
            tool_calls: 0,
            end: ConversationEnd::MaxTurnsReached,
            messages: Vec::new(),
        },
    };
    while runner.conversation.turns < options.max_turns {
        if let Some(end) = runner.run_turn(client, toolbox, &mut request, cancel) {
            runner.conversation.end = end;
            break;
        }
    }
    runner.conversation.messages = request.messages;
    runner.conversation
}

struct TurnRunner<'a> {
    reporter: TurnReporter<'a>,
    clock: Clock,
    conversation: Conversation,
}

impl TurnRunner<'_> {
    /// Requests one answer and runs its tools; returns the reason if the conversation ends.
    fn run_turn(
        &mut self,
        client: &mut dyn LlmClient,
        toolbox: &mut Toolbox,
        request: &mut Request,
        cancel: &Cancel,
    ) -> Option<ConversationEnd> {
        if cancel.is_cancelled() {
            return Some(ConversationEnd::LlmError(LlmError::cancelled()));
        }
        self.conversation.turns += 1;
        let prompt = match self.conversation.turns {
            1 => request.text(),
            _ => request
                .messages
                .last()
                .map(Message::text)
                .unwrap_or_default(),
        };
        self.reporter.prompt(self.conversation.turns, &prompt);
        let response = match self.stream(client, request, &prompt, cancel) {
            Ok((response, is_reported)) => {
                self.add(&response);
                self.reporter.response(&response, is_reported);
                response
            }
            Err(error) => {
                self.add(error.partial_response());
                if error.is_max_turns() {
                    return Some(ConversationEnd::MaxTurnsReached);
                }
                if !error.is_cancelled() {
                    self.reporter.error(&error.to_string());
                }
                return Some(ConversationEnd::LlmError(error));
            }
        };
        if response.stop_reason.is_cut() {
            let reason = response.stop_reason.as_str();
            self.reporter
                .warning(&format!("the answer is incomplete: {reason}"));
        }
        request.messages.extend(assistant_message(&response));
        if response.tool_calls.is_empty() {
            return Some(ConversationEnd::Ended);
        }
        let mut results = Vec::new();
        for call in &response.tool_calls {
            if cancel.is_cancelled() {
                return Some(ConversationEnd::LlmError(LlmError::cancelled()));
            }
            let outcome = self.call_tool(toolbox, call, cancel);
            if outcome.is_fatal {
                return Some(ConversationEnd::ToolError {
                    tool: call.name.clone(),
                    error: outcome.content,
                });
            }
            results.push(ContentBlock::ToolResult {
                id: call.id.clone(),
                content: outcome.content,
                is_error: outcome.is_error,
            });
        }
        request.messages.push(Message {
            role: Role::User,
            content: results,
        });
        None
    }

    /// Sends the request and reports the answer as it arrives. Also returns true if its completion is
    /// already reported.
    fn stream(
        &mut self,
        client: &mut dyn LlmClient,
        request: &Request,
        prompt: &str,
        cancel: &Cancel,
    ) -> Result<(Response, bool), LlmError> {
        let (sender, chunks) = bounded(CHUNKS);
        let reporter = &mut self.reporter;
        let (reported, answered) = run_beside(
            "td-answer",
            // Owns the receiver, so that the model continues if the reporter panics.
            move || reporter.stream(&{ chunks }, prompt),
            // Owns the sender, so that the reporter ends when the client ends.
            move || client.stream(request, &{ sender }, cancel),
        )?;
        let reported = reported.unwrap_or_else(|panicked| {
            self.reporter.warning(&format!(
                "the answer was not reported completely: {panicked}"
            ));
            false
        });
        match answered {
            Ok(answered) => Ok((answered?, reported)),
            Err(panicked) => Err(LlmError::message(format!(
                "the model's client panicked: {}",
                panicked.message
            ))),
        }
    }

    fn call_tool(
        &mut self,
        toolbox: &mut Toolbox,
        call: &ToolCall,
        cancel: &Cancel,
    ) -> ToolOutcome {
        self.conversation.tool_calls += 1;
        self.reporter.call(call);
        let started = self.clock.now();
        let outcome = toolbox.call(call, cancel);
        let duration = self.clock.now().saturating_duration_since(started);
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.reporter.result(call, &outcome, duration_ms);
        outcome
    }

    fn add(&mut self, response: &Response) {
        let conversation = &mut self.conversation;
        conversation.usage += response.usage;
        if !conversation.text.is_empty() && !response.text.is_empty() {
            conversation.text.push_str("\n\n");
        }
        conversation.text.push_str(&response.text);
    }
}

/// Converts an answer to a message; returns `None` if it is empty, because APIs reject empty messages.
fn assistant_message(response: &Response) -> Option<Message> {
    let mut content = Vec::new();
    if !response.text.trim().is_empty() {
        content.push(ContentBlock::Text(response.text.clone()));
    }
    content.extend(response.tool_calls.iter().map(|call| {
        ContentBlock::ToolUse {
            id: call.id.clone(),
            name: call.name.clone(),
            // APIs require an object, even if the model wrote something else.
            input: call
                .input
                .clone()
                .unwrap_or_else(|_| Value::Object(Map::new())),
        }
    }));
    (!content.is_empty()).then_some(Message {
        role: Role::Assistant,
        content,
    })
}

// The reporter of a conversation, which emits its events and passes its parts to a callback.

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
            // Only the answer states a number of tokens.
            target
                .emitter
                .prompt_sent(target.iteration, &summary(text), None);
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
