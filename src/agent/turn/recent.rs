//! Keeps the last lines of a pane by number, to decide whether a marker among them ends a turn (pure).

use std::collections::BTreeMap;

use crate::agent::decoration::{BareLine, LineKind, bare_line};
use crate::agent::summary::summary;
use crate::text::first_chars;

/// The number of lines to keep: more than a user is likely to type in one prompt.
const LINES_MAX: usize = 400;

/// The maximum number of characters of a line.
const LINE_CHARS_MAX: usize = 1000;

/// The number of letters and digits that identify a place in the text. Answers may end alike.
const CONTEXT_CHARS: usize = 400;

/// The number of letters that suffice if a screen is redrawn from the middle of the text.
const SIGNIFICANT_CHARS: usize = 16;

/// The number of letters that suffice if a line moves because others are inserted above it.
const NEAR_CHARS: usize = 4;

/// The last lines, settled or open.
#[derive(Debug, Default)]
pub(super) struct RecentLines {
    lines: BTreeMap<i64, RecentLine>,
}

#[derive(Debug)]
struct RecentLine {
    text: String,
    /// The index of the marker, if the line consists of one.
    marker: Option<usize>,
}

/// The letters and digits before a marker, the nearest first. Blanks, edges and line breaks are
/// left out, so that a resize does not change the context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkerContext {
    nearest: Vec<char>,
    /// True if unknown text may precede the context.
    is_cut: bool,
}

impl MarkerContext {
    /// Returns true if the contexts may belong to the same place.
    pub fn is_same(&self, other: &Self) -> bool {
        let (own, others) = (self.nearest.len(), other.nearest.len());
        let known = match self.is_cut || other.is_cut {
            true => own.min(others),
            false => own.max(others),
        };
        self.common_chars(other) >= known
    }

    /// Returns true if a cut context is long enough to be compared.
    pub fn is_significant(&self) -> bool {
        self.nearest.len() >= SIGNIFICANT_CHARS
    }

    /// Returns true if the text directly before the marker is the same.
    pub fn is_near(&self, other: &Self) -> bool {
        let known = self.nearest.len().min(other.nearest.len());
        self.common_chars(other) >= known.min(NEAR_CHARS)
    }

    fn common_chars(&self, other: &Self) -> usize {
        let pairs = self.nearest.iter().zip(&other.nearest);
        pairs.take_while(|(a, b)| a == b).count()
    }
}

impl RecentLines {
    /// Sets a line. `marker` is the index of the marker, if the line consists of one.
    pub fn set(&mut self, number: i64, text: &str, marker: Option<usize>) {
        let text = first_chars(text, LINE_CHARS_MAX).to_owned();
        self.lines.insert(number, RecentLine { text, marker });
        while self.lines.len() > LINES_MAX {
            self.lines.pop_first();
        }
    }

    /// Returns true if a line belongs to typed input: below a prompt, with a deeper indent.
    pub fn is_input(&self, number: i64) -> bool {
        let Some(line) = self.lines.get(&number).map(|line| bare_line(&line.text)) else {
            return false;
        };
        if line.kind == LineKind::Bullet {
            return false;
        }
        let mut indent = line.indent;
        for BareLine {
            indent: own, kind, ..
        } in self.above(number).map(|line| bare_line(&line.text))
        {
            match kind {
                LineKind::Blank => {}
                LineKind::Input => return indent > own,
                LineKind::Rule | LineKind::Bullet => return false,
                LineKind::Text => indent = indent.min(own),
            }
            if indent == 0 {
                return false;
            }
        }
        false
    }

    /// Returns the context of a line, back to the previous marker or to the line `from`.
    pub fn context(&self, number: i64, from: i64) -> MarkerContext {
        let mut context = MarkerContext {
            nearest: Vec::new(),
            is_cut: true,
        };
        let near = usize::try_from(number.saturating_sub(from)).unwrap_or(0);
        for line in self.above(number).take(near) {
            if line.marker.is_some() {
                context.is_cut = false;
                break;
            }
            let text = bare_line(&line.text).text;
            let room = CONTEXT_CHARS - context.nearest.len();
            let chars = text.chars().rev().filter(|c| c.is_alphanumeric());
            context.nearest.extend(chars.take(room));
            if context.nearest.len() >= CONTEXT_CHARS {
                context.is_cut = false;
                break;
            }
        }
        context
    }

