//! Reads the JSON values of a line: usually one, sometimes several, or the intact ones of a broken
//! line (pure).

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::event_writer::EventWriter;
use super::lenient::Maybe;
use super::probe::format_of;
use super::traits::RecordHandler;
use crate::agent::summary::summary;

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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::agent::stream::event::AgentEvent;
    use crate::agent::stream::lenient::Str;

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
                &["! a record is broken: 27 bytes skipped: {\"b\":[{\"a\":\"p\"}, {\"a\":\"q\"},"],
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
