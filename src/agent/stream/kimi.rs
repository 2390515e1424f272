//! Kimi's session files: turns, steps of the model, tools with ids, failed steps (pure).
//!
//! Measured on 1.44.0: `~/.kimi/sessions/MD5/SESSION/wire.jsonl`. `TurnEnd` also ends a turn that failed, that the user
//! has stopped, or that ran a command of Kimi itself; only the answer of a step without tools completes a turn.

use super::{EventWriter, Json, RecordHandler, StreamStatus, TokenUsage};

/// A failure of which the agent writes no words; its screen has them.
pub(crate) const UNTOLD_FAILURE: &str = "a step of the agent has failed";

#[derive(Debug, Default)]
pub struct KimiWire {
    /// The text of the step.
    text: String,
    has_tool_calls: bool,
    /// The steps of the turn that have begun.
    steps: u64,
    /// True once the step has its answer.
    is_answered: bool,
    /// The HTTP status with which the step's last request failed.
    failed_with: Option<u64>,
}

impl RecordHandler for KimiWire {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let when = writer.time(record["timestamp"].time());
        let (message, is_own) = match &record["message"] {
            message if message["type"].text() == "SubagentEvent" => {
                (&message["payload"]["event"], false)
            }
            message => (message, true),
        };
        let payload = &message["payload"];
        match message["type"].text() {
            "ToolCall" => {
                let (id, function) = (payload["id"].text(), &payload["function"]);
                let arguments = function["arguments"].arguments();
                writer.tool_started(id, function["name"].text(), &arguments, when, is_own);
                self.has_tool_calls |= is_own;
            }
            "ToolResult" => {
                let (id, value) = (payload["tool_call_id"].text(), &payload["return_value"]);
                let output = value["output"].any_text();
                let text = super::first([output.as_str(), value["message"].text()]);
                let is_good = value["is_error"].as_bool() != Some(true);
                writer.tool_completed(id, is_good, text, when);
            }
            _ if !is_own => {}
            "TurnBegin" => {
                *self = Self::default();
                writer.abandon_tools();
                writer.prompt_sent(payload["user_input"].any_text().as_str());
            }
            // The user adds to the prompt while the agent works.
            "SteerInput" => writer.prompt_sent(payload["user_input"].any_text().as_str()),
            "StepBegin" => {
                *self = Self {
                    steps: self.steps + 1,
                    ..Self::default()
                };
                writer.working("a step of the model begins");
            }
            "ContentPart" if payload["type"].text() == "text" => {
                let text = payload["text"].text();
                self.text.push_str(text);
                writer.set_answer(&self.text);
                writer.token(text.into());
            }
            "StepRetry" => self.failed_with = payload["status_code"].as_u64(),
            "StatusUpdate" if payload["token_usage"].is_object() => {
                self.is_answered = true;
                let counts = &payload["token_usage"];
                let cached = [&counts["input_cache_read"], &counts["input_cache_creation"]];
                let usage = TokenUsage::of(counts, "input_other", "output").with_cached(cached);
                let text = std::mem::take(&mut self.text);
                writer.response_completed(&text, usage, self.has_tool_calls);
            }
            "StepInterrupted" => {
                let error = match self.failed_with {
                    Some(status) => format!("the model's API has failed with status {status}"),
                    None => UNTOLD_FAILURE.to_owned(),
                };
                writer.failed(&error, "StepInterrupted");
            }
            "TurnEnd" => self.turn_ends(writer),
            "" => writer.mark_unknown(),
            _ => {}
        }
    }
}

impl KimiWire {
    fn turn_ends(&mut self, writer: &mut EventWriter) {
        if writer.status != StreamStatus::Working {
            return;
        }
        if self.steps == 0 {
            // A command of Kimi, such as `/compact`.
            writer.set_status(StreamStatus::Done, "TurnEnd without a step");
        } else if self.is_answered && !self.has_tool_calls {
            writer.turn_completed("TurnEnd");
            writer.set_status(StreamStatus::Done, "TurnEnd");
        } else {
            writer.interrupted("TurnEnd without an answer".to_owned());
        }
    }
}
