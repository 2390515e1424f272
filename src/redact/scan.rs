//! One piece of text against the rules: what is secret in it, and what the next piece must know (pure).

use super::block::Block;
use super::finder::Finder;
use super::rule::{BACK, GIVEN_AWAY, Hide, LEAD_MAX, Rule};
use crate::error::{Error, Result};

/// How much of a text's end is kept where a keyword is near: a lead that is cut, and as much of
/// its secret as may be shown before it must be known for one.
const KEEP: usize = LEAD_MAX + 2 * GIVEN_AWAY;

/// What is looked at before a keyword: the lead's beginning, and an escape before that.
const BEFORE: usize = BACK + ESCAPE;
/// How far before a lead an escape may begin that makes a letter none.
const ESCAPE: usize = 12;

/// How much of a body is looked at for a verdict; bounds `max`, and bodies that need an end.
pub(super) const LOOK: usize = 256;

/// Bytes that are secret, by what rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: u16,
}

/// What is known at a text's end about the text that follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Open {
    /// Nothing but what stands in the text kept.
    #[default]
    No,
    /// The text ended within a secret of this rule.
    Secret(u16),
    /// The text ended within a block of this rule.
    Block(u16, Block),
}

/// What a text's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// More may follow.
    Cut,
    /// A line's end, or a text's.
    Done,
}

/// All rules, compiled.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) rules: Vec<Rule>,
    pub(super) finder: Finder,
}

/// What [`Set::scan`] leaves for the text that follows.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) open: Open,
    /// From where on the text is to be seen again, together with what follows.
    pub(super) keep: usize,
}

enum Verdict {
    No,
    /// Too early to say: the lead begins here.
    Early(usize),
    Secret(Span),
    /// A block begins behind its lead.
    Block(usize),
}

impl Set {
    pub(super) fn new(rules: Vec<Rule>) -> Result<Self> {
        if rules.len() > usize::from(u16::MAX) {
            return Err(Error::invalid("there are too many rules"));
        }
        let finder = Finder::new(&rules)?;
        Ok(Self { rules, finder })
    }

    /// How many bytes of clean text must be kept: a keyword's but one, and what may stand before.
    pub(super) fn seam(&self) -> usize {
        (self.finder.longest + BEFORE).saturating_sub(1)
    }

    pub(super) fn marker(&self, rule: u16) -> &str {
        &self.rules[usize::from(rule)].marker
    }

    /// Reads a text that begins with `open`; adds what is secret, in order.
    pub(super) fn scan(&self, text: &[u8], open: Open, end: End, spans: &mut Vec<Span>) -> Left {
        let mut at = 0;
        match open {
            Open::No => {}
            Open::Secret(rule) => {
                at = self.run(rule, text, 0, text.len());
                add(spans, 0, at, rule);
                if at == text.len() {
                    let open = Open::Secret(rule);
                    return Left { open, keep: at };
                }
            }
            Open::Block(rule, mut block) => match block.take(text, 0, rule, spans) {
                Some(end) => at = end,
                None => {
                    let open = Open::Block(rule, block);
                    let keep = text.len();
                    return Left { open, keep };
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
                match self.verdict(rule, text, &hit, begin, end) {
                    Verdict::No => {}
                    Verdict::Early(start) => keep = keep.min(start),
                    Verdict::Secret(span) => {
                        add(spans, span.start, span.end, rule);
                        if span.end == text.len() {
                            let open = Open::Secret(rule);
                            return Left {
                                open,
                                keep: span.end,
                            };
                        }
                        next = span.end.max(next);
                        break;
                    }
                    Verdict::Block(start) => {
                        let mut block = Block::default();
                        match block.take(text, start, rule, spans) {
                            Some(end) => next = end.max(next),
                            None => {
                                let open = Open::Block(rule, block);
                                let keep = text.len();
                                return Left { open, keep };
                            }
                        }
                        break;
                    }
                }
            }
            at = next;
        }
        // What was taken for the rest of a secret is not seen again, nor are lines that are over.
        let line = memchr::memrchr(b'\n', text).map_or(0, |newline| newline + 1);
        let keep = keep.max(begin).max(line);
        let open = Open::No;
        Left { open, keep }
    }

    /// Where a secret's body that begins at `from` ends, looked for up to `to`.
    fn run(&self, rule: u16, text: &[u8], from: usize, to: usize) -> usize {
        let body = &self.rules[usize::from(rule)].body;
        let mut at = from;
        while at < to && body[usize::from(text[at])] {
            if text[at] == b'[' && super::marker_len(&text[at..]).is_some() {
                break;
            }
            at += 1;
        }
        at
    }

    fn verdict(
        &self,
        number: u16,
        text: &[u8],
        hit: &std::ops::Range<usize>,
        begin: usize,
        end: End,
    ) -> Verdict {
        let rule = &self.rules[usize::from(number)];
        if !rule.may_end(&text[hit.end..], end) {
            return Verdict::No;
        }
        let Some((start, from)) = rule.lead_at(text, hit) else {
            return Verdict::No;
        };
        // What was taken out once is no part of another secret.
        if start < begin || (rule.word && in_word(text, start)) || in_marker(text, start, from) {
            return Verdict::No;
        }
        if rule.lines {
            return Verdict::Block(from);
        }
        // What is no secret is known soon: else text that is full of leads would be read over and
        // over again.
        let look = text.len().min(from + LOOK);
        let mut to = self.run(number, text, from, look);
        let bytes = to - from;
        let cut = to == text.len() && end == End::Cut;
        let shown = if rule.hide == Hide::All {
            to - start
        } else {
            bytes
        };
        let known = shown >= GIVEN_AWAY || (bytes >= rule.min && rule.until.is_none());
        if bytes > rule.max || (bytes < rule.min && !cut) {
            return Verdict::No;
        }
        if cut && (!known || !rule.check.accepts(&text[from..to])) {
            return Verdict::Early(start);
        }
        if !cut && rule.until.is_some_and(|until| text.get(to) != Some(&until))
            || !rule.check.accepts(&text[from..to])
        {
            return Verdict::No;
        }
        if to == look {
            to = self.run(number, text, to, text.len());
        }
        Verdict::Secret(Span {
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
        // A lead may lie in the secret before it.
        Some(last) if start <= last.end => last.end = last.end.max(end),
        _ => spans.push(Span { start, end, rule }),
    }
}

/// Whether a letter or a digit stands before, and does not belong to an escape.
fn in_word(text: &[u8], at: usize) -> bool {
    let Some(&before) = at.checked_sub(1).and_then(|before| text.get(before)) else {
        return false;
    };
    if !before.is_ascii_alphanumeric() {
        return false;
    }
    // `\n` as text within text, `ESC [ 1 m` of a terminal.
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

/// Whether a lead touches what stands in a secret's place.
fn in_marker(text: &[u8], start: usize, end: usize) -> bool {
    // No marker is longer: its id has 32 bytes at most.
    let from = start.saturating_sub(super::MARKER.len() + 34);
    memchr::memmem::find_iter(&text[from..end], super::MARKER.as_bytes())
        .map(|at| from + at)
        .any(|at| super::marker_len(&text[at..]).is_some_and(|len| at + len > start))
}
