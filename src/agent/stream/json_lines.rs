//! JSON Lines of an unknown agent: the two fields that most agents share (pure).
//!
//! A top-level `type` of `result` ends a run; a `stop_reason` of `end_turn`, at the top level or in
//! the message, ends a turn. Only fields count, never substrings.

use std::borrow::Cow;

use super::super::summary::summary;
use super::event::StreamFormat;
use super::event_writer::{EventWriter, RecordHandler};
use super::lenient::{Flag, Maybe, Str};
use super::{AnyText, ErrorText, StreamStatus};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The fields that a record of an unknown agent may have.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct GenericRecord<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    stop_reason: Str<'a>,
    message: Maybe<GenericMessage<'a>>,
    is_error: Option<&'a RawValue>,
    subtype: Str<'a>,
    status: Str<'a>,
    error: Maybe<ErrorText>,
    result: AnyText,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct GenericMessage<'a> {
    stop_reason: Str<'a>,
    content: AnyText,
}

/// Interprets JSON of an unknown agent.
#[derive(Debug, Default)]
pub(super) struct GenericJson;

impl RecordHandler for GenericJson {
    type Record<'a> = GenericRecord<'a>;

    fn finish(&mut self, writer: &mut EventWriter) {
        // The end of such a stream has no known form, so a stream without it is not cut off.
        if writer.status() == StreamStatus::Working {
            writer.set_status(StreamStatus::Unknown, "no record that ends anything");
        }
        writer.finish();
    }

    fn record(&mut self, record: GenericRecord<'_>, writer: &mut EventWriter) {
        if record.kind.as_str() == "result" {
            writer.set_answer(record.result.text.as_str());
            return record.result(writer);
        }
        let message = record.message.0.unwrap_or_default();
        writer.set_answer(message.content.text.as_str());
        let mut reasons = [&record.stop_reason, &message.stop_reason].into_iter();
        if reasons.any(|reason| reason.as_str() == "end_turn") {
            writer.turn_completed("end_turn");
            writer.pause(StreamStatus::Done, "stop_reason end_turn");
        } else if !matches!(writer.status(), StreamStatus::Done | StreamStatus::Failed) {
            writer.working("a record");
        }
    }
}

impl GenericRecord<'_> {
    /// Ends a run, which these fields may show as failed.
    fn result(&self, writer: &mut EventWriter) {
        let is_bad = |text: &str| matches!(text, "error" | "failed" | "failure");
        let is_failure = self.is_error.is_some_and(|value| value.get() != "false")
            || self.error.0.is_some()
            || self.subtype.as_str().starts_with("error")
            || is_bad(self.status.as_str());
        if is_failure {
            let error = self.error.0.as_ref();
            let error = error.map_or("", |error| error.message.text.as_str());
            let texts = [error, self.result.text.as_str(), self.subtype.as_str()];
            let error = texts.into_iter().find(|text| !text.is_empty());
            writer.failed(error.unwrap_or("an error"), "a record of type result");
        } else {
            writer.turn_completed("result");
            writer.completed("a record of type result");
        }
    }
}

// Splits bytes into lines of limited length (pure).

/// The capacity to keep for later lines or events after a long one.
pub(super) const ROOM_KEPT: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// `\n`, with an optional `\r` before it.
    Newline,
    /// `\n`, `\r\n` or `\r`, as in SSE.
    Any,
}

#[derive(Debug)]
pub(super) enum ByteLine<'a> {
    Whole(&'a [u8]),
    /// The line exceeded the limit and was dropped. The number is its length in bytes.
    TooLong(u64),
}

/// Splits bytes into lines. A line that is complete within the pushed bytes is not copied.
#[derive(Debug)]
pub(super) struct LineSplitter {
    ends: LineEnd,
    bytes_max: usize,
    open: Vec<u8>,
    /// The number of bytes of an open line that exceeds the limit.
    skipped: u64,
    after_return: bool,
}

impl LineSplitter {
    pub fn new(ends: LineEnd, bytes_max: usize) -> Self {
        Self {
            ends,
            bytes_max,
            open: Vec::new(),
            skipped: 0,
            after_return: false,
        }
    }

