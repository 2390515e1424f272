//! Which format a stream has, by what its first records are (pure).

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::format::StreamFormat;
use super::lenient::{Flag, Maybe, Str};
use super::lines::{Ends, Line, Lines};
use super::sse::{Event, Frames};
use super::values;

/// After so many lines of which none tells, none will.
const LINES_MAX: usize = 64;

/// The fields by which formats differ.
#[derive(Debug, Default, Deserialize)]
struct Probe<'a> {
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
    part: Maybe<Nothing>,
    #[serde(default)]
    error: Maybe<Nothing>,
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
    set: Maybe<Nothing>,
    #[serde(default, borrow)]
    message: Maybe<Inner<'a>>,
    #[serde(default, borrow)]
    timestamp: Str<'a>,
    #[serde(default)]
    payload: Maybe<Nothing>,
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
    delta: Maybe<Nothing>,
    #[serde(default)]
    content_block: Maybe<Nothing>,
    #[serde(default)]
    response: Maybe<Nothing>,
    #[serde(default)]
    sequence_number: Option<IgnoredAny>,
    #[serde(default, borrow)]
    object: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Nothing {}

#[derive(Debug, Default, Deserialize)]
struct Inner<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
}

impl Probe<'_> {
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
    let probe: Maybe<Probe<'_>> = serde_json::from_str(record).ok()?;
    probe.0?.format()
}

/// Looks at the beginning of a stream until it is known what it is.
#[derive(Debug)]
pub(super) struct Chooser {
    may_be: &'static [StreamFormat],
    bytes_max: usize,
    /// All that has come, to be read when it is known how.
    pending: Vec<u8>,
    lines: Lines,
    frames: Frames,
    sight: Sight,
}

/// What was seen.
#[derive(Debug, Default)]
struct Sight {
    chosen: Option<StreamFormat>,
    lines: usize,
    bytes: usize,
    objects: usize,
    others: usize,
}

impl Chooser {
    pub fn new(may_be: &'static [StreamFormat], bytes_max: usize) -> Self {
        Self {
            may_be,
            bytes_max,
            pending: Vec::new(),
            lines: Lines::new(Ends::Any, bytes_max),
            frames: Frames::new(bytes_max),
            sight: Sight::default(),
        }
    }

    /// The format, if it is known now.
    pub fn push(&mut self, bytes: &[u8]) -> Option<StreamFormat> {
        self.pending.extend_from_slice(bytes);
        let Self {
            may_be,
            bytes_max,
            lines,
            frames,
            sight,
            ..
        } = self;
        lines.push(bytes, |line| sight.line(&line, frames, may_be, *bytes_max));
        if self.lines.is_too_long() {
            // It is no record of a format that is known.
            self.sight.give_up(self.may_be);
        }
        self.sight.chosen
    }

    /// The format, if a line without its end tells.
    pub fn settle(&mut self) -> Option<StreamFormat> {
        let open = self.lines.open();
        if self.sight.chosen.is_none() && values::is_whole(open) {
            // Only looked at: its end is still to come.
            let mut sight = Sight::default();
            sight.event(Event::Data(open), self.may_be);
            self.sight.chosen = sight.chosen;
        }
        self.sight.chosen
    }

    /// The format, as far as it can be known.
    pub fn finish(&mut self) -> StreamFormat {
        let Self {
            may_be,
            bytes_max,
            lines,
            frames,
            sight,
            ..
        } = self;
        lines.finish(|line| sight.line(&line, frames, may_be, *bytes_max));
        if sight.chosen.is_none() {
            frames.dispatch(&mut |event| sight.event(event, may_be));
        }
        sight.give_up(may_be);
        sight.chosen.unwrap_or(StreamFormat::Text)
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

impl Sight {
    fn line(
        &mut self,
        line: &Line<'_>,
        frames: &mut Frames,
        may_be: &[StreamFormat],
        bytes_max: usize,
    ) {
        if self.chosen.is_some() {
            return;
        }
        match line {
            Line::Whole(bytes) => {
                self.bytes += bytes.len();
                self.lines += usize::from(!bytes.is_empty());
                frames.line(line, &mut |event| self.event(event, may_be));
            }
            Line::TooLong(_) => self.give_up(may_be),
        }
        if self.lines >= LINES_MAX || self.bytes > bytes_max {
            self.give_up(may_be);
        }
    }

    fn event(&mut self, event: Event<'_>, may_be: &[StreamFormat]) {
        let Event::Data(data) = event else {
            self.others += 1;
            return;
        };
        let text = String::from_utf8_lossy(data);
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Maybe<Probe<'_>>>();
        for value in values {
            let Ok(Maybe(Some(probe))) = value else {
                self.others += 1;
                return;
            };
            self.objects += 1;
            let format = probe.format().filter(|format| may_be.contains(format));
            if format.is_some() {
                self.chosen = format;
                return;
            }
        }
    }

    /// Nothing told: it is what it most likely is.
    fn give_up(&mut self, may_be: &[StreamFormat]) {
        let is_json =
            may_be.contains(&StreamFormat::Json) && self.objects > 0 && self.objects >= self.others;
        let fallback = match may_be.first() {
            _ if is_json => StreamFormat::Json,
            Some(first) => *first,
            None => StreamFormat::Text,
        };
        self.chosen.get_or_insert(fallback);
    }
}
