//! Gemini CLI (pure): the output of `--output-format stream-json`, runs from an init to a result; and
//! session files, which rewrite messages as they grow and do not record the end of a turn.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    AnyText, ErrorBody, EventTime, EventWriter, Flag, List, Maybe, RecentIds, RecordHandler, Str,
    Time, TokenUsage, token_counts,
};
use crate::agent::summary::TextPrefix;

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct GeminiPrintRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    timestamp: Time<'a>,
    role: Str<'a>,
    content: Str<'a>,
    delta: Flag,
    tool_name: Str<'a>,
    tool_id: Str<'a>,
    parameters: Option<&'a RawValue>,
    status: Str<'a>,
    output: AnyText,
    error: Maybe<ErrorBody<'a>>,
    severity: Str<'a>,
    message: Str<'a>,
    stats: Maybe<GeminiStats>,
}

token_counts!(GeminiStats, "input_tokens", "output_tokens");

#[derive(Debug, Default)]
pub struct GeminiPrint {
    /// The text since the last tool or prompt, collected from deltas.
    text: TextPrefix,
    text_bytes: usize,
    has_tool_calls: bool,
}

impl RecordHandler for GeminiPrint {
    type Record<'a> = GeminiPrintRecord<'a>;

    fn record(&mut self, record: GeminiPrintRecord<'_>, writer: &mut EventWriter) {
        let when = writer.time(record.timestamp.read());
        match record.kind.as_str() {
            "init" => {
                writer.cut_off_by("another run began");
                writer.clear_tools();
                self.begin_text();
                self.has_tool_calls = false;
                writer.working("init");
            }
            "message" => self.message(record, writer),
            "tool_use" => {
                writer.working("tool_use");
                self.begin_text();
                self.has_tool_calls = true;
                let args = record.parameters.map_or("", RawValue::get);
                let (id, name) = (record.tool_id.as_str(), record.tool_name.as_str());
                writer.tool_started(id, name, args, when, true);
            }
            "tool_result" => {
                writer.working("tool_result");
                self.begin_text();
                let error = record.error.0.unwrap_or_default();
                let text = match record.output.text.as_str() {
                    "" => error.message.as_str(),
                    text => text,
                };
                let success = record.status.as_str() == "success";
                writer.tool_completed(record.tool_id.as_str(), success, text, when);
            }
            "error" => {
                let severity = record.severity.get().unwrap_or("error");
                writer.warn(format!(
                    "gemini reports: {severity}: {}",
                    record.message.as_str()
                ));
            }
            // Claude's records of this type have no status.
            "result" if record.status.is_absent() => writer.mark_unknown(),
            "result" => self.result(record, writer),
            _ => writer.mark_unknown(),
        }
    }
}

impl GeminiPrint {
    fn begin_text(&mut self) {
        self.text.clear();
        self.text_bytes = 0;
    }

    fn message(&mut self, record: GeminiPrintRecord<'_>, writer: &mut EventWriter) {
        let Some(text) = record.content.into_inner() else {
            return;
        };
        match record.role.as_str() {
            "user" => {
                self.begin_text();
                writer.prompt_sent(&text);
            }
            "assistant" => {
                writer.working("an answer");
                // A complete message may repeat the deltas.
                let is_repeated = !record.delta.is_set()
                    && self.text_bytes > 0
                    && text.len() == self.text_bytes
                    && text.starts_with(self.text.as_str());
                if is_repeated {
                    return;
                }
                self.text.push(&text);
                self.text_bytes += text.len();
                writer.set_answer(self.text.as_str());
                writer.token(text);
            }
            _ => {}
        }
    }

    fn result(&mut self, record: GeminiPrintRecord<'_>, writer: &mut EventWriter) {
        let status = record.status.as_str();
        let evidence = format!("result: status {status}");
        let usage = record.stats.0.unwrap_or_default().usage();
        if status == "success" {
            let answer = writer.answer().to_owned();
            writer.response_completed(&answer, usage, self.has_tool_calls);
            writer.turn_completed("result");
            writer.completed(evidence);
        } else {
            let error = record.error.0.unwrap_or_default();
            writer.failed(error.message.get().unwrap_or(status), evidence);
        }
        self.begin_text();
        self.has_tool_calls = false;
    }
}

