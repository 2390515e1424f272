//! JSON Lines of an unknown agent: the two fields that most agents share (pure).
//!
//! A top-level `type` of `result` ends a run; a `stop_reason` of `end_turn`, at the top level or in
//! the message, ends a turn. Only fields count, never substrings.

use std::borrow::Cow;

use super::super::summary::summary;
use super::StreamStatus;
use super::event::StreamFormat;
use super::event_writer::{EventWriter, RecordHandler};
use super::json::{Json, first};
use serde::de::IgnoredAny;

/// Interprets JSON of an unknown agent.
#[derive(Debug)]
pub(super) struct GenericJson;

impl RecordHandler for GenericJson {
    fn finish(&mut self, writer: &mut EventWriter) {
        // The end of such a stream has no known form, so a stream without it is not cut off.
        if writer.status == StreamStatus::Working {
            writer.set_status(StreamStatus::Unknown, "no record that ends anything");
        }
        writer.finish();
    }

    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        if record["type"].text() == "result" {
            return run_ends(record, writer);
        }
        let message = &record["message"];
        writer.set_answer(message["content"].any_text().as_str());
        let mut reasons = [record, message].into_iter();
        if reasons.any(|message| message["stop_reason"].text() == "end_turn") {
            writer.turn_completed("end_turn");
            writer.pause(StreamStatus::Done, "stop_reason end_turn");
        } else if !matches!(writer.status, StreamStatus::Done | StreamStatus::Failed) {
            writer.working("a record");
        }
    }
}

