//! Secrets over two lines: one that the end of a line divides, and the rest of one in the following lines
//! (pure).

use super::edges::{ESCAPE, next_line};
use super::randomness::has_mixed_case;
use super::rule::{BODY_BYTES, Hide, LEAK_BYTES};
use super::scan::{Continuation, RuleMatch, RuleSet};
use super::span::Span;
use super::value::ValueCheck;

/// Minimum number of bytes of a secret before the end of the line that divides it.
const SHORT_PART: usize = 6;

impl RuleSet {
    /// Follows a secret at the end of its line into the following lines, and moves `at` to its end. Returns
    /// the state if the text ends before the end is certain.
    pub(super) fn next_lines(
        &self,
        rule: u16,
        text: &[u8],
        at: &mut usize,
        spans: &mut Vec<Span>,
    ) -> Option<Continuation> {
        if self.rules[usize::from(rule)].max != usize::MAX {
            return None;
        }
        while let Some(line) = next_line(text, *at) {
            if line.from == text.len() {
                return Some(if line.is_escaped {
                    Continuation::Escaped(rule)
                } else {
                    Continuation::Ended(rule)
                });
            }
            let end = self.run(rule, text, line.from, text.len());
            if end == line.from
                || !(line.is_escaped || self.is_likely_rest(rule, &text[line.from..end]))
            {
                return None;
            }
            spans.push(Span::new(line.from, end, rule));
            *at = end;
            if end == text.len() {
                return Some(Continuation::Secret(rule));
            }
        }
        None
    }

    /// Returns true if the text is likely to be the rest of a secret.
    pub(super) fn is_likely_rest(&self, rule: u16, run: &[u8]) -> bool {
        let rule = &self.rules[usize::from(rule)];
        run.len() >= LEAK_BYTES
            && !matches!(
                rule.check,
                ValueCheck::Plain | ValueCheck::Password | ValueCheck::Value
            )
            && (ValueCheck::Mixed.accepts(run) || has_mixed_case(run))
    }

    /// Judges a secret that has too few bytes before the end of its line.
    pub(super) fn in_two_lines(
        &self,
        number: u16,
        text: &[u8],
        start: usize,
        from: usize,
        to: usize,
    ) -> RuleMatch {
        let rule = &self.rules[usize::from(number)];
        let shown = to - if rule.hide == Hide::Body { from } else { start };
        let Some(line) = next_line(text, to).filter(|_| shown >= SHORT_PART) else {
            return RuleMatch::No;
        };
        if line.from == text.len() {
            // The line is shown before the next one arrives.
            let is_likely = shown >= LEAK_BYTES
                && rule.hide != Hide::Body
                && ValueCheck::Mixed.accepts(&text[from..to])
                && (rule.check == ValueCheck::Jwt || rule.check.accepts_beginning(&text[from..to]));
            return match is_likely {
                true => RuleMatch::Secret(Span::new(start, to, number), None),
                false => RuleMatch::NextLine(start.saturating_sub(ESCAPE)),
            };
        }
        let limit = text.len().min(line.from + BODY_BYTES);
        let end = self.run(number, text, line.from, limit);
        let joined = [&text[from..to], &text[line.from..end]].concat();
        let is_rest = line.is_escaped || self.is_likely_rest(number, &text[line.from..end]);
        if !(rule.min..=rule.max).contains(&joined.len())
            || !is_rest
            || !rule.check.accepts(&joined)
        {
            return RuleMatch::No;
        }
        let first = Span::new(to - shown, to, number);
        RuleMatch::Secret(first, Some(Span::new(line.from, end, number)))
    }
}
