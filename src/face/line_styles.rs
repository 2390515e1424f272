//! Keeps the colours of a pane's lines by line number (pure).

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use crate::event::{Style, Styles};
use crate::face::ansi::RESET;
use crate::face::sanitize::push_sanitized_at;

/// The maximum number of lines to keep: programs rewrite only lines on their screen, which has fewer.
pub(super) const LINES_MAX: usize = 300;

#[derive(Debug, Default)]
pub(super) struct LineStyles(BTreeMap<i64, Vec<Style>>);

impl LineStyles {
    /// Sets the styles of `lines` lines from `first_line` on.
    pub fn set(&mut self, first_line: i64, lines: i64, styles: &Styles) {
        if self.0.is_empty() && styles.is_empty() {
            return;
        }
        let end = first_line.saturating_add(lines);
        let old: Vec<i64> = self
            .0
            .range(first_line..end)
            .map(|(line, _)| *line)
            .collect();
        for line in old {
            self.0.remove(&line);
        }
        for style in styles.as_slice().iter().filter(|style| style.is_valid()) {
            let line = first_line.saturating_add(i64::from(style.line));
            if line < end {
                self.0.entry(line).or_default().push(style.clone());
            }
        }
    }

    /// Drops the styles of the oldest lines, which are not written again.
    pub fn truncate(&mut self) {
        while self.0.len() > LINES_MAX {
            self.0.pop_first();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the line for display in its colours, reset at its end. Returns `None` for a line without
    /// styles, or with styles that do not fit its text.
    pub fn paint(&self, line: i64, text: &str) -> Option<String> {
        let styles = self.0.get(&line)?;
        let mut out = String::with_capacity(2 * text.len());
        let (mut column, mut done) = (0, 0);
        let mut positions = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        // Returns the byte position of a character. The calls must have ascending numbers.
        let (mut position, mut number) = (positions.next()?, 0);
        let mut at = |char: u32| {
            while number < char {
                position = positions.next()?;
                number += 1;
            }
            (number == char).then_some(position)
        };
        for style in styles {
            let (from, to) = (at(style.from)?, at(style.to)?);
            let plain = text.get(done..from)?;
            push(&mut out, plain, &mut column);
            for part in ["\x1b[", &style.sgr, "m"] {
                out.push_str(part);
            }
            push(&mut out, text.get(from..to)?, &mut column);
            out.push_str(RESET);
            done = to;
        }
        push(&mut out, &text[done..], &mut column);
        Some(out)
    }
}

fn push(out: &mut String, text: &str, column: &mut usize) {
    let before = out.len();
    push_sanitized_at(out, text, *column);
    *column += out[before..].width();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::face::sanitize::push_sanitized;
    use crate::face::sanitize::tests::nasty;

    fn style(from: u32, to: u32, sgr: &str) -> Style {
        Style {
            line: 0,
            from,
            to,
            sgr: sgr.to_owned(),
        }
    }

    fn painted(text: &str, styles: Vec<Style>) -> Option<String> {
        let mut line_styles = LineStyles::default();
        line_styles.set(7, 1, &Styles::new(styles));
        line_styles.paint(7, text)
    }

    #[test]
    fn only_styled_text_is_painted() {
        let styles = vec![style(0, 3, "31"), style(5, 6, "1;4")];
        assert_eq!(
            painted("röd plain", styles).unwrap(),
            "\x1b[31mröd\x1b[0m p\x1b[1;4ml\x1b[0main"
        );
        // Tab stops depend on the beginning of the line.
        assert_eq!(
            painted("ab\tc", vec![style(1, 4, "7")]).unwrap(),
            "a\x1b[7mb      c\x1b[0m"
        );
    }

    #[test]
    fn styles_that_do_not_fit_are_not_painted() {
        for styles in [
            vec![style(2, 9, "31")],
            vec![style(1, 3, "31"), style(0, 2, "32")],
            vec![style(0, 1, "31m\x1b]2;x\x07")],
            vec![style(2, 2, "31")],
        ] {
            assert_eq!(painted("text", styles.clone()), None, "{styles:?}");
        }
    }

    #[test]
    fn a_rewritten_line_has_only_its_new_colours() {
        let mut line_styles = LineStyles::default();
        line_styles.set(7, 2, &Styles::new(vec![style(0, 1, "31")]));
        line_styles.set(6, 3, &Styles::default());
        assert!(line_styles.is_empty());
        let many: Vec<Style> = (0..1000)
            .map(|line| Style {
                line,
                ..style(0, 1, "31")
            })
            .collect();
        line_styles.set(1, 1000, &Styles::new(many));
        line_styles.truncate();
        assert!(line_styles.paint(1000, "x").is_some() && line_styles.paint(700, "x").is_none());
    }

    proptest! {
        /// Painting adds only the styles, and a reset for each.
        #[test]
        fn paint_changes_no_text(
            text in nasty(),
            runs in prop::collection::vec((0_u32..9, 0_u32..9, "[0-9;:m\x1b]{0,5}"), 0..5),
        ) {
            let mut at = 0;
            let styles: Vec<Style> = runs.into_iter().map(|(skip, length, sgr)| {
                let from = at + skip;
                at = from + length;
                Style { line: 0, from, to: at, sgr }
            }).collect();
            let valid = styles.iter().filter(|style| style.is_valid()).count();
            let mut plain = String::new();
            push_sanitized(&mut plain, &text.replace('\t', " "));
            if let Some(painted) = painted(&text.replace('\t', " "), styles.clone()) {
                let mut without = painted.replace(RESET, "");
                for style in styles.iter().filter(|style| style.is_valid()) {
                    without = without.replacen(&format!("\x1b[{}m", style.sgr), "", 1);
                }
                prop_assert_eq!(without, plain);
                prop_assert_eq!(painted.matches(RESET).count() >= valid, true);
            }
        }
    }
}
