//! What is looked for in a log (pure).

use std::collections::BTreeSet;

use regex_syntax::ParserBuilder;

use super::json_regex;
use crate::error::{Error, Result};
use crate::event::{Envelope, TdEvent};
use crate::timestamp::Timestamp;

/// Memory that a compiled expression may take; the engine refuses those beyond it.
pub(super) const REGEX_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Which events are wanted; the default wants all.
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
    /// What a line must match whose text does; `None` when that is no condition.
    pub(super) raw: Option<String>,
}

impl Query {
    /// Every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only events of this type, by its tag; called again, those too. Types that this version does
    /// not know are found as well.
    pub fn kind(mut self, type_name: impl Into<String>) -> Self {
        self.types.insert(type_name.into());
        self
    }

    /// Only events of this execution; called again, those too.
    pub fn execution(mut self, id: impl Into<String>) -> Self {
        self.executions.insert(id.into());
        self
    }

    /// Only events from this time on.
    pub fn since(mut self, ts: Timestamp) -> Self {
        self.since = Some(ts);
        self
    }

    /// Only events before this time.
    pub fn until(mut self, ts: Timestamp) -> Self {
        self.until = Some(ts);
        self
    }

    /// Only events with a text that matches the expression. A text is the value of a field as it
    /// was emitted, not its JSON; `^` and `$` match at lines.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] when it is no regular expression, or one that takes too much
    /// memory.
    pub fn text(mut self, pattern: &str) -> Result<Self> {
        let invalid = |cause: String| {
            // The engine draws the place over several lines; the last says what is wrong.
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
        // Without it all lines are parsed: slower, and as right.
        let raw = json_regex::json_regex(&hir);
        self.text = Some(TextQuery { regex, raw });
        Ok(self)
    }

    /// Events of this type too, whatever else is asked for: who reads needs them to understand what
    /// is wanted, as the name of a session for its lines. Called again, those too. The reader says
    /// of each event whether it is wanted or only context.
    pub fn context(mut self, type_name: impl Into<String>) -> Self {
        self.context.insert(type_name.into());
        self
    }

    /// The expression that texts are to match.
    pub fn text_regex(&self) -> Option<&regex::Regex> {
        self.text.as_ref().map(|text| &text.regex)
    }

    /// Whether it ends before it begins.
    pub fn is_empty_span(&self) -> bool {
        self.since
            .zip(self.until)
            .is_some_and(|(since, until)| since >= until)
    }

    /// Whether it leaves nothing out.
    pub fn wants_all(&self) -> bool {
        self.types.is_empty()
            && self.executions.is_empty()
            && self.since.is_none()
            && self.until.is_none()
            && self.text.is_none()
    }

    /// Whether an event is wanted.
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
