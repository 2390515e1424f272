//! Models: requests, streamed answers, and the clients that connect to a model.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::agent::{AgentEvent, is_limit};
use crate::error::{Error, Result};
use crate::redact::{Rules, TerminalStream};
use crate::thread::{Stop, StopGuard, is_stopped, lock, spawn, stop_pair};
pub use command::{CommandClient, RecordedClient};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select_biased};
#[cfg(feature = "http")]
pub(crate) use http::SECRET_LOG_TARGETS;
#[cfg(feature = "http")]
pub use http::{Api, HttpClient, Secret};
#[cfg(feature = "notify")]
pub(crate) use http::{RetryPolicy, SafeUri, logged_target, requested_delay};
pub use messages::{
    BrokenInput, ContentBlock, Message, Request, Response, Role, StopReason, StreamChunk, ToolCall,
    ToolSpec, Usage,
};
use serde_json::{Map, Value};

mod messages;
mod reader;

mod command;
#[cfg(feature = "http")]
mod http;

/// Capacity of the channel between a model and its receiver, in chunks. The model waits while it is
/// full. It holds about one second of a fast model's tokens.
pub(super) const CHUNKS: usize = 100;

/// A client of a model.
///
/// ```
/// use crossbeam_channel::Sender;
/// use td_observe::agent_loop::{Cancel, LlmClient, LlmError, Request, Response, StreamChunk};
///
/// struct Echo;
///
/// impl LlmClient for Echo {
///     fn stream(
///         &mut self,
///         request: &Request,
///         chunks: &Sender<StreamChunk>,
///         _cancel: &Cancel,
///     ) -> Result<Response, LlmError> {
///         let response = Response::text(request.text());
///         // An error means that the receiver is dropped.
///         let _ = chunks.send(StreamChunk::TextDelta(response.text.clone()));
///         Ok(response)
///     }
/// }
///
/// let response = Echo.complete(&Request::prompt("hello"), &Cancel::new()).unwrap();
/// assert_eq!(response.text, "hello");
/// ```
pub trait LlmClient: Send {
    /// Sends a request and waits for the complete answer.
    ///
    /// # Errors
    /// As [`LlmClient::stream`].
    fn complete(&mut self, request: &Request, cancel: &Cancel) -> Result<Response, LlmError> {
        // Without a receiver, sending a chunk fails at once instead of waiting.
        let (chunks, _) = bounded(0);
        self.stream(request, &chunks, cancel)
    }

    /// Sends a request, streams the answer in chunks, and returns the complete answer.
    ///
    /// The client waits while the channel is full, and ignores a dropped receiver. After a
    /// cancellation, it returns within 200 ms.
    ///
    /// # Errors
    /// When the answer is missing or incomplete; [`LlmError::partial`] returns the partial text.
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError>;
}

impl<C: LlmClient + ?Sized> LlmClient for Box<C> {
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError> {
        (**self).stream(request, chunks, cancel)
    }
}

// Cancellation of a model's answer from another thread.

/// Cancels the operations that hold it, from any thread. Clones share their state, and a cancellation
/// is final.
///
/// ```
/// use td_observe::agent_loop::Cancel;
/// let cancel = Cancel::new();
/// let other = cancel.clone();
/// other.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug)]
pub struct Cancel {
    guard: Arc<Mutex<Option<StopGuard>>>,
    stop: Stop,
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl Cancel {
    /// Creates a handle that is not cancelled.
    pub fn new() -> Self {
        let (guard, stop) = stop_pair();
        Self {
            guard: Arc::new(Mutex::new(Some(guard))),
            stop,
        }
    }

    /// Cancels all operations that hold this handle or a clone of it.
    pub fn cancel(&self) {
        drop(lock(&self.guard).take());
    }

    /// Returns true after a cancellation.
    pub fn is_cancelled(&self) -> bool {
        is_stopped(&self.stop)
    }

    /// Does `work`, and cancels when `event` gets a message or is closed meanwhile.
    pub(crate) fn run_until<E: Send + 'static, T>(
        &self,
        thread: &'static str,
        event: Receiver<E>,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        let (guard, done) = stop_pair();
        let cancel = self.clone();
        let watcher = spawn(thread, move || {
            select_biased! {
                recv(done) -> _ => {}
                recv(event) -> _ => cancel.cancel(),
            }
        })?;
        let result = work();
        drop(guard);
        // Nothing in this thread panics.
        let _ = watcher.join();
        Ok(result)
    }

