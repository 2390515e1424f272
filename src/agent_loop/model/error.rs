//! Why a model gave no whole answer, and what of it had come.

use std::fmt;

use super::response::{Response, Usage};
use crate::error::Error;

/// A model that could not be asked, or whose answer is not whole.
///
/// Its text has the causes in it, and never a key.
pub struct LlmError {
    why: Why,
    error: Error,
    partial: Box<Response>,
}

/// What is asked about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Other,
    Cancelled,
    Timeout,
    Limited,
    MaxTurns,
}

impl LlmError {
    pub(super) fn new(why: Why, error: Error) -> Self {
        Self {
            why,
            error,
            partial: Box::default(),
        }
    }

    /// Anything that no question is asked about.
    pub fn other(error: Error) -> Self {
        Self::new(Why::Other, error)
    }

    /// The same, in words: for clients of your own.
    pub fn message(what: impl Into<String>) -> Self {
        Self::other(Error::other(what.into()))
    }

    /// It was cancelled.
    pub fn cancelled() -> Self {
        Self::new(Why::Cancelled, Error::gone("it was cancelled"))
    }

    /// Adds what had come.
    pub fn with_partial(mut self, partial: Response) -> Self {
        *self.partial = partial;
        self
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.why == Why::Cancelled
    }

    /// Whether a time limit was reached: of the whole, of the first byte or between two.
    pub fn is_timeout(&self) -> bool {
        self.why == Why::Timeout || self.error.is_timeout()
    }

    /// Whether a limit of use was reached, and asking again soon is of no use.
    pub fn is_limited(&self) -> bool {
        self.why == Why::Limited
    }

    /// Whether an agent that works by itself has used up its answers: what it has done is done.
    pub fn is_max_turns(&self) -> bool {
        self.why == Why::MaxTurns
    }

    /// The program that was to be run is not there.
    pub fn is_missing_program(&self) -> bool {
        self.error.is_missing_program()
    }

    /// The text that had come.
    pub fn partial(&self) -> &str {
        &self.partial.text
    }

    /// All that had come. Tools whose call was not complete are not in it.
    pub fn partial_response(&self) -> &Response {
        &self.partial
    }

    /// The tokens that were used, as far as they were told.
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
        // An event has one line for it: the causes belong there.
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Debug for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmError")
            .field("why", &self.why)
            .field("error", &self.error)
            .field("partial_bytes", &self.partial.text.len())
            .finish()
    }
}

impl std::error::Error for LlmError {}
