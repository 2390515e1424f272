//! Defines the lines of a view, and the patterns to search in them (pure).

use regex::{Regex, RegexBuilder};

use super::painted::StyledText;
use crate::timestamp::Timestamp;

/// The largest compiled pattern, in bytes. People type short patterns.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The position of a line, which stays the same when lines are loaded before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The number of the event in its run.
    pub seq: u64,
    /// The number of the line in its event, from 0.
    pub nth: u32,
}

/// A line of a view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ViewLine {
    pub at: Position,
    /// The time of its event.
    pub ts: Timestamp,
    pub text: StyledText,
    /// The number of a pane's line, which may be revised.
    pub number: Option<i64>,
}

/// A pattern of a search or a filter.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The pattern as typed.
    pub typed: String,
    /// True if lines without the pattern match.
    pub is_inverted: bool,
    regex: Regex,
}

impl Pattern {
    /// Parses a pattern: a regular expression, or plain text if it is invalid. A leading `!` inverts it. A
    /// pattern without capital letters ignores case. Returns `None` for an empty pattern.
    pub fn new(typed: &str) -> Option<Self> {
        let (is_inverted, pattern) = match typed.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, typed),
        };
        if pattern.is_empty() {
            return None;
        }
        let compile = |pattern: &str| {
            RegexBuilder::new(pattern)
                .case_insensitive(!pattern.chars().any(char::is_uppercase))
                .size_limit(PATTERN_BYTES_MAX)
                .build()
        };
        let regex = compile(pattern).or_else(|_| compile(&regex::escape(pattern)));
        Some(Self {
            typed: typed.to_owned(),
            is_inverted,
            regex: regex.ok()?,
        })
    }

    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text) != self.is_inverted
    }

    /// Returns the ranges of a line to mark.
    pub fn parts<'t>(&'t self, text: &'t str) -> impl Iterator<Item = std::ops::Range<usize>> + 't {
        let found = self.regex.find_iter(text).map(|found| found.range());
        found.filter(|range| !self.is_inverted && !range.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_regular_expressions_or_text() {
        for (typed, line, is_match) in [
            ("err", "An ERROR", true),
            ("Err", "An ERROR", false),
            ("e.r", "An ERROR", true),
            ("[x", "a [x] b", true),
            ("!error", "An ERROR", false),
            ("!error", "fine", true),
            ("\\d+", "42", true),
        ] {
            let pattern = Pattern::new(typed).unwrap();
            assert_eq!(pattern.matches(line), is_match, "{typed} {line}");
        }
        assert!(Pattern::new("").is_none() && Pattern::new("!").is_none());
        let parts: Vec<_> = Pattern::new("o").unwrap().parts("foo").collect();
        assert_eq!(parts, [1..2, 2..3]);
    }
}
