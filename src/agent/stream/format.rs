//! The formats that agents write, and their names on the command line (pure).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The format of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamFormat {
    /// `claude -p --output-format stream-json`, with or without partial messages.
    ClaudeStream,
    /// Session transcripts of Claude Code and of its sub-agents.
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
    /// JSON Lines of an unknown agent.
    Json,
    /// Plain text, which has no events.
    Text,
}

impl StreamFormat {
    /// Returns the format's name.
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

/// A family of formats, as users name it; the first records determine which of them a stream has.
///
/// ```
/// use td_observe::agent::Format;
/// assert_eq!("claude".parse(), Ok(Format::Claude));
/// assert_eq!(Format::default().to_string(), "auto");
/// assert!("klaude".parse::<Format>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Any format of the families below. Unrecognised streams are JSON of an unknown agent or plain text.
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
    /// All families.
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

    /// Returns the name on the command line.
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

    /// Returns the formats of the family. The first one is assumed if the records do not show the format.
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

/// The error for a text that is not the name of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown output format {0:?}; the formats are auto, claude, codex, gemini, opencode, sse, json and text"
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
    fn names_round_trip() {
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
