//! An answer on its way: handed on piece by piece, and kept as a whole.

use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, never, select_biased};
use serde_json::{Map, Value};

use super::cancel::Cancel;
use super::error::LlmError;
use super::response::{BrokenInput, Response, StopReason, StreamChunk, ToolCall, Usage};
use crate::agent::AgentEvent;

/// Bytes of an answer that are kept, of its text and of its tools' inputs each: far more than any
/// model writes.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Tools that one answer may call: a model that calls more has lost its way.
const CALLS_MAX: usize = 256;

/// Between the messages of an agent, in the text that is kept.
const BETWEEN: &str = "\n\n";

/// Takes what a reader finds in an answer.
pub(super) struct Intake<'a> {
    chunks: &'a Sender<StreamChunk>,
    cancel: &'a Cancel,
    /// When the whole must have ended: whoever does not take chunks holds nobody up beyond it.
    deadline: Receiver<Instant>,
    is_late: bool,
    response: Response,
    /// The next text belongs to another message.
    is_between: bool,
    calls: Vec<Call>,
    input_bytes: usize,
    has_warned: bool,
    /// Messages of an agent that works by itself.
    turns: u32,
    begun: u32,
    #[cfg(feature = "http")]
    key: Option<super::http::Secret>,
}

/// A call whose input may not be complete.
struct Call {
    id: String,
    name: String,
    json: String,
    is_done: bool,
}

impl<'a> Intake<'a> {
    pub fn new(chunks: &'a Sender<StreamChunk>, cancel: &'a Cancel) -> Self {
        Self {
            chunks,
            cancel,
            deadline: never(),
            is_late: false,
            response: Response::default(),
            is_between: false,
            calls: Vec::new(),
            input_bytes: 0,
            has_warned: false,
            turns: 0,
            begun: 0,
            #[cfg(feature = "http")]
            key: None,
        }
    }

    /// Hands nothing on any more when this fires.
    pub fn until(mut self, deadline: Receiver<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Hands on a chunk; waits for room, but neither for somebody who is gone nor beyond the end.
    pub fn hand_on(&mut self, chunk: StreamChunk) {
        if self.is_late || self.cancel.is_cancelled() {
            return;
        }
        let chunk = match self.chunks.try_send(chunk) {
            // Nobody listens: the answer is kept all the same.
            Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            Err(TrySendError::Full(chunk)) => chunk,
        };
        select_biased! {
            recv(self.cancel.stop()) -> _ => {}
            recv(self.deadline) -> _ => self.is_late = true,
            send(self.chunks, chunk) -> _ => {}
        }
    }

    /// A message of an agent that works by itself is complete.
    pub fn count_turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
    }

    /// Something of a message that is not complete.
    pub fn in_turn(&mut self) {
        self.begun = self.turns.saturating_add(1);
    }

    /// How many messages were begun.
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// Something that whoever watches should know.
    pub fn warn(&mut self, context: &str, message: String) {
        self.hand_on(StreamChunk::Agent(AgentEvent::Warning {
            context: context.to_owned(),
            message,
        }));
    }

    /// Keeps a key out of the text, should it come back.
    #[cfg(feature = "http")]
    pub fn without(mut self, key: super::http::Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// More text.
    pub fn text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        #[cfg(feature = "http")]
        let text = match &self.key {
            Some(key) => key.hide(&text),
            None => text,
        };
        let kept = &mut self.response.text;
        if std::mem::take(&mut self.is_between) && !kept.is_empty() {
            kept.push_str(BETWEEN);
        }
        let has_room = kept.len() + text.len() <= ANSWER_BYTES_MAX;
        if has_room {
            kept.push_str(&text);
        }
        self.hand_on(StreamChunk::TextDelta(text));
        if !has_room && !std::mem::replace(&mut self.has_warned, true) {
            let message = format!("of the answer's text {ANSWER_BYTES_MAX} bytes are kept");
            self.warn("model", message);
        }
    }

    /// A message is complete; another one may follow.
    pub fn between(&mut self) {
        self.is_between = true;
    }

