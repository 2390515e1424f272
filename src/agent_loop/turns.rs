//! One iteration's talk with a model: its answers, the tools that they call, until one calls none.

use std::fmt;

use crossbeam_channel::bounded;
use serde_json::{Map, Value};

use super::model::{
    Block, CHUNKS, Cancel, LlmClient, LlmError, Message, Request, Response, Role, ToolCall, Usage,
};
use super::telling::{Hear, Teller, Told};
use super::tool::{ToolOutcome, Toolbox};
use crate::agent::AgentEvent;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::event::IterationOutcome;
use crate::thread::run_beside;

/// Answers that a conversation may have unless told otherwise, as TaskDaemon has it.
const TURNS_MAX: u32 = 50;

/// How to converse.
#[must_use = "it does nothing until it is handed to `converse`"]
pub struct Converse<'a> {
    max_turns: u32,
    emitter: Option<(&'a EventEmitter, u32)>,
    hear: Option<Hear<'a>>,
    clock: Clock,
}

impl Default for Converse<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Converse<'a> {
    /// Up to 50 answers, told to nobody.
    pub fn new() -> Self {
        Self {
            max_turns: TURNS_MAX,
            emitter: None,
            hear: None,
            clock: Clock::system(),
        }
    }

    /// How many answers there may be.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = turns;
        self
    }

    /// Emits what happens, as of this iteration: `PromptSent`, `TokenReceived`,
    /// `ResponseCompleted`, `ToolCallStarted` and `ToolCallCompleted`, `Warning` and `Error`, and
    /// what an agent reports of itself. Without, everything else is the same.
    pub fn emitter(mut self, emitter: &'a EventEmitter, iteration: u32) -> Self {
        self.emitter = Some((emitter, iteration));
        self
    }

    /// Called with each part in full, in order, while it happens; for an iteration's files. The
    /// model waits meanwhile.
    pub fn hear(mut self, hear: &'a mut (dyn FnMut(Part<'_>) + Send)) -> Self {
        self.hear = Some(hear);
        self
    }

    /// Takes the time from elsewhere.
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

