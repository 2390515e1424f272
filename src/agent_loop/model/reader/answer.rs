//! A reader of one answer, the messages of an API in it, and the errors of an incomplete answer.

use super::super::error::{LlmError, LlmErrorKind};
use super::super::response_builder::ResponseBuilder;
use crate::error::Error;
use crate::timestamp::Timestamp;

/// A reader of one answer.
pub(in super::super) trait AnswerReader: Send {
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
pub(in super::super) trait Dialect: Send {
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

/// The error of an incomplete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct AnswerError {
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
