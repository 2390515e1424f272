//! Server-sent events as complete JSON values (pure).
//!
//! The other handlers in this module keep only what an event needs, such as a summary. The agent
//! loop runs the tools of a model, and so needs their complete inputs.

use serde_json::Value;

use super::frame::{Framing, SseEvent};
use crate::agent::stream::values::replace_lone_surrogates;
use crate::agent::summary::summary;

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SseRecord {
    /// The event's data.
    Value(Value),
    /// `[DONE]`, with which the API announces the end of the stream.
    Done,
    /// The beginning of invalid JSON or of a line that is not a field.
    Broken(String),
    /// The data exceeded the limit and is lost. The number is its length in bytes.
    TooLong(u64),
}

/// Splits a stream into records.
#[derive(Debug)]
pub(crate) struct SseRecords(Framing);

impl SseRecords {
    /// Creates a reader with this maximum size of a record, in bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Framing::events(bytes_max))
    }

    /// Processes bytes, cut anywhere.
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(SseRecord)) {
        self.0.push(bytes, &mut |event| take(record(event)));
    }

    pub(crate) fn finish(&mut self, take: &mut impl FnMut(SseRecord)) {
        self.0.finish(&mut |event| take(record(event)));
    }
}

fn record(event: SseEvent<'_>) -> SseRecord {
    match event {
        SseEvent::Done => SseRecord::Done,
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
    // Some servers write halves of surrogate pairs, which serde rejects.
    let text = replace_lone_surrogates(text);
    match serde_json::from_str(&text) {
        Ok(value) => SseRecord::Value(value),
        Err(_) => SseRecord::Broken(summary(&text)),
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
    fn values_are_whole_for_all_cuts() {
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
