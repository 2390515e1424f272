//! The streams of models' APIs: what their events add to an answer, for all readers (pure).
//!
//! Three dialects are known: Anthropic's messages, and OpenAI's chat completions and responses. The
//! events of each become the same parts. The agent loop builds a response from complete parts; the
//! handlers of agents' output report events, and keep only the beginnings of texts.

use std::borrow::Cow;

use super::super::summary::{TextPrefix, summary};
use super::json::Json;
use super::json_lines::replace_lone_surrogates;
use super::sse::{Framing, SseEvent};
use super::{EventTime, EventWriter, RecordHandler, StreamStatus, TokenUsage};

/// The dialect of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiDialect {
    /// A message from `message_start` to `message_stop`.
    Anthropic,
    /// Chunks, a finish reason, an optional token count, `[DONE]`.
    Chat,
    /// Items that are added and completed, and a last event with the outcome.
    Responses,
}

/// What an event adds to the answer. The index of a call distinguishes the open calls.
#[derive(Clone, Debug)]
pub(crate) enum ApiPart<'a> {
    /// The answer with this id begins; a chat repeats this with each chunk.
    Began(&'a str),
    Text(&'a str),
    /// A tool is called; a chat repeats this with each piece of the input.
    CallBegan {
        index: u64,
        id: &'a str,
        name: &'a str,
        /// True if the API runs the tool itself.
        is_by_api: bool,
    },
    CallInput {
        index: u64,
        json: Cow<'a, str>,
    },
    CallEnded {
        index: u64,
    },
    /// The result of a tool that the API has run.
    CallResult {
        id: &'a str,
        success: bool,
        text: TextPrefix,
    },
    /// The counts of input and output tokens, which are cumulative.
    Usage(Option<u64>, Option<u64>),
    /// The reason why the answer ends. All open calls end with it.
    Stopped(&'a str),
    Complete,
    Failed(String),
    /// The beginning of data that is not JSON, or of a line that is no field of an event.
    Broken(String),
    /// The data of an event exceeded the limit; its length in bytes.
    TooLong(u64),
}

type Take<'t> = &'t mut dyn FnMut(ApiPart<'_>);

/// Reads a stream to its parts. Without a dialect, the first event shows it.
#[derive(Debug)]
pub(crate) struct ApiStream {
    framing: Framing,
    pub dialect: Option<ApiDialect>,
}

impl ApiStream {
    /// Creates a reader with this maximum size of an event, in bytes.
    pub fn new(dialect: Option<ApiDialect>, bytes_max: usize) -> Self {
        let framing = Framing::events(bytes_max);
        Self { framing, dialect }
    }

    /// Processes bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], take: Take<'_>) {
        let dialect = &mut self.dialect;
        self.framing
            .push(bytes, &mut |event| take_event(event, dialect, take));
    }

    pub fn finish(&mut self, take: Take<'_>) {
        let dialect = &mut self.dialect;
        self.framing
            .finish(&mut |event| take_event(event, dialect, take));
    }
}

fn take_event(event: SseEvent<'_>, dialect: &mut Option<ApiDialect>, take: Take<'_>) {
    let text = match event {
        SseEvent::Data(data) => String::from_utf8_lossy(data),
        SseEvent::Stray(line) => {
            dialect.get_or_insert(ApiDialect::Chat);
            return take(ApiPart::Broken(summary(&String::from_utf8_lossy(line))));
        }
        SseEvent::Done => {
            dialect.get_or_insert(ApiDialect::Chat);
            return take(ApiPart::Complete);
        }
        SseEvent::TooLong(bytes) => return take(ApiPart::TooLong(bytes)),
    };
    let text = text.trim_start_matches('\u{feff}');
    // Some servers write halves of surrogate pairs, which serde rejects.
    let replaced = replace_lone_surrogates(text);
    let event: Json<'_> = serde_json::from_str(&replaced).unwrap_or_default();
    let dialect = *dialect.get_or_insert(match event["type"].as_str() {
        Some(kind) if kind.starts_with("response.") => ApiDialect::Responses,
        Some(_) => ApiDialect::Anthropic,
        None => ApiDialect::Chat,
    });
    match event {
        Json::Null => take(ApiPart::Broken(summary(text))),
        event => dialect.parts(&event, take),
    }
}

impl ApiDialect {
    /// Takes the parts that an event consists of.
    pub(super) fn parts(self, event: &Json<'_>, take: Take<'_>) {
        match self {
            Self::Anthropic => anthropic_parts(event, take),
            Self::Chat => chat_parts(event, take),
            Self::Responses => response_parts(event, take),
        }
    }

    /// Returns true if an event is one of this dialect.
    fn knows(self, kind: &str, event: &Json<'_>) -> bool {
        match self {
            Self::Anthropic => !kind.is_empty() || event["error"].is_object(),
            Self::Chat => ["id", "choices", "usage", "error"]
                .iter()
                .any(|field| !event[field].is_null()),
            Self::Responses => kind == "error" || kind.starts_with("response."),
        }
    }

    /// Returns the name of an answer.
    fn answer(self) -> &'static str {
        match self {
            Self::Anthropic => "message",
            Self::Chat => "answer",
            Self::Responses => "response",
        }
    }
}

fn anthropic_parts(event: &Json<'_>, take: Take<'_>) {
    let index = event["index"].as_u64().unwrap_or_default();
    match event["type"].text() {
        "message_start" => {
            take(ApiPart::Began(event["message"]["id"].text()));
            take(usage(&event["message"]["usage"], "input", "output"));
        }
        "content_block_start" => {
            let block = &event["content_block"];
            let kind = block["type"].text();
            if matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use") {
                take(ApiPart::CallBegan {
                    index,
                    id: block["id"].text(),
                    name: block["name"].text(),
                    is_by_api: kind != "tool_use",
                });
                // Usually empty, because the input follows in deltas.
                if matches!(&block["input"], Json::Object(input) if !input.is_empty()) {
                    let json = block["input"].arguments();
                    take(ApiPart::CallInput { index, json });
                }
            } else if let Some(id) = block["tool_use_id"].as_str() {
                take(ApiPart::CallResult {
                    id,
                    success: is_success(block),
                    text: block["content"].any_text(),
                });
            } else {
                take(ApiPart::Text(block["text"].text()));
            }
        }
        "content_block_delta" => {
            let delta = &event["delta"];
            if let Some(text) = delta["text"].as_str() {
                take(ApiPart::Text(text));
            } else if let Some(json) = delta["partial_json"].as_str() {
                let json = json.into();
                take(ApiPart::CallInput { index, json });
            }
        }
        "content_block_stop" => take(ApiPart::CallEnded { index }),
        "message_delta" => {
            if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                take(ApiPart::Stopped(reason));
            }
            take(usage(&event["usage"], "input", "output"));
        }
        "message_stop" => take(ApiPart::Complete),
        // Also the body of a response that is not a stream.
        kind @ ("error" | "") if !kind.is_empty() || !event["error"].is_null() => {
            take(ApiPart::Failed(failure(&event["error"])))
        }
        // Pings, and events of newer versions.
        _ => {}
    }
}