    /// Returns a channel that a cancellation closes. A `select!` must check it before the data.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }
}

// The error of a model: the reason why an answer is missing or incomplete, and the partial answer.

/// The error of a request whose answer is missing or incomplete.
///
/// The text of the error includes its causes, but never a key.
pub struct LlmError {
    kind: LlmErrorKind,
    error: Error,
    partial: Box<Response>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LlmErrorKind {
    Other,
    Cancelled,
    Timeout,
    Limited,
    MaxTurns,
}

impl LlmError {
    pub(super) fn new(kind: LlmErrorKind, error: Error) -> Self {
        Self {
            kind,
            error,
            partial: Box::default(),
        }
    }

    /// Creates an error of no particular kind.
    pub fn other(error: Error) -> Self {
        Self::new(LlmErrorKind::Other, error)
    }

    /// Creates an error with this message, for other implementations of a client.
    pub fn message(message: impl Into<String>) -> Self {
        Self::other(Error::other(message.into()))
    }

    /// Creates the error of a cancelled request.
    pub fn cancelled() -> Self {
        Self::new(
            LlmErrorKind::Cancelled,
            Error::gone("the request was cancelled"),
        )
    }

    /// Adds the partial answer.
    pub fn with_partial(mut self, partial: Response) -> Self {
        *self.partial = partial;
        self
    }

    /// Returns true if the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.kind == LlmErrorKind::Cancelled
    }

    /// Returns true if a timeout expired: for the whole answer, its first byte, or between two bytes.
    pub fn is_timeout(&self) -> bool {
        self.kind == LlmErrorKind::Timeout || self.error.is_timeout()
    }

    /// Returns true if a usage limit was reached, so that an early retry cannot succeed.
    pub fn is_limited(&self) -> bool {
        self.kind == LlmErrorKind::Limited
    }

    /// Returns true if an agent that works on its own has used up its answers; its changes are kept.
    pub fn is_max_turns(&self) -> bool {
        self.kind == LlmErrorKind::MaxTurns
    }

    /// Returns true if the program is not installed.
    pub fn is_missing_program(&self) -> bool {
        self.error.is_missing_program()
    }

    /// Returns the text of the partial answer.
    pub fn partial(&self) -> &str {
        &self.partial.text
    }

    /// Returns the partial answer, without incomplete tool calls.
    pub fn partial_response(&self) -> &Response {
        &self.partial
    }

    /// Returns the number of used tokens, if it was reported.
    pub fn usage(&self) -> Usage {
        self.partial.usage
    }
}

impl From<Error> for LlmError {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

impl From<LlmError> for Error {
    fn from(error: LlmError) -> Self {
        error.error
    }
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An event shows an error in a single line, so the text includes the causes.
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Debug for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmError")
            .field("kind", &self.kind)
            .field("error", &self.error)
            .field("partial_bytes", &self.partial.text.len())
            .finish()
    }
}

impl std::error::Error for LlmError {}

pub(super) type ReadResult<T = ()> = Result<T, AnswerError>;

/// The reason why an answer is incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerError {
    pub message: String,
    pub kind: LlmErrorKind,
}

impl AnswerError {
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let kind = if is_limit(&message) {
            LlmErrorKind::Limited
        } else {
            LlmErrorKind::Other
        };
        Self { message, kind }
    }

    /// Creates the error of an agent that has used up its answers.
    pub fn max_turns(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: LlmErrorKind::MaxTurns,
        }
    }

    /// Converts to the error of the request, with details of the cause.
    pub fn into_error(self, details: &str) -> LlmError {
        let kind = match self.kind {
            LlmErrorKind::Other if is_limit(details) => LlmErrorKind::Limited,
            kind => kind,
        };
        let message = if details.is_empty() {
            self.message
        } else {
            format!("{}: {details}", self.message)
        };
        LlmError::new(kind, Error::other(message))
    }
}

// Builds the response while its chunks are sent to the receiver.

/// Maximum size of an answer's text, and of its tool inputs. No model writes this much.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of tool calls in an answer. A model that calls more does not make progress.
const CALLS_MAX: usize = 256;

