//! `opencode run --format json`: steps of a session, of which the last says why it was the last (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::grammar::Grammar;
use super::lenient::{Count, Gist, Maybe, Str, Time};
use super::scribe::{Scribe, Usage};
use super::standing::Standing;
use crate::agent::summary::Beginning;

/// The error by which opencode reports that a human stopped it.
const ABORTED: &str = "MessageAbortedError";

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
pub struct Record<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, borrow, rename = "sessionID")]
    session_id: Str<'a>,
    #[serde(default, borrow)]
    part: Maybe<Box<Part<'a>>>,
    #[serde(default, borrow)]
    error: Maybe<Failure<'a>>,
}

/// A part of a message: text, a tool with its result, or the end of a step.
#[derive(Debug, Default, Deserialize)]
struct Part<'a> {
    #[serde(default, borrow)]
    text: Str<'a>,
    #[serde(default, borrow, rename = "callID")]
    call_id: Str<'a>,
    #[serde(default, borrow)]
    tool: Str<'a>,
    #[serde(default, borrow)]
    state: Maybe<State<'a>>,
    #[serde(default, borrow)]
    reason: Str<'a>,
    #[serde(default)]
    tokens: Maybe<Tokens>,
}

/// How a tool was called, and what it returned.
#[derive(Debug, Default, Deserialize)]
struct State<'a> {
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default, borrow)]
    input: Option<&'a RawValue>,
    #[serde(default)]
    output: Gist,
    #[serde(default)]
    error: Gist,
    #[serde(default, borrow)]
    time: Maybe<Span<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Span<'a> {
    #[serde(default, borrow)]
    start: Time<'a>,
    #[serde(default, borrow)]
    end: Time<'a>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    input: Count,
    #[serde(default)]
    output: Count,
}

#[derive(Debug, Default, Deserialize)]
struct Failure<'a> {
    #[serde(default, borrow)]
    name: Str<'a>,
    #[serde(default, borrow)]
    data: Maybe<Details<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Details<'a> {
    #[serde(default, borrow)]
    message: Str<'a>,
}

/// The meaning of opencode's records.
#[derive(Debug, Default)]
pub struct OpenCode {
    session_id: String,
    /// The text of the step.
    text: Beginning,
    has_tool_calls: bool,
    /// Text came after the last tool of the step.
    has_answered: bool,
}

impl Grammar for OpenCode {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        // Every record of opencode names its session.
        let Some(session_id) = record.session_id.get() else {
            return scribe.unknown();
        };
        if session_id != self.session_id {
            self.run_over(scribe);
            session_id.clone_into(&mut self.session_id);
        }
        let part = record.part.0.unwrap_or_default();
        match record.kind.as_str() {
            "step_start" => {
                self.begin_step();
                scribe.working("step_start");
            }
            "text" => {
                scribe.working("text");
                if let Some(text) = part.text.into_inner() {
                    self.has_answered = !text.trim().is_empty();
                    self.text.push(&text);
                    scribe.said(&text);
                    scribe.token(text);
                }
            }
            "tool_use" => self.tool(&part, &record.timestamp, scribe),
            "step_finish" => self.step_finish(&part, scribe),
            "error" => {
                self.begin_step();
                let error = record.error.0.unwrap_or_default();
                let name = error.name.get().unwrap_or("error");
                if name == ABORTED {
                    return scribe.interrupted(format!("error: {name}"));
                }
                let details = error.data.0.unwrap_or_default();
                let message = details.message.get().unwrap_or(name);
                scribe.failed(message, format!("error: {name}"));
            }
            _ => scribe.unknown(),
        }
    }
}

impl OpenCode {
    fn begin_step(&mut self) {
        self.text.clear();
        self.has_tool_calls = false;
        self.has_answered = false;
    }

    /// Records of another session follow: the run of this one is over.
    fn run_over(&mut self, scribe: &mut Scribe) {
        match scribe.standing() {
            Standing::Working => scribe.cut("another run began"),
            Standing::Done => {
                let evidence = scribe.evidence().to_owned();
                scribe.completed(evidence);
            }
            Standing::MaybeDone => {
                scribe.turn_completed("inferred: another run began");
                scribe.completed("inferred: another run began after an answer");
            }
            _ => {}
        }
        scribe.forget_tools();
        self.begin_step();
    }

    /// A tool is recorded once, when it has ended.
    fn tool(&mut self, part: &Part<'_>, timestamp: &Time<'_>, scribe: &mut Scribe) {
        scribe.working("tool_use");
        self.has_tool_calls = true;
        self.has_answered = false;
        let none = State::default();
        let state = part.state.0.as_ref().unwrap_or(&none);
        let (start, end) = match &state.time.0 {
            Some(time) => (time.start.read(), time.end.read()),
            None => (None, None),
        };
        let recorded = timestamp.read();
        let id = part.call_id.as_str();
        let args = state.input.map_or("", RawValue::get);
        let begun = scribe.when(start.or(recorded));
        scribe.tool_begins(id, part.tool.as_str(), args, begun, true);
        let (success, text) = match state.status.as_str() {
            "completed" => (true, state.output.text.as_str()),
            "error" => (false, state.error.text.as_str()),
            // Not ended yet, in versions that record it then as well.
            _ => return,
        };
        let ended = scribe.when(end.or(recorded));
        scribe.tool_answers(id, success, text, ended);
    }

    fn step_finish(&mut self, part: &Part<'_>, scribe: &mut Scribe) {
        let tokens = part.tokens.0.unwrap_or_default();
        let usage = Usage {
            input_tokens: tokens.input.0.unwrap_or(0),
            output_tokens: tokens.output.0.unwrap_or(0),
        };
        scribe.response(self.text.as_str(), usage, self.has_tool_calls);
        let reason = part.reason.as_str();
        let evidence = format!("step_finish: reason {reason}");
        match reason {
            "tool-calls" => scribe.working("step_finish: reason tool-calls"),
            // Some providers report `stop` for a message that calls tools; opencode then runs another
            // step.
            "stop" if self.has_answered || !self.has_tool_calls => {
                scribe.told_anew();
                scribe.turn_completed("stop");
                // The run has ended when its stream has: an error may follow.
                scribe.stand(Standing::Done, evidence);
            }
            "length" => scribe.failed("the answer reached the limit of its length", evidence),
            "error" | "content-filter" => scribe.failed(reason, evidence),
            "unknown" if usage.input_tokens == 0 && usage.output_tokens == 0 => {
                scribe.failed("the model returned nothing", evidence);
            }
            _ if self.has_answered => {
                scribe.told_anew();
                scribe.stand(Standing::MaybeDone, format!("inferred: {evidence}"));
            }
            _ => scribe.working("step_finish"),
        }
        self.begin_step();
    }
}
