//! Readers of answers, which process plain text, an agent's records, or an API's stream as they arrive.

mod answer;

mod agent;
mod anthropic;
mod chat;
mod sse;

use crate::agent::Format;
use crate::clock::Clock;

pub(super) use answer::AnswerReader;
#[cfg(feature = "http")]
pub(super) use anthropic::AnthropicDialect;
#[cfg(feature = "http")]
pub(super) use chat::ChatDialect;
#[cfg(feature = "http")]
pub(super) use sse::SseReader;

use sse::DetectingReader;

/// Creates a reader for output of this format.
pub(super) fn reader(format: Format, clock: &Clock) -> Box<dyn AnswerReader> {
    match format {
        Format::Sse => Box::new(DetectingReader::new(clock.clone())),
        _ => agent::reader(format, clock),
    }
}