/// Builds a response from the parts that a reader extracts.
pub(super) struct ResponseBuilder<'a> {
    chunks: &'a Sender<StreamChunk>,
    cancel: &'a Cancel,
    /// Fires when the answer must end, so that a receiver that takes no chunks cannot delay it.
    deadline: Receiver<Instant>,
    is_late: bool,
    response: Response,
    /// True if the next text belongs to another message.
    needs_separator: bool,
    calls: Vec<PendingCall>,
    input_bytes: usize,
    has_warned: bool,
    /// The number of complete messages of an agent that works on its own.
    turns: u32,
    turns_started: u32,
    redacted: TerminalStream,
}

/// A tool call whose input may be incomplete.
struct PendingCall {
    id: String,
    name: String,
    json: String,
    is_done: bool,
}

impl<'a> ResponseBuilder<'a> {
    pub fn new(chunks: &'a Sender<StreamChunk>, cancel: &'a Cancel) -> Self {
        Self {
            chunks,
            cancel,
            deadline: never(),
            is_late: false,
            response: Response::default(),
            needs_separator: false,
            calls: Vec::new(),
            input_bytes: 0,
            has_warned: false,
            turns: 0,
            turns_started: 0,
            redacted: TerminalStream::new(Rules::none()),
        }
    }

    /// Sets the deadline after which no more chunks are sent.
    pub fn deadline(mut self, deadline: Receiver<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends a chunk. If the channel is full, waits until the deadline, a cancellation, or the drop of
    /// the receiver.
    pub fn send(&mut self, chunk: StreamChunk) {
        if self.is_late || self.cancel.is_cancelled() {
            return;
        }
        let chunk = match self.chunks.try_send(chunk) {
            // The response is built even without a receiver.
            Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            Err(TrySendError::Full(chunk)) => chunk,
        };
        select_biased! {
            recv(self.cancel.stop()) -> _ => {}
            recv(self.deadline) -> _ => self.is_late = true,
            send(self.chunks, chunk) -> _ => {}
        }
    }

    pub fn end_turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
    }

    /// Counts the start of an agent's message.
    pub fn begin_turn(&mut self) {
        self.turns_started = self.turns.saturating_add(1);
    }

    /// Returns the number of messages that have begun.
    pub fn turns_started(&self) -> u32 {
        self.turns_started
    }

    pub fn warn(&mut self, message: String) {
        self.send(StreamChunk::Agent(AgentEvent::Warning {
            context: "model".to_owned(),
            message,
        }));
    }

    /// Sets the rules that redact the text, because a server may send a key back.
    #[cfg(feature = "http")]
    pub fn redact(mut self, rules: Rules) -> Self {
        self.redacted = TerminalStream::new(rules);
        self
    }

    pub fn text(&mut self, text: String) {
        let text = self.redacted.push(&text).into_owned();
        if text.is_empty() {
            return;
        }
        let kept = &mut self.response.text;
        if std::mem::take(&mut self.needs_separator) && !kept.is_empty() {
            // Separator between the messages of an agent in the response's text.
            kept.push_str("\n\n");
        }
        let has_room = kept.len() + text.len() <= ANSWER_BYTES_MAX;
        if has_room {
            kept.push_str(&text);
        }
        self.send(StreamChunk::TextDelta(text));
        if !has_room && !std::mem::replace(&mut self.has_warned, true) {
            let message = format!("the answer's text is cut after {ANSWER_BYTES_MAX} bytes");
            self.warn(message);
        }
    }

    /// Ends a message, which another one may follow.
    pub fn end_message(&mut self) {
        self.needs_separator = true;
    }

    /// Begins a tool call and returns its index.
    pub fn begin_call(&mut self, id: &str, name: &str) -> ReadResult<usize> {
        if self.calls.len() >= CALLS_MAX {
            return Err(AnswerError::new("the answer calls too many tools"));
        }
        // Some servers send no ids or equal ones, but results are paired by id.
        let is_taken = id.is_empty() || self.calls.iter().any(|call| call.id == id);
        let id = if is_taken {
            format!("call_{}_{id}", self.calls.len())
        } else {
            id.to_owned()
        };
        let name = name.to_owned();
        self.calls.push(PendingCall {
            id: id.clone(),
            name: name.clone(),
            json: String::new(),
            is_done: false,
        });
        self.send(StreamChunk::ToolUseStart { id, name });
        Ok(self.calls.len() - 1)
    }

