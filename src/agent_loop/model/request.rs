//! What a model is asked (pure).

use std::path::PathBuf;

use serde_json::Value;

/// What a model is asked: a conversation so far, and the tools that it may call.
///
/// ```
/// use td_observe::agent_loop::Request;
/// let request = Request::prompt("Add auth").system("You write Rust.");
/// assert_eq!(request.text(), "You write Rust.\n\nAdd auth");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// What stands above the conversation; none where it is empty.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// How many tokens the answer may have; what the API takes for itself where it is `None`
    /// (of Anthropic's, which takes nothing for itself, 8,192).
    pub max_tokens: Option<u32>,
    /// A file that holds the prompt, for commands, which get its path as `TD_PROMPT_FILE`.
    pub prompt_file: Option<PathBuf>,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whoever asks, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Text.
    Text(String),
    /// The model calls a tool.
    ToolUse {
        /// The call, for its result.
        id: String,
        /// The tool.
        name: String,
        /// Its input, an object.
        input: Value,
    },
    /// What a tool answered.
    ToolResult {
        /// The call.
        id: String,
        /// The answer.
        content: String,
        /// Whether it is an error.
        is_error: bool,
    },
}

/// A tool, as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name that the model calls it by.
    pub name: String,
    /// What it is for, in words.
    pub description: String,
    /// The JSON schema of its input.
    pub input_schema: Value,
}

impl Message {
    /// Text of whoever asks.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: vec![Block::Text(text.into())],
        }
    }

    /// What is said in it, for a human or a command: texts and results, a blank line between two.
    pub fn text(&self) -> String {
        let pieces = self.content.iter().map(|block| match block {
            Block::Text(text) => text.clone(),
            Block::ToolUse { name, input, .. } => format!("[{name}: {input}]"),
            Block::ToolResult { content, .. } => content.clone(),
        });
        pieces.collect::<Vec<_>>().join("\n\n")
    }
}

impl Request {
    /// One text.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self {
            messages: vec![Message::user(text)],
            ..Self::default()
        }
    }

    /// What stands above the conversation.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = text.into();
        self
    }

    /// How many tokens the answer may have.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// A file that holds the prompt.
    pub fn prompt_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.prompt_file = Some(path.into());
        self
    }

    /// All of it as one text, for a command: the system's text, then the messages, a blank line
    /// between two. One message stands alone; of several each says whose it is.
    pub fn text(&self) -> String {
        let mut pieces = Vec::new();
        if !self.system.is_empty() {
            pieces.push(self.system.clone());
        }
        let is_one = self.messages.len() == 1;
        for message in &self.messages {
            pieces.push(match (is_one, message.role) {
                (true, _) => message.text(),
                (false, Role::User) => format!("User: {}", message.text()),
                (false, Role::Assistant) => format!("Assistant: {}", message.text()),
            });
        }
        pieces.join("\n\n")
    }
}
