//! What a model answers: as a whole, and piece by piece (pure).

use std::ops::AddAssign;

use serde_json::Value;

use crate::agent::AgentEvent;

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The text. Of an agent that works by itself, all of its messages, a blank line between two.
    pub text: String,
    /// Tools that whoever asked is to run.
    pub tool_calls: Vec<ToolCall>,
    /// Tokens that it took.
    pub usage: Usage,
    /// Why it ends.
    pub stop_reason: StopReason,
}

impl Response {
    /// An answer that is nothing but text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Tokens of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that were read, as the API counts them.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Why an answer ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model has said what it had to say.
    #[default]
    EndTurn,
    /// It waits for the results of its tool calls.
    ToolUse,
    /// It was not allowed more tokens: the answer is incomplete.
    MaxTokens,
    /// One of the texts came that end an answer.
    StopSequence,
    /// The model or a filter refused: the answer is incomplete.
    Refusal,
    /// What an API of a newer version says.
    Other(String),
}

impl StopReason {
    /// The word for it, as Anthropic's API has it.
    pub fn name(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::Other(name) => name,
        }
    }

    /// Whether what should follow in the answer is missing.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::MaxTokens | Self::Refusal)
            || matches!(self, Self::Other(name) if name == "model_context_window_exceeded")
    }
}

/// A tool that a model calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The call, for its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input; models write broken JSON now and then, and are to be told.
    pub input: Result<Value, BrokenInput>,
}

impl ToolCall {
    /// The input as the model wrote it, or as good as.
    pub fn input_text(&self) -> String {
        match &self.input {
            Ok(input) => input.to_string(),
            Err(broken) => broken.text.clone(),
        }
    }
}

/// An input that is no JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input is no JSON object: {why}")]
pub struct BrokenInput {
    /// What the model wrote.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// A piece of an answer, as it comes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamChunk {
    /// Text.
    TextDelta(String),
    /// The model begins to call a tool.
    ToolUseStart {
        /// The call.
        id: String,
        /// The tool.
        name: String,
    },
    /// A piece of the call's input, which is JSON when all of it has come.
    ToolUseDelta {
        /// The call.
        id: String,
        /// The piece.
        json: String,
    },
    /// The call is complete.
    ToolUseEnd {
        /// The call.
        id: String,
    },
    /// The answer is complete.
    MessageDone {
        /// Why it ends.
        stop_reason: StopReason,
        /// Tokens that it took.
        usage: Usage,
    },
    /// What an agent that works by itself reports, beside its text: its own tools, the ends of its
    /// messages, warnings; and that an API is asked again.
    Agent(AgentEvent),
}