    fn end_in(&self, bytes: &[u8]) -> Option<usize> {
        match self.ends {
            LineEnd::Newline => memchr::memchr(b'\n', bytes),
            LineEnd::Any => memchr::memchr2(b'\n', b'\r', bytes),
        }
    }

    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(ByteLine<'_>)) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(at) = self.end_in(rest) else {
                return self.keep(rest);
            };
            self.after_return = self.ends == LineEnd::Any && rest[at] == b'\r';
            self.end_line(&rest[..at], &mut take);
            rest = &rest[at + 1..];
        }
    }

    /// Emits the last line, which is not terminated.
    pub fn finish(&mut self, mut take: impl FnMut(ByteLine<'_>)) {
        if self.skipped > 0 || !self.open.is_empty() {
            self.end_line(&[], &mut take);
        }
    }

    pub fn open(&self) -> &[u8] {
        &self.open
    }

    /// Returns true if the open line already exceeds the limit.
    pub fn is_too_long(&self) -> bool {
        self.skipped > 0
    }

    /// Removes and returns the open line; later bytes begin another line.
    pub fn take_open(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.open)
    }

    fn end_line(&mut self, rest: &[u8], take: &mut impl FnMut(ByteLine<'_>)) {
        if self.skipped == 0 && self.open.is_empty() && rest.len() <= self.bytes_max {
            return take(ByteLine::Whole(rest));
        }
        self.keep(rest);
        match std::mem::take(&mut self.skipped) {
            0 => take(ByteLine::Whole(&self.open)),
            skipped => take(ByteLine::TooLong(skipped)),
        }
        self.open.clear();
        self.open.shrink_to(ROOM_KEPT);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipped > 0 || self.open.len() + bytes.len() > self.bytes_max {
            self.skipped += (self.open.len() + bytes.len()) as u64;
            self.open = Vec::new();
        } else {
            self.open.extend_from_slice(bytes);
        }
    }
}

// Reads the JSON values of a line: usually one, sometimes several, or the intact ones of a broken
// line (pure).

/// Reads all records of a line. Other text is reported, and the records after it are still read.
pub(super) fn read<G: RecordHandler>(line: &[u8], handler: &mut G, writer: &mut EventWriter) {
    match std::str::from_utf8(line) {
        Ok(text) => read_text(text, handler, writer),
        Err(_) => read_text(&String::from_utf8_lossy(line), handler, writer),
    }
}

/// Returns true if a line consists of complete objects, so that only the newline is missing.
pub(super) fn is_whole(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    // A cheap test first, because most open lines are incomplete.
    if !(line.starts_with(b"{") && line.ends_with(b"}")) {
        return false;
    }
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<IgnoredAny>();
    values.all(|value| value.is_ok())
}

/// Returns true if a line contains the beginning of a record. A process that died may leave NUL bytes.
pub(super) fn is_begun(line: &[u8]) -> bool {
    let is_blank = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    !line.iter().all(is_blank)
}

fn read_text<G: RecordHandler>(text: &str, handler: &mut G, writer: &mut EventWriter) {
    let text = text.trim_start_matches('\u{feff}');
    let Some(at) = read_values(text, handler, writer) else {
        return;
    };
    // Node writes half a surrogate pair if a delta splits a character; serde rejects it.
    match replace_lone_surrogates(&text[at..]) {
        Cow::Borrowed(rest) => read_broken_line(rest, handler, writer),
        Cow::Owned(rest) => {
            if let Some(at) = read_values(&rest, handler, writer) {
                read_broken_line(&rest[at..], handler, writer);
            }
        }
    }
}

/// Reads consecutive values; returns the position of other text.
fn read_values<G: RecordHandler>(
    text: &str,
    handler: &mut G,
    writer: &mut EventWriter,
) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Maybe<G::Record<'_>>>();
    loop {
        let at = values.byte_offset();
        match values.next()? {
            Ok(Maybe(Some(record))) => {
                handler.record(record, writer);
                count_unknown(&text[at..values.byte_offset()], writer);
            }
            Ok(Maybe(None)) => writer.stray_line(&text[at..values.byte_offset()]),
            Err(_) => return Some(at),
        }
    }
}

/// Counts a record that its handler does not know, if it belongs to another format.
fn count_unknown(record: &str, writer: &mut EventWriter) {
    if writer.take_unknown()
        && let Some(format) = format_of(record)
    {
        writer.count_foreign(format);
    }
}

