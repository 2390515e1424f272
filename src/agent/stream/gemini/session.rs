//! Gemini CLI's session files: messages that are written again as they grow, and no end of a turn (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::event_writer::{EventWriter, TokenUsage};
use super::super::lenient::{AnyText, Count, List, Maybe, Str, Time};
use super::super::recent_ids::RecentIds;
use super::super::status::StreamStatus;
use super::super::tools::EventTime;
use super::super::traits::RecordHandler;

/// What Gemini CLI 0.61 says when a human stops it.
const CANCELLED: &str = "Request cancelled.";

/// A line of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiRecord<'a> {
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default)]
    content: AnyText,
    #[serde(default, borrow)]
    tool_calls: List<GeminiToolCall<'a>>,
    #[serde(default)]
    tokens: Maybe<Tokens>,
}

#[derive(Debug, Default, Deserialize)]
struct GeminiToolCall<'a> {
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    name: Str<'a>,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default)]
    result: List<ToolResult>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    #[serde(default)]
    function_response: Maybe<FunctionResponse>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionResponse {
    #[serde(default)]
    response: AnyText,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    input: Count,
    #[serde(default)]
    output: Count,
}

/// The answer that may be written again.
#[derive(Debug, Default)]
struct OpenAnswer {
    id: String,
    text: String,
    usage: TokenUsage,
    has_tool_calls: bool,
}

/// The meaning of a session file.
#[derive(Debug, Default)]
pub struct GeminiSession {
    open: Option<OpenAnswer>,
    seen: RecentIds,
}

impl RecordHandler for GeminiSession {
    type Record<'a> = GeminiRecord<'a>;

    fn record(&mut self, record: GeminiRecord<'_>, writer: &mut EventWriter) {
        match record.kind.as_str() {
            "user" => {
                if !self.seen.insert(record.id.as_str()) {
                    return;
                }
                self.complete(writer);
                // Empty where it carries the results of tools, which the answer has told.
                let text = record.content.text.as_str();
                if text.is_empty() {
                    return writer.working("a tool's result");
                }
                if writer.status() == StreamStatus::MaybeDone {
                    writer.turn_completed("inferred: the next prompt");
                }
                writer.working("a prompt");
                writer.prompt_sent(text);
            }
            "gemini" => self.answer(&record, writer),
            "error" if self.seen.insert(record.id.as_str()) => {
                self.complete(writer);
                writer.failed(record.content.text.as_str(), "an error message");
            }
            "warning" if self.seen.insert(record.id.as_str()) => {
                writer.warn(format!("gemini says: {}", record.content.text.as_str()));
            }
            "info"
                if record.content.text.as_str() == CANCELLED
                    && self.seen.insert(record.id.as_str()) =>
            {
                self.complete(writer);
                writer.interrupted("a human interrupted it".to_owned());
            }
            // The header, patches of it, and hints to the human.
            _ => writer.mark_unknown(),
        }
    }

    fn end_turn(&mut self, writer: &mut EventWriter) {
        self.complete(writer);
        writer.end_turn();
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        self.complete(writer);
        writer.finish();
    }
}

impl GeminiSession {
    fn answer(&mut self, record: &GeminiRecord<'_>, writer: &mut EventWriter) {
        let id = record.id.as_str();
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            if !self.seen.insert(id) {
                return;
            }
            self.complete(writer);
            self.open = Some(OpenAnswer {
                id: id.to_owned(),
                ..OpenAnswer::default()
            });
        }
        let Some(open) = &mut self.open else { return };
        let text = record.content.text.as_str();
        // The last one holds; what it has more than the one before is new.
        if let Some(more) = text.strip_prefix(open.text.as_str()) {
            writer.token(more.to_owned().into());
        }
        text.clone_into(&mut open.text);
        writer.set_answer(text);
        if let Some(tokens) = record.tokens.0 {
            open.usage = TokenUsage {
                input_tokens: tokens.input.0.unwrap_or(0),
                output_tokens: tokens.output.0.unwrap_or(0),
            };
        }
        open.has_tool_calls |= !record.tool_calls.0.is_empty();
        let when = writer.time(record.timestamp.read());
        for call in &record.tool_calls.0 {
            tool(call, when, writer);
        }
        if open.has_tool_calls {
            writer.working("tools are called");
        } else if text.trim().is_empty() {
            writer.working("it thinks");
        } else {
            writer.reopen();
            writer.set_status(StreamStatus::MaybeDone, "inferred: an answer without tools");
        }
    }

    /// The answer will not be written again.
    fn complete(&mut self, writer: &mut EventWriter) {
        if let Some(open) = self.open.take() {
            writer.response_completed(&open.text, open.usage, open.has_tool_calls);
        }
    }
}

fn tool(call: &GeminiToolCall<'_>, message: EventTime, writer: &mut EventWriter) {
    let id = call.id.as_str();
    let args = call.args.map_or("", RawValue::get);
    writer.tool_started(id, call.name.as_str(), args, message, true);
    let status = call.status.as_str();
    if matches!(status, "success" | "error" | "cancelled") {
        let text = call.result.0.iter();
        let text = text
            .filter_map(|answer| answer.function_response.0.as_ref())
            .map(|response| response.response.text.as_str())
            .find(|text| !text.is_empty());
        let when = writer.time(call.timestamp.read());
        writer.tool_completed(id, status == "success", text.unwrap_or_default(), when);
    }
}
