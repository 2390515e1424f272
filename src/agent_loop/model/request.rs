//! Requests to a model (pure).

use std::path::PathBuf;

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