/// Returns true if a block with the result of a tool shows no error.
pub(super) fn is_success(block: &Json<'_>) -> bool {
    block["is_error"].as_bool() != Some(true) && block["content"]["error_code"].is_null()
}

fn chat_parts(event: &Json<'_>, take: Take<'_>) {
    take(ApiPart::Began(event["id"].text()));
    take(usage(&event["usage"], "prompt", "completion"));
    if !event["error"].is_null() {
        return take(ApiPart::Failed(failure(&event["error"])));
    }
    // Alternative answers to the same prompt would mix with this one.
    let choices = event["choices"].list().iter();
    for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
        let delta = &choice["delta"];
        take(ApiPart::Text(delta["content"].text()));
        take(ApiPart::Text(delta["refusal"].text()));
        for call in delta["tool_calls"].list() {
            let index = call["index"].as_u64().unwrap_or_default();
            take(ApiPart::CallBegan {
                index,
                id: call["id"].text(),
                name: call["function"]["name"].text(),
                is_by_api: false,
            });
            let json = call["function"]["arguments"].text().into();
            take(ApiPart::CallInput { index, json });
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            take(ApiPart::Stopped(reason));
        }
    }
}

fn response_parts(event: &Json<'_>, take: Take<'_>) {
    let response = &event["response"];
    match event["type"].text() {
        "response.created" => take(ApiPart::Began(response["id"].text())),
        "response.output_text.delta" => take(ApiPart::Text(event["delta"].text())),
        "response.output_item.added" => item_parts(&event["item"], false, take),
        "response.output_item.done" => item_parts(&event["item"], true, take),
        kind @ ("response.completed" | "response.incomplete") => {
            take(usage(&response["usage"], "input", "output"));
            if kind == "response.incomplete" {
                let reason = response["incomplete_details"]["reason"].as_str();
                take(ApiPart::Stopped(reason.unwrap_or("incomplete")));
            }
            take(ApiPart::Complete);
        }
        "response.failed" | "response.cancelled" => {
            take(ApiPart::Failed(failure(&response["error"])));
        }
        "error" => take(ApiPart::Failed(failure(event))),
        // Most other events contain nothing relevant.
        _ => {}
    }
}

