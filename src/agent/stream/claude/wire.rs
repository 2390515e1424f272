//! The messages of the API, which both formats of Claude Code and the API's own stream contain (pure).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::agent::stream::{
    AnyText, Count, ErrorBody, EventTime, EventWriter, Flag, List, Maybe, PartialCall, Str,
    TokenUsage, default_visits,
};
use crate::agent::summary::TextPrefix;

/// A message of the user or the assistant.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ApiMessage<'a> {
    pub id: Str<'a>,
    pub model: Str<'a>,
    pub content: MessageContent<'a>,
    pub stop_reason: Str<'a>,
    pub usage: Maybe<UsageCounts>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageCounts {
    pub input_tokens: Count,
    pub output_tokens: Count,
}

impl UsageCounts {
    /// Replaces the counts, which are cumulative, so that the last ones are final.
    pub fn replace(self, tokens: &mut TokenUsage) {
        if let Some(input) = self.input_tokens.0 {
            tokens.input_tokens = input;
        }
        if let Some(output) = self.output_tokens.0 {
            tokens.output_tokens = output;
        }
    }
}

/// The content of a message: a single text, or blocks.
#[derive(Debug, Default)]
pub enum MessageContent<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Blocks(Vec<ContentBlock<'a>>),
}

impl<'a> MessageContent<'a> {
    /// Returns the single text, or the text of the first text block.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => (self.blocks())
                .filter(|block| block.kind.as_str() == "text")
                .find_map(|block| block.text.get())
                .unwrap_or_default(),
        }
    }

    /// Returns the tool results and the ids of their calls.
    pub fn tool_results(&self) -> impl Iterator<Item = (&str, &ContentBlock<'a>)> {
        self.blocks()
            .filter(|block| block.kind.as_str() == "tool_result")
            .filter_map(|block| Some((block.tool_use_id.get()?, block)))
    }

    fn blocks(&self) -> impl Iterator<Item = &ContentBlock<'a>> {
        match self {
            Self::Blocks(blocks) => blocks.iter(),
            _ => [].iter(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MessageContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = MessageContent<'de>;
            default_visits!(MessageContent::None; bool number null map);
            fn visit_borrowed_str<E: Error>(
                self,
                text: &'de str,
            ) -> Result<MessageContent<'de>, E> {
                Ok(MessageContent::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<MessageContent<'de>, E> {
                Ok(MessageContent::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                list: A,
            ) -> Result<MessageContent<'de>, A::Error> {
                List::deserialize(SeqAccessDeserializer::new(list))
                    .map(|blocks| MessageContent::Blocks(blocks.0))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ContentBlock<'a> {
    #[serde(rename = "type")]
    pub kind: Str<'a>,
    pub text: Str<'a>,
    pub id: Str<'a>,
    pub name: Str<'a>,
    pub input: Option<&'a RawValue>,
    pub tool_use_id: Str<'a>,
    pub content: AnyText,
    pub is_error: Flag,
}

impl ContentBlock<'_> {
    /// Returns true if the block calls a tool: one of the agent, of the API, or on a server that
    /// the API calls.
    pub fn is_tool_use(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "tool_use" | "server_tool_use" | "mcp_tool_use"
        )
    }

    pub fn args(&self) -> &str {
        self.input.map(RawValue::get).unwrap_or_default()
    }

    /// Returns true if the result of a tool is not an error.
    pub fn is_success(&self) -> bool {
        !self.is_error.is_set() && !self.content.is_error
    }
}

/// An event of the API's stream. Most events are small and frequent, so rare fields are boxed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ApiEvent<'a> {
    #[serde(rename = "type")]
    pub kind: Str<'a>,
    pub index: Count,
    message: Maybe<Box<ApiMessage<'a>>>,
    content_block: Maybe<Box<ContentBlock<'a>>>,
    delta: Maybe<ApiDelta<'a>>,
    usage: Maybe<Box<UsageCounts>>,
    pub error: Maybe<Box<ErrorBody<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ApiDelta<'a> {
    text: Str<'a>,
    partial_json: Str<'a>,
    stop_reason: Option<Box<Str<'a>>>,
}

/// A message that is being streamed.
#[derive(Debug, Default)]
pub struct LiveMessage {
    pub id: String,
    pub text: TextPrefix,
    pub usage: TokenUsage,
    pub stop_reason: String,
    pub has_tool_calls: bool,
    /// True if text has arrived as deltas.
    pub has_deltas: bool,
    /// Tools whose arguments are incomplete, with the indexes of their blocks.
    calls: Vec<PartialCall>,
}

/// The maximum number of open blocks. The API opens one at a time.
const BLOCKS_MAX: usize = 64;

/// The effect of an event on the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    Continues,
    /// The message is complete.
    Stopped,
    /// The stream failed with an error.
    Failed,
}

impl LiveMessage {
    /// Processes an event. `has_results`: the stream also contains the results of the agent's tools.
    pub fn event(
        &mut self,
        event: ApiEvent<'_>,
        when: EventTime,
        has_results: bool,
        writer: &mut EventWriter,
    ) -> StreamStep {
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
                    writer,
                );
            }
            "content_block_delta" => {
                let delta = event.delta.0.unwrap_or_default();
                if let Some(text) = delta.text.into_inner() {
                    self.has_deltas = true;
                    self.text.push(&text);
                    writer.token(text);
                } else if let Some(json) = delta.partial_json.get() {
                    let is_at = |call: &&mut PartialCall| Some(call.index) == event.index.0;
                    if let Some(call) = self.calls.iter_mut().find(is_at) {
                        call.arguments.push(json);
                    }
                }
            }
            "content_block_stop" => {
                let is_at = |call: &PartialCall| Some(call.index) == event.index.0;
                if let Some(at) = self.calls.iter().position(is_at) {
                    let call = self.calls.remove(at);
                    let arguments = call.arguments.as_str();
                    writer.tool_started(&call.id, &call.name, arguments, when, has_results);
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
            "message_stop" => return StreamStep::Stopped,
            "error" => return StreamStep::Failed,
            _ => {}
        }
        StreamStep::Continues
    }

    fn block(
        &mut self,
        index: Count,
        block: ContentBlock<'_>,
        when: EventTime,
        writer: &mut EventWriter,
    ) {
        if block.is_tool_use() {
            self.has_tool_calls = true;
            if let Some(index) = index.0
                && self.calls.len() < BLOCKS_MAX
            {
                self.calls.push(PartialCall {
                    index,
                    id: block.id.as_str().to_owned(),
                    name: block.name.as_str().to_owned(),
                    ..PartialCall::default()
                });
            }
        } else if let Some(id) = block.tool_use_id.get() {
            writer.tool_completed(id, block.is_success(), block.content.text.as_str(), when);
        } else if let Some(text) = block.text.into_inner() {
            // Usually empty, because the text follows in deltas.
            self.text.push(&text);
            writer.token(text);
        }
    }
}
