//! What a wait looks for in a line (pure).

use std::fmt;

use regex::Regex;

use crate::error::{Error, Result};

/// A text or a regular expression that a line is to contain.
#[derive(Clone, Debug)]
pub struct Pattern(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Text(String),
    Regex(Regex),
}

impl Pattern {
    /// This text, anywhere in a line.
    ///
    /// # Errors
    /// `is_invalid_input()` when it is empty, or has a line end: lines are looked at one by one.
    pub fn text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() {
            return Err(Error::invalid("an empty text is in every line: give some"));
        }
        if text.contains('\n') {
            return Err(Error::invalid(
                "the text has a line end, and lines are looked at one by one: give one line",
            ));
        }
        Ok(Self(Kind::Text(text)))
    }

    /// A regular expression, in the syntax of the `regex` crate; `^` and `$` are a line's.
    ///
    /// # Errors
    /// `is_invalid_input()` when it is none.
    pub fn regex(pattern: &str) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Error::invalid("an empty expression is in every line"));
        }
        let regex = Regex::new(pattern).map_err(|cause| {
            // The text has a picture of several lines: its last line says what is wrong.
            let text = cause.to_string();
            let last = text.lines().last().unwrap_or_default().trim().to_owned();
            Error::invalid(format!("{pattern:?} is no regular expression: {last}"))
        })?;
        Ok(Self(Kind::Regex(regex)))
    }

    /// Whether it stands in the line and ends behind the first `from` bytes of it.
    pub(super) fn is_in(&self, line: &str, from: usize) -> bool {
        match &self.0 {
            Kind::Text(text) => {
                // One that begins in what was there and ends in what is new is new.
                let begin = from.saturating_sub(text.len().saturating_sub(1));
                let begin = (0..=begin).rev().find(|at| line.is_char_boundary(*at));
                let rest = &line[begin.unwrap_or(0).min(line.len())..];
                rest.match_indices(text.as_str())
                    .any(|(at, _)| begin.unwrap_or(0) + at + text.len() > from)
            }
            Kind::Regex(regex) => {
                from == 0 && regex.is_match(line)
                    || from > 0 && regex.find_iter(line).any(|found| found.end() > from)
            }
        }
    }
}

impl Pattern {
    /// Whether it stands in the end of a line whose beginning is not known: that is nowhere `^`.
    pub(super) fn is_in_end(&self, end: &str) -> bool {
        match &self.0 {
            Kind::Text(text) => end.contains(text.as_str()),
            Kind::Regex(regex) => {
                // Stands for what is missing; no word and no blank, as little as can be said.
                let unknown = char::REPLACEMENT_CHARACTER;
                regex.is_match_at(&format!("{unknown}{end}"), unknown.len_utf8())
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Text(text) => write!(f, "{text:?}"),
            Kind::Regex(regex) => write!(f, "/{regex}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_in_the_new_part_is_new() {
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
            assert_eq!(text.is_in(line, from), has_text, "{line:?} {from}");
            assert_eq!(regex.is_in(line, from), has_regex, "{line:?} {from}");
        }
        assert!(Pattern::regex("^$").unwrap().is_in("", 0));
    }

    #[test]
    fn the_end_of_a_line_has_no_beginning() {
        for (pattern, is_in) in [("^ERROR", false), ("ERROR$", true), (r"\bERR", true)] {
            let regex = Pattern::regex(pattern).unwrap();
            assert_eq!(regex.is_in_end("ERROR"), is_in, "{pattern}");
        }
        assert!(Pattern::text("ERR").unwrap().is_in_end("ERROR"));
    }

    #[test]
    fn nonsense_is_refused() {
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
