//! Server-sent events as whole JSON values, for those who need all of what an API says (pure).
//!
//! The grammars beside this keep what an event needs, which is a summary. Whoever runs a model's
//! tools needs their inputs to the last character.

use std::borrow::Cow;

use serde_json::Value;

use super::frame::{SseEvent, SseFraming};
use crate::agent::stream::values::mended;
use crate::agent::summary::summary;

/// What an event of the stream has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SseRecord {
    /// Its data.
    Value(Value),
    /// The API says that no more comes (`[DONE]`).
    Done,
    /// No JSON, or no event: how it begins.
    Broken(String),
    /// So many bytes were more than a record may have, and are lost.
    TooLong(u64),
}

/// Reads a stream's records.
#[derive(Debug)]
pub(crate) struct SseRecords(SseFraming);

impl SseRecords {
    /// Keeps so many bytes of a record at most.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(SseFraming::new(bytes_max))
    }

    /// Takes bytes as they were read, cut anywhere.
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(SseRecord)) {
        self.0.push(bytes, &mut |event| take(record(event)));
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, take: &mut impl FnMut(SseRecord)) {
        self.0.finish(&mut |event| take(record(event)));
    }
}

fn record(event: SseEvent<'_>) -> SseRecord {
    match event {
        SseEvent::Data(b"[DONE]") => SseRecord::Done,
        SseEvent::Data(data) => value(&String::from_utf8_lossy(data)),
        SseEvent::TooLong(bytes) => SseRecord::TooLong(bytes),
        SseEvent::Stray(line) => SseRecord::Broken(summary(&String::from_utf8_lossy(line))),
    }
}

fn value(text: &str) -> SseRecord {
    let text = text.trim_start_matches('\u{feff}');
    if let Ok(value) = serde_json::from_str(text) {
        return SseRecord::Value(value);
    }
    // Halves of characters, which some servers write and serde does not take.
    match mended(text) {
        Cow::Owned(text) => match serde_json::from_str(&text) {
            Ok(value) => SseRecord::Value(value),
            Err(_) => SseRecord::Broken(summary(&text)),
        },
        Cow::Borrowed(_) => SseRecord::Broken(summary(text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records(text: &str, piece: usize) -> Vec<SseRecord> {
        let mut records = SseRecords::new(40);
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            records.push(piece, &mut |record| found.push(record));
        }
        records.finish(&mut |record| found.push(record));
        found
    }

    #[test]
    fn values_are_whole_however_they_are_cut() {
        let text = "event: a\ndata: {\"a\": \"\\ud83d\"  }\n\n: note\ndata: {\"b\":\ndata: 1}\r\n\r\n\
                    data: {\"c\"\n\ndata: [DONE]\n\n<html>\ndata: {\"d\":\"0123456789012345678901234567890123456789\"}\n\ndata: 7";
        let expected = [
            SseRecord::Value(json!({"a": "\u{fffd}"})),
            SseRecord::Value(json!({"b": 1})),
            SseRecord::Broken("{\"c\"".into()),
            SseRecord::Done,
            SseRecord::Broken("<html>".into()),
            SseRecord::TooLong(54),
            SseRecord::Value(json!(7)),
        ];
        for piece in [1, 2, 7, text.len()] {
            assert_eq!(records(text, piece), expected, "pieces of {piece}");
        }
    }
}
