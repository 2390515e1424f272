//! Gemini CLI's session files: messages that are written again as they grow, and no end of a turn (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::grammar::Grammar;
use super::super::lenient::{Count, Gist, List, Maybe, Str, Time};
use super::super::recent::Recent;
use super::super::scribe::{Scribe, Usage};
use super::super::standing::Standing;
use super::super::tools::When;

/// What Gemini CLI 0.61 says when a human stops it.
const CANCELLED: &str = "Request cancelled.";

/// How what it tells the model of itself begins, which no human has typed.
const CONTEXT: &str = "<session_context>";

/// A line of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record<'a> {
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    timestamp: Time<'a>,
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default)]
    content: Gist,
    #[serde(default, borrow)]
    tool_calls: List<ToolCall<'a>>,
    #[serde(default)]
    tokens: Maybe<Tokens>,
    #[serde(default, borrow, rename = "$set")]
    patch: Maybe<Patch<'a>>,
}

/// A patch of the header.
#[derive(Debug, Default, Deserialize)]
struct Patch<'a> {
    #[serde(default, borrow)]
    messages: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct ToolCall<'a> {
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
    result: List<Answer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    function_response: Maybe<Response>,
}

#[derive(Debug, Default, Deserialize)]
struct Response {
    #[serde(default)]
    response: Gist,
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
struct Answering {
    id: String,
    text: String,
    usage: Usage,
    has_tool_calls: bool,
}

/// The meaning of a session file.
#[derive(Debug, Default)]
pub struct Session {
    open: Option<Answering>,
    seen: Recent,
    /// After an interruption, all messages that are to stay are written once more, up to the patch that
    /// has them all.
    restates: bool,
}

impl Grammar for Session {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let has_messages = |patch: &Patch<'_>| patch.messages.is_some();
        if record.patch.0.as_ref().is_some_and(has_messages) {
            self.restates = false;
        }
        if record.kind.as_str() == "user" && record.content.text.as_str().starts_with(CONTEXT) {
            self.restates = true;
        }
        match record.kind.as_str() {
            "user" | "gemini" if self.restates => {}
            "user" => {
                if !self.seen.insert(record.id.as_str()) {
                    return;
                }
                self.tell(scribe);
                // Empty where it carries the results of tools, which the answer has told.
                let text = record.content.text.as_str();
                if text.is_empty() {
                    return scribe.working("a tool's result");
                }
                if scribe.standing() == Standing::MaybeDone {
                    scribe.turn_completed("inferred: the next prompt");
                }
                scribe.working("a prompt");
                scribe.prompt(text);
            }
            "gemini" => self.answer(&record, scribe),
            "error" if self.seen.insert(record.id.as_str()) => {
                self.tell(scribe);
                scribe.failed(record.content.text.as_str(), "an error message");
            }
            "warning" if self.seen.insert(record.id.as_str()) => {
                scribe.warn(format!("gemini says: {}", record.content.text.as_str()));
            }
            "info"
                if record.content.text.as_str() == CANCELLED
                    && self.seen.insert(record.id.as_str()) =>
            {
                self.tell(scribe);
                scribe.interrupted("a human interrupted it".to_owned());
            }
            // The header, patches of it, and hints to the human.
            _ => scribe.unknown(),
        }
    }

    fn turn_over(&mut self, scribe: &mut Scribe) {
        self.tell(scribe);
        scribe.turn_over();
    }

    fn end(&mut self, scribe: &mut Scribe) {
        self.tell(scribe);
        scribe.end();
    }
}

impl Session {
    fn answer(&mut self, record: &Record<'_>, scribe: &mut Scribe) {
        let id = record.id.as_str();
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            if !self.seen.insert(id) {
                return;
            }
            self.tell(scribe);
            self.open = Some(Answering {
                id: id.to_owned(),
                ..Answering::default()
            });
        }
        let Some(open) = &mut self.open else { return };
        let text = record.content.text.as_str();
        // The last one holds; what it has more than the one before is new.
        if let Some(more) = text.strip_prefix(open.text.as_str()) {
            scribe.token(more.to_owned().into());
        }
        text.clone_into(&mut open.text);
        scribe.said(text);
        if let Some(tokens) = record.tokens.0 {
            open.usage = Usage {
                input_tokens: tokens.input.0.unwrap_or(0),
                output_tokens: tokens.output.0.unwrap_or(0),
            };
        }
        open.has_tool_calls |= !record.tool_calls.0.is_empty();
        let when = scribe.when(record.timestamp.read());
        for call in &record.tool_calls.0 {
            tool(call, when, scribe);
        }
        if open.has_tool_calls {
            scribe.working("tools are called");
        } else if text.trim().is_empty() {
            scribe.working("it thinks");
        } else {
            scribe.told_anew();
            scribe.stand(Standing::MaybeDone, "inferred: an answer without tools");
        }
    }

    /// The answer will not be written again.
    fn tell(&mut self, scribe: &mut Scribe) {
        if let Some(open) = self.open.take() {
            scribe.response(&open.text, open.usage, open.has_tool_calls);
        }
    }
}

fn tool(call: &ToolCall<'_>, message: When, scribe: &mut Scribe) {
    let id = call.id.as_str();
    let args = call.args.map_or("", RawValue::get);
    scribe.tool_begins(id, call.name.as_str(), args, message, true);
    let status = call.status.as_str();
    if matches!(status, "success" | "error" | "cancelled") {
        let text = call.result.0.iter();
        let text = text
            .filter_map(|answer| answer.function_response.0.as_ref())
            .map(|response| response.response.text.as_str())
            .find(|text| !text.is_empty());
        let when = scribe.when(call.timestamp.read());
        scribe.tool_answers(id, status == "success", text.unwrap_or_default(), when);
    }
}