    /// Adds a piece of JSON to a call's input.
    pub fn add_input(&mut self, index: usize, json: &str) -> ReadResult {
        self.input_bytes += json.len();
        let Some(call) = self.calls.get_mut(index).filter(|call| !call.is_done) else {
            return Ok(());
        };
        if self.input_bytes > ANSWER_BYTES_MAX {
            return Err(AnswerError::new("the inputs of the tools are too long"));
        }
        if !json.is_empty() {
            call.json.push_str(json);
            let (id, json) = (call.id.clone(), json.to_owned());
            self.send(StreamChunk::ToolUseDelta { id, json });
        }
        Ok(())
    }

    pub fn end_call(&mut self, index: usize) {
        let call = self.calls.get_mut(index).filter(|call| !call.is_done);
        if let Some(call) = call {
            call.is_done = true;
            let id = call.id.clone();
            self.send(StreamChunk::ToolUseEnd { id });
        }
    }

    /// Returns the usage of the answer for modification.
    pub fn usage(&mut self) -> &mut Usage {
        &mut self.response.usage
    }

    /// Sets the reason why the answer ends.
    pub fn stop(&mut self, reason: StopReason) {
        self.response.stop_reason = reason;
    }

    pub fn has_text(&self) -> bool {
        !self.response.text.is_empty()
    }

    pub fn finish(mut self) -> Response {
        let done = StreamChunk::MessageDone {
            stop_reason: self.response.stop_reason.clone(),
            usage: self.response.usage,
        };
        self.send(done);
        self.into_response()
    }

    /// Adds the incomplete answer to its error.
    pub fn fail(self, error: LlmError) -> LlmError {
        error.with_partial(self.into_response())
    }

    fn into_response(self) -> Response {
        let mut response = self.response;
        let done = self.calls.into_iter().filter(|call| call.is_done);
        response.tool_calls = done
            .map(|call| ToolCall {
                id: call.id,
                name: call.name,
                input: parse_input(call.json),
            })
            .collect();
        response
    }
}

fn parse_input(text: String) -> Result<Value, BrokenInput> {
    if text.trim().is_empty() {
        // The input of a tool without parameters may be empty.
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(BrokenInput {
            text,
            why: "it is another kind of value".to_owned(),
        }),
        Err(error) => Err(BrokenInput {
            text,
            why: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crossbeam_channel::bounded;
    use serde_json::json;

    #[test]
    fn inputs_are_objects_or_errors() {
        assert_eq!(parse_input(String::new()), Ok(json!({})));
        assert_eq!(parse_input("{\"a\": [1]}".into()), Ok(json!({"a": [1]})));
        for broken in ["{\"a\":", "[1]", "null", "{} {}", "{\"a\":1"] {
            let error = parse_input(broken.into()).unwrap_err();
            assert_eq!(error.text, broken);
            assert!(error.to_string().contains("not a JSON object"), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse_input(deep).is_err());
    }

    #[test]
    fn calls_get_unique_ids_and_count_when_complete() {
        let (chunks, _) = bounded(0);
        let cancel = Cancel::new();
        let mut response = ResponseBuilder::new(&chunks, &cancel);
        for id in ["a", "a", "", ""] {
            let index = response.begin_call(id, "read").unwrap();
            assert_eq!(response.add_input(index, "{}"), Ok(()));
            if index != 1 {
                response.end_call(index);
            }
        }
        let response = response.finish();
        let ids: Vec<&str> = response.tool_calls.iter().map(|call| &*call.id).collect();
        assert_eq!(ids, ["a", "call_2_", "call_3_"]);
    }

    #[test]
    fn a_receiver_that_takes_no_chunks_does_not_delay_the_end() {
        let (full, _kept) = bounded(0);
        let cancel = Cancel::new();
        let clock = crate::clock::Clock::system();
        let mut response = ResponseBuilder::new(&full, &cancel).deadline(clock.at(clock.now()));
        response.text("late".into());
        response.text("r".into());
        assert_eq!(response.finish().text, "later");

        let mut response = ResponseBuilder::new(&full, &cancel);
        cancel.cancel();
        response.text("cancelled".into());
        assert_eq!(response.finish().text, "cancelled");
    }
}
