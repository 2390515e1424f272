//! JSON Lines of an unknown agent: the two fields that most agents share (pure).
//!
//! A top-level `type` of `result` ends a run; a `stop_reason` of `end_turn`, at the top level or in
//! the message, ends a turn. Only fields count, never substrings.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{AnyText, ErrorText, EventWriter, Maybe, RecordHandler, Str, StreamStatus};

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
