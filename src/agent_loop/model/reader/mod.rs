//! Readers of answers: plain text, an agent's records, or an API's stream, read as they arrive.

mod agent;
mod anthropic;
mod chat;
mod sse;
mod text;

use super::error::{LlmError, LlmErrorKind};
use super::response_builder::ResponseBuilder;
use crate::agent::Format;
use crate::error::Error;
use crate::timestamp::Timestamp;

#[cfg(feature = "http")]
pub(super) use anthropic::AnthropicDialect;
#[cfg(feature = "http")]
pub(super) use chat::ChatDialect;
#[cfg(feature = "http")]
pub(super) use sse::SseReader;

use sse::DetectingReader;

/// A reader of one answer.
pub(super) trait AnswerReader: Send {
    /// Reads bytes, cut anywhere; `now` is the time of records without a timestamp.
    ///
    /// # Errors
    /// When the answer cannot become complete.
    fn push(
        &mut self,
        bytes: &[u8],
        now: Timestamp,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError>;

    /// Handles the end of the bytes.
    ///
    /// # Errors
    /// When the answer is incomplete.
    fn finish(
        &mut self,
        now: Timestamp,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError>;

    /// Returns true if the answer is complete, so that no further bytes belong to it.
    fn is_done(&self) -> bool;

    /// Returns the last text outside of records, which may explain why there are none.
    fn other_text(&self) -> &str {
        ""
    }
}

/// Messages of an API in its events.
pub(super) trait Dialect: Send {
    /// Handles an event.
    ///
    /// # Errors
    /// When the API reports a failure, or the event makes the answer incomplete.
    fn event(
        &mut self,
        event: &serde_json::Value,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError>;

    /// Handles `[DONE]`.
    fn done(&mut self, _response: &mut ResponseBuilder<'_>) {}

    /// Returns true if the answer is complete when its stream has ended.
    fn is_complete(&self) -> bool;

    /// Returns true if no further event belongs to the answer.
    fn is_done(&self) -> bool;
}

/// Creates a reader for output of this format.
pub(super) fn reader(format: Format) -> Box<dyn AnswerReader> {
    match format {
        Format::Text => Box::new(text::TextReader::default()),
        Format::Sse => Box::new(DetectingReader::default()),
        _ => Box::new(agent::AgentReader::new(format)),
    }
}

/// The error of an incomplete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerError {
    pub message: String,
    pub is_limit: bool,
    /// True if an agent has used up its answers.
    pub is_max_turns: bool,
}

impl AnswerError {
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let is_limit = mentions_limit(&message);
        Self {
            message,
            is_limit,
            is_max_turns: false,
        }
    }

    /// Creates the error of an agent that has used up its answers.
    pub fn max_turns(message: impl Into<String>) -> Self {
        Self {
            is_max_turns: true,
            ..Self::new(message)
        }
    }

    /// Converts into the error of the request, with details of its cause.
    pub fn into_error(self, details: &str) -> LlmError {
        let kind = match self.is_limit || mentions_limit(details) {
            _ if self.is_max_turns => LlmErrorKind::MaxTurns,
            true => LlmErrorKind::Limited,
            false => LlmErrorKind::Other,
        };
        let message = match details.is_empty() {
            true => self.message,
            false => format!("{}: {details}", self.message),
        };
        LlmError::new(kind, Error::other(message))
    }
}

/// Texts that announce a usage limit. They only classify errors, which are known already.
const LIMITS: &[&str] = &[
    "usage limit",
    "rate limit",
    "rate_limit",
    "hit your limit",
    "hour limit reached",
    "weekly limit reached",
    "session limit",
    "quota",
    "credit balance",
];

fn mentions_limit(text: &str) -> bool {
    let text = text.to_lowercase();
    LIMITS.iter().any(|limit| text.contains(limit))
}