/// A part of a conversation, in full.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Part<'a> {
    /// The model is asked.
    Prompt {
        /// Which answer this will be, from 1.
        turn: u32,
        /// What is new in what it is asked, for a human.
        text: &'a str,
    },
    /// A piece of the answer's text.
    Text(&'a str),
    /// What an agent that works by itself reports.
    Agent(&'a AgentEvent),
    /// The answer is whole.
    Response(&'a Response),
    /// A tool is called.
    ToolCall(&'a ToolCall),
    /// It has answered.
    ToolResult {
        /// The call.
        call: &'a ToolCall,
        /// What it came to.
        outcome: &'a ToolOutcome,
    },
}

/// What a conversation came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Conversation {
    /// The text of all answers, a blank line between two; what came of one that broke off, too.
    pub text: String,
    /// Tokens of all answers.
    pub usage: Usage,
    /// How many times the model was asked.
    pub turns: u32,
    /// How many tools were called.
    pub tool_calls: u32,
    /// How it ended.
    pub end: TurnsEnd,
    /// All that was said, from the first prompt on.
    pub messages: Vec<Message>,
}

/// How a conversation ended.
#[derive(Debug)]
pub enum TurnsEnd {
    /// The model has said what it had to say.
    Ended,
    /// It would have gone on. The tools of its last answer were run.
    MaxTurnsReached,
    /// A tool cannot go on.
    ToolError {
        /// Its name.
        tool: String,
        /// What it said.
        error: String,
    },
    /// There is no answer, or not a whole one; also when it was cancelled.
    LlmError(LlmError),
}

impl TurnsEnd {
    /// The iteration's outcome, where the check is not to decide it.
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

/// Talks with a model until it has nothing more to do.
///
/// The toolbox's tools are offered beside those that the request has already. A call that cannot
/// be answered is answered with an error, and the model goes on.
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
    let Converse {
        max_turns,
        emitter,
        hear,
        clock,
    } = options;
    request.tools.extend(toolbox.specs());
    let mut talk = Talk {
        teller: Teller::new(emitter, hear, &clock),
        clock,
        said: Conversation {
            text: String::new(),
            usage: Usage::default(),
            turns: 0,
            tool_calls: 0,
            end: TurnsEnd::MaxTurnsReached,
            messages: Vec::new(),
        },
    };
    while talk.said.turns < max_turns {
        if let Some(end) = talk.turn(client, toolbox, &mut request, cancel) {
            talk.said.end = end;
            break;
        }
    }
    talk.said.messages = request.messages;
    talk.said
}

/// A conversation that goes on.
struct Talk<'a> {
    teller: Teller<'a>,
    clock: Clock,
    said: Conversation,
}

impl Talk<'_> {
    /// One answer, and what it asks for; whether that is the end.
    fn turn(
        &mut self,
        client: &mut dyn LlmClient,
        toolbox: &mut Toolbox,
        request: &mut Request,
        cancel: &Cancel,
    ) -> Option<TurnsEnd> {
        if cancel.is_cancelled() {
            return Some(TurnsEnd::LlmError(LlmError::cancelled()));
        }
        self.said.turns += 1;
        let prompt = match self.said.turns {
            1 => request.text(),
            _ => request
                .messages
                .last()
                .map(Message::text)
                .unwrap_or_default(),
        };
        self.teller.prompt(self.said.turns, &prompt);
        let response = match self.ask(client, request, &prompt, cancel) {
            Ok((response, told)) => {
                self.add(&response);
                self.teller.response(&response, told);
                response
            }
            Err(error) => {
                self.add(error.partial_response());
                if error.is_max_turns() {
                    return Some(TurnsEnd::MaxTurnsReached);
                }
                if !error.is_cancelled() {
                    self.teller.error(&error.to_string());
                }
                return Some(TurnsEnd::LlmError(error));
            }
        };
        if response.stop_reason.is_cut() {
            let reason = response.stop_reason.name();
            self.teller
                .warning(&format!("the answer is incomplete: {reason}"));
        }
        request.messages.extend(answer(&response));
        if response.tool_calls.is_empty() {
            return Some(TurnsEnd::Ended);
        }
        let mut results = Vec::new();
        for call in &response.tool_calls {
            if cancel.is_cancelled() {
                return Some(TurnsEnd::LlmError(LlmError::cancelled()));
            }
            let outcome = self.run(toolbox, call, cancel);
            if outcome.is_fatal {
                return Some(TurnsEnd::ToolError {
                    tool: call.name.clone(),
                    error: outcome.content,
                });
            }
            results.push(Block::ToolResult {
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

    /// Asks, and tells the answer while it comes.
    fn ask(
        &mut self,
        client: &mut dyn LlmClient,
        request: &Request,
        prompt: &str,
        cancel: &Cancel,
    ) -> Result<(Response, Told), LlmError> {
        let (give, take) = bounded(CHUNKS);
        let teller = &mut self.teller;
        let (told, answered) = run_beside(
            "td-answer",
            // Owned, so that a panic in it lets the model go on.
            move || teller.answer(&{ take }, prompt),
            // Owned, so that the other ends with it, whatever happens.
            move || client.stream(request, &{ give }, cancel),
        )?;
        let told = told.unwrap_or_else(|panicked| {
            self.teller
                .warning(&format!("the answer was not told to its end: {panicked}"));
            Told::default()
        });
        match answered {
            Ok(answered) => Ok((answered?, told)),
            Err(panicked) => Err(LlmError::message(format!(
                "the model's client panicked: {}",
                panicked.message
            ))),
        }
    }

    /// Runs a tool.
    fn run(&mut self, toolbox: &mut Toolbox, call: &ToolCall, cancel: &Cancel) -> ToolOutcome {
        self.said.tool_calls += 1;
        self.teller.call(call);
        let began = self.clock.now();
        let outcome = toolbox.call(call, cancel);
        let duration = self.clock.now().saturating_duration_since(began);
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.teller.result(call, &outcome, duration_ms);
        outcome
    }

    fn add(&mut self, response: &Response) {
        let said = &mut self.said;
        said.usage += response.usage;
        if !said.text.is_empty() && !response.text.is_empty() {
            said.text.push_str("\n\n");
        }
        said.text.push_str(&response.text);
    }
}

/// An answer as a message; none of an empty one, which no API takes back.
fn answer(response: &Response) -> Option<Message> {
    let mut content = Vec::new();
    if !response.text.trim().is_empty() {
        content.push(Block::Text(response.text.clone()));
    }
    content.extend(response.tool_calls.iter().map(|call| {
        Block::ToolUse {
            id: call.id.clone(),
            name: call.name.clone(),
            // An input is an object, also for those who could not write one.
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
