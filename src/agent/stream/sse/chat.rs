//! OpenAI's chat completions: chunks, a finish reason, an optional token count, `[DONE]` (pure).

use serde::Deserialize;

use crate::agent::stream::{
    Count, ErrorText, EventWriter, List, Maybe, PartialCall, RecordHandler, Str, StreamStatus,
    TokenUsage, token_counts,
};
use crate::agent::summary::TextPrefix;

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
