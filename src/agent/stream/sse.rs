//! Server-sent events: their framing and the events of three APIs (pure).

use super::super::summary::{TextPrefix, summary};
use super::claude::{ApiEvent, LiveMessage, StreamStep};
use super::json_lines::{ByteLine, LineEnd, LineSplitter, ROOM_KEPT, replace_lone_surrogates};
use super::{
    AnyText, Count, ErrorText, EventWriter, List, Maybe, PartialCall, RecordHandler, Str,
    StreamStatus, TokenUsage, json_lines, token_counts,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

// Splits bytes into records: lines, or server-sent events with their fields and the blank line that
// ends an event (pure).

/// A record, or what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseEvent<'a> {
    Data(&'a [u8]),
    /// The data exceeded the limit. The number is its length in bytes.
    TooLong(u64),
    /// `[DONE]`, with which an API announces the end of the stream.
    Done,
    /// A line that is not a field.
    Stray(&'a [u8]),
}

/// The data of the open event.
#[derive(Debug, Default)]
pub struct SseFrames {
    bytes_max: usize,
    data: Vec<u8>,
    has_data: bool,
    skipped: u64,
}

impl SseFrames {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Processes a line without its end.
    pub fn line(&mut self, line: &ByteLine<'_>, take: &mut impl FnMut(SseEvent<'_>)) {
        let line = match line {
            ByteLine::Whole(line) => *line,
            ByteLine::TooLong(bytes) => {
                self.skipped += bytes;
                return;
            }
        };
        let Some(first) = line.first() else {
            return self.dispatch(take);
        };
        match (first, line.strip_prefix(b"data")) {
            // A recording of payloads without fields: no other line of this format begins with a brace.
            (b'{', _) => take(SseEvent::Data(line)),
            (_, Some(rest)) if rest.is_empty() || rest[0] == b':' => {
                let value = rest.strip_prefix(b":").unwrap_or(rest);
                self.data(value.strip_prefix(b" ").unwrap_or(value));
            }
            // The data repeats the name of the event.
            _ if is_field(line) => {}
            _ => take(SseEvent::Stray(line)),
        }
    }

    fn data(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        if self.skipped > 0 || self.data.len() + value.len() > self.bytes_max {
            self.skipped += (self.data.len() + value.len()) as u64;
            self.data = Vec::new();
        } else {
            self.data.extend_from_slice(value);
        }
    }

    /// Emits data that lacks only the final blank line, after no bytes have arrived for a while;
    /// returns true if it used the open line.
    pub fn flush_idle(&mut self, open: &[u8], take: &mut impl FnMut(SseEvent<'_>)) -> bool {
        let is_whole = |data: &[u8]| data == b"[DONE]" || json_lines::is_whole(data);
        let value = open.strip_prefix(b"data:").unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let has_value = !self.has_data && is_whole(value);
        if has_value {
            self.data(value);
        }
        if self.skipped == 0 && self.has_data && is_whole(&self.data) {
            self.dispatch(take);
        }
        has_value
    }

    pub fn dispatch(&mut self, take: &mut impl FnMut(SseEvent<'_>)) {
        let skipped = std::mem::take(&mut self.skipped);
        match self.data.as_slice() {
            _ if skipped > 0 => take(SseEvent::TooLong(skipped)),
            b"[DONE]" => take(SseEvent::Done),
            data if self.has_data => take(SseEvent::Data(data)),
            _ => {}
        }
        self.has_data = false;
        self.data.clear();
        self.data.shrink_to(ROOM_KEPT);
    }
}

/// Splits bytes into records: lines, or the data of server-sent events.
#[derive(Debug)]
pub struct Framing {
    lines: LineSplitter,
    /// `None` if each line is a record.
    frames: Option<SseFrames>,
}

impl Framing {
    /// Creates a framing in which each line is a record.
    pub fn lines(bytes_max: usize) -> Self {
        Self {
            lines: LineSplitter::new(LineEnd::Newline, bytes_max),
            frames: None,
        }
    }

    /// Creates the framing of server-sent events.
    pub fn events(bytes_max: usize) -> Self {
        Self {
            lines: LineSplitter::new(LineEnd::Any, bytes_max),
            frames: Some(SseFrames::new(bytes_max)),
        }
    }

    /// Processes bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(SseEvent<'_>)) {
        let frames = &mut self.frames;
        self.lines
            .push(bytes, |line| take_line(&line, frames, take));
    }

    /// Emits a record that lacks only its end, after no bytes have arrived for a while.
    pub fn flush_idle(&mut self, take: &mut impl FnMut(SseEvent<'_>)) {
        if json_lines::is_whole(self.lines.open()) {
            let open = self.lines.take_open();
            take_line(&ByteLine::Whole(&open), &mut self.frames, take);
        } else if let Some(frames) = &mut self.frames
            && frames.flush_idle(self.lines.open(), take)
        {
            self.lines.take_open();
        }
    }

    /// Returns true if a record has begun but not ended.
    pub fn is_open(&self) -> bool {
        let frames = self.frames.as_ref();
        frames.is_some_and(|frames| frames.has_data || frames.skipped > 0)
            || self.lines.is_too_long()
            || json_lines::is_begun(self.lines.open())
    }

    /// Ends the stream. The last record needs no end.
    pub fn finish(&mut self, take: &mut impl FnMut(SseEvent<'_>)) {
        let frames = &mut self.frames;
        self.lines.finish(|line| take_line(&line, frames, take));
        if let Some(frames) = frames {
            frames.dispatch(take);
        }
    }
}

fn take_line(
    line: &ByteLine<'_>,
    frames: &mut Option<SseFrames>,
    take: &mut impl FnMut(SseEvent<'_>),
) {
    match (frames, line) {
        (Some(frames), _) => frames.line(line, take),
        (None, ByteLine::Whole(line)) => take(SseEvent::Data(line)),
        (None, ByteLine::TooLong(bytes)) => take(SseEvent::TooLong(*bytes)),
    }
}

/// Returns true if a line is a comment or a known SSE field.
fn is_field(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    matches!(name, b"" | b"event" | b"id" | b"retry")
}

// Server-sent events as complete JSON values (pure).
//
// The other handlers in this module keep only what an event needs, such as a summary. The agent
// loop runs the tools of a model, and so needs their complete inputs.

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SseRecord {
    /// The event's data.
    Value(Value),
    /// `[DONE]`, with which the API announces the end of the stream.
    Done,
    /// The beginning of invalid JSON or of a line that is not a field.
    Broken(String),
    /// The data exceeded the limit and is lost. The number is its length in bytes.
    TooLong(u64),
}

/// Splits a stream into records.
#[derive(Debug)]
pub(crate) struct SseRecords(Framing);

impl SseRecords {
    /// Creates a reader with this maximum size of a record, in bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Framing::events(bytes_max))
    }

    /// Processes bytes, cut anywhere.
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(SseRecord)) {
        self.0.push(bytes, &mut |event| take(record(event)));
    }

    pub(crate) fn finish(&mut self, take: &mut impl FnMut(SseRecord)) {
        self.0.finish(&mut |event| take(record(event)));
    }
}

fn record(event: SseEvent<'_>) -> SseRecord {
    match event {
        SseEvent::Done => SseRecord::Done,
        SseEvent::Data(data) => value(&String::from_utf8_lossy(data)),
        SseEvent::TooLong(bytes) => SseRecord::TooLong(bytes),
        SseEvent::Stray(line) => SseRecord::Broken(summary(&String::from_utf8_lossy(line))),
    }
}

fn value(text: &str) -> SseRecord {
    let text = text.trim_start_matches('\u{feff}');
    if let Ok(value) = serde_json::from_str(text) {
        return SseRecord::Value(value);
    }
    // Some servers write halves of surrogate pairs, which serde rejects.
    let text = replace_lone_surrogates(text);
    match serde_json::from_str(&text) {
        Ok(value) => SseRecord::Value(value),
        Err(_) => SseRecord::Broken(summary(&text)),
    }
}

// The Anthropic Messages API: a message from `message_start` to `message_stop` (pure).

#[derive(Debug, Default)]
pub struct AnthropicMessage {
    message: LiveMessage,
}

impl RecordHandler for AnthropicMessage {
    type Record<'a> = ApiEvent<'a>;

    fn record(&mut self, event: ApiEvent<'_>, writer: &mut EventWriter) {
        match event.kind.as_str() {
            "message_start" => {
                writer.cut_off_by("another message began");
                writer.working("message_start");
            }
            "ping" => return,
            "" => {}
            _ if writer.status() == StreamStatus::Unknown => writer.working("an event"),
            _ => {}
        }
        let error = event.error.0.as_ref();
        let error = error.map(|error| {
            let kind = error.kind.get().unwrap_or("error");
            match error.message.as_str() {
                "" => kind.to_owned(),
                message => format!("{kind}: {message}"),
            }
        });
        if event.kind.is_absent() {
            // The body of a response that is not a stream.
            return match error {
                Some(error) => writer.failed(&error, "an error in the place of a stream"),
                None => writer.mark_unknown(),
            };
        }
        let when = writer.time(None);
        match self.message.event(event, when, false, writer) {
            StreamStep::Continues => {}
            StreamStep::Failed => {
                writer.failed(error.as_deref().unwrap_or("error"), "an error event");
            }
            StreamStep::Stopped => self.stopped(writer),
        }
    }
}

impl AnthropicMessage {
    fn stopped(&mut self, writer: &mut EventWriter) {
        let message = std::mem::take(&mut self.message);
        writer.api_answer(message.text.as_str(), message.usage, message.has_tool_calls);
        let reason = message.stop_reason.as_str();
        let is_whole = !matches!(
            reason,
            "max_tokens" | "refusal" | "model_context_window_exceeded"
        );
        match reason {
            // The caller must run the tools or repeat the request.
            "tool_use" | "pause_turn" => {
                writer.set_status(StreamStatus::Unknown, format!("stop_reason {reason}"));
            }
            _ => {
                let evidence = format!("message_stop, stop_reason {reason}");
                writer.end_api_turn(reason, is_whole, evidence);
            }
        }
    }
}

// OpenAI's chat completions: chunks, a finish reason, an optional token count, `[DONE]` (pure).

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ChatChunk<'a> {
    id: Str<'a>,
    choices: List<ChatChoice<'a>>,
    usage: Maybe<ChatTokens>,
    error: Maybe<ErrorText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ChatChoice<'a> {
    index: Count,
    delta: Maybe<ChatDelta<'a>>,
    finish_reason: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ChatDelta<'a> {
    content: Str<'a>,
    tool_calls: List<ToolCallPart<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolCallPart<'a> {
    index: Count,
    id: Str<'a>,
    function: Maybe<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Str<'a>,
    arguments: Str<'a>,
}

token_counts!(ChatTokens, "prompt_tokens", "completion_tokens");

/// The maximum number of tool calls in an answer; further calls are ignored.
const CALLS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub struct ChatCompletion {
    id: String,
    text: TextPrefix,
    usage: TokenUsage,
    has_usage: bool,
    calls: Vec<PartialCall>,
    finish: Option<String>,
}

impl RecordHandler for ChatCompletion {
    type Record<'a> = ChatChunk<'a>;

    fn record(&mut self, record: ChatChunk<'_>, writer: &mut EventWriter) {
        let id = record.id.as_str();
        if !id.is_empty() && id != self.id {
            if !self.id.is_empty() {
                self.close("another answer began", writer);
            }
            id.clone_into(&mut self.id);
        }
        let is_nothing = record.error.0.is_none() && record.usage.0.is_none();
        if is_nothing && record.choices.0.is_empty() && record.id.is_absent() {
            return writer.mark_unknown();
        }
        if let Some(tokens) = record.usage.0 {
            self.has_usage = true;
            self.usage = tokens.usage();
        }
        if let Some(error) = record.error.0 {
            let error = error.message.text;
            if self.has_usage {
                // The tokens were used although the answer failed.
                writer.response_completed(self.text.as_str(), self.usage, !self.calls.is_empty());
            }
            writer.failed(error.as_str(), "an error in the stream");
            // An error invalidates the answer, even a finished one.
            *self = Self {
                id: std::mem::take(&mut self.id),
                ..Self::default()
            };
            return;
        }
        if writer.status() == StreamStatus::Unknown {
            writer.working("a chunk");
        }
        for choice in record.choices.0 {
            // Alternative answers to the same prompt would mix with this one.
            if choice.index.0.unwrap_or(0) == 0 {
                self.choice(choice, writer);
            }
        }
    }

    fn done(&mut self, writer: &mut EventWriter) {
        self.close("[DONE]", writer);
        self.id.clear();
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        if self.finish.is_some() {
            writer.warn("the stream ended without [DONE]".to_owned());
            self.close("the stream ended", writer);
        }
        writer.finish();
    }
}

impl ChatCompletion {
    fn choice(&mut self, choice: ChatChoice<'_>, writer: &mut EventWriter) {
        let delta = choice.delta.0.unwrap_or_default();
        if let Some(text) = delta.content.into_inner()
            && !text.is_empty()
        {
            writer.working("a chunk");
            self.text.push(&text);
            writer.token(text);
        }
        for call in delta.tool_calls.0 {
            writer.working("a chunk");
            self.call(&call);
        }
        if let Some(reason) = choice.finish_reason.get() {
            self.finish = Some(reason.to_owned());
            // Some servers send nothing more; an error may still follow.
            if !calls_tools(reason) {
                writer.set_status(StreamStatus::MaybeDone, format!("finish_reason {reason}"));
            }
        }
    }

    fn call(&mut self, piece: &ToolCallPart<'_>) {
        let index = piece.index.0.unwrap_or(0);
        let known = self.calls.iter().position(|call| call.index == index);
        let at = known.unwrap_or(self.calls.len());
        if at >= CALLS_MAX {
            return;
        }
        if known.is_none() {
            self.calls.push(PartialCall {
                index,
                ..PartialCall::default()
            });
        }
        let call = &mut self.calls[at];
        if let Some(id) = piece.id.get() {
            id.clone_into(&mut call.id);
        }
        if let Some(function) = &piece.function.0 {
            // Some servers repeat the name in each piece.
            if call.name.is_empty() {
                function.name.as_str().clone_into(&mut call.name);
            }
            call.arguments.push(function.arguments.as_str());
        }
    }

    fn close(&mut self, how: &str, writer: &mut EventWriter) {
        let Some(reason) = self.finish.take() else {
            writer.cut_off_by(how);
            *self = Self::default();
            return;
        };
        let when = writer.time(None);
        for call in &self.calls {
            writer.tool_started(&call.id, &call.name, call.arguments.as_str(), when, false);
        }
        writer.api_answer(self.text.as_str(), self.usage, !self.calls.is_empty());
        let evidence = format!("finish_reason {reason}");
        if calls_tools(&reason) {
            writer.set_status(StreamStatus::Unknown, evidence);
        } else {
            let is_whole = !matches!(reason.as_str(), "length" | "content_filter");
            writer.end_api_turn(&reason, is_whole, evidence);
        }
        *self = Self::default();
    }
}

/// Returns true if an answer with this finish reason waits for tools of the caller.
fn calls_tools(reason: &str) -> bool {
    matches!(reason, "tool_calls" | "function_call")
}

// OpenAI's responses: items that are added and completed, and a last event with the outcome (pure).

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

#[cfg(test)]
mod tests {
    mod frame {

        use super::super::*;

        fn events(text: &str) -> Vec<String> {
            let mut found = Vec::new();
            let mut framing = Framing::events(20);
            let mut take = |event: SseEvent<'_>| {
                found.push(match event {
                    SseEvent::Data(data) => String::from_utf8_lossy(data).into_owned(),
                    SseEvent::TooLong(bytes) => format!("{bytes} skipped"),
                    SseEvent::Done => "[DONE]".to_owned(),
                    SseEvent::Stray(line) => format!("? {}", String::from_utf8_lossy(line)),
                });
            };
            framing.push(text.as_bytes(), &mut take);
            framing.finish(&mut take);
            found
        }

        #[test]
        fn fields_comments_and_line_ends() {
            let text = ": hello\nevent: x\ndata: a\ndata:b\rdata\r\n\r\nid: 7\n\ndata:  c\n\nwhat\n{\"d\":1}\ndata: e";
            assert_eq!(events(text), ["a\nb\n", " c", "? what", "{\"d\":1}", "e"]);
        }

        #[test]
        fn data_that_is_too_long_is_counted() {
            let text =
                "data: 12345678901234\ndata: 123456\n\ndata: 123456789012345678901\n\ndata: a\n\n";
            assert_eq!(events(text), ["21 skipped", "27 skipped", "a"]);
        }
    }

    mod record {

        use super::super::*;
        use serde_json::json;

        fn records(text: &str, piece: usize) -> Vec<SseRecord> {
            let mut records = SseRecords::new(40);
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(piece) {
                records.push(piece, &mut |record| found.push(record));
            }
            records.finish(&mut |record| found.push(record));
            found
        }

        #[test]
        fn values_are_whole_for_all_cuts() {
            let text = "event: a\ndata: {\"a\": \"\\ud83d\"  }\n\n: note\ndata: {\"b\":\ndata: 1}\r\n\r\n\
                    data: {\"c\"\n\ndata: [DONE]\n\n<html>\ndata: {\"d\":\"0123456789012345678901234567890123456789\"}\n\ndata: 7";
            let expected = [
                SseRecord::Value(json!({"a": "\u{fffd}"})),
                SseRecord::Value(json!({"b": 1})),
                SseRecord::Broken("{\"c\"".into()),
                SseRecord::Done,
                SseRecord::Broken("<html>".into()),
                SseRecord::TooLong(54),
                SseRecord::Value(json!(7)),
            ];
            for piece in [1, 2, 7, text.len()] {
                assert_eq!(records(text, piece), expected, "pieces of {piece}");
            }
        }
    }
}