/// Reads the records after a broken one on the same line, which results from a process that died
/// while it wrote and another one that continued. A record begins with `{"`; after `:`, `,` or `[`,
/// that is a part of the broken record.
fn read_broken_line<G: RecordHandler>(text: &str, handler: &mut G, writer: &mut EventWriter) {
    let mut rest = text;
    // The search position, which is within the broken part.
    let mut from = 0;
    while let Some(at) = next_record(rest, from) {
        let mut values =
            serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Maybe<G::Record<'_>>>();
        let Some(Ok(Maybe(Some(record)))) = values.next() else {
            from = at + 1;
            continue;
        };
        report_skipped(&rest[..at], writer);
        handler.record(record, writer);
        count_unknown(&rest[at..at + values.byte_offset()], writer);
        rest = &rest[at + values.byte_offset()..];
        from = 0;
    }
    report_skipped(rest, writer);
}

/// Returns the position of the next possible record, at or after `from`.
fn next_record(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let places = memchr::memchr_iter(b'{', bytes.get(from..)?).map(|at| from + at);
    for at in places {
        let begins = bytes[at + 1..]
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
            .is_some_and(|byte| *byte == b'"');
        let before = bytes[..at].iter().rfind(|byte| !byte.is_ascii_whitespace());
        if begins && !before.is_some_and(|byte| b":,[".contains(byte)) {
            return Some(at);
        }
    }
    None
}

/// Reports skipped text, unless it is blank.
fn report_skipped(text: &str, writer: &mut EventWriter) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let bytes = text.len();
    let visible = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    if visible.is_empty() {
        writer.warn(format!("{bytes} NUL bytes skipped"));
    } else if visible.starts_with(['{', '[', '"']) {
        let begins = summary(visible);
        writer.warn(format!(
            "a record is broken: {bytes} bytes skipped: {begins}"
        ));
    } else {
        writer.stray_line(visible);
    }
}

/// Replaces lone halves of surrogate pairs (such as `\ud83d`) with `\ufffd`.
pub(super) fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut replaced = String::new();
    // `done` is the end of the text already in `replaced`; `at` is the search position.
    let (mut done, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        let Some(unit) = unit_at(bytes, at) else {
            // Any other escape has at least one more byte, which may be a backslash.
            at += 2;
            continue;
        };
        let next = unit_at(bytes, at + 6);
        match unit {
            0xd800..=0xdbff if next.is_some_and(|next| (0xdc00..=0xdfff).contains(&next)) => {
                at += 12;
            }
            0xd800..=0xdfff => {
                replaced.push_str(&text[done..at]);
                replaced.push_str("\\ufffd");
                at += 6;
                done = at;
            }
            _ => at += 6,
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    replaced.push_str(&text[done..]);
    Cow::Owned(replaced)
}

/// Returns the escaped UTF-16 unit at this position.
fn unit_at(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit * 16 + char::from(*digit).to_digit(16)?)
    })
}

// Recognises the format of a stream by the fields of one record (pure).

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

#[cfg(test)]
mod tests {
    mod lines {

        use super::super::*;
        use proptest::prelude::*;

        fn lines(ends: LineEnd, bytes_max: usize, pieces: &[&[u8]]) -> Vec<String> {
            let mut found = Vec::new();
            let mut lines = LineSplitter::new(ends, bytes_max);
            let mut take = |line: ByteLine<'_>| {
                found.push(match line {
                    ByteLine::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                    ByteLine::TooLong(bytes) => format!("{bytes} skipped"),
                });
            };
            for piece in pieces {
                lines.push(piece, &mut take);
            }
            lines.finish(&mut take);
            found
        }

        #[test]
        fn a_carriage_return_ends_a_line_where_allowed() {
            let bytes: &[u8] = b"a\r\nb\rc\n\nd";
            assert_eq!(lines(LineEnd::Any, 9, &[bytes]), ["a", "b", "c", "", "d"]);
            assert_eq!(
                lines(LineEnd::Newline, 9, &[bytes]),
                ["a\r", "b\rc", "", "d"]
            );
        }

