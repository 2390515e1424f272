//! `gemini --output-format stream-json`: runs from an init to a result (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agent::stream::any_text::AnyText;
use crate::agent::stream::event_writer::{EventWriter, TokenUsage};
use crate::agent::stream::lenient::{Count, ErrorBody, Flag, Maybe, Str, Time, token_counts};
use crate::agent::stream::status::StreamStatus;
use crate::agent::stream::traits::RecordHandler;
use crate::agent::summary::TextPrefix;

/// A line of the stream.
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

/// Interprets Gemini's stream-json.
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
