//! The API's messages, as both of Claude Code's formats and the API's own stream carry them (pure).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::lenient::{Count, Flag, Gist, List, Maybe, Str};
use super::super::scribe::{Scribe, Usage as Tokens};
use super::super::tools::When;
use crate::agent::summary::Beginning;

/// A message of either side.
#[derive(Debug, Default, Deserialize)]
pub struct Message<'a> {
    #[serde(default, borrow)]
    pub id: Str<'a>,
    #[serde(default, borrow)]
    pub model: Str<'a>,
    #[serde(default, borrow)]
    pub content: Content<'a>,
    #[serde(default, borrow)]
    pub stop_reason: Str<'a>,
    #[serde(default)]
    pub usage: Maybe<Usage>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input_tokens: Count,
    #[serde(default)]
    pub output_tokens: Count,
}

impl Usage {
    /// Counts are cumulative: the last one of each holds.
    pub fn replace(self, tokens: &mut Tokens) {
        if let Some(input) = self.input_tokens.0 {
            tokens.input_tokens = input;
        }
        if let Some(output) = self.output_tokens.0 {
            tokens.output_tokens = output;
        }
    }
}

/// What a message says: one text, or blocks.
#[derive(Debug, Default)]
pub enum Content<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl Content<'_> {
    /// The text, or that of the first block that has one.
    pub fn text(&self) -> &str {
        match self {
            Self::None => "",
            Self::Text(text) => text,
            Self::Blocks(blocks) => blocks
                .iter()
                .filter(|block| block.kind.as_str() == "text")
                .find_map(|block| block.text.get())
                .unwrap_or_default(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Contents;
        impl<'de> Visitor<'de> for Contents {
            type Value = Content<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("anything")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Content<'de>, A::Error> {
                List::deserialize(SeqAccessDeserializer::new(list))
                    .map(|blocks| Content::Blocks(blocks.0))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Content::None)
            }
            fn visit_unit<E: Error>(self) -> Result<Content<'de>, E> {
                Ok(Content::None)
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Content<'de>, E> {
                Ok(Content::None)
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<Content<'de>, E> {
                Ok(Content::None)
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Content<'de>, E> {
                Ok(Content::None)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Content<'de>, E> {
                Ok(Content::None)
            }
        }
        deserializer.deserialize_any(Contents)
    }
}

/// A piece of a message.
#[derive(Debug, Default, Deserialize)]
pub struct Block<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Str<'a>,
    #[serde(default, borrow)]
    pub text: Str<'a>,
    #[serde(default, borrow)]
    pub id: Str<'a>,
    #[serde(default, borrow)]
    pub name: Str<'a>,
    #[serde(default, borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub tool_use_id: Str<'a>,
    #[serde(default)]
    pub content: Gist,
    #[serde(default)]
    pub is_error: Flag,
}

impl Block<'_> {
    /// A tool is called: by the agent, by the API itself, or on a server that the API speaks to.
    pub fn is_tool_use(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "tool_use" | "server_tool_use" | "mcp_tool_use"
        )
    }

    pub fn args(&self) -> &str {
        self.input.map(RawValue::get).unwrap_or_default()
    }

    /// Whether what a tool answered is no error.
    pub fn is_success(&self) -> bool {
        !self.is_error.is_set() && !self.content.is_error
    }
}

/// An event of the API's stream. Most are small and many: what is rare is boxed.
#[derive(Debug, Default, Deserialize)]
pub struct Event<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Str<'a>,
    #[serde(default)]
    pub index: Count,
    #[serde(default, borrow)]
    message: Maybe<Box<Message<'a>>>,
    #[serde(default, borrow)]
    content_block: Maybe<Box<Block<'a>>>,
    #[serde(default, borrow)]
    delta: Maybe<Delta<'a>>,
    #[serde(default)]
    usage: Maybe<Box<Usage>>,
    #[serde(default, borrow)]
    pub error: Maybe<Box<Failure<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    text: Str<'a>,
    #[serde(default, borrow)]
    partial_json: Str<'a>,
    #[serde(default, borrow)]
    stop_reason: Option<Box<Str<'a>>>,
}