        #[test]
        fn a_line_that_is_too_long_is_counted() {
            let pieces: &[&[u8]] = &[b"12", b"345", b"6789\nab", b"c\n123456"];
            assert_eq!(
                lines(LineEnd::Newline, 4, pieces),
                ["9 skipped", "abc", "6 skipped"]
            );
        }

        proptest! {
            #[test]
            fn cuts_do_not_matter(bytes in "[a\r\n]{0,30}", cut in 0..30usize, max in 0..6usize) {
                let bytes = bytes.as_bytes();
                let cut = cut.min(bytes.len());
                for ends in [LineEnd::Any, LineEnd::Newline] {
                    prop_assert_eq!(
                        lines(ends, max, &[&bytes[..cut], &bytes[cut..]]),
                        lines(ends, max, &[bytes])
                    );
                }
            }
        }
    }

    mod values {

        use super::super::*;
        use crate::agent::stream::event::AgentEvent;
        use crate::agent::stream::lenient::Str;
        use serde::Deserialize;

        /// Writes the field `a` of each record as a token.
        struct Letters;

        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Record<'a> {
            #[serde(borrow)]
            a: Str<'a>,
        }

        impl RecordHandler for Letters {
            type Record<'a> = Record<'a>;

            fn record(&mut self, record: Record<'_>, writer: &mut EventWriter) {
                writer.token(record.a.as_str().to_owned().into());
            }
        }

        fn tokens_of(line: &[u8]) -> Vec<String> {
            let mut writer = EventWriter::default();
            read(line, &mut Letters, &mut writer);
            let events = writer.out.into_iter();
            events
                .map(|event| match event {
                    AgentEvent::TokenReceived { token } => token,
                    AgentEvent::Warning { message, .. } => format!("! {message}"),
                    other => panic!("{other:?}"),
                })
                .collect()
        }

        #[test]
        fn lines_with_any_content() {
            let cases: &[(&[u8], &[&str])] = &[
                (b"", &[]),
                (b" \t\r", &[]),
                (b"\xef\xbb\xbf{\"a\":\"x\"}\r", &["x"]),
                (
                    b"{\"a\":\"x\"}{\"a\":\"y\"} {\"a\":\"z\"}",
                    &["x", "y", "z"],
                ),
                (
                    b"{\"b\":{\"a\":\"p\"},\"a\":\"cut{\"a\":\"x\"}",
                    &[
                        "! a record is broken: 23 bytes skipped: {\"b\":{\"a\":\"p\"},\"a\":\"cut",
                        "x",
                    ],
                ),
                (
                    b"{\"b\":[{\"a\":\"p\"}, {\"a\":\"q\"},",
                    &[
                        "! a record is broken: 27 bytes skipped: {\"b\":[{\"a\":\"p\"}, {\"a\":\"q\"},",
                    ],
                ),
                (
                    b"{\"a\":\"x\"}{\"a\":{\"a\":\"p\"}{\"a\":\"y\"}{\"a\":\"z",
                    &[
                        "x",
                        "! a record is broken: 14 bytes skipped: {\"a\":{\"a\":\"p\"}",
                        "y",
                        "! a record is broken: 7 bytes skipped: {\"a\":\"z",
                    ],
                ),
                (
                    b"\0\0\0{\"a\":\"x\"}\0",
                    &["! 3 NUL bytes skipped", "x", "! 1 NUL bytes skipped"],
                ),
                (
                    b"Warning: no stdin{\"a\":\"x\"}",
                    &["! a line is not a record: Warning: no stdin", "x"],
                ),
                (
                    b"[\"a\",{\"a\":1}]",
                    &["! a line is not a record: [\"a\",{\"a\":1}]"],
                ),
                (b"{\"a\":\"\xff\"}", &["\u{fffd}"]),
                (
                    br#"{"a":"\ud83d"}{"a":"\ud83d\ude00\\ud83d"}"#,
                    &["\u{fffd}", "\u{1f600}\\ud83d"],
                ),
            ];
            for (line, expected) in cases {
                assert_eq!(
                    tokens_of(line),
                    *expected,
                    "{}",
                    String::from_utf8_lossy(line)
                );
            }
        }

        #[test]
        fn many_broken_records_are_read_in_linear_time() {
            let line = "{\"a\":\"b{\"".repeat(200_000);
            assert!(!tokens_of(line.as_bytes()).is_empty());
        }
    }
}