/// Ends a run, which these fields may show as failed.
fn run_ends(record: &Json<'_>, writer: &mut EventWriter) {
    let result = record["result"].any_text();
    writer.set_answer(result.as_str());
    let is_error = &record["is_error"];
    let subtype = record["subtype"].text();
    let is_failure = !is_error.is_null() && is_error.as_bool() != Some(false)
        || record["error"].is_object()
        || subtype.starts_with("error")
        || matches!(record["status"].text(), "error" | "failed" | "failure");
    if is_failure {
        let error = record["error"]["message"].any_text();
        let error = first([error.as_str(), result.as_str(), subtype, "an error"]);
        writer.failed(error, "a record of type result");
    } else {
        writer.turn_completed("result");
        writer.completed("a record of type result");
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

type Take<'t> = &'t mut dyn FnMut(&Json<'_>, &mut EventWriter);

/// Reads all records of a line. Other text is reported, and the records after it are still read.
pub(super) fn read(line: &[u8], handler: Take<'_>, writer: &mut EventWriter) {
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

fn read_text(text: &str, handler: Take<'_>, writer: &mut EventWriter) {
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
fn read_values(text: &str, handler: Take<'_>, writer: &mut EventWriter) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json<'_>>();
    loop {
        let at = values.byte_offset();
        match values.next()? {
            Ok(record) if record.is_object() => take_record(&record, handler, writer),
            Ok(_) => writer.stray_line(&text[at..values.byte_offset()]),
            Err(_) => return Some(at),
        }
    }
}

/// Handles a record, and counts it if its handler does not know it and it belongs to another format.
fn take_record(record: &Json<'_>, handler: Take<'_>, writer: &mut EventWriter) {
    handler(record, writer);
    if writer.take_unknown()
        && let Some(format) = format_of(record)
    {
        writer.count_foreign(format);
    }
}

/// Reads the records after a broken one on the same line, which results from a process that died
/// while it wrote and another one that continued. A record begins with `{"`; after `:`, `,` or `[`,
/// that is a part of the broken record.
fn read_broken_line(text: &str, handler: Take<'_>, writer: &mut EventWriter) {
    let mut rest = text;
    // The search position, which is within the broken part.
    let mut from = 0;
    while let Some(at) = next_record(rest, from) {
        let mut values = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Json<'_>>();
        let Some(Ok(record @ Json::Object(_))) = values.next() else {
            from = at + 1;
            continue;
        };
        report_skipped(&rest[..at], writer);
        take_record(&record, handler, writer);
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

/// Returns the format that a record shows by its fields.
pub(super) fn format_of(record: &Json<'_>) -> Option<StreamFormat> {
    let kind = record["type"].text();
    let has_text = |field: &str| record[field].as_str().is_some();
    let has_object = |field: &str| record[field].is_object();
    let has_any = |field: &str| !record[field].is_null();
    if has_text("provenance") && has_text("sessionId") {
        return Some(StreamFormat::QwenSession);
    }
    // Claude Code.
    let speaks = matches!(kind, "user" | "assistant") && has_object("message");
    let is_stream = match kind {
        "stream_event" | "rate_limit_event" => has_text("session_id"),
        "system" => has_text("session_id") && has_text("subtype"),
        "result" => has_text("subtype") && record["is_error"].as_bool().is_some(),
        _ => speaks && has_text("session_id"),
    };
    if is_stream {
        return Some(StreamFormat::ClaudeStream);
    }
    let has_session = has_text("sessionId") && !has_text("projectHash");
    let is_transcript = match kind {
        "summary" => has_text("leafUuid"),
        "file-history-snapshot" => has_text("messageId"),
        "" => false,
        _ => has_session || speaks && record["isSidechain"].as_bool().is_some(),
    };
    if is_transcript {
        return Some(StreamFormat::ClaudeTranscript);
    }
    // Codex.
    let is_header =
        !has_text("type") && has_text("id") && has_text("timestamp") && has_any("instructions");
    match kind {
        "thread.started" | "turn.started" | "turn.completed" | "turn.failed" | "item.started"
        | "item.updated" | "item.completed" => return Some(StreamFormat::CodexExec),
        "session_meta" | "turn_context" | "response_item" | "event_msg" | "compacted"
        | "world_state"
            if has_object("payload") =>
        {
            return Some(StreamFormat::CodexRollout);
        }
        _ if is_header || record["record_type"].text() == "state" => {
            return Some(StreamFormat::CodexRollout);
        }
        _ => {}
    }
    // Gemini CLI.
    let is_stream = match kind {
        "init" => has_text("session_id") && has_text("model"),
        "message" => has_text("timestamp") && has_text("role") && has_text("content"),
        "tool_use" | "tool_result" => has_text("tool_id"),
        "result" => has_text("timestamp") && has_text("status"),
        _ => false,
    };
    if is_stream {
        return Some(StreamFormat::GeminiStream);
    }
    let is_session = has_text("sessionId") && has_text("projectHash")
        || kind == "gemini" && has_text("id")
        || has_object("$set");
    if is_session {
        return Some(StreamFormat::GeminiSession);
    }
    // Kimi.
    let message = &record["message"];
    if kind == "metadata" && has_text("protocol_version")
        || kind.is_empty() && message["type"].as_str().is_some() && message["payload"].is_object()
    {
        return Some(StreamFormat::KimiSession);
    }
    // Vibe.
    if has_any("recovery_journal_record_version") {
        return Some(StreamFormat::VibeJournal);
    }
    // opencode.
    let is_run = match kind {
        "step_start" | "text" | "tool_use" | "step_finish" => has_object("part"),
        "error" => has_object("error"),
        _ => false,
    };
    if is_run && has_text("sessionID") {
        return Some(StreamFormat::OpenCodeRun);
    }
    // The APIs.
    let is_anthropic = match kind {
        "message_start" => record["message"]["type"].text() == "message",
        "content_block_start" => has_object("content_block"),
        "content_block_delta" | "message_delta" => has_object("delta"),
        _ => false,
    };
    if is_anthropic {
        return Some(StreamFormat::AnthropicSse);
    }
    if record["object"].text() == "chat.completion.chunk" {
        return Some(StreamFormat::OpenAiChatSse);
    }
    let has_number = has_any("sequence_number") || has_object("response");
    (kind.split('.').next() == Some("response") && has_number)
        .then_some(StreamFormat::OpenAiResponsesSse)
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

        /// Writes the field `a` of a record as a token.
        fn take_letters(record: &Json<'_>, writer: &mut EventWriter) {
            writer.token(record["a"].text().into());
        }

        fn tokens_of(line: &[u8]) -> Vec<String> {
            let mut writer = EventWriter::default();
            read(line, &mut take_letters, &mut writer);
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
