//! Queries for events of a log, and filters that skip lines by their bytes, so that few lines must be parsed
//! (pure).

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal};
use rustc_hash::FxHashSet;

use super::filter::{AnyOf, BlockChoice, needles_of};
use crate::error::{Error, Result};
use crate::event::{Envelope, TdEvent};
use crate::history::line::{stamp_of, type_of};
use crate::timestamp::Timestamp;

/// The maximum memory of a compiled expression; larger ones are refused.
const REGEX_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Selects events; the default selects all.
///
/// ```
/// use td_observe::history::Query;
/// let query = Query::all().kind("OutputUpdate").text("error: .*")?;
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Query {
    types: BTreeSet<String>,
    executions: BTreeSet<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    text: Option<TextQuery>,
    context: BTreeSet<String>,
    /// True if the ends of output are context.
    has_ends: bool,
    /// True if the headers of files are context.
    has_headers: bool,
}

#[derive(Clone, Debug)]
struct TextQuery {
    regex: regex::Regex,
    /// The expression that every line with a matching text matches; `None` if there is none.
    raw: Option<String>,
    /// The texts of which every such line has one of each set, unless other programs have escaped them.
    needles: Vec<AnyOf>,
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
        let raw = json_regex(&hir);
        let needles = needles_of(&hir);
        self.text = Some(TextQuery {
            regex,
            raw,
            needles,
        });
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

    /// Also returns the headers of files as context, unless the query selects all events: they name the process that
    /// writes what follows.
    #[cfg(any(feature = "report", feature = "serve", feature = "tui"))]
    pub(crate) fn headers(mut self) -> Self {
        self.has_headers = true;
        self
    }

    /// Also selects the ends of panes' output as context: they say how a program has ended whose pane is kept.
    #[cfg(feature = "report")]
    pub(crate) fn ends_of_output(mut self) -> Self {
        self.has_ends = true;
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
            && (self.text.as_ref()).is_none_or(|TextQuery { regex, .. }| {
                event.any_text(&mut |text| regex.is_match(text))
            })
    }

    /// Returns what a block of lines must have to match; `None` if this excludes no block.
    pub(super) fn block_choice(&self) -> Option<BlockChoice> {
        if self.has_ends || !self.context.iter().all(|name| is_plain(name)) {
            return None;
        }
        let quoted = |name: &str| format!("\"{name}\"").to_ascii_lowercase().into_bytes();
        let any_of = |names: &BTreeSet<String>| -> Option<AnyOf> {
            let is_known = !names.is_empty() && names.iter().all(|name| is_plain(name));
            is_known.then(|| names.iter().map(|name| quoted(name)).collect())
        };
        let texts = self.text.iter().flat_map(|text| text.needles.clone());
        let names = [any_of(&self.types), any_of(&self.executions)];
        let context = self.context.iter().map(String::as_str);
        let context = context.chain(self.has_headers.then_some(HEADER));
        let choice = BlockChoice {
            required: texts.chain(names.into_iter().flatten()).collect(),
            context: context.map(quoted).collect(),
            since: self.since,
            until: self.until,
        };
        choice.excludes().then_some(choice)
    }

    pub(super) fn is_context(&self, envelope: &Envelope) -> bool {
        match &envelope.event {
            TdEvent::LogOpened { .. } => self.has_headers,
            event => self.context.contains(event.type_name()) || self.has_ends && is_end(event),
        }
    }
}

/// The type of the headers of files.
const HEADER: &str = "LogOpened";

/// What the line of an end of output contains.
const END_OF_OUTPUT: &str = r#""is_complete"\s*:\s*true"#;

fn is_end(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::OutputUpdate {
            is_complete: true,
            ..
        }
    )
}