    /// Returns the last paragraph before a line, as a summary.
    pub fn summary(&self, number: i64) -> String {
        let mut paragraph: Vec<&str> = Vec::new();
        for line in self.above(number) {
            let BareLine { kind, text, .. } = bare_line(&line.text);
            match kind {
                _ if line.marker.is_some() => break,
                LineKind::Blank | LineKind::Rule if paragraph.is_empty() => {}
                LineKind::Blank | LineKind::Rule | LineKind::Input => break,
                LineKind::Bullet | LineKind::Text => paragraph.push(text),
            }
            if kind == LineKind::Bullet {
                break;
            }
        }
        paragraph.reverse();
        summary(&paragraph.join(" "))
    }

    /// Removes all lines from this number on.
    pub fn cut(&mut self, end: i64) {
        self.lines.split_off(&end);
    }

    pub fn is_marker(&self, number: i64) -> bool {
        let line = self.lines.get(&number);
        line.is_some_and(|line| line.marker.is_some())
    }

    /// Returns the number after the last line.
    pub fn end(&self) -> i64 {
        self.lines.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Returns the numbers of marker lines with the indexes of their markers.
    pub fn markers(&self) -> impl Iterator<Item = (i64, usize)> + '_ {
        let markers = self.lines.iter();
        markers.filter_map(|(number, line)| Some((*number, line.marker?)))
    }

    /// Returns the consecutive lines above a line, the nearest first.
    fn above(&self, number: i64) -> impl Iterator<Item = &RecentLine> {
        let mut expected = number;
        self.lines
            .range(..number)
            .rev()
            .take_while(move |(number, _)| {
                expected -= 1;
                **number == expected
            })
            .map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(lines: &[&str]) -> RecentLines {
        let mut lines_of = RecentLines::default();
        for (number, text) in (1..).zip(lines) {
            lines_of.set(number, text, (*text == "END").then_some(0));
        }
        lines_of
    }

    #[test]
    fn typed_input_continues_with_a_deeper_indent() {
        for (lines, is_input) in [
            (&["> please say", "  END"][..], true),
            (&["> please", "", "  more", "  END"], true),
            (&["│ > please   │", "│   END      │"], true),
            (&["> please", "END"], false),
            (&["> please", "  more", "answer", "  END"], false),
            (&["> please", "", "⏺ answer", "  END"], false),
            (&["> please", "  ⏺ END"], false),
            (&["│ > please │", "│ END │"], false),
            (&["│ > please │", "╰──────────╯", "   END"], false),
            (&["no prompt", "  END"], false),
            (&["  END"], false),
        ] {
            let last = lines.len() as i64;
            assert_eq!(lines_of(lines).is_input(last), is_input, "{lines:?}");
        }
    }

    #[test]
    fn a_context_ignores_line_breaks() {
        let one = lines_of(&["⏺ The answer is 42, of course.", "", "END"]).context(3, 1);
        let two =
            lines_of(&["│ ⏺ The answer │", "│ is 42, of   │", "│ course.  │", "END"]).context(4, 1);
        let other = lines_of(&["⏺ The answer is 43, of course.", "END"]).context(2, 1);
        assert!(one.is_same(&two) && !one.is_same(&other));
        let short = lines_of(&["END", "Done.", "END"]);
        assert!(
            !short
                .context(3, 1)
                .is_same(&lines_of(&["END", "END"]).context(2, 1))
        );
    }

    #[test]
    fn the_summary_is_the_last_paragraph() {
        for (lines, summary) in [
            (
                &["a", "", "⏺ I have done", "  all of it.", "", "END"][..],
                "I have done all of it.",
            ),
            (&["END", "END"], ""),
            (&["> ask", "END"], ""),
            (&["first", "second", "END"], "first second"),
        ] {
            assert_eq!(lines_of(lines).summary(lines.len() as i64), summary);
        }
        let long = "ä ".repeat(400);
        let summary = lines_of(&[&long, "END"]).summary(2);
        assert!(summary.ends_with('…') && summary.chars().count() <= 201);
    }

    #[test]
    fn memory_is_bounded() {
        let mut lines_of = RecentLines::default();
        for number in 0..10_000 {
            lines_of.set(number, &"ä".repeat(5_000), None);
        }
        assert_eq!(lines_of.lines.len(), LINES_MAX);
        assert!(
            lines_of
                .lines
                .values()
                .all(|line| line.text.chars().count() <= LINE_CHARS_MAX)
        );
    }
}
