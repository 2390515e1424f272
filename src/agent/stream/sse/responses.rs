//! OpenAI's responses: items that are added and completed, and a last event with the outcome (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agent::stream::{
    AnyText, ErrorText, EventWriter, Maybe, RecordHandler, Str, StreamStatus, token_counts,
};
use crate::agent::summary::TextPrefix;

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ResponseEvent<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    delta: Str<'a>,
    item: Maybe<Box<ResponseItem<'a>>>,
    response: Maybe<Box<ResponseBody<'a>>>,
    message: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ResponseItem<'a> {
    id: Str<'a>,
    call_id: Str<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    status: Str<'a>,
    name: Str<'a>,
    arguments: Str<'a>,
    input: Str<'a>,
    code: Str<'a>,
    action: Option<&'a RawValue>,
    output: AnyText,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ResponseBody<'a> {
    usage: Maybe<ResponseTokens>,
    error: Maybe<ErrorText>,
    incomplete_details: Maybe<Incomplete<'a>>,
}

token_counts!(ResponseTokens, "input_tokens", "output_tokens");

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Incomplete<'a> {
    reason: Str<'a>,
}

/// The side that runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolRunner {
    /// The API, which also reports the result.
    Api,
    /// The caller, so that the stream ends before the result.
    Caller,
}

impl ResponseItem<'_> {
    fn runner(&self) -> Option<ToolRunner> {
        match self.kind.as_str() {
            "web_search_call"
            | "file_search_call"
            | "code_interpreter_call"
            | "image_generation_call"
            | "mcp_call" => Some(ToolRunner::Api),
            "function_call" | "custom_tool_call" | "computer_call" | "local_shell_call"
            | "shell_call" | "apply_patch_call" => Some(ToolRunner::Caller),
            _ => None,
        }
    }

    fn name(&self) -> &str {
        self.name.get().unwrap_or(self.kind.as_str())
    }

    fn args(&self) -> &str {
        let texts = [
            self.arguments.as_str(),
            self.input.as_str(),
            self.code.as_str(),
            self.action.map_or("", RawValue::get),
        ];
        texts
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub struct ResponseStream {
    text: TextPrefix,
    has_tool_calls: bool,
    /// True if the caller must run a tool, so that the turn continues.
    awaits_tools: bool,
}

impl RecordHandler for ResponseStream {
    type Record<'a> = ResponseEvent<'a>;

    fn record(&mut self, record: ResponseEvent<'_>, writer: &mut EventWriter) {
        match record.kind.as_str() {
            "response.created" => {
                writer.cut_off_by("another response began");
                *self = Self::default();
                writer.working("response.created");
            }
            "response.output_text.delta" => {
                if let Some(text) = record.delta.into_inner() {
                    self.text.push(&text);
                    writer.token(text);
                }
                self.mark_working(writer);
            }
            "response.output_item.added" => {
                if let Some(item) = record.item.0
                    && item.runner() == Some(ToolRunner::Api)
                {
                    self.tool(&item, writer);
                }
                self.mark_working(writer);
            }
            "response.output_item.done" => {
                if let Some(item) = record.item.0 {
                    self.item_done(&item, writer);
                }
            }
            "response.completed" => self.completed(record.response.0, None, writer),
            "response.incomplete" => {
                let response = record.response.0.unwrap_or_default();
                let details = response.incomplete_details.0.as_ref();
                let reason = details.and_then(|details| details.reason.get());
                let reason = reason.unwrap_or("incomplete").to_owned();
                self.completed(Some(response), Some(&reason), writer);
            }
            "response.failed" | "response.cancelled" => {
                let error = record.response.0.unwrap_or_default().error;
                let error = error.0.unwrap_or_default().message;
                writer.failed(error.text.as_str(), record.kind.as_str().to_owned());
            }
            "error" => writer.failed(record.message.as_str(), "an error event"),
            // Most other events contain nothing relevant.
            kind if kind.starts_with("response.") => {}
            _ => writer.mark_unknown(),
        }
    }
}

impl ResponseStream {
    fn mark_working(&self, writer: &mut EventWriter) {
        if writer.status() == StreamStatus::Unknown {
            writer.working("an event");
        }
    }

    fn tool(&mut self, item: &ResponseItem<'_>, writer: &mut EventWriter) -> String {
        self.has_tool_calls = true;
        let id = item.call_id.get().unwrap_or(item.id.as_str()).to_owned();
        let when = writer.time(None);
        let is_own = item.runner() == Some(ToolRunner::Api);
        writer.tool_started(&id, item.name(), item.args(), when, is_own);
        id
    }

    fn item_done(&mut self, item: &ResponseItem<'_>, writer: &mut EventWriter) {
        let Some(runner) = item.runner() else { return };
        let id = self.tool(item, writer);
        if runner == ToolRunner::Caller {
            self.awaits_tools = true;
        } else {
            let success = item.status.as_str() != "failed" && item.error.is_none();
            let when = writer.time(None);
            writer.tool_completed(&id, success, item.output.text.as_str(), when);
        }
    }

    fn completed(
        &mut self,
        response: Option<Box<ResponseBody<'_>>>,
        short: Option<&str>,
        writer: &mut EventWriter,
    ) {
        let tokens = response.and_then(|response| response.usage.0);
        let usage = tokens.unwrap_or_default().usage();
        writer.api_answer(self.text.as_str(), usage, self.has_tool_calls);
        if self.awaits_tools && short.is_none() {
            writer.set_status(
                StreamStatus::Unknown,
                "response.completed, with tools to run",
            );
        } else {
            let reason = short.unwrap_or("response.completed");
            writer.end_api_turn(reason, short.is_none(), "the response is complete");
        }
        *self = Self::default();
    }
}
