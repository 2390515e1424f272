//! Interfaces of the readers of answers, and the errors of incomplete answers.

use serde_json::Value;

use super::super::error::{LlmError, LlmErrorKind};
use super::super::response_builder::ResponseBuilder;
use crate::error::Error;

/// The result of reading a part of an answer.
pub(in super::super) type ReadResult<T = ()> = Result<T, AnswerError>;

pub(in super::super) trait AnswerReader: Send {
    /// Processes bytes, cut anywhere.
    ///
    /// # Errors
    /// When the answer cannot become complete.
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult;

    /// Ends the answer.
    ///
    /// # Errors
    /// When the answer is incomplete.
    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult;

    /// Returns true if the answer is complete, so that later bytes do not belong to it.
    fn is_done(&self) -> bool;

    /// Returns the last text outside of records, which may explain a missing answer.
    fn other_text(&self) -> &str {
        ""
    }
}

/// Interprets the events of one API.
pub(in super::super) trait Dialect: Send {
    /// Processes an event.
    ///
    /// # Errors
    /// When the API reports a failure, or the event makes the answer incomplete.
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult;

    fn done(&mut self, _response: &mut ResponseBuilder<'_>) {}

    /// Returns true if the answer is complete when its stream has ended.
    fn is_complete(&self) -> bool;

    /// Returns true if later events do not belong to the answer.
    fn is_done(&self) -> bool;
}

/// Begins a tool call and returns its index in the response.
pub(super) fn begin_call(
    id: &Value,
    name: &Value,
    response: &mut ResponseBuilder<'_>,
) -> ReadResult<usize> {
    let (id, name) = (id.as_str(), name.as_str());
    response
        .begin_call(id.unwrap_or_default(), name.unwrap_or_default())
        .ok_or_else(|| AnswerError::new("the answer calls too many tools"))
}

/// Adds a piece of JSON to the input of a tool call.
pub(super) fn add_input(call: usize, json: &str, response: &mut ResponseBuilder<'_>) -> ReadResult {
    match response.add_input(call, json) {
        true => Ok(()),
        false => Err(AnswerError::new("the inputs of the tools are too long")),
    }
}

/// Sets the usage. Counts are cumulative, so the last ones are final.
pub(super) fn set_usage(
    input_tokens: &Value,
    output_tokens: &Value,
    response: &mut ResponseBuilder<'_>,
) {
    let usage = response.usage();
    usage.input_tokens = input_tokens.as_u64().unwrap_or(usage.input_tokens);
    usage.output_tokens = output_tokens.as_u64().unwrap_or(usage.output_tokens);
}

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

    /// Converts to the error of the request, with details of the cause.
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

/// Texts that indicate a usage limit. They only classify texts that are known to be errors.
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
