//! OpenAI's responses: items that are added and done, and a last event that says how it ended (pure).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::grammar::Grammar;
use super::super::lenient::{Count, Gist, Maybe, Str};
use super::super::scribe::{Scribe, Usage};
use super::super::standing::Standing;
use crate::agent::summary::Beginning;

/// An event.
#[derive(Debug, Default, Deserialize)]
pub struct Record<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    delta: Str<'a>,
    #[serde(default, borrow)]
    item: Maybe<Box<Item<'a>>>,
    #[serde(default, borrow)]
    response: Maybe<Box<Response<'a>>>,
    #[serde(default, borrow)]
    message: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Item<'a> {
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    call_id: Str<'a>,
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default, borrow)]
    name: Str<'a>,
    #[serde(default, borrow)]
    arguments: Str<'a>,
    #[serde(default, borrow)]
    input: Str<'a>,
    #[serde(default, borrow)]
    code: Str<'a>,
    #[serde(default, borrow)]
    action: Option<&'a RawValue>,
    #[serde(default)]
    output: Gist,
    #[serde(default)]
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
struct Response<'a> {
    #[serde(default)]
    usage: Maybe<Tokens>,
    #[serde(default)]
    error: Maybe<Failure>,
    #[serde(default, borrow)]
    incomplete_details: Maybe<Incomplete<'a>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct Failure {
    #[serde(default)]
    message: Gist,
}

#[derive(Debug, Default, Deserialize)]
struct Incomplete<'a> {
    #[serde(default, borrow)]
    reason: Str<'a>,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// The API, which tells how it went.
    Api,
    /// Who asked: the stream ends before it has an answer.
    Caller,
}

impl Item<'_> {
    fn runs(&self) -> Option<Runs> {
        match self.kind.as_str() {
            "web_search_call"
            | "file_search_call"
            | "code_interpreter_call"
            | "image_generation_call"
            | "mcp_call" => Some(Runs::Api),
            "function_call" | "custom_tool_call" | "computer_call" | "local_shell_call"
            | "shell_call" | "apply_patch_call" => Some(Runs::Caller),
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

/// The meaning of a response's stream.
#[derive(Debug, Default)]
pub struct Responses {
    text: Beginning,
    has_tool_calls: bool,
    /// Somebody else is to run a tool: the turn goes on.
    waits: bool,
}

impl Grammar for Responses {
    type Record<'a> = Record<'a>;

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        match record.kind.as_str() {
            "response.created" => {
                if scribe.standing() == Standing::Working {
                    scribe.cut("another response began");
                }
                *self = Self::default();
                scribe.working("response.created");
            }
            "response.output_text.delta" => {
                if let Some(text) = record.delta.into_inner() {
                    self.text.push(&text);
                    scribe.token(text);
                }
                self.begun(scribe);
            }
            "response.output_item.added" => {
                if let Some(item) = record.item.0
                    && item.runs() == Some(Runs::Api)
                {
                    self.tool(&item, scribe);
                }
                self.begun(scribe);
            }
            "response.output_item.done" => {
                if let Some(item) = record.item.0 {
                    self.item_done(&item, scribe);
                }
            }
            "response.completed" => self.completed(record.response.0, None, scribe),
            "response.incomplete" => {
                let response = record.response.0.unwrap_or_default();
                let details = response.incomplete_details.0.as_ref();
                let reason = details.and_then(|details| details.reason.get());
                let reason = reason.unwrap_or("incomplete").to_owned();
                self.completed(Some(response), Some(&reason), scribe);
            }
            "response.failed" | "response.cancelled" => {
                let error = record.response.0.unwrap_or_default().error;
                let error = error.0.unwrap_or_default().message;
                scribe.failed(error.text.as_str(), record.kind.as_str().to_owned());
            }
            "error" => scribe.failed(record.message.as_str(), "an error event"),
            // Many say nothing that counts.
            kind if kind.starts_with("response.") => {}
            _ => scribe.unknown(),
        }
    }
}

impl Responses {
    fn begun(&self, scribe: &mut Scribe) {
        if scribe.standing() == Standing::Unknown {
            scribe.working("an event");
        }
    }

    fn tool(&mut self, item: &Item<'_>, scribe: &mut Scribe) -> String {
        self.has_tool_calls = true;
        let id = item.call_id.get().unwrap_or(item.id.as_str()).to_owned();
        let when = scribe.when(None);
        let is_own = item.runs() == Some(Runs::Api);
        scribe.tool_begins(&id, item.name(), item.args(), when, is_own);
        id
    }

    fn item_done(&mut self, item: &Item<'_>, scribe: &mut Scribe) {
        let Some(runs) = item.runs() else { return };
        let id = self.tool(item, scribe);
        if runs == Runs::Caller {
            self.waits = true;
        } else {
            let success = item.status.as_str() != "failed" && item.error.is_none();
            let when = scribe.when(None);
            scribe.tool_answers(&id, success, item.output.text.as_str(), when);
        }
    }

    fn completed(
        &mut self,
        response: Option<Box<Response<'_>>>,
        short: Option<&str>,
        scribe: &mut Scribe,
    ) {
        let tokens = response
            .and_then(|response| response.usage.0)
            .unwrap_or_default();
        let usage = Usage {
            input_tokens: tokens.input_tokens.0.unwrap_or(0),
            output_tokens: tokens.output_tokens.0.unwrap_or(0),
        };
        scribe.said(self.text.as_str());
        scribe.response(self.text.as_str(), usage, self.has_tool_calls);
        scribe.told();
        if self.waits && short.is_none() {
            scribe.stand(Standing::Unknown, "response.completed, with tools to run");
        } else {
            scribe.turn_completed(short.unwrap_or("response.completed"));
            if let Some(reason) = short {
                scribe.warn(format!("the answer is not whole: {reason}"));
            }
            scribe.stand(Standing::Done, "the response is complete");
        }
        *self = Self::default();
    }
}
