//! Copilot CLI's session files: messages, tools with ids, rounds of the model, errors (pure).
//!
//! Measured on 1.0.102: `~/.copilot/session-state/SESSION/events.jsonl`. `assistant.turn_end` ends
//! each round of the model; the turn ends with the round whose message calls no tools.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{
    AnyText, ErrorBody, EventWriter, Flag, List, Maybe, RecordHandler, Str, StreamStatus, Time,
    TokenUsage, token_counts,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct CopilotRecord<'a> {
    timestamp: Time<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    data: Maybe<CopilotData<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct CopilotData<'a> {
    content: Str<'a>,
    tool_requests: List<IgnoredAny>,
    /// The tool call whose sub-agent wrote the record.
    parent_tool_call_id: Str<'a>,
    /// The origin of a message that the user did not write.
    source: Str<'a>,
    tool_call_id: Str<'a>,
    tool_name: Str<'a>,
    arguments: Option<&'a RawValue>,
    success: Flag,
    result: AnyText,
    error: Maybe<ErrorBody<'a>>,
    message: Str<'a>,
    reason: Str<'a>,
    usage: Maybe<CopilotTokens>,
}

token_counts!(CopilotTokens, "inputTokens", "outputTokens");

#[derive(Debug, Default)]
pub struct CopilotEvents {
    /// The usage of the next message.
    usage: TokenUsage,
    /// True if the message of the round calls tools, so that another round follows; `None` before
    /// the message.
    calls_tools: Option<bool>,
}

impl RecordHandler for CopilotEvents {
    type Record<'a> = CopilotRecord<'a>;

    fn record(&mut self, record: CopilotRecord<'_>, writer: &mut EventWriter) {
        let when = writer.time(record.timestamp.read());
        let data = record.data.0.unwrap_or_default();
        let is_own = data.parent_tool_call_id.is_absent();
        match record.kind.as_str() {
            "user.message" if is_own => self.prompt(&data, writer),
            "session.usage_record" => {
                self.usage = data.usage.0.unwrap_or_default().usage();
            }
            "assistant.message" if is_own => self.answer(&data, writer),
            "assistant.turn_start" if is_own => {
                self.calls_tools = None;
                writer.working("a round of the model begins");
            }
            "assistant.turn_end" if is_own => self.round_ends(writer),
            "tool.execution_start" => {
                let args = data.arguments.map_or("", RawValue::get);
                let (id, name) = (data.tool_call_id.as_str(), data.tool_name.as_str());
                writer.tool_started(id, name, args, when, is_own);
            }
            "tool.execution_complete" => {
                let failure = data.error.0.unwrap_or_default();
                let is_good = data.success.0 != Some(false);
                let text = match is_good {
                    true => data.result.text.as_str(),
                    false => failure.message.as_str(),
                };
                writer.tool_completed(data.tool_call_id.as_str(), is_good, text, when);
            }
            "session.error" => writer.failed(data.message.as_str(), "session.error"),
            "abort" => writer.interrupted(format!("abort: {}", data.reason.as_str())),
            _ => writer.mark_unknown(),
        }
    }
}

impl CopilotEvents {
    fn prompt(&mut self, data: &CopilotData<'_>, writer: &mut EventWriter) {
        // Skills and instructions are also recorded as user messages.
        let is_typed = matches!(data.source.as_str(), "" | "user");
        if !is_typed || data.content.as_str().trim().is_empty() {
            return;
        }
        writer.abandon_tools();
        writer.prompt_sent(data.content.as_str());
        self.calls_tools = None;
    }

    fn answer(&mut self, data: &CopilotData<'_>, writer: &mut EventWriter) {
        let text = data.content.as_str();
        let has_tool_calls = !data.tool_requests.0.is_empty();
        self.calls_tools = Some(has_tool_calls);
        writer.working("a message");
        writer.set_answer(text);
        writer.token(text.into());
        writer.response_completed(text, std::mem::take(&mut self.usage), has_tool_calls);
    }

    fn round_ends(&self, writer: &mut EventWriter) {
        // A failed round also ends, without a message, before its error is written.
        if writer.status() == StreamStatus::Working && self.calls_tools == Some(false) {
            writer.turn_completed("assistant.turn_end");
            writer.set_status(StreamStatus::Done, "assistant.turn_end");
        }
    }
}