/// Written by Gemini CLI 0.61 when the user stops it.
const CANCELLED: &str = "Request cancelled.";

/// The beginning of the context that Gemini CLI itself sends to the model.
const CONTEXT: &str = "<session_context>";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub struct GeminiRecord<'a> {
    id: Str<'a>,
    timestamp: Time<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    content: AnyText,
    tool_calls: List<GeminiToolCall<'a>>,
    tokens: Maybe<GeminiTokens>,
    #[serde(rename = "$set")]
    patch: Maybe<HeaderPatch<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct HeaderPatch<'a> {
    messages: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct GeminiToolCall<'a> {
    id: Str<'a>,
    name: Str<'a>,
    args: Option<&'a RawValue>,
    status: Str<'a>,
    timestamp: Time<'a>,
    result: List<ToolResult>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ToolResult {
    function_response: Maybe<FunctionResponse>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionResponse {
    response: AnyText,
}

token_counts!(GeminiTokens, "input", "output");

/// An answer that may be rewritten.
#[derive(Debug, Default)]
struct OpenAnswer {
    id: String,
    text: String,
    usage: TokenUsage,
    has_tool_calls: bool,
}

#[derive(Debug, Default)]
pub struct GeminiSession {
    open: Option<OpenAnswer>,
    seen: RecentIds,
    /// True after an interruption: Gemini CLI then rewrites all remaining messages, up to the patch
    /// that contains them all.
    is_rewriting: bool,
}

impl RecordHandler for GeminiSession {
    type Record<'a> = GeminiRecord<'a>;

    fn record(&mut self, record: GeminiRecord<'_>, writer: &mut EventWriter) {
        let patch = record.patch.0.as_ref();
        if patch.is_some_and(|patch| patch.messages.is_some()) {
            self.is_rewriting = false;
        }
        if record.kind.as_str() == "user" && record.content.text.as_str().starts_with(CONTEXT) {
            self.is_rewriting = true;
        }
        match record.kind.as_str() {
            "user" | "gemini" if self.is_rewriting => {}
            "user" => {
                if !self.seen.insert(record.id.as_str()) {
                    return;
                }
                self.complete(writer);
                // Empty for tool results, which the answer has reported.
                let text = record.content.text.as_str();
                if text.is_empty() {
                    return writer.working("a tool's result");
                }
                writer.prompt_sent(text);
            }
            "gemini" => self.answer(&record, writer),
            "error" if self.seen.insert(record.id.as_str()) => {
                self.complete(writer);
                writer.failed(record.content.text.as_str(), "an error message");
            }
            "warning" if self.seen.insert(record.id.as_str()) => {
                writer.warn(format!("gemini reports: {}", record.content.text.as_str()));
            }
            "info"
                if record.content.text.as_str() == CANCELLED
                    && self.seen.insert(record.id.as_str()) =>
            {
                self.complete(writer);
                writer.interrupted("a human interrupted it".to_owned());
            }
            // The header and its patches, and hints for the user.
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
        // The last version is valid; only its text beyond the previous version is new.
        if let Some(more) = text.strip_prefix(open.text.as_str()) {
            writer.token(more.to_owned().into());
        }
        text.clone_into(&mut open.text);
        writer.set_answer(text);
        if let Some(tokens) = record.tokens.0 {
            open.usage = tokens.usage();
        }
        open.has_tool_calls |= !record.tool_calls.0.is_empty();
        let when = writer.time(record.timestamp.read());
        for call in &record.tool_calls.0 {
            tool(call, when, writer);
        }
        writer.answered(text, open.has_tool_calls);
    }

    /// Reports the answer, which will not be rewritten.
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
