//! `gemini --output-format stream-json`: runs that begin with an init and end with a result (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::event_writer::{EventWriter, TokenUsage};
use super::super::lenient::{AnyText, Count, Flag, Maybe, Str, Time};
use super::super::status::StreamStatus;
use super::super::traits::RecordHandler;
use crate::agent::summary::TextPrefix;

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
pub struct GeminiPrintRecord<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, borrow)]
    role: Str<'a>,
    #[serde(default, borrow)]
    content: Str<'a>,
    #[serde(default)]
    delta: Flag,
    #[serde(default, borrow)]
    tool_name: Str<'a>,
    #[serde(default, borrow)]
    tool_id: Str<'a>,
    #[serde(default, borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default)]
    output: AnyText,
    #[serde(default, borrow)]
    error: Maybe<Failure<'a>>,
    #[serde(default, borrow)]
    severity: Str<'a>,
    #[serde(default, borrow)]
    message: Str<'a>,
    #[serde(default)]
    stats: Maybe<Stats>,
}

#[derive(Debug, Default, Deserialize)]
struct Failure<'a> {
    #[serde(default, borrow)]
    message: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Stats {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
}

/// The meaning of Gemini's stream-json.
#[derive(Debug, Default)]
pub struct GeminiPrint {
    /// The text since the last tool or prompt, from deltas.
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
                if writer.status() == StreamStatus::Working {
                    writer.cut_off("another run began");
                }
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
                    "gemini says: {severity}: {}",
                    record.message.as_str()
                ));
            }
            // Claude's records of this type have none.
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
                writer.working("a prompt");
                writer.prompt_sent(&text);
            }
            "assistant" => {
                writer.working("an answer");
                // What came in deltas may come again as a whole.
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
        let stats = record.stats.0.unwrap_or_default();
        let usage = TokenUsage {
            input_tokens: stats.input_tokens.0.unwrap_or(0),
            output_tokens: stats.output_tokens.0.unwrap_or(0),
        };
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