/// Skips lines that cannot match a query.
#[derive(Clone, Debug)]
pub(super) struct LineFilter {
    /// A line must match each of these expressions or contain a numeric escape.
    tests: Vec<regex::bytes::Regex>,
    since: Option<Vec<u8>>,
    until: Option<Vec<u8>>,
    /// Matches lines that are wanted as context, at any time.
    context: Option<regex::bytes::Regex>,
    /// Finds numeric escapes, which may represent any character.
    by_number: Finder<'static>,
    /// If only types are wanted: the types of lines in this crate's format that may match.
    by_type: Option<TypeFilter>,
}

/// Selects lines in this crate's format by the type of their event, which stands near their beginning.
#[derive(Clone, Debug)]
struct TypeFilter {
    types: FxHashSet<Vec<u8>>,
    /// Finds ends of output, if they are wanted.
    ends: Option<Finder<'static>>,
}

impl TypeFilter {
    /// Returns the filter for a query; `None` if it selects by more than types and times.
    fn of(query: &Query) -> Option<Self> {
        // One name alone is found faster than line by line.
        let is_by_type = query.types.len() > 1 && query.executions.is_empty();
        let names = query.types.iter().chain(&query.context).map(String::as_str);
        let names = names.chain(query.has_headers.then_some(HEADER));
        (is_by_type && query.text.is_none()).then(|| Self {
            types: names.map(|name| name.as_bytes().to_vec()).collect(),
            ends: (query.has_ends).then(|| Finder::new(br#""is_complete":true"#)),
        })
    }

    /// Returns true if a line may match; `None` if it is not in this crate's format.
    fn may_match(&self, line: &[u8]) -> Option<bool> {
        let name = type_of(line)?;
        let is_end = || {
            let ends = self.ends.as_ref();
            ends.is_some_and(|ends| name == b"OutputUpdate" && ends.find(line).is_some())
        };
        Some(self.types.contains(name) || is_end())
    }
}

impl LineFilter {
    /// Returns the filter for a query.
    pub(super) fn of(query: &Query) -> Self {
        let context = quoted(&query.context).filter(|_| !query.context.is_empty());
        let needs_all = !query.context.is_empty() && context.is_none();
        let ends = query.has_ends.then(|| END_OF_OUTPUT.to_owned());
        let headers = query.has_headers.then(|| format!("\"{HEADER}\""));
        let context = [context, ends, headers].into_iter().flatten();
        let context = context.reduce(|one, other| format!("{one}|{other}"));
        let or_context = |pattern: String| {
            let pattern = match &context {
                Some(context) => format!("(?:{pattern})|{context}"),
                None => pattern,
            };
            // An expression that is too large is omitted.
            let mut builder = regex::bytes::RegexBuilder::new(&pattern);
            builder.size_limit(REGEX_BYTES_MAX).build().ok()
        };
        let names = |names| quoted(names).filter(|_| !names.is_empty());
        // The most selective test comes first, so that the others see few lines.
        let tests = [
            query.text.as_ref().and_then(|text| text.raw.clone()),
            names(&query.types),
            names(&query.executions),
        ];
        Self {
            tests: if needs_all {
                Vec::new()
            } else {
                tests.into_iter().flatten().filter_map(or_context).collect()
            },
            since: query.since.map(|ts| ts.to_string().into_bytes()),
            until: query.until.map(|ts| ts.to_string().into_bytes()),
            context: context.and_then(|context| regex::bytes::Regex::new(&context).ok()),
            by_number: Finder::new(b"\\u"),
            by_type: TypeFilter::of(query),
        }
    }

    /// Calls `take` with each line of a block that may match, and with its position, in order. Omits line
    /// feeds and empty lines.
    pub(super) fn each<'a>(&self, block: &'a [u8], mut take: impl FnMut(usize, &'a [u8])) {
        if let Some(by_type) = &self.by_type {
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', block).chain([block.len()]) {
                let line = block.get(start..end).unwrap_or_default();
                let may_match = by_type.may_match(line);
                if may_match.unwrap_or_else(|| self.has_type(line)) && self.may_match(line) {
                    take(start, line);
                }
                start = end + 1;
            }
            return;
        }
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

    /// Returns true if a line passes the first test.
    fn has_type(&self, line: &[u8]) -> bool {
        let first = self.tests.first();
        first.is_none_or(|first| first.is_match(line)) || self.by_number.find(line).is_some()
    }

    /// Visits the positions where `next` finds a match and where a numeric escape is.
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
            // Continues with the next line, even if the match extends into it.
            let from = end + 1;
            if found.is_some_and(|at| at < from) {
                found = next(from);
            }
            if escaped.is_some_and(|at| at < from) {
                escaped = escape(from);
            }
        }
    }

