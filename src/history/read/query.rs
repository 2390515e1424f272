//! A query for events of a log (pure).

use std::collections::BTreeSet;

use regex_syntax::ParserBuilder;

use super::json_regex;
use crate::error::{Error, Result};
use crate::event::{Envelope, TdEvent};
use crate::timestamp::Timestamp;

/// The maximum memory of a compiled expression; larger ones are refused.
pub(super) const REGEX_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Selects events; the default selects all.
///
/// ```
/// use td_observe::history::Query;
/// let query = Query::all().kind("OutputUpdate").text("error: .*")?;
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub(super) types: BTreeSet<String>,
    pub(super) executions: BTreeSet<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) text: Option<TextQuery>,
    pub(super) context: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(super) struct TextQuery {
    regex: regex::Regex,
    /// The expression that every line with a matching text matches; `None` if there is none.
    pub(super) raw: Option<String>,
}

impl Query {
    /// Selects every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects events of this type, by its tag; further calls add types. The type may be unknown to this
    /// version.
    pub fn kind(mut self, type_name: impl Into<String>) -> Self {
        self.types.insert(type_name.into());
        self
    }

    /// Selects events of this execution; further calls add executions.
    pub fn execution(mut self, id: impl Into<String>) -> Self {
        self.executions.insert(id.into());
        self
    }

    /// Selects events at or after this time.
    pub fn since(mut self, ts: Timestamp) -> Self {
        self.since = Some(ts);
        self
    }

    /// Selects events before this time.
    pub fn until(mut self, ts: Timestamp) -> Self {
        self.until = Some(ts);
        self
    }

    /// Selects events with a text that matches the expression. A text is the value of a field as it was
    /// emitted, not its JSON; `^` and `$` match at line boundaries.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] if this is not a regular expression or takes too much memory.
    pub fn text(mut self, pattern: &str) -> Result<Self> {
        let invalid = |cause: String| {
            // The error message marks the position over several lines; its last line states the error.
            let why = cause.lines().last().unwrap_or_default().trim();
            let why = why.strip_prefix("error: ").unwrap_or(why);
            Error::invalid(format!("not a regular expression: {pattern:?}: {why}"))
        };
        let regex = regex::RegexBuilder::new(pattern)
            .multi_line(true)
            .size_limit(REGEX_BYTES_MAX)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let hir = ParserBuilder::new()
            .multi_line(true)
            .build()
            .parse(pattern)
            .map_err(|error| invalid(error.to_string()))?;
        // Without it, all lines are parsed, which is slower but correct.
        let raw = json_regex::json_regex(&hir);
        self.text = Some(TextQuery { regex, raw });
        Ok(self)
    }

    /// Selects events with any text.
    pub fn any_text(mut self) -> Self {
        self.text = None;
        self
    }

    /// Also selects events of this type as context, regardless of the rest of the query. Readers need them to
    /// interpret the wanted events; for example, the name of a session for its lines. Further calls add
    /// types. Each record states if it is wanted or context.
    pub fn context(mut self, type_name: impl Into<String>) -> Self {
        self.context.insert(type_name.into());
        self
    }

    /// Returns the expression for texts.
    #[cfg(any(feature = "cli", feature = "internals"))]
    pub(crate) fn text_regex(&self) -> Option<&regex::Regex> {
        self.text.as_ref().map(|text| &text.regex)
    }

    /// Returns `true` if the time span ends before it begins.
    #[cfg(feature = "cli")]
    pub(crate) fn is_empty_span(&self) -> bool {
        self.since
            .zip(self.until)
            .is_some_and(|(since, until)| since >= until)
    }

    /// Returns `true` if the query matches all events.
    pub fn wants_all(&self) -> bool {
        self.types.is_empty()
            && self.executions.is_empty()
            && self.since.is_none()
            && self.until.is_none()
            && self.text.is_none()
    }

    /// Returns `true` if the query matches an event.
    pub fn wants(&self, envelope: &Envelope) -> bool {
        let event = &envelope.event;
        (self.types.is_empty() || self.types.contains(event.type_name()))
            && (self.executions.is_empty() || self.executions.contains(event.execution_id()))
            && self.since.is_none_or(|since| envelope.ts >= since)
            && self.until.is_none_or(|until| envelope.ts < until)
            && self.text_matches(event)
    }

    pub(super) fn is_context(&self, envelope: &Envelope) -> bool {
        self.context.contains(envelope.event.type_name())
    }

    fn text_matches(&self, event: &TdEvent) -> bool {
        let Some(TextQuery { regex, .. }) = &self.text else {
            return true;
        };
        event.any_text(&mut |text| regex.is_match(text))
    }
}
