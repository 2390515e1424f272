//! What is looked for in a log, and how most lines are passed over without being parsed (pure).

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use regex_syntax::ParserBuilder;

use super::raw;
use crate::error::{Error, Result};
use crate::event::{Envelope, TdEvent};
use crate::stamp::Timestamp;

/// Memory that a compiled expression may take; the engine refuses those beyond it.
const REGEX_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Escapes by number may stand for any character.
const BY_NUMBER: &[u8] = b"\\u";

/// Which events are wanted; the default wants all.
///
/// ```
/// use td_observe::log::Query;
/// let query = Query::all().kind("OutputUpdate").text("error: .*")?;
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Query {
    types: BTreeSet<String>,
    executions: BTreeSet<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    text: Option<TextQuery>,
    context: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct TextQuery {
    regex: regex::Regex,
    /// What a line must match whose text does; `None` when that is no condition.
    raw: Option<String>,
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
        let raw = raw::of_json(&hir);
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

    pub(super) fn since_ts(&self) -> Option<Timestamp> {
        self.since
    }

    /// What passes lines over.
    pub(super) fn sieve(&self) -> Sieve {
        let context = quoted(&self.context).filter(|_| !self.context.is_empty());
        let or_context = |pattern: String| {
            let pattern = match &context {
                Some(context) => format!("(?:{pattern})|{context}"),
                None => pattern,
            };
            // One that is too big is no test.
            let mut builder = regex::bytes::RegexBuilder::new(&pattern);
            builder.size_limit(REGEX_BYTES_MAX).build().ok()
        };
        let names = |names| quoted(names).filter(|_| !names.is_empty());
        // The rarest first: each further one sees only the lines that passed those before.
        let tests = [
            self.text.as_ref().and_then(|text| text.raw.clone()),
            names(&self.types),
            names(&self.executions),
        ];
        let needs_all = !self.context.is_empty() && context.is_none();
        Sieve {
            tests: match needs_all {
                true => Vec::new(),
                false => tests.into_iter().flatten().filter_map(or_context).collect(),
            },
            since: self.since.map(|ts| ts.to_string().into_bytes()),
            until: self.until.map(|ts| ts.to_string().into_bytes()),
            context: context.and_then(|context| regex::bytes::Regex::new(&context).ok()),
            by_number: Finder::new(BY_NUMBER),
        }
    }
}

/// An expression for any of these names as JSON strings; `None` where one has characters that JSON
/// escapes, which is left to the parser.
fn quoted(names: &BTreeSet<String>) -> Option<String> {
    if !names.iter().all(|name| is_plain(name)) {
        return None;
    }
    let quoted = names
        .iter()
        .map(|name| format!("\"{}\"", regex::escape(name)));
    Some(quoted.collect::<Vec<_>>().join("|"))
}

/// Whether JSON has only one usual way to write a name.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\"\\/".contains(&byte))
}

/// Passes lines over that cannot match, by their bytes.
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    /// A line has something of each, or an escape by number.
    tests: Vec<regex::bytes::Regex>,
    since: Option<Vec<u8>>,
    until: Option<Vec<u8>>,
    /// What lines have that are wanted whenever they were written.
    context: Option<regex::bytes::Regex>,
    by_number: Finder<'static>,
}

impl Sieve {
    /// Calls `take` with every line of a block that may match, and its place, in order. Lines come
    /// without their line feeds, empty ones not at all.
    pub(super) fn each<'a>(&self, block: &'a [u8], mut take: impl FnMut(usize, &'a [u8])) {
        if let Some(first) = self.tests.first() {
            let next = |from| first.find_at(block, from).map(|found| found.start());
            return self.jump(block, next, take);
        }
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', block).chain([block.len()]) {
            let line = block.get(start..end).unwrap_or_default();
            if self.may_match(line) {
                take(start, line);
            }
            start = end + 1;
        }
    }

    /// Goes from place to place where `next` finds something, or where an escape by number stands.
    fn jump<'a>(
        &self,
        block: &'a [u8],
        next: impl Fn(usize) -> Option<usize>,
        mut take: impl FnMut(usize, &'a [u8]),
    ) {
        let escape = |from: usize| Some(from + self.by_number.find(block.get(from..)?)?);
        let (mut found, mut escaped) = (next(0), escape(0));
        while let Some(at) = [found, escaped].into_iter().flatten().min() {
            let before = block.get(..at).unwrap_or_default();
            let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
            let rest = block.get(start..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).map_or(block.len(), |at| start + at);
            let line = block.get(start..end).unwrap_or_default();
            if self.may_match(line) {
                take(start, line);
            }
            if end >= block.len() {
                break;
            }
            // From the next line on, whatever the match reached into.
            let from = end + 1;
            if found.is_some_and(|at| at < from) {
                found = next(from);
            }
            if escaped.is_some_and(|at| at < from) {
                escaped = escape(from);
            }
        }
    }

    /// The tests that are cheap on one line.
    fn may_match(&self, line: &[u8]) -> bool {
        if line.is_empty() {
            return false;
        }
        if (self.since.is_some() || self.until.is_some())
            && let Some(ts) = stamp_of(line)
            && (self.since.as_deref().is_some_and(|since| ts < since)
                || self.until.as_deref().is_some_and(|until| ts >= until))
            && !self
                .context
                .as_ref()
                .is_some_and(|context| context.is_match(line))
        {
            return false;
        }
        // Candidates have passed the first test, or need none.
        let mut tests = self.tests.iter().skip(1);
        tests.all(|test| test.is_match(line)) || self.by_number.find(line).is_some()
    }
}

/// The time of a line as we write it, whose bytes are in the order of time; `None` for any other
/// line, for years that are not four digits long, and for a leap second, which is read as the second
/// before it.
fn stamp_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(br#"{"seq":"#)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let rest = rest.get(digits..)?.strip_prefix(br#","ts":""#)?;
    let (ts, rest) = rest.split_at_checked("2026-01-21T10:00:01.123456Z".len())?;
    let shape = b"dddd-dd-ddTdd:dd:dd.ddddddZ";
    let fits = ts.iter().zip(shape).all(|(&byte, &shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    let is_leap = ts.get(17..19) == Some(b"60");
    (fits && !is_leap && rest.starts_with(b"\"")).then_some(ts)
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
