//! Recognises the format of a stream by the fields of one record (pure).

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::format::StreamFormat;
use super::lenient::{Flag, Maybe, Str};

/// The fields that distinguish the formats.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct FormatProbe<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    session_id: Str<'a>,
    #[serde(rename = "sessionId")]
    camel_session_id: Str<'a>,
    #[serde(rename = "sessionID")]
    upper_session_id: Str<'a>,
    part: Maybe<IgnoredAny>,
    error: Maybe<IgnoredAny>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Flag,
    provenance: Str<'a>,
    #[serde(rename = "leafUuid")]
    leaf_uuid: Str<'a>,
    #[serde(rename = "messageId")]
    message_id: Str<'a>,
    #[serde(rename = "projectHash")]
    project_hash: Str<'a>,
    #[serde(rename = "$set")]
    set: Maybe<IgnoredAny>,
    message: Maybe<MessageProbe<'a>>,
    timestamp: Str<'a>,
    payload: Maybe<IgnoredAny>,
    record_type: Str<'a>,
    instructions: Option<IgnoredAny>,
    id: Str<'a>,
    role: Str<'a>,
    content: Str<'a>,
    tool_id: Str<'a>,
    status: Str<'a>,
    model: Str<'a>,
    is_error: Flag,
    delta: Maybe<IgnoredAny>,
    content_block: Maybe<IgnoredAny>,
    response: Maybe<IgnoredAny>,
    sequence_number: Option<IgnoredAny>,
    object: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageProbe<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
}

impl FormatProbe<'_> {
    pub fn format(&self) -> Option<StreamFormat> {
        let is_qwen = !self.provenance.is_absent() && !self.camel_session_id.is_absent();
        let qwen = is_qwen.then_some(StreamFormat::QwenSession);
        qwen.or_else(|| self.claude())
            .or_else(|| self.codex())
            .or_else(|| self.gemini())
            .or_else(|| self.opencode())
            .or_else(|| self.api())
    }

    fn claude(&self) -> Option<StreamFormat> {
        let has_session = !self.session_id.is_absent();
        let speaks = matches!(self.kind.as_str(), "user" | "assistant") && self.message.0.is_some();
        let is_stream = match self.kind.as_str() {
            "stream_event" | "rate_limit_event" => has_session,
            "system" => has_session && !self.subtype.is_absent(),
            "result" => !self.subtype.is_absent() && self.is_error.0.is_some(),
            _ => speaks && has_session,
        };
        if is_stream {
            return Some(StreamFormat::ClaudeStream);
        }
        let has_session = !self.camel_session_id.is_absent() && self.project_hash.is_absent();
        let is_transcript = match self.kind.as_str() {
            "summary" => !self.leaf_uuid.is_absent(),
            "file-history-snapshot" => !self.message_id.is_absent(),
            kind => !kind.is_empty() && (has_session || (speaks && self.is_sidechain.0.is_some())),
        };
        is_transcript.then_some(StreamFormat::ClaudeTranscript)
    }

    fn codex(&self) -> Option<StreamFormat> {
        let is_header = self.kind.is_absent()
            && !self.id.is_absent()
            && !self.timestamp.is_absent()
            && self.instructions.is_some();
        match self.kind.as_str() {
            "thread.started" | "turn.started" | "turn.completed" | "turn.failed"
            | "item.started" | "item.updated" | "item.completed" => Some(StreamFormat::CodexExec),
            "session_meta" | "turn_context" | "response_item" | "event_msg" | "compacted"
            | "world_state"
                if self.payload.0.is_some() =>
            {
                Some(StreamFormat::CodexRollout)
            }
            _ if is_header || self.record_type.as_str() == "state" => {
                Some(StreamFormat::CodexRollout)
            }
            _ => None,
        }
    }

    fn gemini(&self) -> Option<StreamFormat> {
        let has_time = !self.timestamp.is_absent();
        let is_stream = match self.kind.as_str() {
            "init" => !self.session_id.is_absent() && !self.model.is_absent(),
            "message" => has_time && !self.role.is_absent() && !self.content.is_absent(),
            "tool_use" | "tool_result" => !self.tool_id.is_absent(),
            "result" => has_time && !self.status.is_absent(),
            _ => false,
        };
        if is_stream {
            return Some(StreamFormat::GeminiStream);
        }
        let is_header = !self.camel_session_id.is_absent() && !self.project_hash.is_absent();
        let is_message = self.kind.as_str() == "gemini" && !self.id.is_absent();
        let is_session = is_header || is_message || self.set.0.is_some();
        is_session.then_some(StreamFormat::GeminiSession)
    }

    fn opencode(&self) -> Option<StreamFormat> {
        let is_record = match self.kind.as_str() {
            "step_start" | "text" | "tool_use" | "step_finish" => self.part.0.is_some(),
            "error" => self.error.0.is_some(),
            _ => false,
        };
        let is_opencode = is_record && !self.upper_session_id.is_absent();
        is_opencode.then_some(StreamFormat::OpenCodeRun)
    }

    fn api(&self) -> Option<StreamFormat> {
        let is_anthropic = match self.kind.as_str() {
            "message_start" => {
                let message = self.message.0.as_ref();
                message.is_some_and(|message| message.kind.as_str() == "message")
            }
            "content_block_start" => self.content_block.0.is_some(),
            "content_block_delta" | "message_delta" => self.delta.0.is_some(),
            _ => false,
        };
        let has_number = self.sequence_number.is_some() || self.response.0.is_some();
        if is_anthropic {
            Some(StreamFormat::AnthropicSse)
        } else if self.object.as_str() == "chat.completion.chunk" {
            Some(StreamFormat::OpenAiChatSse)
        } else if self.kind.as_str().split('.').next() == Some("response") && has_number {
            Some(StreamFormat::OpenAiResponsesSse)
        } else {
            None
        }
    }
}

/// Returns the format that a single record shows.
pub(super) fn format_of(record: &str) -> Option<StreamFormat> {
    let probe: Maybe<FormatProbe<'_>> = serde_json::from_str(record).ok()?;
    probe.0?.format()
}
