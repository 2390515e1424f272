//! Copilot CLI's session files: messages, tools with ids, rounds of the model, errors (pure).
//!
//! Measured on 1.0.102: `~/.copilot/session-state/SESSION/events.jsonl`. `assistant.turn_end` ends
//! each round of the model; the turn ends with the round whose message calls no tools.

use super::{EventWriter, Json, RecordHandler, StreamStatus, TokenUsage};

#[derive(Debug, Default)]
pub struct CopilotEvents {
    /// The usage since the last message: that of the next one, and of sub-agents and failed requests before it.
    usage: TokenUsage,
    /// True if the message of the round calls tools, so that another round follows; `None` before
    /// the message.
    calls_tools: Option<bool>,
}

impl RecordHandler for CopilotEvents {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let when = writer.time(record["timestamp"].time());
        let data = &record["data"];
        // A sub-agent's records name the call that started it.
        let is_own = data["parentToolCallId"].as_str().is_none();
        let id = data["toolCallId"].text();
        match record["type"].text() {
            "user.message" if is_own => self.prompt(data, writer),
            "session.usage_record" => {
                let usage = TokenUsage::of(&data["usage"], "inputTokens", "outputTokens");
                self.usage = self.usage.plus(usage);
            }
            "assistant.message" if is_own => self.answer(data, writer),
            "assistant.turn_start" if is_own => {
                self.calls_tools = None;
                writer.working("a round of the model begins");
            }
            "assistant.turn_end" if is_own => self.round_ends(writer),
            "tool.execution_start" => {
                let arguments = data["arguments"].arguments();
                writer.tool_started(id, data["toolName"].text(), &arguments, when, is_own);
            }
            "tool.execution_complete" => {
                let result = data["result"].any_text();
                let (success, text) = match data["success"].as_bool() {
                    Some(false) => (false, data["error"]["message"].text()),
                    _ => (true, result.as_str()),
                };
                writer.tool_completed(id, success, text, when);
            }
            "session.error" => writer.failed(data["message"].text(), "session.error"),
            "abort" => writer.interrupted(format!("abort: {}", data["reason"].text())),
            _ => writer.mark_unknown(),
        }
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        let rest = std::mem::take(&mut self.usage);
        if !rest.is_uncounted() {
            writer.response_completed("", rest, false);
        }
        writer.finish();
    }
}

impl CopilotEvents {
    fn prompt(&mut self, data: &Json<'_>, writer: &mut EventWriter) {
        // Skills and instructions are also recorded as user messages.
        let is_typed = matches!(data["source"].text(), "" | "user");
        let text = data["content"].text();
        if !is_typed || text.trim().is_empty() {
            return;
        }
        writer.abandon_tools();
        writer.prompt_sent(text);
        self.calls_tools = None;
    }

    fn answer(&mut self, data: &Json<'_>, writer: &mut EventWriter) {
        let text = data["content"].text();
        let has_tool_calls = !data["toolRequests"].list().is_empty();
        self.calls_tools = Some(has_tool_calls);
        writer.working("a message");
        writer.set_answer(text);
        writer.token(text.into());
        writer.response_completed(text, std::mem::take(&mut self.usage), has_tool_calls);
    }

    fn round_ends(&self, writer: &mut EventWriter) {
        // A failed round also ends, without a message, before its error is written.
        if writer.status == StreamStatus::Working && self.calls_tools == Some(false) {
            writer.turn_completed("assistant.turn_end");
            writer.set_status(StreamStatus::Done, "assistant.turn_end");
        }
    }
}
