//! `opencode run --format json`: the steps of a session, the last of which states why it ended (pure).

use super::note::cost_of;
use super::{EventTime, EventWriter, Json, RecordHandler, StreamStatus, TokenUsage};
use crate::agent::summary::TextPrefix;
use crate::timestamp::Timestamp;

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
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        // Every record of opencode names its session.
        let Some(session_id) = record["sessionID"].as_str() else {
            return writer.mark_unknown();
        };
        if session_id != self.session_id {
            self.run_over(writer);
            session_id.clone_into(&mut self.session_id);
        }
        // A part of a message: text, a tool with its result, or the end of a step.
        let part = &record["part"];
        match record["type"].text() {
            "step_start" => {
                self.begin_step();
                writer.working("step_start");
            }
            "text" => {
                writer.working("text");
                if let Some(text) = part["text"].as_str() {
                    self.has_answered = !text.trim().is_empty();
                    self.text.push(text);
                    writer.set_answer(text);
                    writer.token(text.into());
                }
            }
            "tool_use" => self.tool(part, record["timestamp"].time(), writer),
            "step_finish" => self.step_finish(part, writer),
            "error" => {
                self.begin_step();
                let error = &record["error"];
                let name = error["name"].as_str().unwrap_or("error");
                // The user has stopped it.
                if name == "MessageAbortedError" {
                    return writer.interrupted(format!("error: {name}"));
                }
                let message = error["data"]["message"].as_str().unwrap_or(name);
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
        match writer.status {
            StreamStatus::Working => writer.cut_off("another run began"),
            StreamStatus::Done => {
                let evidence = writer.evidence.clone();
                writer.completed(evidence);
            }
            StreamStatus::MaybeDone => {
                writer.turn_completed("inferred: another run began");
                writer.completed("inferred: another run began after an answer");
            }
            _ => {}
        }
        writer.tools.clear();
        self.begin_step();
    }

    /// Reports a tool, which is recorded once, when it ends.
    fn tool(&mut self, part: &Json<'_>, recorded: Option<Timestamp>, writer: &mut EventWriter) {
        writer.working("tool_use");
        self.has_tool_calls = true;
        self.has_answered = false;
        let state = &part["state"];
        let at = |name: &str, writer: &EventWriter| -> EventTime {
            writer.time(state["time"][name].time().or(recorded))
        };
        let (id, arguments) = (part["callID"].text(), state["input"].arguments());
        let begun = at("start", writer);
        writer.tool_started(id, part["tool"].text(), &arguments, begun, true);
        let (success, text) = match state["status"].text() {
            "completed" => (true, &state["output"]),
            "error" => (false, &state["error"]),
            // Some versions also record a tool before it ends.
            _ => return,
        };
        let ended = at("end", writer);
        writer.tool_completed(id, success, text.any_text().as_str(), ended);
    }

    fn step_finish(&mut self, part: &Json<'_>, writer: &mut EventWriter) {
        let (tokens, cache) = (&part["tokens"], &part["tokens"]["cache"]);
        let usage = TokenUsage::of(tokens, "input", "output")
            .with_cached([&cache["read"], &cache["write"]])
            .with_thoughts(&tokens["reasoning"], &tokens["total"]);
        writer.response_completed(self.text.as_str(), usage, self.has_tool_calls);
        writer.note(cost_of(&part["cost"]));
        let reason = part["reason"].text();
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
            "unknown" if usage.is_uncounted() => {
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