fn item_parts(item: &Json<'_>, is_done: bool, take: Take<'_>) {
    let kind = item["type"].text();
    let is_by_api = match kind {
        "web_search_call"
        | "file_search_call"
        | "code_interpreter_call"
        | "image_generation_call"
        | "mcp_call" => true,
        // The input of a tool that the caller runs is complete with its item.
        "function_call" | "custom_tool_call" | "computer_call" | "local_shell_call"
        | "shell_call" | "apply_patch_call"
            if is_done =>
        {
            false
        }
        _ => return,
    };
    let id = item["call_id"].as_str().unwrap_or(item["id"].text());
    // An item's call ends at once, so that one index suffices.
    let index = 0;
    take(ApiPart::CallBegan {
        index,
        id,
        name: item["name"].as_str().unwrap_or(kind),
        is_by_api,
    });
    let fields = ["arguments", "input", "code", "action"];
    let inputs = fields.map(|field| item[field].arguments());
    if let Some(json) = inputs.into_iter().find(|json| !json.is_empty()) {
        take(ApiPart::CallInput { index, json });
    }
    take(ApiPart::CallEnded { index });
    if is_by_api && is_done {
        take(ApiPart::CallResult {
            id,
            success: item["status"].text() != "failed" && item["error"].is_null(),
            text: item["output"].any_text(),
        });
    }
}

fn usage(counts: &Json<'_>, input: &str, output: &str) -> ApiPart<'static> {
    let count = |kind: &str| counts[&*format!("{kind}_tokens")].as_u64();
    ApiPart::Usage(count(input), count(output))
}

/// Describes the error of an API.
fn failure(error: &Json<'_>) -> String {
    let kind = error["type"].as_str().or(error["code"].as_str());
    let message = error["message"].as_str().or(error.as_str());
    match (kind.filter(|kind| *kind != "error"), message) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) if error.is_null() => "an unknown error".to_owned(),
        (None, None) => error.arguments().into_owned(),
    }
}

/// An answer that is being streamed, whose parts are reported as events.
#[derive(Debug, Default)]
pub(super) struct LiveMessage {
    pub id: String,
    pub text: TextPrefix,
    pub usage: TokenUsage,
    has_usage: bool,
    stop_reason: Option<String>,
    pub has_tool_calls: bool,
    /// True if a tool was called that the caller must run.
    awaits_tools: bool,
    /// True if some of the text was reported.
    pub has_text: bool,
    /// Tools whose arguments are incomplete.
    calls: Vec<PartialCall>,
}

/// A tool call whose arguments arrive in pieces.
#[derive(Debug)]
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    arguments: TextPrefix,
    /// True if the stream contains the result.
    is_own: bool,
}

impl PartialCall {
    fn report(&self, when: EventTime, writer: &mut EventWriter) {
        let arguments = self.arguments.as_str();
        writer.tool_started(&self.id, &self.name, arguments, when, self.is_own);
    }
}

/// The maximum number of open tool calls in an answer; further calls are ignored.
const CALLS_MAX: usize = 1_024;

impl LiveMessage {
    pub fn begin(&mut self, id: &str) {
        *self = Self {
            id: id.to_owned(),
            ..Self::default()
        };
    }