    /// A call begins; its place. `None`: there are too many.
    pub fn call(&mut self, id: &str, name: &str) -> Option<usize> {
        if self.calls.len() >= CALLS_MAX {
            return None;
        }
        // Some servers give none, or all the same: results are paired by it.
        let is_taken = id.is_empty() || self.calls.iter().any(|call| call.id == id);
        let id = match is_taken {
            true => format!("call_{}_{id}", self.calls.len()),
            false => id.to_owned(),
        };
        let name = name.to_owned();
        self.calls.push(Call {
            id: id.clone(),
            name: name.clone(),
            json: String::new(),
            is_done: false,
        });
        self.hand_on(StreamChunk::ToolUseStart { id, name });
        Some(self.calls.len() - 1)
    }

    /// More of a call's input; whether there was room for it.
    pub fn input(&mut self, at: usize, json: &str) -> bool {
        self.input_bytes += json.len();
        let Some(call) = self.calls.get_mut(at).filter(|call| !call.is_done) else {
            return true;
        };
        if self.input_bytes > ANSWER_BYTES_MAX {
            return false;
        }
        if !json.is_empty() {
            call.json.push_str(json);
            let (id, json) = (call.id.clone(), json.to_owned());
            self.hand_on(StreamChunk::ToolUseDelta { id, json });
        }
        true
    }

    /// A call is complete.
    pub fn call_done(&mut self, at: usize) {
        let call = self.calls.get_mut(at).filter(|call| !call.is_done);
        if let Some(call) = call {
            call.is_done = true;
            let id = call.id.clone();
            self.hand_on(StreamChunk::ToolUseEnd { id });
        }
    }

    /// What the answer has cost, all in all.
    pub fn usage(&mut self) -> &mut Usage {
        &mut self.response.usage
    }

    /// Why the answer ends.
    pub fn stop(&mut self, reason: StopReason) {
        self.response.stop_reason = reason;
    }

    /// Whether any text came.
    pub fn has_text(&self) -> bool {
        !self.response.text.is_empty()
    }

    /// The answer is whole.
    pub fn done(mut self) -> Response {
        let done = StreamChunk::MessageDone {
            stop_reason: self.response.stop_reason.clone(),
            usage: self.response.usage,
        };
        self.hand_on(done);
        self.into_response()
    }

    /// The answer is not whole.
    pub fn failed(self, error: LlmError) -> LlmError {
        error.with_partial(self.into_response())
    }

    fn into_response(self) -> Response {
        let mut response = self.response;
        let done = self.calls.into_iter().filter(|call| call.is_done);
        response.tool_calls = done
            .map(|call| ToolCall {
                id: call.id,
                name: call.name,
                input: parsed(call.json),
            })
            .collect();
        response
    }
}

/// A call's input.
fn parsed(text: String) -> Result<Value, BrokenInput> {
    if text.trim().is_empty() {
        // A tool without parameters.
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(BrokenInput {
            text,
            why: "it is another value".to_owned(),
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
    fn inputs_are_objects_or_said_to_be_broken() {
        assert_eq!(parsed(String::new()), Ok(json!({})));
        assert_eq!(parsed("{\"a\": [1]}".into()), Ok(json!({"a": [1]})));
        for broken in ["{\"a\":", "[1]", "null", "{} {}", "{\"a\":1"] {
            let error = parsed(broken.into()).unwrap_err();
            assert_eq!(error.text, broken);
            assert!(error.to_string().contains("no JSON object"), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parsed(deep).is_err());
    }

    #[test]
    fn calls_have_ids_of_their_own_and_count_when_they_are_complete() {
        let (nobody, _) = bounded(0);
        let cancel = Cancel::new();
        let mut intake = Intake::new(&nobody, &cancel);
        for id in ["a", "a", "", ""] {
            let at = intake.call(id, "read").unwrap();
            assert!(intake.input(at, "{}"));
            if at != 1 {
                intake.call_done(at);
            }
        }
        let response = intake.done();
        let ids: Vec<&str> = response.tool_calls.iter().map(|call| &*call.id).collect();
        assert_eq!(ids, ["a", "call_2_", "call_3_"]);
    }

    #[test]
    fn who_does_not_take_chunks_is_not_waited_for_beyond_the_end() {
        let (full, _kept) = bounded(0);
        let cancel = Cancel::new();
        let clock = crate::clock::Clock::system();
        let mut intake = Intake::new(&full, &cancel).until(clock.at(clock.now()));
        intake.text("late".into());
        intake.text("r".into());
        assert_eq!(intake.done().text, "later");

        let mut intake = Intake::new(&full, &cancel);
        cancel.cancel();
        intake.text("cancelled".into());
        assert_eq!(intake.done().text, "cancelled");
    }
}
