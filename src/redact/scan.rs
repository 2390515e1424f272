//! Scans a piece of text for secrets, and returns the state that the next piece needs (pure).

use super::block::Block;
use super::finder::Finder;
use super::marker::{MARKER, marker_len};
use super::rule::{BACK, BODY_BYTES, Hide, LEAD_MAX, LEAK_BYTES, Rule};
use super::span::{Span, TextEnd};
use crate::error::{Error, Result};

/// Bytes of a text's end that are kept after a keyword: a truncated lead, and the part of its secret
/// that may be shown before the secret is recognized.
const KEEP: usize = LEAD_MAX + 2 * LEAK_BYTES;

/// Bytes examined before a keyword: the lead's beginning, and an escape before it.
const BEFORE: usize = BACK + ESCAPE;
/// Maximum length of an escape sequence directly before a lead, whose last letter is no letter of a word.
const ESCAPE: usize = 12;

/// The state at a text's end that affects the text that follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Continuation {
    /// No open secret or block; the kept text suffices.
    #[default]
    None,
    /// The text ended within a secret of this rule.
    Secret(u16),
    /// The text ended within a block of this rule.
    Block(u16, Block),
}

/// All rules, with the finder of their keywords.
#[derive(Debug)]
pub(super) struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) finder: Finder,
}

/// The result of [`RuleSet::scan`] for the text that follows.
#[derive(Debug)]
pub(super) struct ScanRest {
    pub(super) open: Continuation,
    /// The position from which the text must be scanned again, together with what follows.
    pub(super) keep: usize,
}

enum RuleMatch {
    No,
    /// Undecided until more text follows: the lead begins here.
    Undecided(usize),
    Secret(Span),
    /// A block begins after its lead, at this position.
    Block(usize),
}

impl RuleSet {
    pub(super) fn new(rules: Vec<Rule>) -> Result<Self> {
        if rules.len() > usize::from(u16::MAX) {
            return Err(Error::invalid("there are too many rules"));
        }
        let finder = Finder::new(&rules)?;
        Ok(Self { rules, finder })
    }

    /// Returns the bytes of clean text that must be kept: a keyword's length less one, and the bytes
    /// that may precede it.
    pub(super) fn seam(&self) -> usize {
        (self.finder.longest + BEFORE).saturating_sub(1)
    }

    pub(super) fn marker(&self, rule: u16) -> &str {
        &self.rules[usize::from(rule)].marker
    }

    /// Scans a text whose beginning continues `open`; adds secret spans, in order.
    pub(super) fn scan(
        &self,
        text: &[u8],
        open: Continuation,
        end: TextEnd,
        spans: &mut Vec<Span>,
    ) -> ScanRest {
        let mut at = 0;
        match open {
            Continuation::None => {}
            Continuation::Secret(rule) => {
                at = self.run(rule, text, 0, text.len());
                add(spans, 0, at, rule);
                if at == text.len() {
                    let open = Continuation::Secret(rule);
                    return ScanRest { open, keep: at };
                }
            }
            Continuation::Block(rule, mut block) => match block.take(text, 0, rule, spans) {
                Some(end) => at = end,
                None => {
                    let open = Continuation::Block(rule, block);
                    let keep = text.len();
                    return ScanRest { open, keep };
                }
            },
        }
        let begin = at;
        let mut keep = text.len().saturating_sub(self.seam());
        while let Some((hit, rules)) = self.finder.find(text, at) {
            let mut next = hit.start + 1;
            if hit.start + KEEP >= text.len() {
                keep = keep.min(hit.start.saturating_sub(BEFORE));
            }
            for &rule in rules {
                match self.match_rule(rule, text, &hit, begin, end) {
                    RuleMatch::No => {}
                    RuleMatch::Undecided(start) => keep = keep.min(start),
                    RuleMatch::Secret(span) => {
                        add(spans, span.start, span.end, rule);
                        if span.end == text.len() {
                            let open = Continuation::Secret(rule);
                            return ScanRest {
                                open,
                                keep: span.end,
                            };
                        }
                        next = span.end.max(next);
                        break;
                    }
                    RuleMatch::Block(start) => {
                        let mut block = Block::default();
                        match block.take(text, start, rule, spans) {
                            Some(end) => next = end.max(next),
                            None => {
                                let open = Continuation::Block(rule, block);
                                let keep = text.len();
                                return ScanRest { open, keep };
                            }
                        }
                        break;
                    }
                }
            }
            at = next;
        }
        // The rest of an earlier secret is not scanned again, nor are complete lines.
        let line = memchr::memrchr(b'\n', text).map_or(0, |newline| newline + 1);
        let keep = keep.max(begin).max(line);
        let open = Continuation::None;
        ScanRest { open, keep }
    }