    /// Reports a part. `has_results`: the stream also contains the results of the agent's tools.
    pub fn take(
        &mut self,
        part: ApiPart<'_>,
        when: EventTime,
        has_results: bool,
        writer: &mut EventWriter,
    ) {
        match part {
            ApiPart::Text(text) if !text.is_empty() => {
                self.has_text = true;
                self.text.push(text);
                writer.token(text.into());
            }
            ApiPart::CallBegan {
                index,
                id,
                name,
                is_by_api,
            } => {
                self.has_tool_calls = true;
                self.awaits_tools |= !is_by_api;
                if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
                    // Some servers repeat the name in each piece.
                    for (known, given) in [(&mut call.id, id), (&mut call.name, name)] {
                        if known.is_empty() {
                            given.clone_into(known);
                        }
                    }
                } else if self.calls.len() < CALLS_MAX {
                    self.calls.push(PartialCall {
                        index,
                        id: id.to_owned(),
                        name: name.to_owned(),
                        arguments: TextPrefix::default(),
                        is_own: has_results || is_by_api,
                    });
                }
            }
            ApiPart::CallInput { index, json } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
                    call.arguments.push(&json);
                }
            }
            ApiPart::CallEnded { index } => {
                for call in self.calls.extract_if(.., |call| call.index == index) {
                    call.report(when, writer);
                }
            }
            ApiPart::CallResult { id, success, text } => {
                writer.tool_completed(id, success, text.as_str(), when);
            }
            ApiPart::Usage(input, output) => {
                self.has_usage |= input.or(output).is_some();
                self.usage.replace(input, output);
            }
            ApiPart::Stopped(reason) => {
                self.stop_reason = Some(reason.to_owned());
                for call in self.calls.drain(..) {
                    call.report(when, writer);
                }
            }
            _ => {}
        }
    }
}

/// Reports the answers of an API.
#[derive(Debug)]
pub(super) struct ApiAnswers {
    dialect: ApiDialect,
    message: LiveMessage,
}

impl RecordHandler for ApiAnswers {
    fn record(&mut self, event: &Json<'_>, writer: &mut EventWriter) {
        let kind = event["type"].text();
        if !self.dialect.knows(kind, event) {
            return writer.mark_unknown();
        }
        let is_silent = matches!(
            kind,
            "ping" | "error" | "message_start" | "response.created"
        );
        if !is_silent && writer.status == StreamStatus::Unknown {
            self.work(writer);
        }
        let dialect = self.dialect;
        dialect.parts(event, &mut |part| self.part(part, kind, writer));
    }

    fn done(&mut self, writer: &mut EventWriter) {
        self.part(ApiPart::Complete, "[DONE]", writer);
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        if self.is_finished_chat() {
            writer.warn("the stream ended without [DONE]".to_owned());
            self.complete(writer);
        }
        writer.finish();
    }
}

impl ApiAnswers {
    pub fn new(dialect: ApiDialect) -> Self {
        let message = LiveMessage::default();
        Self { dialect, message }
    }

    /// Returns true for an answer that only lacks `[DONE]`, which some servers do not send.
    fn is_finished_chat(&self) -> bool {
        self.dialect == ApiDialect::Chat && self.message.stop_reason.is_some()
    }

    fn work(&self, writer: &mut EventWriter) {
        writer.working(match self.dialect {
            ApiDialect::Chat => "a chunk",
            _ => "an event",
        });
    }

    fn part(&mut self, part: ApiPart<'_>, kind: &str, writer: &mut EventWriter) {
        let is_chat = self.dialect == ApiDialect::Chat;
        match &part {
            ApiPart::Began(id) if is_chat && (id.is_empty() || *id == self.message.id) => {}
            ApiPart::Began(id) if is_chat && self.message.id.is_empty() => {
                (*id).clone_into(&mut self.message.id);
            }
            ApiPart::Began(id) => {
                if self.is_finished_chat() {
                    self.complete(writer);
                }
                writer.cut_off_by(&format!("another {} began", self.dialect.answer()));
                self.message.begin(id);
                match self.dialect {
                    ApiDialect::Anthropic => writer.working("message_start"),
                    ApiDialect::Chat => {}
                    ApiDialect::Responses => writer.working("response.created"),
                }
            }
            ApiPart::Complete if is_chat && !self.is_finished_chat() => {
                writer.cut_off_by(kind);
                self.message = LiveMessage::default();
            }
            ApiPart::Complete => self.complete(writer),
            ApiPart::Failed(error) => {
                if is_chat && self.message.has_usage {
                    // The tokens were used although the answer failed.
                    let message = &self.message;
                    let text = message.text.as_str();
                    writer.response_completed(text, message.usage, message.has_tool_calls);
                }
                let evidence = match kind {
                    "error" => "an error event",
                    _ if is_chat => "an error in the stream",
                    "" => "an error in the place of a stream",
                    kind => kind,
                };
                writer.failed(error, evidence.to_owned());
                // An error invalidates the answer, even a finished one.
                let id = std::mem::take(&mut self.message.id);
                self.message.begin(&id);
            }
            _ => {
                let is_work = match &part {
                    ApiPart::Text(text) => !text.is_empty(),
                    part => matches!(part, ApiPart::CallBegan { .. }),
                };
                if is_work && writer.status != StreamStatus::Working {
                    self.work(writer);
                }
                let reason = match part {
                    ApiPart::Stopped(reason) if is_chat => Some(reason),
                    _ => None,
                };
                self.message.take(part, writer.time(None), false, writer);
                // Some servers send nothing more; an error may still follow.
                if let Some(reason) = reason.filter(|reason| !is_for_tools(reason)) {
                    writer.set_status(StreamStatus::MaybeDone, format!("finish_reason {reason}"));
                }
            }
        }
    }

