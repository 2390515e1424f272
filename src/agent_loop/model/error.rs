//! The error of a model: the reason why an answer is missing or incomplete, and the partial answer.

use std::fmt;

use super::response::{Response, Usage};
use crate::error::Error;

/// The error of a request whose answer is missing or incomplete.
///
/// The text of the error includes its causes, but never a key.
pub struct LlmError {
    kind: LlmErrorKind,
    error: Error,
    partial: Box<Response>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LlmErrorKind {
    Other,
    Cancelled,
    Timeout,
    Limited,
    MaxTurns,
}

impl LlmError {
    pub(super) fn new(kind: LlmErrorKind, error: Error) -> Self {
        Self {
            kind,
            error,
            partial: Box::default(),
        }
    }

    /// Creates an error of no particular kind.
    pub fn other(error: Error) -> Self {
        Self::new(LlmErrorKind::Other, error)
    }

    /// Creates an error with this message, for other implementations of a client.
    pub fn message(message: impl Into<String>) -> Self {
        Self::other(Error::other(message.into()))
    }

    /// Creates the error of a cancelled request.
    pub fn cancelled() -> Self {
        Self::new(
            LlmErrorKind::Cancelled,
            Error::gone("the request was cancelled"),
        )
    }

    /// Adds the partial answer.
    pub fn with_partial(mut self, partial: Response) -> Self {
        *self.partial = partial;
        self
    }

    /// Returns true if the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.kind == LlmErrorKind::Cancelled
    }

    /// Returns true if a timeout expired: for the whole answer, its first byte, or between two bytes.
    pub fn is_timeout(&self) -> bool {
        self.kind == LlmErrorKind::Timeout || self.error.is_timeout()
    }

    /// Returns true if a usage limit was reached, so that an early retry cannot succeed.
    pub fn is_limited(&self) -> bool {
        self.kind == LlmErrorKind::Limited
    }

    /// Returns true if an agent that works on its own has used up its answers; its changes are kept.
    pub fn is_max_turns(&self) -> bool {
        self.kind == LlmErrorKind::MaxTurns
    }

    /// Returns true if the program is not installed.
    pub fn is_missing_program(&self) -> bool {
        self.error.is_missing_program()
    }

    /// Returns the text of the partial answer.
    pub fn partial(&self) -> &str {
        &self.partial.text
    }

    /// Returns the partial answer, without incomplete tool calls.
    pub fn partial_response(&self) -> &Response {
        &self.partial
    }

    /// Returns the number of used tokens, if it was reported.
    pub fn usage(&self) -> Usage {
        self.partial.usage
    }
}

impl From<Error> for LlmError {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

impl From<LlmError> for Error {
    fn from(error: LlmError) -> Self {
        error.error
    }
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An event shows an error in a single line, so the text includes the causes.
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Debug for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmError")
            .field("kind", &self.kind)
            .field("error", &self.error)
            .field("partial_bytes", &self.partial.text.len())
            .finish()
    }
}

impl std::error::Error for LlmError {}

pub(super) type ReadResult<T = ()> = Result<T, AnswerError>;

/// The reason why an answer is incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerError {
    pub message: String,
    pub kind: LlmErrorKind,
}

impl AnswerError {
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let kind = match mentions_limit(&message) {
            true => LlmErrorKind::Limited,
            false => LlmErrorKind::Other,
        };
        Self { message, kind }
    }

    /// Creates the error of an agent that has used up its answers.
    pub fn max_turns(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: LlmErrorKind::MaxTurns,
        }
    }

    /// Converts to the error of the request, with details of the cause.
    pub fn into_error(self, details: &str) -> LlmError {
        let kind = match self.kind {
            LlmErrorKind::Other if mentions_limit(details) => LlmErrorKind::Limited,
            kind => kind,
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
