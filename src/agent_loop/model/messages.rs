//! Requests to a model (pure).

use std::ops::AddAssign;
use std::path::PathBuf;

use crate::agent::AgentEvent;
use serde_json::Value;

/// A request to a model: the conversation so far, and the tools that the model may call.
///
/// ```
/// use td_observe::agent_loop::Request;
/// let request = Request::prompt("Add auth").system("You write Rust.");
/// assert_eq!(request.text(), "You write Rust.\n\nAdd auth");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The system prompt; empty for none.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The maximum number of tokens in the answer; `None` for the API's default. Anthropic's API has
    /// none, so the client sends 8,192.
    pub max_tokens: Option<u32>,
    /// A file that contains the prompt; commands receive its path as `TD_PROMPT_FILE`.
    pub prompt_file: Option<PathBuf>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The caller, who also sends the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The message's author.
    pub role: Role,
    /// The content.
    pub content: Vec<ContentBlock>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(String),
    /// A tool call of the model.
    ToolUse {
        /// The call's id, which its result repeats.
        id: String,
        /// The tool's name.
        name: String,
        /// The tool's input, an object.
        input: Value,
    },
    /// The result of a tool.
    ToolResult {
        /// The call's id.
        id: String,
        /// The result's text.
        content: String,
        /// True if the result is an error.
        is_error: bool,
    },
}

/// The description of a tool for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The tool's name.
    pub name: String,
    /// A description of the tool's purpose.
    pub description: String,
    /// The JSON schema of the tool's input.
    pub input_schema: Value,
}

impl Message {
    /// Creates a message of the caller.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: vec![ContentBlock::Text(text.into())],
        }
    }

    /// Returns the message as text for people or for a command: texts and results, separated by blank
    /// lines.
    pub fn text(&self) -> String {
        let parts = self.content.iter().map(|block| match block {
            ContentBlock::Text(text) => text.clone(),
            ContentBlock::ToolUse { name, input, .. } => format!("[{name}: {input}]"),
            ContentBlock::ToolResult { content, .. } => content.clone(),
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

impl Request {
    /// Creates a request with one message.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self {
            messages: vec![Message::user(text)],
            ..Self::default()
        }
    }

    /// Sets the system prompt.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = text.into();
        self
    }

    /// Sets the maximum number of tokens in the answer.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the file that contains the prompt.
    pub fn prompt_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.prompt_file = Some(path.into());
        self
    }

    /// Returns the request as one text for a command: the system prompt and the messages, separated by
    /// blank lines. If there are several messages, each begins with its author.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.system.is_empty() {
            parts.push(self.system.clone());
        }
        let is_one = self.messages.len() == 1;
        for message in &self.messages {
            parts.push(match (is_one, message.role) {
                (true, _) => message.text(),
                (false, Role::User) => format!("User: {}", message.text()),
                (false, Role::Assistant) => format!("Assistant: {}", message.text()),
            });
        }
        parts.join("\n\n")
    }
}

// Answers of a model: complete, and in chunks (pure).

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
