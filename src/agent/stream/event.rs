//! Events of an agent, without the agent's identity, which the caller adds (pure).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::event::{ExecutionId, PaneId, TdEvent, TurnEvidence};
use serde::{Deserialize, Serialize};

/// An event that an agent's stream shows.
///
/// The fields are those of the [`TdEvent`] of the same name. Summaries are truncated to a few
/// hundred characters; a token count is 0 if the stream does not contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are those of the events of the same name"
)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A prompt was sent to the model.
    PromptSent {
        prompt_summary: String,
        token_count: Option<u64>,
    },
    /// A piece of the answer: a delta, or the whole text if there were no deltas.
    TokenReceived { token: String },
    /// A message of the model is complete; its usage is counted only here, once for each message.
    ///
    /// The counts are those that the agent writes. `input_tokens` includes what a cache held for Codex, Gemini CLI, Qwen
    /// Code, aider, Continue CLI and OpenAI's APIs, but not for Claude Code, opencode, Kimi and Anthropic's API, which count
    /// it apart; `output_tokens` includes the model's thoughts, but not for Gemini CLI and opencode.
    ResponseCompleted {
        response_summary: String,
        input_tokens: u64,
        output_tokens: u64,
        has_tool_calls: bool,
    },
    /// A tool starts; reported once for each id.
    ToolCallStarted {
        tool_name: String,
        tool_args_summary: String,
    },
    /// A tool has returned a result. The name is `unknown` if its start was not read.
    ToolCallCompleted {
        tool_name: String,
        success: bool,
        result_summary: String,
        duration_ms: u64,
    },
    /// The agent finished its turn; `marker` is the evidence.
    TurnCompleted { marker: String, summary: String },
    /// The agent completed its work.
    AgentCompleted { result: String, evidence: String },
    /// The agent failed or was stopped, or its stream was cut off.
    AgentFailed { error: String, evidence: String },
    /// An anomaly, such as a broken record, a retry, or a tool without a result.
    Warning { context: String, message: String },
}

impl AgentEvent {
    /// Converts the event to that of this agent, in an iteration of this execution.
    pub fn into_event(self, execution_id: &ExecutionId, agent_id: &str, iteration: u32) -> TdEvent {
        self.into_pane_event(execution_id, agent_id, iteration, (None, None))
    }

    /// Calls `visit` with each text of the event, which may contain secrets.
    #[cfg(feature = "cli")]
    pub(crate) fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        let texts = match self {
            Self::PromptSent { prompt_summary, .. } => [Some(prompt_summary), None],
            Self::TokenReceived { token } => [Some(token), None],
            Self::ResponseCompleted {
                response_summary, ..
            } => [Some(response_summary), None],
            Self::ToolCallStarted {
                tool_name,
                tool_args_summary,
            } => [Some(tool_name), Some(tool_args_summary)],
            Self::ToolCallCompleted {
                tool_name,
                result_summary,
                ..
            } => [Some(tool_name), Some(result_summary)],
            Self::TurnCompleted { marker, summary } => [Some(marker), Some(summary)],
            Self::AgentCompleted { result, evidence } => [Some(result), Some(evidence)],
            Self::AgentFailed { error, evidence } => [Some(error), Some(evidence)],
            Self::Warning { context, message } => [Some(context), Some(message)],
        };
        texts.into_iter().flatten().for_each(visit);
    }

    /// Converts the event like [`AgentEvent::into_event`], for an agent that is observed: with its pane, if it has one,
    /// and what shows the ends of its turns.
    pub(crate) fn into_pane_event(
        self,
        execution_id: &ExecutionId,
        agent_id: &str,
        iteration: u32,
        (pane, shown_by): (Option<&PaneId>, Option<TurnEvidence>),
    ) -> TdEvent {
        let execution_id = execution_id.clone();
        let agent_id = || agent_id.to_owned();
        let (pane, shown_by) = (pane.cloned(), shown_by.map(Into::into));
        macro_rules! convert {
            ($($kind:ident $bound:tt => { $($field:ident $(: $value:expr)?),* };)*) => {
                match self {
                    $(Self::$kind $bound => TdEvent::$kind {
                        execution_id,
                        $($field $(: $value)?),*
                    }),*
                }
            };
        }
        convert! {
            PromptSent { prompt_summary, token_count } =>
                { iteration, prompt_summary, token_count, pane };
            TokenReceived { token } => { iteration, token, pane };
            ResponseCompleted { response_summary, input_tokens, output_tokens, has_tool_calls } =>
                { iteration, response_summary, input_tokens, output_tokens, has_tool_calls, pane };
            ToolCallStarted { tool_name, tool_args_summary } =>
                { iteration, tool_name, tool_args_summary, pane };
            ToolCallCompleted { tool_name, success, result_summary, duration_ms } =>
                { iteration, tool_name, success, result_summary, duration_ms, pane };
            TurnCompleted { marker, summary } =>
                { marker, summary, pane, evidence: shown_by, agent_id: None };
            AgentCompleted { result, evidence } =>
                { agent_id: agent_id(), result, evidence: evidence.into(), pane };
            AgentFailed { error, evidence } =>
                { agent_id: agent_id(), error, evidence: evidence.into(), pane };
            Warning { context, message } => { context, message };
        }
    }
}

// The status of an agent as its records show it, and the records that may follow (pure).

/// The status of a stream's agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamStatus {
    /// No record has shown the status yet.
    #[default]
    Unknown,
    /// The agent works or waits for the user, which records do not distinguish.
    Working,
    /// The agent has answered, but no record has confirmed the end of the turn. Idle time or the
    /// end of its process will confirm it.
    MaybeDone,
    /// The turn has ended, as its records show.
    Done,
    /// The turn has ended, but the agent is not finished because background tasks run.
    Background {
        /// The number of tasks.
        tasks: usize,
    },
    /// The agent failed, or its stream was cut off.
    Failed,
    /// The user has stopped the agent.
    Interrupted,
}

/// A record that may follow and change the status; the reader of a growing file waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// No record is expected.
    #[default]
    Nothing,
    /// A line that confirms the end of the turn, or a line of a hook that makes the agent continue.
    Confirmation,
    /// A verdict on the agent's goal.
    Goal,
    /// The next prompt of the user who has stopped the agent.
    Prompt,
    /// The rest of a message whose first parts are complete.
    Message,
    /// A wake-up, after this time since the last record.
    Wake(Duration),
}

impl StreamStatus {
    /// Returns the name, as events use it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Working => "working",
            Self::MaybeDone => "maybe_done",
            Self::Done => "done",
            Self::Background { .. } => "background",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

// The formats that agents write, and their names on the command line (pure).

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
    /// Session files of Kimi.
    KimiSession,
    /// Session journals of Vibe.
    VibeJournal,
    /// Session files of Cline, each of which is one document.
    ClineSession,
    /// Session files of Continue CLI, each of which is one document.
    CnSession,
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
    /// Returns true if a file of this format is one document, which its agent writes anew with each message.
    pub(crate) fn is_document(self) -> bool {
        matches!(self, Self::ClineSession | Self::CnSession)
    }

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
            Self::KimiSession => "kimi session",
            Self::VibeJournal => "vibe journal",
            Self::ClineSession => "cline session",
            Self::CnSession => "cn session",
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
            GeminiStream, KimiSession, OpenAiChatSse, OpenAiResponsesSse, OpenCodeRun, QwenSession,
            VibeJournal,
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
                KimiSession,
                VibeJournal,
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