    /// Returns the end of a secret's body that begins at `from`, at most `to`.
    fn run(&self, rule: u16, text: &[u8], from: usize, to: usize) -> usize {
        let body = &self.rules[usize::from(rule)].body;
        let mut at = from;
        while at < to && body[usize::from(text[at])] {
            if text[at] == b'[' && marker_len(&text[at..]).is_some() {
                break;
            }
            at += 1;
        }
        at
    }

    fn match_rule(
        &self,
        number: u16,
        text: &[u8],
        hit: &std::ops::Range<usize>,
        begin: usize,
        end: TextEnd,
    ) -> RuleMatch {
        let rule = &self.rules[usize::from(number)];
        if !rule.may_end(&text[hit.end..], end) {
            return RuleMatch::No;
        }
        let Some((start, from)) = rule.lead_at(text, hit) else {
            return RuleMatch::No;
        };
        // Redacted text is no part of another secret.
        if start < begin || (rule.word && in_word(text, start)) || in_marker(text, start, from) {
            return RuleMatch::No;
        }
        if rule.lines {
            return RuleMatch::Block(from);
        }
        // The verdict needs a bounded number of bytes: otherwise text full of leads would be scanned
        // again and again.
        let limit = text.len().min(from + BODY_BYTES);
        let mut to = self.run(number, text, from, limit);
        let bytes = to - from;
        let is_cut = to == text.len() && end == TextEnd::Cut;
        let shown = if rule.hide == Hide::All {
            to - start
        } else {
            bytes
        };
        let is_known = shown >= LEAK_BYTES || (bytes >= rule.min && rule.until.is_none());
        if bytes > rule.max || (bytes < rule.min && !is_cut) {
            return RuleMatch::No;
        }
        if is_cut && (!is_known || !rule.check.accepts(&text[from..to])) {
            return RuleMatch::Undecided(start);
        }
        if !is_cut && rule.until.is_some_and(|until| text.get(to) != Some(&until))
            || !rule.check.accepts(&text[from..to])
        {
            return RuleMatch::No;
        }
        if to == limit {
            to = self.run(number, text, to, text.len());
        }
        RuleMatch::Secret(Span {
            start: if rule.hide == Hide::All { start } else { from },
            end: to,
            rule: number,
        })
    }
}

fn add(spans: &mut Vec<Span>, start: usize, end: usize, rule: u16) {
    if start == end {
        return;
    }
    match spans.last_mut() {
        // A lead may overlap the previous secret.
        Some(last) if start <= last.end => last.end = last.end.max(end),
        _ => spans.push(Span { start, end, rule }),
    }
}

/// Returns true if a letter or digit precedes the position and is not part of an escape sequence.
fn in_word(text: &[u8], at: usize) -> bool {
    let Some(&before) = at.checked_sub(1).and_then(|before| text.get(before)) else {
        return false;
    };
    if !before.is_ascii_alphanumeric() {
        return false;
    }
    // `\n` as escaped text, or `ESC [ 1 m` of a terminal.
    let rest = &text[at.saturating_sub(ESCAPE)..at - 1];
    if before.is_ascii_lowercase() && rest.last() == Some(&b'\\') {
        return false;
    }
    if before == b'm' {
        let number = |b: &u8| b.is_ascii_digit() || *b == b';';
        let digits = rest.iter().rev().take_while(|b| number(b)).count();
        return !rest[..rest.len() - digits].ends_with(b"\x1b[");
    }
    true
}

/// Returns the text with markers in place of the spans. If `is_marked`, a span at the beginning gets
/// no marker, because the previous text ended with it.
pub(super) fn redact_spans(set: &RuleSet, text: &str, spans: &[Span], is_marked: bool) -> String {
    let mut out = String::with_capacity(text.len() + 32);
    let mut at = 0;
    for span in spans {
        out.push_str(&text[at..span.start]);
        if !(is_marked && span.start == 0) {
            out.push_str(set.marker(span.rule));
        }
        at = span.end;
    }
    out.push_str(&text[at..]);
    out
}

/// Returns true if a lead overlaps a marker.
fn in_marker(text: &[u8], start: usize, end: usize) -> bool {
    // No marker is longer: its id has at most 32 bytes.
    let from = start.saturating_sub(MARKER.len() + 34);
    memchr::memmem::find_iter(&text[from..end], MARKER.as_bytes())
        .map(|at| from + at)
        .any(|at| marker_len(&text[at..]).is_some_and(|len| at + len > start))
}
