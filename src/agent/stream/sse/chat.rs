//! OpenAI's chat completions: chunks, a finish reason, perhaps a count of tokens, `[DONE]` (pure).

use serde::Deserialize;

use super::super::grammar::Grammar;
use super::super::lenient::{Count, Gist, List, Maybe, Str};
use super::super::scribe::{Scribe, Usage};
use super::super::standing::Standing;
use crate::agent::summary::Beginning;

/// A chunk.
#[derive(Debug, Default, Deserialize)]
pub struct Record<'a> {
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    choices: List<Choice<'a>>,
    #[serde(default)]
    usage: Maybe<Tokens>,
    #[serde(default)]
    error: Maybe<Failure>,
}

#[derive(Debug, Default, Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Count,
    #[serde(default, borrow)]
    delta: Maybe<Delta<'a>>,
    #[serde(default, borrow)]
    finish_reason: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Str<'a>,
    #[serde(default, borrow)]
    tool_calls: List<ToolCall<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct ToolCall<'a> {
    #[serde(default)]
    index: Count,
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    function: Maybe<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Function<'a> {
    #[serde(default, borrow)]
    name: Str<'a>,
    #[serde(default, borrow)]
    arguments: Str<'a>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct Failure {
    #[serde(default)]
    message: Gist,
}

/// A tool whose arguments come in pieces.
#[derive(Debug)]
struct Call {
    index: u64,
    id: String,
    name: String,
    args: Beginning,
}

/// Tools that one answer may call; those beyond are not told.
const CALLS_MAX: usize = 1_024;

/// The meaning of a chat completion's stream.
#[derive(Debug, Default)]
pub struct Chat {
    id: String,
    text: Beginning,
    usage: Usage,
    has_usage: bool,
    calls: Vec<Call>,
    finish: Option<String>,
}

impl Grammar for Chat {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        let id = record.id.as_str();
        if !id.is_empty() && id != self.id {
            if !self.id.is_empty() {
                self.close("another answer began", scribe);
            }
            id.clone_into(&mut self.id);
        }
        let is_nothing = record.error.0.is_none() && record.usage.0.is_none();
        if is_nothing && record.choices.0.is_empty() && record.id.is_absent() {
            return scribe.unknown();
        }
        if let Some(tokens) = record.usage.0 {
            self.has_usage = true;
            self.usage = Usage {
                input_tokens: tokens.prompt_tokens.0.unwrap_or(0),
                output_tokens: tokens.completion_tokens.0.unwrap_or(0),
            };
        }
        if let Some(error) = record.error.0 {
            let error = error.message.text;
            if self.has_usage {
                // It was paid for all the same.
                scribe.response(self.text.as_str(), self.usage, !self.calls.is_empty());
            }
            scribe.failed(error.as_str(), "an error in the stream");
            // Not an answer any more, whatever was said of its end.
            *self = Self {
                id: std::mem::take(&mut self.id),
                ..Self::default()
            };
            return;
        }
        if scribe.standing() == Standing::Unknown {
            scribe.working("a chunk");
        }
        for choice in record.choices.0 {
            // Other answers to the same prompt would be mixed into this one.
            if choice.index.0.unwrap_or(0) == 0 {
                self.choice(choice, scribe);
            }
        }
    }

    fn done(&mut self, scribe: &mut Scribe) {
        self.close("[DONE]", scribe);
        self.id.clear();
    }

    fn end(&mut self, scribe: &mut Scribe) {
        if self.finish.is_some() {
            scribe.warn("the stream ended without [DONE]".to_owned());
            self.close("the stream ended", scribe);
        }
        scribe.end();
    }
}

impl Chat {
    fn choice(&mut self, choice: Choice<'_>, scribe: &mut Scribe) {
        let delta = choice.delta.0.unwrap_or_default();
        if let Some(text) = delta.content.into_inner()
            && !text.is_empty()
        {
            scribe.working("a chunk");
            self.text.push(&text);
            scribe.token(text);
        }
        for call in delta.tool_calls.0 {
            scribe.working("a chunk");
            self.call(&call);
        }
        if let Some(reason) = choice.finish_reason.get() {
            self.finish = Some(reason.to_owned());
            // Some servers say no more; an error may still come.
            if !calls_tools(reason) {
                scribe.stand(Standing::MaybeDone, format!("finish_reason {reason}"));
            }
        }
    }

    fn call(&mut self, piece: &ToolCall<'_>) {
        let index = piece.index.0.unwrap_or(0);
        let known = self.calls.iter().position(|call| call.index == index);
        let at = known.unwrap_or(self.calls.len());
        if at >= CALLS_MAX {
            return;
        }
        if known.is_none() {
            self.calls.push(Call {
                index,
                id: String::new(),
                name: String::new(),
                args: Beginning::default(),
            });
        }
        let call = &mut self.calls[at];
        if let Some(id) = piece.id.get() {
            id.clone_into(&mut call.id);
        }
        if let Some(function) = &piece.function.0 {
            // Some servers send the name again with each piece.
            if call.name.is_empty() {
                function.name.as_str().clone_into(&mut call.name);
            }
            call.args.push(function.arguments.as_str());
        }
    }

    /// No more comes of this answer.
    fn close(&mut self, how: &str, scribe: &mut Scribe) {
        let Some(reason) = self.finish.take() else {
            if scribe.standing() == Standing::Working {
                scribe.cut(how);
            }
            *self = Self::default();
            return;
        };
        let when = scribe.when(None);
        for call in &self.calls {
            scribe.tool_begins(&call.id, &call.name, call.args.as_str(), when, false);
        }
        scribe.said(self.text.as_str());
        scribe.response(self.text.as_str(), self.usage, !self.calls.is_empty());
        scribe.told();
        if calls_tools(&reason) {
            scribe.stand(Standing::Unknown, format!("finish_reason {reason}"));
        } else {
            scribe.turn_completed(&reason);
            if matches!(reason.as_str(), "length" | "content_filter") {
                scribe.warn(format!("the answer is not whole: {reason}"));
            }
            scribe.stand(Standing::Done, format!("finish_reason {reason}"));
        }
        *self = Self::default();
    }
}

/// Whether an answer that ended so waits for tools that somebody else is to run.
fn calls_tools(reason: &str) -> bool {
    matches!(reason, "tool_calls" | "function_call")
}
