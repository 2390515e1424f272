//! `opencode run --format json`: the steps of a session, the last of which states why it ended (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    AnyText, ErrorBody, EventWriter, Maybe, RecordHandler, Str, StreamStatus, Time, token_counts,
};
use crate::agent::summary::TextPrefix;

/// The error that opencode reports when the user stops it.
const ABORTED: &str = "MessageAbortedError";

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct OpenCodeRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    timestamp: Time<'a>,
    #[serde(rename = "sessionID")]
    session_id: Str<'a>,
    part: Maybe<Box<StepPart<'a>>>,
    error: Maybe<RunError<'a>>,
}

/// A part of a message: text, a tool with its result, or the end of a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StepPart<'a> {
    text: Str<'a>,
    #[serde(rename = "callID")]
    call_id: Str<'a>,
    tool: Str<'a>,
    state: Maybe<ToolState<'a>>,
    reason: Str<'a>,
    tokens: Maybe<OpenCodeTokens>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolState<'a> {
    status: Str<'a>,
    input: Option<&'a RawValue>,
    output: AnyText,
    error: AnyText,
    time: Maybe<ToolTime<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolTime<'a> {
    start: Time<'a>,
    end: Time<'a>,
}

token_counts!(OpenCodeTokens, "input", "output");

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RunError<'a> {
    name: Str<'a>,
    data: Maybe<ErrorBody<'a>>,
}

#[derive(Debug, Default)]
pub struct OpenCodeRun {
    session_id: String,
    /// The text of the step.
    text: TextPrefix,
    has_tool_calls: bool,
    /// True if text followed the last tool of the step.
    has_answered: bool,
}

impl RecordHandler for OpenCodeRun {
    type Record<'a> = OpenCodeRecord<'a>;

    fn record(&mut self, record: OpenCodeRecord<'_>, writer: &mut EventWriter) {
        // Every record of opencode names its session.
        let Some(session_id) = record.session_id.get() else {
            return writer.mark_unknown();
        };
        if session_id != self.session_id {
            self.run_over(writer);
            session_id.clone_into(&mut self.session_id);
        }
        let part = record.part.0.unwrap_or_default();
        match record.kind.as_str() {
            "step_start" => {
                self.begin_step();
                writer.working("step_start");
            }
            "text" => {
                writer.working("text");
                if let Some(text) = part.text.into_inner() {
                    self.has_answered = !text.trim().is_empty();
                    self.text.push(&text);
                    writer.set_answer(&text);
                    writer.token(text);
                }
            }
            "tool_use" => self.tool(&part, &record.timestamp, writer),
            "step_finish" => self.step_finish(&part, writer),
            "error" => {
                self.begin_step();
                let error = record.error.0.unwrap_or_default();
                let name = error.name.get().unwrap_or("error");
                if name == ABORTED {
                    return writer.interrupted(format!("error: {name}"));
                }
                let details = error.data.0.unwrap_or_default();
                let message = details.message.get().unwrap_or(name);
                writer.failed(message, format!("error: {name}"));
            }
            _ => writer.mark_unknown(),
        }
    }
}

impl OpenCodeRun {
    fn begin_step(&mut self) {
        self.text.clear();
        self.has_tool_calls = false;
        self.has_answered = false;
    }

    /// Ends the run, because records of another session follow.
    fn run_over(&mut self, writer: &mut EventWriter) {
        match writer.status() {
            StreamStatus::Working => writer.cut_off("another run began"),
            StreamStatus::Done => {
                let evidence = writer.evidence().to_owned();
                writer.completed(evidence);
            }
            StreamStatus::MaybeDone => {
                writer.turn_completed("inferred: another run began");
                writer.completed("inferred: another run began after an answer");
            }
            _ => {}
        }
        writer.clear_tools();
        self.begin_step();
    }

    /// Reports a tool, which is recorded once, when it ends.
    fn tool(&mut self, part: &StepPart<'_>, timestamp: &Time<'_>, writer: &mut EventWriter) {
        writer.working("tool_use");
        self.has_tool_calls = true;
        self.has_answered = false;
        let none = ToolState::default();
        let state = part.state.0.as_ref().unwrap_or(&none);
        let (start, end) = match &state.time.0 {
            Some(time) => (time.start.read(), time.end.read()),
            None => (None, None),
        };
        let recorded = timestamp.read();
        let id = part.call_id.as_str();
        let args = state.input.map_or("", RawValue::get);
        let begun = writer.time(start.or(recorded));
        writer.tool_started(id, part.tool.as_str(), args, begun, true);
        let (success, text) = match state.status.as_str() {
            "completed" => (true, state.output.text.as_str()),
            "error" => (false, state.error.text.as_str()),
            // Some versions also record a tool before it ends.
            _ => return,
        };
        let ended = writer.time(end.or(recorded));
        writer.tool_completed(id, success, text, ended);
    }

    fn step_finish(&mut self, part: &StepPart<'_>, writer: &mut EventWriter) {
        let usage = part.tokens.0.unwrap_or_default().usage();
        writer.response_completed(self.text.as_str(), usage, self.has_tool_calls);
        let reason = part.reason.as_str();
        let evidence = format!("step_finish: reason {reason}");
        match reason {
            "tool-calls" => writer.working("step_finish: reason tool-calls"),
            // Some providers report `stop` for a message that calls tools; opencode then runs another step.
            "stop" if self.has_answered || !self.has_tool_calls => {
                writer.turn_completed("stop");
                // The run ends with its stream, because an error may follow.
                writer.pause(StreamStatus::Done, evidence);
            }
            "length" => writer.failed("the answer reached the limit of its length", evidence),
            "error" | "content-filter" => writer.failed(reason, evidence),
            "unknown" if usage.input_tokens == 0 && usage.output_tokens == 0 => {
                writer.failed("the model returned nothing", evidence);
            }
            _ if self.has_answered => {
                writer.pause(StreamStatus::MaybeDone, format!("inferred: {evidence}"));
            }
            _ => writer.working("step_finish"),
        }
        self.begin_step();
    }
}