    fn complete(&mut self, writer: &mut EventWriter) {
        let message = std::mem::take(&mut self.message);
        writer.api_answer(message.text.as_str(), message.usage, message.has_tool_calls);
        let reason = message.stop_reason.as_deref();
        let evidence = |end: &str| match self.dialect {
            ApiDialect::Anthropic => format!("{end}stop_reason {}", reason.unwrap_or_default()),
            ApiDialect::Chat => format!("finish_reason {}", reason.unwrap_or_default()),
            ApiDialect::Responses => "the response is complete".to_owned(),
        };
        match reason {
            Some(reason) if is_for_tools(reason) => {
                writer.set_status(StreamStatus::Unknown, evidence(""));
            }
            None if message.awaits_tools => {
                let evidence = "response.completed, with tools to run";
                writer.set_status(StreamStatus::Unknown, evidence);
            }
            reason => {
                let is_whole = !matches!(
                    reason,
                    Some(
                        "max_tokens"
                            | "refusal"
                            | "model_context_window_exceeded"
                            | "length"
                            | "content_filter"
                            | "max_output_tokens"
                            | "incomplete"
                    )
                );
                let marker = reason.unwrap_or(match self.dialect {
                    ApiDialect::Responses => "response.completed",
                    _ => "",
                });
                writer.end_api_turn(marker, is_whole, evidence("message_stop, "));
            }
        }
    }
}

/// Returns true if the caller must run tools or repeat the request after an answer with this reason.
fn is_for_tools(reason: &str) -> bool {
    matches!(
        reason,
        "tool_use" | "pause_turn" | "tool_calls" | "function_call"
    )
}

#[cfg(test)]
mod tests {

    use super::*;

    fn parts(text: &str, piece: usize) -> Vec<String> {
        let mut stream = ApiStream::new(None, 70);
        let mut found = Vec::new();
        let mut take = |part: ApiPart<'_>| {
            found.push(match part {
                ApiPart::Text(text) => text.to_owned(),
                ApiPart::Complete => "complete".to_owned(),
                ApiPart::Broken(text) => format!("broken {text}"),
                ApiPart::TooLong(bytes) => format!("{bytes} bytes"),
                ApiPart::Failed(error) => format!("failed {error}"),
                _ => return,
            });
        };
        for piece in text.as_bytes().chunks(piece) {
            stream.push(piece, &mut take);
        }
        stream.finish(&mut take);
        assert_eq!(stream.dialect, Some(ApiDialect::Anthropic));
        found
    }

    #[test]
    fn events_are_whole_for_all_cuts() {
        let delta =
            |text: &str| format!(r#"{{"type":"content_block_delta","delta":{{"text":{text}}}}}"#);
        let text = [
            "event: a\ndata: ",
            &delta(r#""\ud83d""#),
            "\n\n: note\ndata: {\"type\":\ndata: \"message_stop\"}\r\n\r\n",
            "data: {\"c\"\n\ndata: [DONE]\n\n<html>\ndata: 7\n\ndata: ",
            &delta(r#""0123456789012345678901234567890123456789""#),
            "\n\ndata: ",
            &delta("7"),
            "\n\ndata: {\"type\":\"error\",\"error\":{\"code\":\"full\"}}",
        ]
        .concat();
        let expected = [
            "\u{fffd}",
            "complete",
            "broken {\"c\"",
            "complete",
            "broken <html>",
            "96 bytes",
            "failed full",
        ];
        for piece in [1, 2, 7, text.len()] {
            assert_eq!(parts(&text, piece), expected, "pieces of {piece}");
        }
    }
}