/// What an error says.
#[derive(Debug, Default, Deserialize)]
pub struct Failure<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Str<'a>,
    #[serde(default, borrow)]
    pub message: Str<'a>,
}

/// A message that is being streamed.
#[derive(Debug, Default)]
pub struct Live {
    pub id: String,
    pub text: Beginning,
    pub usage: Tokens,
    pub stop_reason: String,
    pub has_tool_calls: bool,
    /// Text came as deltas.
    pub has_deltas: bool,
    /// Tools whose arguments are not complete, by the index of their block.
    args: Vec<(u64, Args)>,
}

#[derive(Debug)]
struct Args {
    id: String,
    name: String,
    json: Beginning,
}

/// Blocks that may be open at once; the API opens one.
const BLOCKS_MAX: usize = 64;

/// What an event did to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streamed {
    Goes,
    /// The message is complete.
    Stopped,
    /// The stream broke with an error.
    Failed,
}

impl Live {
    /// Tells an event. `has_results`: what the agent's tools answer stands in the same stream.
    pub fn event(
        &mut self,
        event: Event<'_>,
        when: When,
        has_results: bool,
        scribe: &mut Scribe,
    ) -> Streamed {
        match event.kind.as_str() {
            "message_start" => {
                let message = event.message.0.unwrap_or_default();
                *self = Self {
                    id: message.id.as_str().to_owned(),
                    ..Self::default()
                };
                if let Some(usage) = message.usage.0 {
                    usage.replace(&mut self.usage);
                }
            }
            "content_block_start" => {
                self.block(
                    event.index,
                    *event.content_block.0.unwrap_or_default(),
                    when,
                    scribe,
                );
            }
            "content_block_delta" => {
                let delta = event.delta.0.unwrap_or_default();
                if let Some(text) = delta.text.into_inner() {
                    self.has_deltas = true;
                    self.text.push(&text);
                    scribe.token(text);
                } else if let Some(json) = delta.partial_json.get() {
                    let args = self.args.iter_mut();
                    let mut args = args.filter(|(index, _)| Some(*index) == event.index.0);
                    if let Some((_, args)) = args.next() {
                        args.json.push(json);
                    }
                }
            }
            "content_block_stop" => {
                let at = self
                    .args
                    .iter()
                    .position(|(index, _)| Some(*index) == event.index.0);
                if let Some(at) = at {
                    let (_, args) = self.args.remove(at);
                    scribe.tool_begins(&args.id, &args.name, args.json.as_str(), when, has_results);
                }
            }
            "message_delta" => {
                let reason = event.delta.0.and_then(|delta| delta.stop_reason);
                if let Some(reason) = reason.as_ref().and_then(|reason| reason.get()) {
                    self.stop_reason = reason.to_owned();
                }
                if let Some(usage) = event.usage.0 {
                    usage.replace(&mut self.usage);
                }
            }
            "message_stop" => return Streamed::Stopped,
            "error" => return Streamed::Failed,
            _ => {}
        }
        Streamed::Goes
    }

    fn block(&mut self, index: Count, block: Block<'_>, when: When, scribe: &mut Scribe) {
        if block.is_tool_use() {
            self.has_tool_calls = true;
            if let Some(index) = index.0
                && self.args.len() < BLOCKS_MAX
            {
                let args = Args {
                    id: block.id.as_str().to_owned(),
                    name: block.name.as_str().to_owned(),
                    json: Beginning::default(),
                };
                self.args.push((index, args));
            }
        } else if let Some(id) = block.tool_use_id.get() {
            scribe.tool_answers(id, block.is_success(), block.content.text.as_str(), when);
        } else if let Some(text) = block.text.into_inner() {
            // Empty as a rule: the text follows in deltas.
            self.text.push(&text);
            scribe.token(text);
        }
    }
}
