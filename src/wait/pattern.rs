//! A pattern that a wait matches against lines (pure).

use std::fmt;

use regex::Regex;

use crate::error::{Error, Result};

/// A text or a regular expression that a line must contain.
#[derive(Clone, Debug)]
pub struct Pattern(PatternKind);

#[derive(Clone, Debug)]
enum PatternKind {
    Text(String),
    Regex(Regex),
}

impl Pattern {
    /// Creates a pattern for a text anywhere in a line.
    ///
    /// # Errors
    /// `is_invalid_input()` when the text is empty or contains a line end: each line is matched on its own.
    pub fn text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() {
            return Err(Error::invalid(
                "the text is empty, which every line contains: give at least one character",
            ));
        }
        if text.contains('\n') {
            return Err(Error::invalid(
                "the text contains a line end, but each line is matched on its own: give one line",
            ));
        }
        Ok(Self(PatternKind::Text(text)))
    }

    /// Creates a pattern for a regular expression in the syntax of the `regex` crate; `^` and `$` match the
    /// ends of a line.
    ///
    /// # Errors
    /// `is_invalid_input()` when the expression is empty or invalid.
    pub fn regex(pattern: &str) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Error::invalid(
                "the expression is empty, which every line matches",
            ));
        }
        let regex = Regex::new(pattern).map_err(|cause| {
            // The message has several lines; the last one contains the reason.
            let text = cause.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            let why = last.trim_start_matches("error: ");
            Error::invalid(format!("{pattern:?} is not a regular expression: {why}"))
        })?;
        Ok(Self(PatternKind::Regex(regex)))
    }

    /// Returns true if a line has a match that ends after its first `from` bytes.
    pub(super) fn matches(&self, line: &str, from: usize) -> bool {
        match &self.0 {
            PatternKind::Text(text) => {
                // A match may begin in the known part.
                let begin = from.saturating_sub(text.len().saturating_sub(1));
                let begin = (0..=begin).rev().find(|at| line.is_char_boundary(*at));
                let begin = begin.unwrap_or(0).min(line.len());
                let mut matches = line[begin..].match_indices(text.as_str());
                matches.any(|(at, _)| begin + at + text.len() > from)
            }
            PatternKind::Regex(regex) => {
                from == 0 && regex.is_match(line)
                    || from > 0 && regex.find_iter(line).any(|found| found.end() > from)
            }
        }
    }

    /// Returns true if the end of a line matches. The beginning of the line is unknown, so `^` never matches.
    pub(super) fn matches_line_end(&self, end: &str) -> bool {
        match &self.0 {
            PatternKind::Text(text) => end.contains(text.as_str()),
            PatternKind::Regex(regex) => {
                // Represents the missing beginning with a character that is neither word nor blank.
                let unknown = char::REPLACEMENT_CHARACTER;
                regex.is_match_at(&format!("{unknown}{end}"), unknown.len_utf8())
            }
        }
    }

    /// Returns true if the pattern matches the entire text.
    pub(super) fn is_all_of(&self, text: &str) -> bool {
        match &self.0 {
            PatternKind::Text(wanted) => wanted == text,
            PatternKind::Regex(regex) => {
                let found = regex.find(text);
                found.is_some_and(|found| found.range() == (0..text.len()))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PatternKind::Text(text) => write!(f, "{text:?}"),
            PatternKind::Regex(regex) => write!(f, "/{regex}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_that_ends_in_the_new_part_counts() {
        let (text, regex) = (
            Pattern::text("abab").unwrap(),
            Pattern::regex("ab+").unwrap(),
        );
        for (line, from, has_text, has_regex) in [
            ("abab", 0, true, true),
            ("abab", 3, true, true),
            ("abab", 4, false, false),
            ("ababab", 4, true, true),
            ("üabab", 5, true, true),
            ("üabab", 1, true, true),
            ("", 0, false, false),
            ("aba", 7, false, false),
        ] {
            assert_eq!(text.matches(line, from), has_text, "{line:?} {from}");
            assert_eq!(regex.matches(line, from), has_regex, "{line:?} {from}");
        }
        assert!(Pattern::regex("^$").unwrap().matches("", 0));
    }

    #[test]
    fn the_end_of_a_line_does_not_match_its_beginning() {
        for (pattern, expected) in [("^ERROR", false), ("ERROR$", true), (r"\bERR", true)] {
            let regex = Pattern::regex(pattern).unwrap();
            assert_eq!(regex.matches_line_end("ERROR"), expected, "{pattern}");
        }
        assert!(Pattern::text("ERR").unwrap().matches_line_end("ERROR"));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for refused in [
            Pattern::text(""),
            Pattern::text("a\nb"),
            Pattern::regex("a("),
        ] {
            assert!(refused.unwrap_err().is_invalid_input());
        }
        let error = Pattern::regex("a(").unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }
}
