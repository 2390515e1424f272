//! Patterns of searches and filters, as people type them (pure).

use regex::{Regex, RegexBuilder};

/// A pattern of a search or a filter.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The pattern as typed.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
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
                // People type short patterns.
                .size_limit(1 << 20)
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
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
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