    /// Applies the tests that are cheap for a single line.
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
        // Candidates have already passed the first test, if there is one.
        let mut tests = self.tests.iter().skip(1);
        tests.all(|test| test.is_match(line)) || self.by_number.find(line).is_some()
    }
}

/// Returns an expression for any of these names as JSON strings; `None` if JSON escapes a character in them,
/// which is left to the parser.
fn quoted(names: &BTreeSet<String>) -> Option<String> {
    if !names.iter().all(|name| is_plain(name)) {
        return None;
    }
    let quoted = names
        .iter()
        .map(|name| format!("\"{}\"", regex::escape(name)));
    Some(quoted.collect::<Vec<_>>().join("|"))
}

/// Returns `true` if JSON writes the name in only one usual form.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\"\\/".contains(&byte))
}

// A line contains a text between quotes, mostly unchanged. The expression for a line, derived from the one for
// a text, accounts for characters that JSON must or may escape. It drops conditions that only parsing can
// check (the start of a text, words, lines). It therefore matches every line whose text matches, and a few
// more. Numeric escapes (`\u001b`) may represent any character, so a line that contains one is always a
// candidate.

/// Characters that JSON writes, or may write, as two characters. All others are written unchanged or as
/// numeric escapes.
const ESCAPES: [(char, char); 8] = [
    ('"', '"'),
    ('\\', '\\'),
    ('/', '/'),
    ('\u{8}', 'b'),
    ('\u{c}', 'f'),
    ('\n', 'n'),
    ('\r', 'r'),
    ('\t', 't'),
];

/// Returns the expression for a line, in the syntax of [`regex::bytes`]; `None` if it would match
/// everything.
fn json_regex(text: &Hir) -> Option<String> {
    let raw = raw(text);
    // An expression that matches the empty line excludes nothing.
    // One without a minimum length matches only numeric escapes.
    (raw.properties().minimum_len() != Some(0)).then(|| raw.to_string())
}

fn raw(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(Literal(bytes)) => literal(bytes),
        HirKind::Class(class) => self::class(class),
        HirKind::Repetition(repetition) => Hir::repetition(repetition.with(raw(&repetition.sub))),
        HirKind::Capture(Capture { sub, .. }) => raw(sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(raw).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(raw).collect()),
    }
}

fn literal(bytes: &[u8]) -> Hir {
    // Literals of text expressions contain whole characters; other bytes impose no condition.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Hir::empty();
    };
    let mut parts = Vec::new();
    let mut plain = String::new();
    for c in text.chars() {
        // Others are written as two characters, or as numeric escapes.
        if c >= ' ' && !ESCAPES.iter().any(|(special, _)| *special == c) {
            plain.push(c);
        } else {
            parts.push(Hir::literal(std::mem::take(&mut plain).into_bytes()));
            parts.push(escaped(|other| other == c));
        }
    }
    parts.push(Hir::literal(plain.into_bytes()));
    Hir::concat(parts)
}

fn class(class: &Class) -> Hir {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(bytes) => match bytes.to_unicode_class() {
            Some(class) => class,
            // Parts of characters match no text.
            None => return Hir::fail(),
        },
    };
    let contains = |c: char| {
        class
            .ranges()
            .iter()
            .any(|range| range.start() <= c && c <= range.end())
    };
    let escapes = escaped(contains);
    let mut plain = class.clone();
    // These are never written unchanged, except for the slash.
    let controls = [ClassUnicodeRange::new('\0', '\u{1f}')];
    let special = ESCAPES.map(|(c, _)| ClassUnicodeRange::new(c, c));
    plain.difference(&ClassUnicode::new(controls.into_iter().chain(special)));
    Hir::alternation(vec![Hir::class(Class::Unicode(plain)), escapes])
}

