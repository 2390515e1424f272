//! Answers of a model: complete, and in chunks (pure).

use std::ops::AddAssign;

use serde_json::Value;

use crate::agent::AgentEvent;

/// A complete answer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The text. If an agent works on its own, all of its messages, separated by blank lines.
    pub text: String,
    /// The tool calls that the caller must run.
    pub tool_calls: Vec<ToolCall>,
    /// The tokens used.
    pub usage: Usage,
    /// The reason why the answer ended.
    pub stop_reason: StopReason,
}

impl Response {
    /// Creates an answer that consists of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// The tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that the model has read, as the API counts them.
    pub input_tokens: u64,
    /// Tokens that the model has written.
    pub output_tokens: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// The reason why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model finished its answer.
    #[default]
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolUse,
    /// The maximum number of tokens was reached: the answer is incomplete.
    MaxTokens,
    /// A stop sequence was reached.
    StopSequence,
    /// The model or a filter refused to answer: the answer is incomplete.
    Refusal,
    /// A reason that this version does not know.
    Other(String),
}

impl StopReason {
    /// Returns the reason in the form of Anthropic's API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::Other(name) => name,
        }
    }

    /// Returns true if the answer is incomplete.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::MaxTokens | Self::Refusal)
            || matches!(self, Self::Other(name) if name == "model_context_window_exceeded")
    }
}

/// A tool call of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The call's id, which its result repeats.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The input. Models sometimes write invalid JSON; the error is then sent back to them.
    pub input: Result<Value, BrokenInput>,
}

impl ToolCall {
    /// Returns the input as the model wrote it, except for the whitespace of valid JSON.
    pub fn input_text(&self) -> String {
        match &self.input {
            Ok(input) => input.to_string(),
            Err(broken) => broken.text.clone(),
        }
    }
}

/// The error of an input that is not a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input is not a JSON object: {why}")]
pub struct BrokenInput {
    /// The text that the model wrote.
    pub text: String,
    /// The reason.
    pub why: String,
}

/// A chunk of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamChunk {
    /// Text.
    TextDelta(String),
    /// A tool call begins.
    ToolUseStart {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A piece of the call's input. All pieces together are JSON.
    ToolUseDelta {
        /// The call's id.
        id: String,
        /// The piece of JSON.
        json: String,
    },
    /// The call is complete.
    ToolUseEnd {
        /// The call's id.
        id: String,
    },
    /// The answer is complete.
    MessageDone {
        /// The reason why the answer ended.
        stop_reason: StopReason,
        /// The tokens used.
        usage: Usage,
    },
    /// An event of an agent that works on its own (its tools, the ends of its messages, warnings), or a
    /// warning that a request is retried.
    Agent(AgentEvent),
}
