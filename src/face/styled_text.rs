//! A line of text with the colours and attributes of its parts, for terminals and pages (pure).

use std::ops::Range;

use crate::event::Ink;

/// A line of sanitized text with styled ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StyledText {
    pub text: String,
    /// Byte ranges in order, without overlaps.
    pub runs: Vec<(Range<usize>, Ink)>,
}

impl StyledText {
    pub fn plain(text: String, ink: Ink) -> Self {
        let end = text.len();
        let has_ink = !ink.is_plain() && end > 0;
        let runs = has_ink.then_some((0..end, ink)).into_iter().collect();
        Self { text, runs }
    }

    /// Converts text whose only escape sequences are SGR, as [`Painter`](crate::face::ansi::Painter) writes it.
    pub fn painted(painted: &str) -> Self {
        let mut line = Self::default();
        let mut ink = Ink::default();
        let mut parts = painted.split("\x1b[");
        line.push(parts.next().unwrap_or_default(), Ink::default());
        for part in parts {
            let (sgr, text) = part.split_once('m').unwrap_or(("", part));
            ink.apply(sgr);
            line.push(text, ink);
        }
        line
    }

    pub fn push(&mut self, text: &str, ink: Ink) {
        let start = self.text.len();
        self.text.push_str(text);
        if ink.is_plain() || text.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some((range, last)) if range.end == start && *last == ink => {
                range.end = self.text.len();
            }
            _ => self.runs.push((start..self.text.len(), ink)),
        }
    }

    /// Appends another line to this one.
    pub fn extend(&mut self, other: &Self) {
        let start = self.text.len();
        self.text.push_str(&other.text);
        let moved = other.runs.iter().map(|(range, ink)| {
            let range = range.start + start..range.end + start;
            (range, *ink)
        });
        self.runs.extend(moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_become_styles() {
        let line = StyledText::painted("a\x1b[1;31mb\x1b[0m c\x1b[38;5;208md\x1b[48:2::1:2:3me");
        assert_eq!(line.text, "ab cde");
        let bold_red = Ink::of("1;31");
        let orange = Ink::of("38;5;208");
        assert_eq!(
            line.runs,
            [
                (1..2, bold_red),
                (4..5, orange),
                (5..6, Ink::of("38;5;208;48;2;1;2;3"))
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_is_lost(parts in prop::collection::vec(("[a-zü漢 ]{0,5}", "[0-9;]{0,6}"), 0..9)) {
            let painted: String = parts.iter().map(|(text, sgr)| format!("{text}\x1b[{sgr}m")).collect();
            let plain: String = parts.iter().map(|(text, _)| text.as_str()).collect();
            let line = StyledText::painted(&painted);
            prop_assert_eq!(&line.text, &plain);
            let mut end = 0;
            for (range, _) in &line.runs {
                prop_assert!(range.start >= end && range.end <= plain.len());
                prop_assert!(plain.is_char_boundary(range.start) && plain.is_char_boundary(range.end));
                end = range.end;
            }
        }
    }
}