/// Returns the two-character forms of a set of characters. Slashes may be written in both forms.
fn escaped(contains: impl Fn(char) -> bool) -> Hir {
    let chosen = ESCAPES.iter().filter(|(c, _)| contains(*c));
    let pairs = chosen.map(|(c, letter)| {
        let pair = Hir::literal(format!("\\{letter}").into_bytes());
        if *c == '/' {
            Hir::alternation(vec![Hir::literal(*b"/"), pair])
        } else {
            pair
        }
    });
    Hir::alternation(pairs.collect())
}

#[cfg(test)]
mod json_regex_tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(pattern: &str, line: &str) -> bool {
        let hir = regex_syntax::ParserBuilder::new()
            .multi_line(true)
            .build()
            .parse(pattern)
            .unwrap();
        match json_regex(&hir) {
            None => true,
            Some(raw) => {
                line.contains("\\u")
                    || regex::bytes::Regex::new(&raw)
                        .unwrap()
                        .is_match(line.as_bytes())
            }
        }
    }

    /// Returns JSON in the style of some other writers, with escaped slashes and numeric escapes.
    fn strange_json(text: &str, how: &[u8]) -> String {
        let mut out = String::from("\"");
        for (c, how) in text.chars().zip(how.iter().cycle()) {
            match (c, how % 4) {
                ('/', 0 | 1) => out.push_str("\\/"),
                (c, 0) if c.is_ascii() => out.push_str(&format!("\\u{:04X}", c as u32)),
                (c, _) => {
                    let json = serde_json::to_string(&c).unwrap();
                    out.push_str(&json[1..json.len() - 1]);
                }
            }
        }
        out.push('"');
        out
    }

    const PATTERNS: &[&str] = &[
        "a",
        "ab",
        r"a\nb",
        r#"""#,
        r"\\",
        "a.b",
        "(?s)a.b",
        "[^a]b",
        r"\s+b",
        r"^b$",
        r"\ba\b",
        "(a|/)b",
        "a{2,3}",
        r"[\x00-\x7f]b",
        "(?i)AB",
        "/",
        "[/b]a",
        r"\t|\x0c",
        r"(?-u:[a-c])b",
        "a*",
        "",
        "é+",
        r"\w\W\w",
        r"[[:punct:]]a",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// A text that matches is never skipped, whatever the style of its line.
        #[test]
        fn a_matching_text_matches_as_json(
            pattern in proptest::sample::select(PATTERNS.to_vec()),
            text in r#"[ab/\\"\n\t\x0c\x1b é]{0,8}"#,
            how in proptest::collection::vec(any::<u8>(), 1..8),
        ) {
            let regex = regex::RegexBuilder::new(pattern).multi_line(true).build().unwrap();
            if regex.is_match(&text) {
                let line = format!("{{\"seq\":1,\"text\":{}}}", strange_json(&text, &how));
                prop_assert!(candidate(pattern, &line), "{pattern:?} {text:?} {line}");
                let line = serde_json::to_string(&text).unwrap();
                prop_assert!(candidate(pattern, &line), "{pattern:?} {text:?} {line}");
            }
        }
    }

    #[test]
    fn lines_that_cannot_match_are_no_candidates() {
        for (pattern, line) in [
            ("needle", r#"{"text":"hay\n"}"#),
            (r"a\nb", r#"{"text":"a b"}"#),
            ("a.b", r#"{"text":"a\nb"}"#),
            (r#"""#, r#"{"text":"no quote in it"}"#),
            ("a[^x]b", r#"{"text":"a","more":"b"}"#),
        ] {
            assert!(!candidate(pattern, line), "{pattern}");
        }
    }
}

#[cfg(test)]
mod line_filter_tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::parse_line;

    /// Returns lines in the style of many writers.
    fn lines() -> Vec<String> {
        let mut lines: Vec<String> = [
        r#"{"seq":1,"ts":"2026-01-21T10:00:01.000001Z","event":{"type":"OutputUpdate","execution_id":"a","pane":"%1","first_line":1,"chunk":"one\ntwo \"quoted\" back\\slash\n","is_complete":false}}"#,
        r#"{"seq":2,"ts":"2026-01-21T10:00:02.000000Z","event":{"type":"OutputGap","execution_id":"a","pane":"%1","first_line":3,"reason":"cleared"}}"#,
        r#"{"seq":3,"ts":"2026-01-21T10:00:03.000000Z","event":{"type":"Warning","execution_id":"b","context":"OutputGap","message":"says \"OutputGap\""}}"#,
        r#"{"seq":4,"ts":"2026-01-21T10:00:04.000000Z","event":{"type":"FromTheFuture","execution_id":"b","deep":[{"x":["one"]}]}}"#,
        r#"{"ts":"2026-01-21T10:00:05Z","event":{"type":"LoopStarted","execution_id":"abc","loop_type":"Phase","task":"Add auth"}}"#,
        r#"{"seq": 6, "ts": "2026-01-21T10:00:06+00:00", "event": {"execution_id": "a", "type": "Warning", "context": "c", "message": "\u006fne\/two"}}"#,
        r#"{"seq":7,"ts":"2026-01-21T10:00:07.000000Z","event":{"type":"OutputRevised","execution_id":"a","pane":"%1","line":2,"text":"Été 漢字"}}"#,
        r#"{"seq":8,"ts":"2026-01-21T10:00:08.000000Z","event":{"\u0074ype":"Warning","execution_id":"a","context":"c","message":"x"}}"#,
        r#"{"seq":9,"ts":"2026-01-21T10:00:09.000000Z","event":{"type":"ScreenUpdate","execution_id":"a","pane":"%1","width":80,"height":2,"cursor":{"x":0,"y":0},"rows":[{"row":0,"text":"top"},{"row":1,"text":"one"}]}}"#,
        r#"{"seq":10,"ts":"2026-01-21T10:00:10.000000Z","event":{"type":"IterationCompleted","execution_id":"a","iteration":1,"outcome":{"ToolError":{"tool":"one","error":"boom"}}}}"#,
        r#"{"seq":11,"ts":"2026-06-30T23:59:60.000000Z","event":{"type":"Warning","execution_id":"a","context":"leap","message":"second"}}"#,
        r#"{"seq":12,"ts":"2026-01-01T10:00:00.000000Z","event":{"type":"Warning","execution_id":"a","context":"c","message":"two times"},"ts":"2026-07-01T00:00:00.000000Z"}"#,
        "broken \"OutputGap\" one",
        "",
    ]
    .map(String::from)
    .into();
        lines.push("\0\0\0".to_owned());
        lines
    }

    fn is_selected(query: &Query, line: &[u8]) -> bool {
        parse_line(line).is_ok_and(|envelope| query.wants(&envelope) || query.is_context(&envelope))
    }

    fn found(query: &Query, block: &str) -> Vec<String> {
        let mut found = Vec::new();
        LineFilter::of(query).each(block.as_bytes(), |at, line| {
            assert_eq!(&block.as_bytes()[at..at + line.len()], line);
            if is_selected(query, line) {
                found.push(String::from_utf8_lossy(line).into_owned());
            }
        });
        found
    }

    /// Returns the matching lines, found by parsing every line.
    fn expected(query: &Query, block: &str) -> Vec<String> {
        let wanted = |line: &&str| is_selected(query, line.as_bytes());
        block.split('\n').filter(wanted).map(String::from).collect()
    }

    fn queries() -> Vec<Query> {
        let ts = |text: &str| text.parse().unwrap();
        let text = |pattern: &str| Query::all().text(pattern).unwrap();
        vec![
            Query::all(),
            Query::all().kind("OutputGap"),
            Query::all().kind("Warning"),
            Query::all().kind("OutputGap").kind("FromTheFuture"),
            Query::all().kind("LoopStarted").execution("abc"),
            Query::all().execution("b"),
            Query::all().execution("a\"b"),
            Query::all().since(ts("2026-01-21T10:00:04Z")),
            Query::all()
                .until(ts("2026-01-21T10:00:06.5Z"))
                .kind("Warning"),
            Query::all()
                .since(ts("2026-01-21T10:00:07Z"))
                .until(ts("2026-01-21T10:00:07.000001Z")),
            Query::all()
                .since(ts("2026-03-01T00:00:00Z"))
                .until(ts("2026-06-30T23:59:59.5Z")),
            text("one"),
            text("^two"),
            text(r#"two "quoted""#),
            text(r"back\\slash$"),
            text("(?i)ÉTÉ"),
            text("漢.$"),
            text("^one$").kind("Warning"),
            text("one/two"),
            text("e\\nt"),
            text(""),
            text("nowhere"),
            text("boom|top"),
            text("OutputGap"),
            text("nowhere")
                .context("OutputGap")
                .context("FromTheFuture"),
            Query::all()
                .since(ts("2026-01-21T10:00:07Z"))
                .context("OutputGap"),
            Query::all().kind("Warning").context("a\"b"),
            Query::all().execution("nobody").context("LoopStarted"),
        ]
    }

    #[test]
    fn no_matching_line_is_skipped() {
        for query in queries() {
            for block in [lines().join("\n"), lines().join("\n") + "\n"] {
                assert_eq!(found(&query, &block), expected(&query, &block), "{query:?}");
            }
        }
    }

    proptest! {
        /// In any order, cut anywhere, with any text between the lines.
        #[test]
        fn no_matching_line_of_any_block_is_skipped(
            picks in proptest::collection::vec((0..15usize, any::<prop::sample::Index>(), any::<bool>()), 0..12),
        ) {
            let lines = lines();
            let cut: Vec<String> = picks
                .into_iter()
                .map(|(pick, at, whole)| {
                    let line = &lines[pick];
                    let at = line.floor_char_boundary(at.index(line.len() + 1));
                    if whole { line.clone() } else { line[..at].to_owned() }
                })
                .collect();
            let block = cut.join("\n");
            for query in queries() {
                prop_assert_eq!(found(&query, &block), expected(&query, &block), "{:?}", query);
            }
        }
    }

    #[test]
    fn few_lines_are_parsed() {
        let block = lines().join("\n");
        for (query, most) in [
            (Query::all().kind("OutputGap"), 6),
            (Query::all().text("nowhere").unwrap(), 2),
            (
                Query::all().since("2026-01-21T10:00:09Z".parse().unwrap()),
                7,
            ),
        ] {
            let mut candidates = 0;
            LineFilter::of(&query).each(block.as_bytes(), |_, _| candidates += 1);
            assert!(candidates <= most, "{query:?}: {candidates}");
        }
    }

    #[test]
    fn an_invalid_expression_is_a_one_line_error() {
        for pattern in ["(", "a{1000}{1000}{1000}", "[", r"\p{Nope}", "(?<=x)"] {
            let error = Query::all().text(pattern).unwrap_err();
            assert!(error.is_invalid_input());
            assert!(!format!("{error:?}").contains('\n'), "{error:?}");
        }
    }

    #[test]
    fn the_time_of_a_line_is_read_from_its_bytes() {
        for (line, expected) in [
            (&lines()[0], Some("2026-01-21T10:00:01.000001Z")),
            (&lines()[4], None),
            (&lines()[5], None),
            (&lines()[10], None),
            (&lines()[12], None),
        ] {
            let stamp =
                stamp_of(line.as_bytes()).map(|ts| String::from_utf8_lossy(ts).into_owned());
            assert_eq!(stamp.as_deref(), expected);
        }
    }
}
