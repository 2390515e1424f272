//! Skips lines by their bytes, so that few lines must be parsed (pure).

use std::collections::BTreeSet;

use memchr::memmem::Finder;

use super::query::{Query, REGEX_BYTES_MAX};

/// Numeric escapes may represent any character.
const BY_NUMBER: &[u8] = b"\\u";

/// Skips lines that cannot match a query.
#[derive(Clone, Debug)]
pub(super) struct LineFilter {
    /// A line must match each of these expressions or contain a numeric escape.
    tests: Vec<regex::bytes::Regex>,
    since: Option<Vec<u8>>,
    until: Option<Vec<u8>>,
    /// Matches lines that are wanted as context, at any time.
    context: Option<regex::bytes::Regex>,
    by_number: Finder<'static>,
}

impl LineFilter {
    /// Returns the filter for a query.
    pub(super) fn of(query: &Query) -> Self {
        let context = quoted(&query.context).filter(|_| !query.context.is_empty());
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
        let needs_all = !query.context.is_empty() && context.is_none();
        Self {
            tests: match needs_all {
                true => Vec::new(),
                false => tests.into_iter().flatten().filter_map(or_context).collect(),
            },
            since: query.since.map(|ts| ts.to_string().into_bytes()),
            until: query.until.map(|ts| ts.to_string().into_bytes()),
            context: context.and_then(|context| regex::bytes::Regex::new(&context).ok()),
            by_number: Finder::new(BY_NUMBER),
        }
    }

    /// Calls `take` with each line of a block that may match, and with its position, in order. Omits line
    /// feeds and empty lines.
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

/// Returns the timestamp of a line in this crate's format, whose bytes sort by time. `None` for other lines,
/// for years without four digits, and for a leap second, which is parsed as the preceding second.
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
#[path = "line_filter_tests.rs"]
mod tests;
