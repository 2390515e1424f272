//! The formats that agents write, and the names under which a user asks for them (pure).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One format, as a stream has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamFormat {
    /// `claude -p --output-format stream-json`, with partial messages or without.
    ClaudeStream,
    /// Session transcripts of Claude Code, and those of its sub-agents.
    ClaudeTranscript,
    /// `codex exec --json`.
    CodexExec,
    /// Session rollouts of Codex.
    CodexRollout,
    /// `gemini --output-format stream-json`.
    GeminiStream,
    /// Session files of Gemini CLI.
    GeminiSession,
    /// Session files of Qwen Code.
    QwenSession,
    /// Session files of Copilot CLI.
    CopilotSession,
    /// `opencode run --format json`.
    OpenCodeRun,
    /// The chat history of aider.
    AiderHistory,
    /// The Anthropic Messages API as server-sent events.
    AnthropicSse,
    /// OpenAI's chat completions as server-sent events.
    OpenAiChatSse,
    /// OpenAI's responses as server-sent events.
    OpenAiResponsesSse,
    /// JSON Lines of nobody that is known here.
    Json,
    /// Plain text: nothing can be said of it.
    Text,
}

impl StreamFormat {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeStream => "claude stream-json",
            Self::ClaudeTranscript => "claude transcript",
            Self::CodexExec => "codex exec --json",
            Self::CodexRollout => "codex rollout",
            Self::GeminiStream => "gemini stream-json",
            Self::GeminiSession => "gemini session",
            Self::QwenSession => "qwen session",
            Self::CopilotSession => "copilot session",
            Self::OpenCodeRun => "opencode run --format json",
            Self::AiderHistory => "aider history",
            Self::AnthropicSse => "anthropic sse",
            Self::OpenAiChatSse => "openai chat sse",
            Self::OpenAiResponsesSse => "openai responses sse",
            Self::Json => "json",
            Self::Text => "text",
        }
    }
}

/// What a user says about a stream: a family of formats, of which the first records tell which.
///
/// ```
/// use td_observe::agent::Format;
/// assert_eq!("claude".parse(), Ok(Format::Claude));
/// assert_eq!(Format::default().to_string(), "auto");
/// assert!("klaude".parse::<Format>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Any: JSON of nobody that is known, or plain text, where nothing is recognised.
    #[default]
    Auto,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// The APIs' own streams.
    Sse,
    /// JSON Lines of any agent.
    Json,
    /// Plain text.
    Text,
}

impl Format {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Auto,
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Opencode,
        Self::Sse,
        Self::Json,
        Self::Text,
    ];

    /// The name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Sse => "sse",
            Self::Json => "json",
            Self::Text => "text",
        }
    }

    /// The formats that it may be; where the records do not tell, it is taken for the first.
    pub fn formats(self) -> &'static [StreamFormat] {
        use StreamFormat::{
            AnthropicSse, ClaudeStream, ClaudeTranscript, CodexExec, CodexRollout, GeminiSession,
            GeminiStream, OpenAiChatSse, OpenAiResponsesSse, OpenCodeRun, QwenSession,
        };
        match self {
            Self::Auto => &[
                StreamFormat::Text,
                ClaudeStream,
                ClaudeTranscript,
                CodexExec,
                CodexRollout,
                GeminiStream,
                GeminiSession,
                QwenSession,
                OpenCodeRun,
                AnthropicSse,
                OpenAiChatSse,
                OpenAiResponsesSse,
                StreamFormat::Json,
            ],
            Self::Claude => &[ClaudeStream, ClaudeTranscript],
            Self::Codex => &[CodexExec, CodexRollout],
            Self::Gemini => &[GeminiStream, GeminiSession],
            Self::Opencode => &[OpenCodeRun],
            Self::Sse => &[AnthropicSse, OpenAiChatSse, OpenAiResponsesSse],
            Self::Json => &[StreamFormat::Json],
            Self::Text => &[StreamFormat::Text],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no format of agents' output: {0:?}; there are auto, claude, codex, gemini, opencode, sse, json and text"
)]
pub struct ParseFormatError(String);

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|format| format.name() == text);
        found
            .copied()
            .ok_or_else(|| ParseFormatError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(*format));
            let json = serde_json::to_string(format).unwrap();
            assert_eq!(json, format!("\"{format}\""));
            assert!(
                ParseFormatError("x".into())
                    .to_string()
                    .contains(format.name())
            );
        }
    }
}
