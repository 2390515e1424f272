//! JSON Lines of an agent that nobody here knows: the two marks that most of them share (pure).
//!
//! A top-level `type` of `result` ends a run; a `stop_reason` of `end_turn`, at the top or in the
//! message, ends a turn. Both are fields, never substrings.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::grammar::Grammar;
use super::lenient::{Gist, Maybe, Str};
use super::scribe::Scribe;
use super::standing::Standing;

/// What an unknown record may have.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(default, borrow)]
    stop_reason: Str<'a>,
    #[serde(default, borrow)]
    message: Maybe<Message<'a>>,
    #[serde(default, borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    subtype: Str<'a>,
    #[serde(default, borrow)]
    status: Str<'a>,
    #[serde(default)]
    error: Maybe<Failure>,
    #[serde(default)]
    result: Gist,
}

#[derive(Debug, Default, Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    stop_reason: Str<'a>,
    #[serde(default)]
    content: Gist,
}

#[derive(Debug, Default, Deserialize)]
struct Failure {
    #[serde(default)]
    message: Gist,
}

/// The meaning of JSON that nobody knows.
#[derive(Debug, Default)]
pub(super) struct Json;

impl Grammar for Json {
    type Record<'a> = Record<'a>;

    fn end(&mut self, scribe: &mut Scribe) {
        // Nobody knows how such a stream ends: one without a mark is not cut.
        if scribe.standing() == Standing::Working {
            scribe.stand(Standing::Unknown, "no record that ends anything");
        }
        scribe.end();
    }

    fn record(&mut self, record: Record<'_>, scribe: &mut Scribe) {
        if record.kind.as_str() == "result" {
            scribe.said(record.result.text.as_str());
            return record.result(scribe);
        }
        let message = record.message.0.unwrap_or_default();
        scribe.said(message.content.text.as_str());
        let mut reasons = [&record.stop_reason, &message.stop_reason].into_iter();
        if reasons.any(|reason| reason.as_str() == "end_turn") {
            scribe.turn_completed("end_turn");
            scribe.told_anew();
            scribe.stand(Standing::Done, "stop_reason end_turn");
        } else if !matches!(scribe.standing(), Standing::Done | Standing::Failed) {
            scribe.working("a record");
        }
    }
}

impl Record<'_> {
    /// The end of a run; a failure says so in one of these ways.
    fn result(&self, scribe: &mut Scribe) {
        let is_bad = |text: &str| matches!(text, "error" | "failed" | "failure");
        let is_failure = self.is_error.is_some_and(|said| said.get() != "false")
            || self.error.0.is_some()
            || self.subtype.as_str().starts_with("error")
            || is_bad(self.status.as_str());
        if is_failure {
            let error = self.error.0.as_ref();
            let error = error.map_or("", |error| error.message.text.as_str());
            let texts = [error, self.result.text.as_str(), self.subtype.as_str()];
            let error = texts.into_iter().find(|text| !text.is_empty());
            scribe.failed(error.unwrap_or("an error"), "a record of type result");
        } else {
            scribe.turn_completed("result");
            scribe.completed("a record of type result");
        }
    }
}
