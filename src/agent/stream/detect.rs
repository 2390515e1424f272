//! Which format a stream has, by what its first records are (pure).

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::format::StreamFormat;
use super::lenient::{Flag, Maybe, Str};
use super::lines::{ByteLine, LineEnd, LineSplitter};
use super::sse::{SseEvent, SseFrames};
use super::values;

/// After so many lines of which none tells, none will.
const LINES_MAX: usize = 64;

/// The fields by which formats differ.
#[derive(Debug, Default, Deserialize)]
struct FormatProbe<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    subtype: Str<'a>,
    #[serde(default, borrow)]
    session_id: Str<'a>,
    #[serde(default, borrow, rename = "sessionId")]
    camel_session_id: Str<'a>,
    #[serde(default, borrow, rename = "sessionID")]
    upper_session_id: Str<'a>,
    #[serde(default)]
    part: Maybe<AnyObject>,
    #[serde(default)]
    error: Maybe<AnyObject>,
    #[serde(default, rename = "isSidechain")]
    is_sidechain: Flag,
    #[serde(default, borrow)]
    provenance: Str<'a>,
    #[serde(default, borrow, rename = "leafUuid")]
    leaf_uuid: Str<'a>,
    #[serde(default, borrow, rename = "messageId")]
    message_id: Str<'a>,
    #[serde(default, borrow, rename = "projectHash")]
    project_hash: Str<'a>,
    #[serde(default, rename = "$set")]
    set: Maybe<AnyObject>,
    #[serde(default, borrow)]
    message: Maybe<MessageProbe<'a>>,
    #[serde(default, borrow)]
    timestamp: Str<'a>,
    #[serde(default)]
    payload: Maybe<AnyObject>,
    #[serde(default, borrow)]
    record_type: Str<'a>,
    #[serde(default)]
    instructions: Option<IgnoredAny>,
    #[serde(default, borrow)]
    id: Str<'a>,
    #[serde(default, borrow)]
    role: Str<'a>,
    #[serde(default, borrow)]
    content: Str<'a>,
    #[serde(default, borrow)]
    tool_id: Str<'a>,
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default, borrow)]
    model: Str<'a>,
    #[serde(default)]
    is_error: Flag,
    #[serde(default)]
    delta: Maybe<AnyObject>,
    #[serde(default)]
    content_block: Maybe<AnyObject>,
    #[serde(default)]
    response: Maybe<AnyObject>,
    #[serde(default)]
    sequence_number: Option<IgnoredAny>,
    #[serde(default, borrow)]
    object: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct AnyObject {}

#[derive(Debug, Default, Deserialize)]
struct MessageProbe<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
}

impl FormatProbe<'_> {
    fn format(&self) -> Option<StreamFormat> {
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

/// The format that this one record has, if it tells.
pub(super) fn format_of(record: &str) -> Option<StreamFormat> {
    let probe: Maybe<FormatProbe<'_>> = serde_json::from_str(record).ok()?;
    probe.0?.format()
}

/// Looks at the beginning of a stream until it is known what it is.
#[derive(Debug)]
pub(super) struct FormatDetector {
    candidates: &'static [StreamFormat],
    bytes_max: usize,
    /// All that has come, to be read when it is known how.
    pending: Vec<u8>,
    lines: LineSplitter,
    frames: SseFrames,
    detection: Detection,
}

/// What was seen.
#[derive(Debug, Default)]
struct Detection {
    format: Option<StreamFormat>,
    lines: usize,
    bytes: usize,
    objects: usize,
    others: usize,
}

impl FormatDetector {
    pub fn new(candidates: &'static [StreamFormat], bytes_max: usize) -> Self {
        Self {
            candidates,
            bytes_max,
            pending: Vec::new(),
            lines: LineSplitter::new(LineEnd::Any, bytes_max),
            frames: SseFrames::new(bytes_max),
            detection: Detection::default(),
        }
    }

    /// The format, if it is known now.
    pub fn push(&mut self, bytes: &[u8]) -> Option<StreamFormat> {
        self.pending.extend_from_slice(bytes);
        let Self {
            candidates,
            bytes_max,
            lines,
            frames,
            detection,
            ..
        } = self;
        lines.push(bytes, |line| {
            detection.line(&line, frames, candidates, *bytes_max)
        });
        if self.lines.is_too_long() {
            // It is no record of a format that is known.
            self.detection.give_up(self.candidates);
        }
        self.detection.format
    }

    /// The format, if a line without its end tells.
    pub fn flush_idle(&mut self) -> Option<StreamFormat> {
        let open = self.lines.open();
        if self.detection.format.is_none() && values::is_whole(open) {
            // Only looked at: its end is still to come.
            let mut detection = Detection::default();
            detection.event(SseEvent::Data(open), self.candidates);
            self.detection.format = detection.format;
        }
        self.detection.format
    }

    /// The format, as far as it can be known.
    pub fn finish(&mut self) -> StreamFormat {
        let Self {
            candidates,
            bytes_max,
            lines,
            frames,
            detection,
            ..
        } = self;
        lines.finish(|line| detection.line(&line, frames, candidates, *bytes_max));
        if detection.format.is_none() {
            frames.dispatch(&mut |event| detection.event(event, candidates));
        }
        detection.give_up(candidates);
        detection.format.unwrap_or(StreamFormat::Text)
    }

    /// Whether a line has begun that has not ended.
    pub fn is_open(&self) -> bool {
        values::is_begun(self.lines.open())
    }

    /// What has come so far.
    pub fn into_pending(self) -> Vec<u8> {
        self.pending
    }
}

impl Detection {
    fn line(
        &mut self,
        line: &ByteLine<'_>,
        frames: &mut SseFrames,
        candidates: &[StreamFormat],
        bytes_max: usize,
    ) {
        if self.format.is_some() {
            return;
        }
        match line {
            ByteLine::Whole(bytes) => {
                self.bytes += bytes.len();
                self.lines += usize::from(!bytes.is_empty());
                frames.line(line, &mut |event| self.event(event, candidates));
            }
            ByteLine::TooLong(_) => self.give_up(candidates),
        }
        if self.lines >= LINES_MAX || self.bytes > bytes_max {
            self.give_up(candidates);
        }
    }

    fn event(&mut self, event: SseEvent<'_>, candidates: &[StreamFormat]) {
        let SseEvent::Data(data) = event else {
            self.others += 1;
            return;
        };
        let text = String::from_utf8_lossy(data);
        let values =
            serde_json::Deserializer::from_str(&text).into_iter::<Maybe<FormatProbe<'_>>>();
        for value in values {
            let Ok(Maybe(Some(probe))) = value else {
                self.others += 1;
                return;
            };
            self.objects += 1;
            let format = probe.format().filter(|format| candidates.contains(format));
            if format.is_some() {
                self.format = format;
                return;
            }
        }
    }

    /// AnyObject told: it is what it most likely is.
    fn give_up(&mut self, candidates: &[StreamFormat]) {
        let is_json = candidates.contains(&StreamFormat::Json)
            && self.objects > 0
            && self.objects >= self.others;
        let fallback = match candidates.first() {
            _ if is_json => StreamFormat::Json,
            Some(first) => *first,
            None => StreamFormat::Text,
        };
        self.format.get_or_insert(fallback);
    }
}
