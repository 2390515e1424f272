//! Bytes of an answer, read as they come: plain text, an agent's records, or an API's own stream.

mod agent;
mod anthropic;
mod api;
mod chat;
mod text;

use super::error::{LlmError, Why};
use super::intake::Intake;
use crate::agent::Format;
use crate::error::Error;
use crate::timestamp::Timestamp;

pub(super) use anthropic::Anthropic;
#[cfg(feature = "http")]
pub(super) use api::Api as ApiReader;
pub(super) use chat::Chat;

use api::{AnyApi, Dialect};

/// Reads one answer.
pub(super) trait Reader: Send {
    /// Takes bytes as they were read, cut anywhere; `now` dates what has no time of its own.
    ///
    /// # Errors
    /// When nothing that follows can make it whole.
    fn push(&mut self, bytes: &[u8], now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw>;

    /// The bytes have ended.
    ///
    /// # Errors
    /// When the answer is incomplete.
    fn finish(&mut self, now: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw>;

    /// Whether the answer is whole, and nothing that follows belongs to it.
    fn is_done(&self) -> bool;

    /// The last of what was printed beside the records: it may say why there are none.
    fn beside(&self) -> &str {
        ""
    }
}

/// A reader for a command that prints this.
pub(super) fn reader(format: Format) -> Box<dyn Reader> {
    match format {
        Format::Text => Box::new(text::Text::default()),
        Format::Sse => Box::new(AnyApi::default()),
        _ => Box::new(agent::Agent::new(format)),
    }
}

/// Why an answer is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub what: String,
    pub is_limit: bool,
    /// It has used up its answers.
    pub is_turns: bool,
}

impl Flaw {
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        let is_limit = says_limit(&what);
        Self {
            what,
            is_limit,
            is_turns: false,
        }
    }

    /// An agent has used up its answers.
    pub fn turns(what: impl Into<String>) -> Self {
        Self {
            is_turns: true,
            ..Self::new(what)
        }
    }

    /// The error, with more that is known of its cause.
    pub fn into_error(self, more: &str) -> LlmError {
        let why = match self.is_limit || says_limit(more) {
            _ if self.is_turns => Why::MaxTurns,
            true => Why::Limited,
            false => Why::Other,
        };
        let what = match more.is_empty() {
            true => self.what,
            false => format!("{}: {more}", self.what),
        };
        LlmError::new(why, Error::other(what))
    }
}

/// How the ends of what was paid for are worded. That something failed is known already, and does
/// not hang on these.
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

fn says_limit(text: &str) -> bool {
    let text = text.to_lowercase();
    LIMITS.iter().any(|limit| text.contains(limit))
}
