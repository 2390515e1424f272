//! Builds the response while its chunks are sent to the receiver.

use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, never, select_biased};
use serde_json::{Map, Value};

use super::cancel::Cancel;
use super::error::{AnswerError, LlmError, ReadResult};
use super::response::{BrokenInput, Response, StopReason, StreamChunk, ToolCall, Usage};
use crate::agent::AgentEvent;
use crate::redact::{Rules, TerminalStream};

/// Maximum size of an answer's text, and of its tool inputs. No model writes this much.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of tool calls in an answer. A model that calls more does not make progress.
const CALLS_MAX: usize = 256;

/// Separator between the messages of an agent in the response's text.
const SEPARATOR: &str = "\n\n";

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
            kept.push_str(SEPARATOR);
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
        let id = match is_taken {
            true => format!("call_{}_{id}", self.calls.len()),
            false => id.to_owned(),
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
    use crossbeam_channel::bounded;
    use serde_json::json;

    use super::*;

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
